"""Rows that workers judge: the same in files as in a DataFrame, and only the files of attempts that came to an end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from hopwire.lake.dataframes import Judged, write_frame
from hopwire.lake.manifest import WRITTEN
from hopwire.lake.settings import LakeSettings
from hopwire.lake.tables import Column, Table

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
NUMBERS = Table("gold.even", ("id",), (), tuple(Column(each.name, each.type, "x") for each in SCHEMA), "One.")
SETTINGS = LakeSettings()
AT_ONCE = LakeSettings(row_group_bytes=1)  # every batch goes to the file


def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep the even ones."""
    for batch in batches:
        ids = batch.column(0).filter(pc.equal(pc.bit_wise_and(batch.column(0), 1), 0))
        yield pa.RecordBatch.from_arrays([ids, ids.cast(pa.string())], schema=SCHEMA)


def rows_in(place: Path, names: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.concat_tables([pq.read_table(place / name) for name in names]).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def written(judged: Judged, place: Path, settings: LakeSettings = SETTINGS) -> list[str]:
    return [file.path for file in write_frame(NUMBERS, judged, place, settings, run="0" * 12, names={})]


# -- with Spark


@pytest.mark.spark
@pytest.mark.slow
def test_what_is_written_is_what_the_frame_has(spark: SparkSession, tmp_path: Path) -> None:
    judged = Judged(spark.range(0, 1000, 1, 3), judge, SCHEMA)
    names = written(judged, tmp_path)
    assert len(names) == 3
    assert all(pq.read_schema(tmp_path / name).equals(SCHEMA) for name in names)
    frame = judged.frame()
    assert frame.columns == SCHEMA.names
    assert rows_in(tmp_path, names) == [row.asDict() for row in frame.orderBy("id").collect()]


@pytest.mark.spark
@pytest.mark.slow
def test_partition_of_which_nothing_is_said_has_no_file(spark: SparkSession, tmp_path: Path) -> None:
    names = written(Judged(spark.range(0, 4, 1, 4), judge, SCHEMA), tmp_path)
    assert [row["id"] for row in rows_in(tmp_path, names)] == [0, 2]
    assert len(names) == 2
    nothing = Judged(spark.range(0, 4, 1, 4).where("id > 9"), judge, SCHEMA)
    assert written(nothing, tmp_path / "nothing") == []
    assert nothing.frame().collect() == []
    assert not (tmp_path / "nothing").exists()


# -- without


class Row(NamedTuple):
    files: bytes


class Partitions:
    """Stands for a DataFrame: the tasks are run here, and the first attempt at each dies if it is told to."""

    def __init__(self, *partitions: list[int], dying: Callable[[], bool] = lambda: False) -> None:
        self.partitions, self.dying = partitions, dying

    def mapInArrow(self, work: Callable[..., Iterator[pa.RecordBatch]], _: str) -> Partitions:
        self.work = work
        return self

    def collect(self) -> list[Row]:
        reports = [self._run(numbers) for numbers in self.partitions]
        return [Row(files) for batches in reports for batch in batches for files in batch.column("files").to_pylist()]

    def _run(self, numbers: list[int]) -> list[pa.RecordBatch]:
        batches = [pa.record_batch({"id": [number]}) for number in numbers]
        try:
            return list(self.work(self._dying(batches)))
        except ConnectionError:
            return list(self.work(iter(batches)))

    def _dying(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if self.dying():
            raise ConnectionError


def write(partitions: Partitions, place: Path) -> list[str]:
    return written(Judged(cast(DataFrame, partitions), judge, SCHEMA), place, AT_ONCE)


def test_files_have_names_of_their_own(tmp_path: Path) -> None:
    names = write(Partitions([0, 2], [4], [6]), tmp_path)
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 3
    assert all(WRITTEN.fullmatch(name) for name in names)
    again = write(Partitions([0]), tmp_path)
    assert not set(again) & set(names)


def test_file_of_an_attempt_that_was_repeated_is_not_named(tmp_path: Path) -> None:
    names = write(Partitions([0, 2], [4], dying=lambda: True), tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 4
    assert len(names) == 2
    assert set(names) < left
    assert [row["id"] for row in rows_in(tmp_path, names)] == [0, 2, 4]
