"""What a Python worker does with a source: read, decode, judge, and write the files of three tables itself.

Each row of a capture goes one way: into `silver.messages`, into `silver.quarantine`, or it only says how many sightings
are missing. All rows are in `bronze.sightings`.

Bytes never cross to the JVM. The worker gets the number of a group of sources and gives back one small report for each
source. The files of an attempt have names that no other attempt has. Only files that a report names are committed. An
attempt that is killed, repeated or overtaken leaves nothing but files that no version of a table names.

Memory is bounded by a batch, a row group of each table and a file of sightings by flow, whatever the size of the
source. The report also says which
numbers the sightings of the source have: these are few, and only the driver can compare them with other sources.
"""

from __future__ import annotations

import errno
import gc
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.capture.file_faults import Fault, FaultKind
from hopwire.capture.segment import sealed_path
from hopwire.capture.sources import Source, SourceKind, read_placed
from hopwire.columnar import Bools, bools
from hopwire.errors import PlaceError
from hopwire.flows.schemas import CLOSED, OPEN, OVERHEARD
from hopwire.flows.spans import SourceSpan, joined_spans
from hopwire.lake.at_once import at_once
from hopwire.lake.bronze.sightings import SIGHTINGS_TABLE, frame_bytes, rows_of_sightings
from hopwire.lake.intake import Intake
from hopwire.lake.manifest import EDGE_BYTES, StoredFile, hash_of_bytes, part_name
from hopwire.lake.parquet_output import TableLayout, TableOutput
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.messages import MESSAGES_TABLE, rows_of_messages, seen_rows
from hopwire.lake.silver.quarantine import QUARANTINE_TABLE, rows_of_quarantine
from hopwire.lake.spreading import SightingSpread, SpreadJob, SpreadReport
from hopwire.model.sighting import Direction
from hopwire.model.sighting_batch import SCHEMA
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, open_file, place_of, put, read_file, read_range
from hopwire.security import OPEN as OPEN_TO_ALL
from hopwire.security import Domains
from hopwire.wire.batch import decode_apart

__all__ = [
    "INGESTED",
    "RESULT",
    "IngestJob",
    "IngestReport",
    "IngestTask",
    "Split",
    "head_of",
    "ingest_group",
    "ingest_groups",
    "keep_imported",
    "rebatched",
    "split_batch",
]

MAX_GROUPS_BYTES = 1024 * MEBIBYTE  # some hundred bytes for each source
RESULT = pa.schema([pa.field("report", pa.binary())])
TOGETHER_BYTES = 8 * MEBIBYTE  # of a source that are taken apart at a time
ALL = Intake()
# columns whose values repeat from row to row; in all other columns a dictionary costs time and saves nothing
REPEATING = (
    "segment", "node", "node_name", "incarnation", "direction", "peer", "reason", "note", "dead_reason", "dead_note",
    "frame_count", "wire_format", "identity", "version", "version_raw", "partition", "trace_options", "distribution",
    "domain", "verdict", "outcome_kind", "outcome_reason", "hops", "ttl_ticks", "decoder", "attempt",
    "routing.list.element.uri", "callback_points.list.element.identity", "callback_points.list.element.version",
    "callback_points.list.element.version_raw", "callback_points.list.element.partition", "findings.list.element",
    "date", "contract",
)  # fmt: skip
# columns that people search by
SEARCHED = (
    "date", "seen_at", "seen_at_ns", "segment", "node", "node_name", "incarnation", "sequence", "contract",
    "correlation", "message",
)  # fmt: skip
INGESTED = {
    table.name: TableLayout(table.stored_schema, table.dated_by, None, REPEATING, SEARCHED)
    for table in (SIGHTINGS_TABLE, MESSAGES_TABLE, QUARANTINE_TABLE)
}


class IngestTask(msgspec.Struct, frozen=True):
    """One source to read, or a part of a source; the tables have `name` as its segment."""

    name: str
    path: str
    kind: str
    size_bytes: int
    is_open: bool = False
    begin: int = 0
    end: int | None = None
    is_own: bool = False  # a file of bronze.sightings, which may have rows of other sources too
    is_more: bool = False  # the lake has the rows in front of `begin`
    is_partial: bool = False  # a later run reads what is behind `end`

    @property
    def may_grow(self) -> bool:
        """Whether the source may have more rows the next time, and then is read again as a whole."""
        return self.kind == SourceKind.PCAP

    @property
    def source(self) -> Source:
        """The source or part that is to be read."""
        kind = SourceKind(self.kind)
        return Source(place_of(self.path), kind, self.size_bytes, self.is_open, begin=self.begin, end=self.end)


