"""What a Python worker does with a source: read, decode, judge, and write the files of three tables itself.

Each row of a capture goes one way: into `silver.messages`, into `silver.quarantine`, or it only says how many sightings
are missing. All rows are in `bronze.sightings`.

Bytes never cross to the JVM. The worker gets the number of a group of sources and gives back one small report for each
source. The files of an attempt have names that no other attempt has. Only files that a report names are published. An
attempt that is killed, repeated or overtaken leaves nothing but files that the next run removes.

Memory is bounded by a batch and a row group of each table, whatever the size of the source. The report also says which
numbers the sightings of the source have: these are few, and only the driver can compare them with other sources.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.capture.file_faults import Fault, FaultKind
from hopwire.capture.sources import Source, SourceKind, read_source
from hopwire.disk import create_file, open_regular
from hopwire.flows.schemas import CLOSED, OPEN, OVERHEARD
from hopwire.flows.spans import SourceSpan, joined_spans, spans_from_batch
from hopwire.lake.bronze.sightings import SIGHTINGS_TABLE, frame_bytes, rows_of_sightings
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.messages import MESSAGES_TABLE, rows_of_messages
from hopwire.lake.silver.quarantine import QUARANTINE_TABLE, rows_of_quarantine
from hopwire.model.sighting import Direction
from hopwire.security import Domains
from hopwire.wire import decode_batch

__all__ = [
    "INGESTED",
    "RESULT",
    "IngestJob",
    "IngestReport",
    "IngestTask",
    "ParquetOutput",
    "Split",
    "ingest_groups",
    "rebatched",
    "split_batch",
]

RESULT = pa.schema([pa.field("report", pa.binary())])
INGESTED = {table.name: table.schema for table in (SIGHTINGS_TABLE, MESSAGES_TABLE, QUARANTINE_TABLE)}
# columns whose values repeat from row to row; in all other columns a dictionary costs time and saves nothing
REPEATING = (
    "segment", "node", "node_name", "incarnation", "direction", "peer", "reason", "note", "dead_reason", "dead_note",
    "frame_count", "wire_format", "identity", "version", "version_raw", "partition", "trace_options", "distribution",
    "domain", "verdict", "outcome_kind", "outcome_reason", "hops", "ttl_ticks", "decoder", "attempt",
    "routing.list.element.uri", "callback_points.list.element.identity", "callback_points.list.element.version",
    "callback_points.list.element.version_raw", "callback_points.list.element.partition", "findings.list.element",
)  # fmt: skip


class IngestTask(msgspec.Struct, frozen=True):
    """One source to read, or a part of a source; the tables have `name` as its segment."""

    name: str
    path: str
    kind: str
    size_bytes: int
    is_open: bool = False
    begin: int = 0
    end: int | None = None

    @property
    def source(self) -> Source:
        """The source or part that is to be read."""
        kind = SourceKind(self.kind)
        return Source(Path(self.path), kind, self.size_bytes, self.is_open, begin=self.begin, end=self.end)


class IngestJob(msgspec.Struct, frozen=True):
    """Where a run has its files: the groups of sources, the tables, and the marks of sources that are done."""

    staging: str

    @property
    def groups(self) -> Path:
        """The file that says which sources each group has."""
        return Path(self.staging, "groups.json")

    @property
    def marks(self) -> Path:
        """The directory in which each source that is done leaves an empty file, for the progress bar."""
        return Path(self.staging, "done")

    def place(self, table: str) -> Path:
        """The directory of the files of a table."""
        return Path(self.staging, *table.split("."))


class IngestReport(msgspec.Struct):
    """The result of one task."""

    name: str
    row_count: int = 0
    skipped_rows: int = 0
    skipped: int = 0
    files: dict[str, str] = {}  # table: name of the file
    spans: list[SourceSpan] = []
    faults: list[str] = []
    is_bad: bool = False  # one of the faults is serious: someone should look at the file
    is_refused: bool = False  # the system did not give the whole file, and may give it another time
    error: str = ""  # why the run cannot go on


def ingest_groups(
    job: IngestJob, domains: Domains, settings: LakeSettings
) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Give the function for `mapInArrow`: numbers of groups come in, reports go out."""

    def ingest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = msgspec.json.decode(job.groups.read_bytes(), type=list[list[IngestTask]])
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for task in groups[number]:
                    report = ingest_source(task, job, domains, settings)
                    yield pa.RecordBatch.from_arrays([pa.array([msgspec.json.encode(report)])], schema=RESULT)

    return ingest


