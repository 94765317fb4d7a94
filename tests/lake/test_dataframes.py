"""Tables as DataFrames and back: any name of a lake, as many partitions as are needed, one line for what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hopwire.errors import LakeError
from hopwire.lake.dataframes import Judged, frame_of, plain_errors, read_table, sized_shuffles, write_frame
from hopwire.lake.manifest import StoredFile
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import writing
from hopwire.lake.tables import Column, Table
from hopwire.places import Place

SETTINGS = LakeSettings()
SHUFFLES = "spark.sql.shuffle.partitions"
NAMES = ("my lake", "läke", "lake[1]", "a{b,c}d", "lake%x", "what?*", "a:b#c", "parity=7", "date=2026-01-31")
NUMBERS = Table("gold.numbers", ("id",), (), (Column("id", pa.int64(), "x"), Column("parity", pa.int64(), "x")), "One.")


def numbers(spark: SparkSession, count: int = 10) -> DataFrame:
    return spark.range(0, count, 1, 2).withColumn("parity", F.col("id") % 2)


def written(
    table: Table, rows: DataFrame | Judged, place: Place, settings: LakeSettings = SETTINGS
) -> list[StoredFile]:
    return write_frame(table, rows, place, settings, run="0" * 12, names={})


# -- reading and writing


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_lake_may_have_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    lake = tmp_path / name
    with writing(lake) as run:
        run.put(NUMBERS.name, "x", NUMBERS.schema, written(NUMBERS, numbers(spark), run.place(NUMBERS.name)))
        assert sum(row.id for row in frame_of(spark, NUMBERS.schema, run.paths(NUMBERS.name)).collect()) == 45
        run.publish({}, "")
    rows = read_table(spark, lake, NUMBERS.name)
    assert rows.columns == ["id", "parity"]
    assert sorted(row.id for row in rows.where("parity = 1").collect()) == [1, 3, 5, 7, 9]


@pytest.mark.spark
@pytest.mark.slow
def test_name_that_looks_like_a_pattern_reads_no_other_file(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a1", "a[1]", "a*"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": [len(name)], "parity": [0]}), tmp_path / name / "x.parquet")
    for name in ("a1", "a[1]", "a*"):
        (row,) = frame_of(spark, NUMBERS.schema, [tmp_path / name / "x.parquet"]).collect()
        assert row.id == len(name)


@pytest.mark.spark
@pytest.mark.slow
def test_files_are_compressed_as_the_settings_say(spark: SparkSession, tmp_path: Path) -> None:
    for compression, found in (("lz4", "LZ4"), ("zstd", "ZSTD"), ("none", "UNCOMPRESSED")):
        written(NUMBERS, numbers(spark), tmp_path / compression, LakeSettings(compression=compression))
        file = next((tmp_path / compression).glob("*.parquet"))
        assert pq.read_metadata(file).row_group(0).column(0).compression == found


@pytest.mark.spark
@pytest.mark.slow
def test_what_workers_write_is_named(spark: SparkSession, tmp_path: Path) -> None:
    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (pa.RecordBatch.from_arrays(batch.columns, schema=NUMBERS.schema) for batch in batches)

    files = written(NUMBERS, Judged(numbers(spark), judge, NUMBERS.schema), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(file.path for file in files)
    assert sum(file.row_count for file in files) == 10


@pytest.mark.spark
@pytest.mark.slow
def test_rows_that_are_not_as_declared_are_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = numbers(spark).withColumn("parity", F.col("parity").cast("string"))
    odd = r"gold\.numbers: its function gives \('parity', 'string'\), its columns declare \('parity', 'bigint'\)"
    with pytest.raises(LakeError, match=odd):
        written(NUMBERS, rows, tmp_path)
    with pytest.raises(LakeError, match=r"its function gives .*'id'.*, its columns declare .*'parity'"):
        written(NUMBERS, numbers(spark).select("id"), tmp_path)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("parity", pa.string())])
    with pytest.raises(LakeError, match=odd):
        written(NUMBERS, Judged(rows, iter, schema), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["lake%20x", "back\\slash"])
def test_name_at_which_delta_would_lose_its_way_is_refused_before_anything_is_done(tmp_path: Path, name: str) -> None:
    with pytest.raises(LakeError, match="a Delta table cannot lie at a path with"), writing(tmp_path / name):
        pass
    assert list(tmp_path.iterdir()) == []


# -- partitions


@pytest.mark.spark
@pytest.mark.slow
def test_shuffles_are_sized_by_the_captures(spark: SparkSession) -> None:
    chosen = str(spark.conf.get(SHUFFLES))
    spark.conf.unset(SHUFFLES)
    try:
        for size, partitions in ((10**10, "298"), (5, "8")):
            with sized_shuffles(spark, size):
                assert spark.conf.get(SHUFFLES) == partitions
            assert SHUFFLES not in spark.conf.getAll
    finally:
        spark.conf.set(SHUFFLES, chosen)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("number", ["2", "200"])
def test_shuffles_that_somebody_has_sized_are_left_alone(spark: SparkSession, number: str) -> None:
    chosen = str(spark.conf.get(SHUFFLES))
    spark.conf.set(SHUFFLES, number)
    try:
        with sized_shuffles(spark, 10**12):
            assert spark.conf.get(SHUFFLES) == number
        assert spark.conf.get(SHUFFLES) == number
    finally:
        spark.conf.set(SHUFFLES, chosen)


# -- errors


class Told(Exception):
    """What Spark raises."""


Told.__module__ = "py4j.protocol"

KILLED = """\
An error occurred while calling o60.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most recent \
failure: Lost task 1.0 in stage 0.0 (TID 1) (localhost executor driver): org.apache.spark.SparkException: Python \
worker exited unexpectedly (crashed). Consider setting 'spark.sql.execution.pyspark.udf.faulthandler.enabled' or\
'spark.python.worker.faulthandler.enabled' configuration to 'true' for the better Python traceback.
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:1136)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)
"""
ARROW = """\
An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/home/anna/judge.py", line 21, in judge
    rows.cast(pa.list_(pa.int8()))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "pyarrow/error.pxi", line 92, in pyarrow.lib.check_status
pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays
"""
CHAINED = """\
An error occurred while calling o77.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times.
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4560)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/home/anna/judge.py", line 3, in judge
    rows["x"]
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/anna/judge.py", line 5, in judge
    raise ValueError("no column x\\nthere are y: z")
ValueError: no column x
there are y: z

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1051)
"""
NO_PARQUET = """\
An error occurred while calling o749.count.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///x.parquet.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:920)
Caused by: java.lang.RuntimeException: file:/x.parquet is not a Parquet file. Expected magic number at tail
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:622)
"""
NO_CAUSE = """\
An error occurred while calling o756.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most recent \
failure: Lost task 1.0 in stage 0.0 (TID 1) (localhost executor driver): java.io.IOException: Stream is corrupted
\tat org.apache.spark.scheduler.Task.run(Task.scala:147)
"""
NO_TASK = """\
An error occurred while calling o756.parquet.
: org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: file:/f
\tat org.apache.hadoop.fs.RawLocalFileSystem.mkdirs(RawLocalFileSystem.java:892)
"""
WANT_OF_MEMORY = "a Python worker was killed, most likely for want of memory: use fewer cores at a time"

# fmt: off
SAID = (
    (KILLED,                  WANT_OF_MEMORY),
    (ARROW.replace("ArrowInvalid", "ArrowMemoryError"), WANT_OF_MEMORY),
    (ARROW,                   "Spark failed: pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays"),
    (CHAINED,                 "Spark failed: ValueError: no column x"),
    (NO_PARQUET,              "Spark failed: java.lang.RuntimeException: file:/x.parquet is not a Parquet file."),
    (NO_CAUSE,                "Spark failed: java.io.IOException: Stream is corrupted"),
    (NO_TASK,                 "Spark failed: org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a"),
    ("[RAISED] oh no\n\tat x", "Spark failed: [RAISED] oh no"),
    ("OutOfMemoryError",      "Spark has too little memory: give it more, --memory 8g"),
    ("Java heap space",       "Spark has too little memory: give it more, --memory 8g"),
    ("No space left on device", "the disk is full: make room for the lake and for SPARK_LOCAL_DIRS"),
    ("",                      "Spark failed: no reason given"),
)
# fmt: on


@pytest.mark.parametrize(("text", "said"), SAID)
def test_hundred_lines_of_spark_are_one_that_says_something(text: str, said: str) -> None:
    with pytest.raises(LakeError) as caught, plain_errors("gold.t"):
        raise Told(text)
    assert str(caught.value).startswith(f"gold.t: {said}")
    assert "\n" not in str(caught.value)


def test_errors_of_others_are_left_alone() -> None:
    with pytest.raises(KeyError), plain_errors("gold.t"):
        raise KeyError("x")


def _die() -> None:
    os.kill(os.getpid(), 9)


def _misuse_arrow() -> None:
    pa.array([b"\xff"]).cast(pa.string())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail", "said"),
    [(_die, WANT_OF_MEMORY), (_misuse_arrow, "Spark failed: pyarrow.lib.ArrowInvalid: Invalid UTF8 payload")],
)
def test_worker_that_fails_is_told_as_it_failed(spark: SparkSession, fail: Callable[[], None], said: str) -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            fail()
            yield batch

    with pytest.raises(LakeError) as caught, plain_errors("gold.t"):
        spark.range(3).mapInArrow(work, "id long").collect()
    assert str(caught.value).startswith(f"gold.t: {said}")