class IngestJob(msgspec.Struct, frozen=True):
    """Where a run has its files: the groups of sources, the tables, and the marks of sources that are done."""

    lake: str
    work: str
    run: str
    intake: Intake = Intake()
    spread: SpreadJob | None = None  # if the whole lake is going to be judged

    @property
    def groups(self) -> Place:
        """The file that says which sources each group has."""
        return place_of(self.work) / "groups.json"

    @property
    def marks(self) -> Place:
        """The directory in which each source that is done leaves an empty file, for the progress bar."""
        return place_of(self.work) / "done"

    def place(self, table: str) -> Place:
        """The directory of a table."""
        layer, _, name = table.partition(".")
        return place_of(self.lake) / layer / name


class IngestReport(msgspec.Struct):
    """The result of one task."""

    name: str
    row_count: int = 0
    skipped_rows: int = 0
    skipped: int = 0
    expired: int = 0  # rows that are too old
    forgotten: int = 0  # rows of what was forgotten
    parts: list[str] = []  # the names of the files that have its rows
    files: dict[str, list[StoredFile]] = {}  # table: new files; those that sources share are told of the last source
    spread: list[SpreadReport] = []  # the same rows on their way to be judged; told as files are
    spans: list[SourceSpan] = []
    ending: str = OPEN  # how the source ends: one of ENDINGS
    position: int = 0  # behind the last batch that was read, if the next run can go on there
    head: str = ""  # hash over the first bytes, up to the position
    is_more: bool = False
    is_partial: bool = False
    is_own: bool = False
    faults: list[str] = []
    is_bad: bool = False  # one of the faults is damage: someone should look at the file
    is_refused: bool = False  # the system did not give the whole file, and may give it another time
    error: str = ""  # why the run cannot go on
    refusal: str = ""  # the code of a store that refuses, if that is why


