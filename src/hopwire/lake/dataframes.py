"""Tables of the lake as DataFrames, and back to files.

Python workers write all tables. A worker writes the Parquet files of its partition itself and gives back what the Delta
log is to say of them, so the rows never go back to the JVM, and Spark itself never touches the path of a lake. The
files of an attempt have names that no other attempt has, and only files that are given back are committed: as with
captures (`worker.py`). A table that is `Judged` goes through a function of Python on its way.

The trap: Spark takes a path as text with a scheme in front, not as a URI. Spark decodes nothing, and in a path to read
some characters are patterns. So `_pattern` names a file to read. Where Spark looks for patterns, Spark
fails at a colon in a name: a path that has a colon and a pattern is refused before anything is done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hopwire.errors import LakeError
from hopwire.lake.manifest import Manifest, StoredFile, part_name
from hopwire.lake.parquet_output import TableLayout, TableOutput
from hopwire.lake.readable import Names, times_of
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import files_of, read_manifest, schema_of
from hopwire.lake.tables import Table
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, RemotePath, open_file, place_of

__all__ = [
    "AgedOutput",
    "Batches",
    "Judged",
    "frame_of",
    "plain_errors",
    "read_table",
    "refuse_path",
    "sized_shuffles",
    "write_frame",
    "write_frames",
]

Batches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
BATCH_ROWS = 16_384  # of files that workers read
FILES = pa.schema([pa.field("files", pa.binary())])
SHUFFLES = "spark.sql.shuffle.partitions"
PARTITION_BYTES = 32 * MEBIBYTE  # of captures; fewer bytes are shuffled, as bodies stay behind
MIN_PARTITIONS = 8  # some for each core; a few empty partitions cost little, 200 cost seconds in every table
GLOB = re.compile(r"[\\\[\]{}*?]")
# fmt: off
REMEDIES = (
    # words of the system, of Java, of Python: and their meaning
    (("No space left on device", "Disk quota exceeded", "File too large"),
     "the disk is full: make room for the lake and for SPARK_LOCAL_DIRS"),
    (("OutOfMemoryError", "Java heap space"),
     "Spark has too little memory: give it more, --memory 8g"),
    (("Python worker exited unexpectedly (crashed)", "MemoryError", "Cannot allocate memory"),
     "a Python worker was killed, most likely for want of memory: use fewer cores at a time, --master local[1]"),
)
TELLING = (
    # where the reason stands: the first pattern that fits, at its last place
    re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)"),  # Python's, behind the lines of the code
    re.compile(r"^Caused by: (\S+: .+)", re.MULTILINE),                          # Java's
    re.compile(r"^: (?:.+ \(TID \d+\) \(.+?\): )?(.+)", re.MULTILINE),          # Java's, behind the task that failed
    re.compile(r"\A\s*(\S.*)"),                                                 # the first line
)
# fmt: on


def refuse_path(lake: Place) -> None:
    """Refuse the path of a lake that Spark could write to and not read from."""
    if isinstance(lake, RemotePath):
        return  # Python workers read it
    if ":" in str(lake) and GLOB.search(str(lake)):
        found = "Spark cannot read a path with a colon and one of \\ [ ] { } * ?"
        raise LakeError(f"{lake}: {found}; name another directory")


def read_table(spark: SparkSession, lake: Place | str, name: str, manifest: Manifest | None = None) -> DataFrame:
    """Give a table of a lake as a DataFrame."""
    manifest = manifest or read_manifest(lake)
    return frame_of(spark, schema_of(lake, name, manifest), files_of(lake, name, manifest))


def frame_of(
    spark: SparkSession, schema: pa.Schema, files: Sequence[Place], wanted: Sequence[str] | None = None
) -> DataFrame:
    """Give files of a table as a DataFrame, or some of its columns; without files the DataFrame has no rows."""
    schema = schema if wanted is None else pa.schema([schema.field(name) for name in wanted])
    columns = from_arrow_schema(schema)
    if not files:
        return spark.createDataFrame([], columns)
    if any(isinstance(file, RemotePath) for file in files):
        return _read_by_workers(spark, schema, files)
    return spark.read.schema(columns).parquet(*(_pattern(file) for file in files if isinstance(file, Path)))


def _read_by_workers(spark: SparkSession, schema: pa.Schema, files: Sequence[Place]) -> DataFrame:
    """Files of a store as a DataFrame: Spark itself has no way to most stores, its Python workers have."""
    names, fields = [str(file) for file in files], schema.names

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            with open_file(place_of(names[number])) as file:
                for rows in pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=fields):
                    yield _in_schema(rows.select(fields), schema)

    numbers = spark.range(0, len(names), 1, len(names))
    return numbers.mapInArrow(read, from_arrow_schema(schema))


def _pattern(path: Path) -> str:
    """The pattern that fits this file only."""
    return GLOB.sub(r"\\\g<0>", f"file:///{path.absolute().as_posix().lstrip('/')}")


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows in partitions, sorted as the judge wants them, and the judge: a function from batches to batches.

    The judge of both also gives batches of another table, which has other columns.
    """

    together: DataFrame
    judge: Batches
    schema: pa.Schema
    both: Batches | None = None

    def frame(self) -> DataFrame:
        """Give the result of the judge as a DataFrame."""
        return self.together.mapInArrow(self.judge, from_arrow_schema(self.schema)).select(self.schema.names)