def ingest_source(task: IngestTask, job: IngestJob, domains: Domains, settings: LakeSettings) -> IngestReport:
    """Read one source and write its rows; the report says what is wrong with the disk."""
    report = IngestReport(task.name)
    attempt = uuid.uuid4().hex
    outputs = {
        name: ParquetOutput(job.place(name) / f"{attempt}.parquet", INGESTED[name], settings) for name in INGESTED
    }
    faults: list[Fault] = []
    try:
        rows = read_source(task.source, on_fault=faults.append)
        for batch in rebatched(rows, settings.batch_rows, settings.batch_bytes):
            split = split_batch(batch, task.name, domains)
            for output, part in zip(outputs.values(), split[:3], strict=True):
                output.add(part)
            report.spans = joined_spans([*report.spans, *spans_from_batch(batch, task.name)])
            report.row_count += len(batch)
            report.skipped_rows += split.skipped_rows
            report.skipped += split.skipped
        if not _has_numbers(task):
            report.spans = [span.without_numbers() for span in report.spans]
        report.spans = [replace(span, ending=_ending(task, bool(faults))) for span in report.spans]
        report.files = {name: output.path.name for name, output in outputs.items() if output.close()}
        (job.marks / f"{attempt}-{task.size_bytes}").touch()
    except OSError as error:
        report.error = _in_words(error, task)
    report.faults = [fault.detail for fault in faults]
    report.is_bad = any(fault.is_serious for fault in faults)
    report.is_refused = any(fault.kind in (FaultKind.REFUSED, FaultKind.NOT_REGULAR) for fault in faults)
    return report


def _has_numbers(task: IngestTask) -> bool:
    """Whether sightings have the numbers of their nodes: Parquet may lack them, and then the reader counts rows."""
    if task.kind != SourceKind.PARQUET:
        return True
    try:
        with open_regular(task.path) as file:
            return {"incarnation", "sequence"} <= set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError):
        return False


def _ending(task: IngestTask, has_faults: bool) -> str:
    """How the source ends: a segment that is sealed and whole was closed by its node."""
    if task.kind == SourceKind.SEGMENT:
        return OPEN if task.is_open or has_faults else CLOSED
    return OPEN if task.kind == SourceKind.PARQUET and _has_numbers(task) else OVERHEARD


def _in_words(error: OSError, task: IngestTask) -> str:
    number = error.errno or 0
    words = os.strerror(number) if number else " ".join(str(error).split())[:200]
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error):
        return f"the disk of the lake is full ({words}) at {task.name}: make room and build again"
    return f"{error.filename or task.path}: {words}"


# -- from batches of a source to rows of tables


class Split(NamedTuple):
    """The rows of one batch of a capture, as rows of tables, and how many rows stand for sightings that are missing."""

    sightings: pa.RecordBatch
    messages: pa.RecordBatch
    quarantine: pa.RecordBatch
    skipped_rows: int
    skipped: int


def split_batch(batch: pa.RecordBatch, segment: str, domains: Domains) -> Split:
    """Decode a batch of a capture and judge its messages."""
    sightings = rows_of_sightings(batch, segment)
    seen = _where(sightings, pc.not_equal(sightings.column("direction"), Direction.SKIPPED))
    decoded = decode_batch(seen.column("frames"))
    is_message = decoded.column("reason").is_null()
    is_none = pc.invert(is_message)
    return Split(
        sightings,
        rows_of_messages(_where(seen, is_message), _where(decoded, is_message), domains),
        rows_of_quarantine(_where(seen, is_none), _where(decoded, is_none)),
        len(sightings) - len(seen),
        pc.sum(batch.column("skipped")).as_py() or 0,
    )


def _where(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    return batch if mask.true_count == len(batch) else batch.filter(mask)


def rebatched(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Give the same rows in batches of at most so many rows and bytes; a row of more bytes comes alone."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in (piece for batch in batches for piece in _pieces(batch, max_rows, max_bytes)):
        if waiting and (rows + len(piece) > max_rows or size + piece.nbytes > max_bytes):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(piece)
        rows, size = rows + len(piece), size + piece.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _pieces(batch: pa.RecordBatch, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= max_bytes:
        for start in range(0, len(batch), max_rows):
            yield batch.slice(start, max_rows)
        return
    ends = frame_bytes(batch.column("frames")).cumsum()
    start = 0
    while start < len(batch):
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + max_bytes, side="right")) - start
        count = min(max(fitting, 1), max_rows)
        yield batch.slice(start, count)
        start += count


# -- files


class ParquetOutput:
    """One Parquet file: rows wait until they fill a row group; without rows there is no file."""

    def __init__(self, path: Path, schema: pa.Schema, settings: LakeSettings, *, repeating: bool = False) -> None:
        self.path = path
        self._is_repeating = repeating  # whether the values of all columns repeat, not only of those in REPEATING
        self._schema = schema
        self._settings = settings
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        if len(batch):
            self._waiting.append(batch)
            self._size += batch.nbytes
        if self._size >= self._settings.row_group_bytes:
            self._flush()

    def close(self) -> bool:
        """Write the rows that wait; tells whether there is a file."""
        if self._waiting:
            self._flush()
        if self._writer:
            self._writer.close()
        return self._writer is not None

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = _writer(self.path, self._schema, self._settings, self._is_repeating)
        rows = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(rows, row_group_size=len(rows))
        self._waiting, self._size = [], 0


def _writer(path: Path, schema: pa.Schema, settings: LakeSettings, is_repeating: bool) -> Any:
    os.close(create_file(path, settings.file_mode))  # Arrow would give the file the mode of the umask
    return pq.ParquetWriter(
        path,
        schema,
        compression=settings.compression,
        compression_level=1 if settings.compression == "zstd" else None,
        use_dictionary=is_repeating or list(REPEATING),
        write_statistics=is_repeating or ["seen_at_ns", "node", "sequence"],
        store_schema=False,
    )