def ingest_groups(
    job: IngestJob, domains: Domains, settings: LakeSettings
) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Give the function for `mapInArrow`: numbers of groups come in, reports go out."""

    def ingest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_imported()
        groups = msgspec.json.decode(read_file(job.groups, MAX_GROUPS_BYTES), type=list[list[IngestTask]])
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            reports = [
                msgspec.json.encode(each) for each in ingest_group(groups[number], number, job, domains, settings)
            ]
            yield pa.RecordBatch.from_arrays([pa.array(reports)], schema=RESULT)

    return ingest


@cache
def keep_imported() -> None:
    """Leave what this process has imported out of all collections of garbage: these took 0.5 % of a build.

    Once: to ask how many objects are left out takes 8 ms, since they are counted.
    """
    gc.freeze()


def ingest_group(
    tasks: Iterable[IngestTask], number: int, job: IngestJob, domains: Domains, settings: LakeSettings
) -> list[IngestReport]:
    """Read sources and write their rows; small sources share their files, a source that may grow has its own."""
    shared = _PartOutputs(job, number, domains, settings)
    reports = []
    for task in tasks:
        outputs = _PartOutputs(job, number, domains, settings) if task.may_grow else shared
        reports.append(_ingest_source(task, outputs, job, settings))
        if reports[-1].error:
            return reports
    if reports:
        with _said(reports[-1], job.lake):
            reports[-1].files = _together(reports[-1].files, shared.close())
            reports[-1].spread += shared.spread
    return reports


class _PartOutputs:
    """The files of one part: rows of one source or of several, in all tables.

    Small batches are decoded together, also of several sources: a batch has its cost, however few rows there are.
    """

    def __init__(self, job: IngestJob, number: int, domains: Domains, settings: LakeSettings) -> None:
        self.part = part_name(job.run, number)
        self._domains, self._settings = domains, settings
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = 0
        self._outputs = {
            name: TableOutput(job.place(name), self.part, layout, settings) for name, layout in INGESTED.items()
        }
        self._spread = SightingSpread(job.spread, settings.file_mode) if job.spread else None
        self.spread: list[SpreadReport] = []

    def add(self, sightings: pa.RecordBatch) -> None:
        """Take rows of bronze.sightings."""
        rows, size = self._rows + len(sightings), self._size + sightings.nbytes
        if self._waiting and (rows > self._settings.batch_rows or size > self._settings.batch_bytes):
            self._split()
        self._waiting.append(sightings)
        self._rows, self._size = self._rows + len(sightings), self._size + sightings.nbytes

    def _split(self) -> None:
        if self._waiting:
            split = split_sightings(_joined(self._waiting), self._domains)
            for (name, output), rows in zip(self._outputs.items(), split, strict=True):
                output.add(rows)
                if self._spread:
                    self._spread.add(name, rows)
        self._waiting, self._rows, self._size = [], 0, 0

    def close(self) -> dict[str, list[StoredFile]]:
        self._split()
        self.spread = self._spread.close() if self._spread else []
        files = at_once(TableOutput.close, list(self._outputs.values()))
        return {name: each for name, each in zip(self._outputs, files, strict=True) if each}


def _together(*files: dict[str, list[StoredFile]]) -> dict[str, list[StoredFile]]:
    return {
        name: [file for each in files for file in each.get(name, ())]
        for name in INGESTED
        if any(name in each for each in files)
    }


def _ingest_source(task: IngestTask, outputs: _PartOutputs, job: IngestJob, settings: LakeSettings) -> IngestReport:
    """Read one source and write its rows; the report says what is wrong with the disk."""
    report = IngestReport(task.name, is_more=task.is_more, is_partial=task.is_partial, is_own=task.is_own)
    faults: list[Fault] = []
    reading = _Reading(task, faults)
    with _said(report, task.path):
        for whole in rebatched(reading.rows(), settings.batch_rows, settings.batch_bytes):
            taken = (ALL if task.is_own else job.intake).take(whole, task.name)
            batch = taken.batch
            if job.intake.notes.times and not task.is_own:
                batch = job.intake.without_forgotten(batch, split_batch(batch, task.name, OPEN_TO_ALL).messages)
            outputs.add(rows_of_sightings(batch, task.name))
            report.spans = joined_spans([*report.spans, *taken.spans])
            report.row_count += len(batch)
            report.expired += taken.expired
            report.forgotten += taken.forgotten + len(taken.batch) - len(batch)
            report.skipped_rows += pc.sum(pc.equal(batch.column("direction"), Direction.SKIPPED)).as_py() or 0
            report.skipped += pc.sum(batch.column("skipped")).as_py() or 0
        if not _has_numbers(task):
            report.spans = [span.without_numbers() for span in report.spans]
        report.ending = _ending(task, bool(faults))
        report.spans = [replace(span, ending=report.ending) for span in report.spans]
        report.position, report.head = reading.reached()
        report.parts = [outputs.part] if report.row_count else []
        if task.may_grow:
            report.files, report.spread = outputs.close(), outputs.spread
        _leave(job.marks / f"{uuid.uuid4().hex}-{task.size_bytes}")
    report.faults = [fault.detail for fault in faults]
    report.is_bad = any(_is_damage(fault, task) for fault in faults)
    report.is_refused = any(fault.kind in (FaultKind.REFUSED, FaultKind.NOT_REGULAR) for fault in faults)
    return report


def _is_damage(fault: Fault, task: IngestTask) -> bool:
    """Tell whether someone should look at the file.

    What is wrong with a segment is damage, since each batch is written whole. Only an open segment may be cut off: its
    writer is at work, or was killed. A recording of the network is rarely whole, and that is nobody's fault.
    """
    if task.kind == SourceKind.SEGMENT and not task.is_own:
        return not (task.is_open and fault.kind == FaultKind.CUT_OFF)
    return fault.is_serious


def _leave(mark: Place) -> None:
    """Leave an empty file, which nothing depends on."""
    if isinstance(mark, Path):
        mark.touch()
    else:
        put(mark, b"")


@contextmanager
def _said(report: IngestReport, path: str) -> Iterator[None]:
    """Meanwhile let the report say what the system refuses."""
    try:
        yield
    except OSError as error:
        report.error = _in_words(error, report.name, path)
    except PlaceError as error:
        report.error, report.refusal = str(error), error.reason


class _Reading:
    """Reads the rows of a task, and knows how far it came."""

    def __init__(self, task: IngestTask, faults: list[Fault]) -> None:
        self._task, self._faults = task, faults
        self._position = task.begin
        self._is_settled = True

    def rows(self) -> Iterator[pa.RecordBatch]:
        task, on_fault = self._task, self._faults.append
        if task.is_own:
            yield from _read_own(task, on_fault)
            return
        for batch, self._position in read_placed(task.source, on_fault, TOGETHER_BYTES):
            self._is_settled = not pc.all(pc.equal(batch.column("reason"), "disk_error")).as_py()
            yield batch

    def reached(self) -> tuple[int, str]:
        """Give where the next run can go on, and a hash over the first bytes up to there; 0 if it has to begin anew.

        A source with a fault is read again as a whole. So is an open segment that ends with the mark of a full disk:
        the next batch takes the place of the mark.
        """
        task = self._task
        is_whole = all(task.is_open and fault.kind == FaultKind.CUT_OFF for fault in self._faults)
        is_settled = self._is_settled or not task.is_open
        if task.kind != SourceKind.SEGMENT or task.is_own or not (self._position and is_whole and is_settled):
            return 0, ""
        try:
            return self._position, head_of(task.source.path, self._position)
        except FileNotFoundError:  # sealed or removed a moment ago: the next run finds out
            return self._position, head_of(sealed_path(task.source.path), self._position)


def head_of(path: Place, size_bytes: int) -> str:
    """Give a hash over the first bytes of a file, at most so many."""
    return hash_of_bytes(read_range(path, 0, min(size_bytes, EDGE_BYTES)))


def _read_own(task: IngestTask, on_fault: Callable[[Fault], None]) -> Iterator[pa.RecordBatch]:
    """Read the rows of one source from a file of bronze.sightings."""
    with open_file(place_of(task.path)) as file:
        try:
            parquet = pq.ParquetFile(file)
            groups = range(task.begin, parquet.num_row_groups if task.end is None else task.end)
            for batch in parquet.iter_batches(row_groups=list(groups), columns=["segment", *SCHEMA.names]):
                rows = batch.filter(pc.equal(batch.column("segment"), task.name)).select(SCHEMA.names)
                yield rows.cast(SCHEMA)
        except (pa.ArrowException, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            said = f"is not Parquet that can be read: {(str(error).splitlines() or ['no reason'])[0]:.120}"
            on_fault(Fault(place_of(task.path), FaultKind.FOREIGN, said, task.size_bytes))


def _has_numbers(task: IngestTask) -> bool:
    """Whether sightings have the numbers of their nodes: Parquet may lack them, and then the reader counts rows."""
    if task.kind != SourceKind.PARQUET:
        return True
    try:
        with open_file(place_of(task.path)) as file:
            return {"incarnation", "sequence"} <= set(pq.read_schema(file).names)
    except (pa.ArrowException, OSError):
        return False


def _ending(task: IngestTask, has_faults: bool) -> str:
    """How the source ends: a segment that is sealed and whole was closed by its node."""
    if task.kind == SourceKind.SEGMENT:
        return OPEN if task.is_open or task.is_partial or has_faults else CLOSED
    return OPEN if task.kind == SourceKind.PARQUET and _has_numbers(task) else OVERHEARD


def _in_words(error: OSError, name: str, path: str) -> str:
    number = error.errno or 0
    words = os.strerror(number) if number else " ".join(str(error).split())[:200]
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error):
        return f"the disk of the lake is full ({words}) at {name}: make room and build again"
    return f"{error.filename or path}: {words}"


# -- from batches of a source to rows of tables


class Split(NamedTuple):
    """The rows of a capture as rows of tables."""

    sightings: pa.RecordBatch
    messages: pa.RecordBatch
    quarantine: pa.RecordBatch


def split_batch(batch: pa.RecordBatch, segment: str, domains: Domains) -> Split:
    """Decode a batch of a capture and judge its messages."""
    return split_sightings(rows_of_sightings(batch, segment), domains)


def split_sightings(sightings: pa.RecordBatch, domains: Domains) -> Split:
    """Decode rows of bronze.sightings and judge their messages."""
    frames, seen = sightings.column("frames"), seen_rows(sightings)
    is_message, messages, reasons = decode_apart(frames)
    is_seen = bools(pc.not_equal(sightings.column("direction"), Direction.SKIPPED))
    is_none = ~is_message & is_seen
    return Split(
        sightings,
        rows_of_messages(_where(seen, is_message & is_seen), _where(messages, is_seen[is_message]), domains),
        rows_of_quarantine(_where(seen, is_none), _where(frames, is_none), _where(reasons, is_seen[~is_message])),
    )


def _where(rows: Any, mask: Bools) -> Any:
    """Rows of a batch or of a column; where all are wanted, nothing is copied."""
    return rows if mask.all() else rows.filter(pa.array(mask))


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