def write_frame(
    table: Table, rows: DataFrame | Judged, place: Place, settings: LakeSettings, *, run: str, names: Names
) -> list[StoredFile]:
    """Let the workers write the rows of a table, if they have the declared columns; gives the files."""
    return write_frames(table, rows, place, settings, run=run, names=names)[0]


def write_frames(
    table: Table,
    rows: DataFrame | Judged,
    place: Place,
    settings: LakeSettings,
    *,
    run: str,
    names: Names,
    beside: tuple[Table, Place] | None = None,
    recent_ns: int | None = None,
) -> tuple[list[StoredFile], list[StoredFile]]:
    """Let the workers write the rows of a table as `write_frame` does.

    Rows of another table, which some judges give beside, have files of their own, which come second. Rows of recent
    times have files of their own, too: a step that opens flows again has less to write anew.
    """
    given = from_arrow_schema(rows.schema) if isinstance(rows, Judged) else rows.schema
    _check_columns(table, given)
    judge: Batches = rows.judge if isinstance(rows, Judged) else iter
    if beside and isinstance(rows, Judged) and rows.both:
        judge = rows.both
    together = rows.together if isinstance(rows, Judged) else rows
    outputs = [(table, place), *([beside] if beside else [])]
    ways = [(each.schema, each.layout(names), str(where)) for each, where in outputs]
    found = together.mapInArrow(_writer(run, ways, settings, judge, recent_ns), "files binary").collect()
    both: list[list[list[StoredFile]]] = [
        msgspec.json.decode(bytes(row.files), type=list[list[StoredFile]]) for row in found
    ]
    own = [file for files in both for file in files[0]]
    return own, [file for files in both for some in files[1:] for file in some]


def _check_columns(table: Table, given: StructType) -> None:
    expected = from_arrow_schema(table.schema)
    found, wanted = ([(each.name, each.dataType.simpleString()) for each in kind] for kind in (given, expected))
    if found != wanted:
        odd = next((pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]), (found, wanted))
        raise LakeError(f"{table.name}: its function gives {odd[0]}, its columns declare {odd[1]}")


def _writer(
    run: str,
    ways: Sequence[tuple[pa.Schema, TableLayout, str]],
    settings: LakeSettings,
    judge: Batches,
    recent_ns: int | None,
) -> Batches:
    def write_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outputs = [
            (schema, AgedOutput(place_of(place), run, layout, settings, recent_ns)) for schema, layout, place in ways
        ]
        for batch in judge(batches):
            schema, output = next(each for each in outputs if each[0].names == batch.schema.names or len(outputs) == 1)
            output.add(_in_schema(batch, schema))
        files = [output.close() for _, output in outputs]
        if any(files):
            yield pa.RecordBatch.from_arrays([pa.array([msgspec.json.encode(files)])], schema=FILES)

    return write_batches


class AgedOutput:
    """The files of one task of one table: rows of recent times are in files of their own."""

    def __init__(
        self, place: Place, run: str, layout: TableLayout, settings: LakeSettings, recent_ns: int | None
    ) -> None:
        parts = [part_name(run, _partition()) for _ in range(2)]
        self._old, self._recent = (TableOutput(place, part, layout, settings) for part in parts)
        self._dated_by = layout.dated_by
        self._recent_ns = recent_ns

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        if self._recent_ns is None or not self._dated_by:
            self._old.add(batch)
            return
        is_recent = pc.fill_null(pc.greater_equal(times_of(batch, self._dated_by), self._recent_ns), False)
        for output, mask in ((self._old, pc.invert(is_recent)), (self._recent, is_recent)):
            if mask.true_count:
                output.add(batch if mask.true_count == len(batch) else batch.filter(mask))

    def close(self) -> list[StoredFile]:
        """Write the rows that wait, and give the files."""
        return [*self._old.close(), *self._recent.close()]


def _partition() -> int:
    context = TaskContext.get()
    return int(context.partitionId()) if context else 0


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as they are declared: Spark says of some columns that they are never null, and calls parts otherwise."""
    if batch.schema.equals(schema):
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def sized_shuffles(spark: SparkSession, size_bytes: int) -> Iterator[None]:
    """Meanwhile let shuffles have partitions for so many bytes of captures, unless the session has a number set."""
    if SHUFFLES in spark.conf.getAll:
        yield
        return
    with _setting(spark, SHUFFLES, str(max(MIN_PARTITIONS, size_bytes // PARTITION_BYTES))):
        yield


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Meanwhile change a setting of a session that may be somebody else's."""
    before = spark.conf.getAll.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Raise a LakeError of one line where Spark raises an error of a hundred lines."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        text = str(error)
        for words, meaning in REMEDIES:
            if any(each in text for each in words):
                raise LakeError(f"{what}: {meaning}") from None
        raise LakeError(f"{what}: Spark failed: {_reason(text)}") from error


def _reason(text: str) -> str:
    """The line that says most of the cause."""
    for telling in TELLING:
        if found := telling.findall(text):
            return f"{found[-1].strip():.300}"
    return "no reason given"
