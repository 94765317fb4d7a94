"""A whole lake judged by the workers of Spark, in a few short jobs: all judged tables at once (`flow_tasks.py`).

    whole_tables(spark, run, settings, names, basis_of, recent_ns, progress)

The rows are those of a step, and of tables that Spark builds one after the other. Rows between the jobs are in files of
the run, which go with the run (`exchange.py`). The driver sees reports only: counts, crossings and the names of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pyarrow as pa

from hopwire.errors import WholeNeeded
from hopwire.flows.clocks import clocks_from_crossings, rows_from_clocks
from hopwire.flows.contract_parts import added_parts, contracts_of
from hopwire.flows.coverage import coverage_from_rows
from hopwire.flows.crossings import Crossing, CrossingColumns, quickest
from hopwire.flows.findings import Contract, Known
from hopwire.flows.lives import lives_from_clocks
from hopwire.flows.spans import PlacedSpan
from hopwire.lake.flow_tasks import (
    BY_MINUTE,
    JUDGED,
    CrossReport,
    FinishTask,
    FlowJob,
    JudgeReport,
    SpreadTask,
    cross_parts,
    finish_part,
    judge_part,
    spread_files,
)
from hopwire.lake.gold.quality import quality_rows
from hopwire.lake.increment import LakeCounts, begin_steps
from hopwire.lake.inheritance import Inherited, inherited_of
from hopwire.lake.known_spans import spans_of
from hopwire.lake.manifest import StoredFile, part_name
from hopwire.lake.parquet_output import TableOutput
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.closed_flows import CLOSED_TABLE
from hopwire.lake.silver.messages import MESSAGES_TABLE
from hopwire.lake.spreading import COUNTED, SPREAD_ROWS, SpreadJob, SpreadReport
from hopwire.lake.store import LakeRun
from hopwire.lake.tables import Table, all_tables
from hopwire.lake.worker import IngestReport, keep_imported
from hopwire.places import make_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BegunSpread", "spread_job", "whole_tables"]

PART_ROWS = 80_000  # sightings of a part: a part is judged at once
SIGHTING_BYTES = 800  # of captures, about
MINUTE_ROWS = 500_000  # sightings for each task that makes minutes: minutes are small, and should have few files
FLOW_ROWS = 500_000  # sightings of one flow that a task judges: some two gigabytes
MIN_PARTS, MAX_PARTS = 8, 1_024
CROSS_TASKS = 32  # at most: a part of a large lake has crossings of nearly every window, and so has a task
RESULT = pa.schema([("number", pa.int64()), ("report", pa.binary())])

Work = Callable[[int], Any]  # of the task of this number
Report = TypeVar("Report")


def whole_tables(
    spark: SparkSession,
    run: LakeRun,
    settings: LakeSettings,
    names: Mapping[bytes, str],
    basis_of: Callable[[Table], str],
    recent_ns: int,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    begun: BegunSpread | None = None,
) -> None:
    """Judge all sightings of a lake, and put all judged tables; a WholeNeeded says that a flow is too large.

    What the run has read from captures may be spread by flow already.
    """
    rows = sum(file.row_count for file in run.files(MESSAGES_TABLE.name))
    spread = begun if begun and begun.suits(rows) else BegunSpread(spread_job(run, rows))
    make_place(run.work, settings.file_mode)
    for table in (*JUDGED, *BY_MINUTE):
        run.place(table)
    minutes = max(rows // MINUTE_ROWS, 2)
    parts = spread.job.part_count
    job = FlowJob(str(run.lake), str(run.work), run.name, parts, minutes, recent_ns, FLOW_ROWS)
    _Whole(spark, run, settings, names, basis_of, job, progress, spread).make()


@dataclass(frozen=True)
class BegunSpread:
    """What was spread by flow while captures were read."""

    job: SpreadJob
    reports: Sequence[SpreadReport] = ()
    files: Collection[tuple[str, str]] = ()  # the tables and paths of the files that have the same rows

    @classmethod
    def of(cls, job: SpreadJob, reports: Iterable[IngestReport]) -> BegunSpread:
        """Give what the workers that read captures tell."""
        known = list(reports)
        files = {(table, file.path) for report in known for table, files in report.files.items() for file in files}
        return cls(job, [each for report in known for each in report.spread], files)

    def suits(self, rows: int) -> bool:
        """Tell whether parts have a sensible size: captures were measured in bytes, and messages may be of any size."""
        return part_count_of(rows) // 4 <= self.job.part_count <= part_count_of(rows) * 4


def part_count_of(rows: int) -> int:
    """Give into how many parts so many sightings go."""
    return min(max(rows // PART_ROWS, MIN_PARTS), MAX_PARTS)


def spread_job(run: LakeRun, rows: int, new_bytes: int = 0, task_bytes: int = 1) -> SpreadJob:
    """Give how sightings are spread: those of a lake, and those of captures that are still to be read in tasks."""
    total = rows + new_bytes // SIGHTING_BYTES
    files = 2 * (total // SPREAD_ROWS + new_bytes // task_bytes)  # at most, about
    return SpreadJob(str(run.work), part_count_of(total), max(FLOW_ROWS // max(files, MIN_PARTS), 1))


@dataclass
class _Whole:
    """A whole lake on its way."""

    spark: SparkSession
    run: LakeRun
    settings: LakeSettings
    names: Mapping[bytes, str]
    basis_of: Callable[[Table], str]
    job: FlowJob
    progress: Callable[[str, int, int], None]
    begun: BegunSpread

    def make(self) -> None:
        """Run the jobs one after the other, and put the tables."""
        job, settings, names = self.job, self.settings, dict(self.names)
        spans = spans_of(self.run).placed
        spread = [*self.begun.reports, *self._spread()]
        _refuse_large(spread, job.flow_rows)
        paths = [report.path for report in spread]
        inherited = inherited_of(self.run.before)
        crossings = quickest([*self._crossings(paths), *inherited.later])
        clocks = self._clocks(spans, crossings, inherited)
        known = Known(coverage_from_rows(clocks), settings.rules)
        judged = self._jobs(
            "flows", job.part_count, lambda n: judge_part(n, job, paths, known, names, settings), JudgeReport
        )
        _refuse(judged)
        counts = _counts(spread, judged, inherited)
        more = self._finished(judged, counts, known)
        files = {
            table: [file for each in (*(report.files for report in judged), *more) for file in each.get(table, ())]
            for table in (*JUDGED, *BY_MINUTE)
        }
        self._put_rows("silver.clocks", clocks)
        self._put_rows("silver.lives", lives_from_clocks(clocks))
        for table in (*JUDGED[:3], *BY_MINUTE):
            self._put(table, files[table])
        schema = all_tables()["gold.contracts"].schema
        self._put_rows("gold.contracts", pa.Table.from_pylist(contracts_of(counts.contracts), schema))
        self._put_quality(spread, judged, spans)
        begin_steps(self.run, settings, names, self.basis_of, crossings, files[CLOSED_TABLE.name], counts)

    def _spread(self) -> list[SpreadReport]:
        """Spread the files that were not spread while captures were read."""
        job, mode = self.begun.job, self.settings.file_mode
        tasks = _spread_tasks(self.run, self.begun.files)
        if not tasks:
            return []
        made = self._jobs(
            "sightings by flow",
            len(tasks),
            lambda n: spread_files(tasks[n], job, mode),
            list[SpreadReport],
        )
        return [report for some in made for report in some]

    def _crossings(self, paths: Sequence[str]) -> list[Crossing]:
        """Find the quickest crossings: each task those of several parts, and the driver those of all tasks."""
        parts = range(self.job.part_count)
        size = min(len(parts), CROSS_TASKS)
        found = self._jobs("crossings", size, lambda n: cross_parts(parts[n::size], paths), CrossReport)
        return CrossingColumns.joined([report.crossings for report in found]).quickest().all()

    def _jobs(self, what: str, count: int, work: Work, kind: type[Report]) -> list[Report]:
        """Let the workers do all tasks, and give their reports in the order of the tasks."""
        self.progress(what, 0, count)
        rows = self.spark.range(0, count, 1, count).mapInArrow(_worker(work), "number long, report binary").collect()
        self.progress(what, count, count)
        ordered = sorted(rows, key=lambda row: row.number)
        return [msgspec.msgpack.decode(bytes(row.report), type=kind) for row in ordered]

    def _clocks(self, spans: Sequence[PlacedSpan], crossings: Sequence[Crossing], inherited: Inherited) -> pa.Table:
        nodes = {each.span.node for each in spans}
        return rows_from_clocks(spans, clocks_from_crossings(nodes, crossings, inherited.fold))

    def _finished(
        self, judged: Sequence[JudgeReport], counts: LakeCounts, known: Known
    ) -> list[dict[str, list[StoredFile]]]:
        """Make minutes, and judge flows that waited for what others answered."""
        job, settings, names, size = self.job, self.settings, dict(self.names), self.job.minute_count
        parts = [number for number, report in enumerate(judged) if any(report.files.values())]
        waiting = [number for number, report in enumerate(judged) if report.waiting]
        tasks = [FinishTask(parts, waiting[number::size]) for number in range(size)]
        full, signed = known._replace(answered=frozenset(counts.answered)), frozenset(counts.signed)
        return self._jobs(
            "minutes",
            size,
            lambda n: finish_part(n, tasks[n], job, full, signed, names, settings),
            dict[str, list[StoredFile]],
        )

    def _put(self, name: str, files: Sequence[StoredFile]) -> None:
        table = all_tables()[name]
        self.run.put(name, self.basis_of(table), table.stored_schema, files, made_from=table.reads)

    def _put_rows(self, name: str, rows: pa.Table) -> None:
        table = all_tables()[name]
        part = part_name(self.run.name, 0)
        output = TableOutput(self.run.place(name), part, table.layout(self.names), self.settings)
        for batch in rows.select(table.schema.names).cast(table.schema).combine_chunks().to_batches():
            output.add(batch)
        self._put(name, output.close())

    def _put_quality(
        self, spread: Sequence[SpreadReport], judged: Sequence[JudgeReport], spans: Sequence[PlacedSpan]
    ) -> None:
        counts: dict[str, Counter[str]] = {}
        for report in spread:
            for segment, found in report.counts.items():
                counts.setdefault(segment, Counter()).update(found)
        sources = self.run.rows("bronze.sources")
        messages = sum(count["message_count"] for count in counts.values())
        linked = sum(report.linked for report in judged)
        self._put_rows("gold.quality", quality_rows(sources, counts, spans, (messages, linked)))


def _worker(work: Work) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    def do(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_imported()
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            report = msgspec.msgpack.encode(work(number))
            yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([report], pa.binary())], schema=RESULT)

    return do


def _spread_tasks(run: LakeRun, done: Collection[tuple[str, str]]) -> list[SpreadTask]:
    """Put the files of the tables that captures become together, so that tasks have about as many sightings."""
    found = {
        name: sorted(
            (
                (file.row_count, str(path))
                for file, path in zip(run.files(name), run.paths(name), strict=True)
                if (name, file.path) not in done
            ),
            reverse=True,
        )
        for name in COUNTED
    }
    rows = sum(row_count for row_count, _ in found[MESSAGES_TABLE.name])
    count = max(MIN_PARTS, -(-rows // SPREAD_ROWS))
    tasks: list[list[tuple[str, str]]] = [[] for _ in range(count)]
    for name, files in found.items():
        for number, (_, path) in enumerate(files):
            tasks[number % count].append((name, path))
    return [SpreadTask(files) for files in tasks if files]


def _refuse_large(spread: Sequence[SpreadReport], most: int) -> None:
    """Leave a flow to Spark that may not fit into the memory of one task.

    A task tells of a flow only if the flow has its share of `most` there. So a flow of twice as many is always found.
    """
    counts: Counter[bytes] = Counter()
    for report in spread:
        counts.update(dict(report.large))
    if counts and max(counts.values()) > most:
        raise WholeNeeded(f"a flow has {max(counts.values()):,} sightings")


def _refuse(judged: Sequence[JudgeReport]) -> None:
    """Leave flows that are too large for one process to Spark, which cuts them."""
    if reason := next((report.too_large for report in judged if report.too_large), ""):
        raise WholeNeeded(reason)


def _counts(spread: Sequence[SpreadReport], judged: Sequence[JudgeReport], inherited: Inherited) -> LakeCounts:
    answered: Counter[Contract] = Counter(inherited.answered)
    unhandled: Counter[bytes] = Counter()
    signed: Counter[bytes] = Counter(inherited.signed)
    for report in judged:
        answered.update(dict(report.answered))
        unhandled.update(dict(report.unhandled))
        signed.update(dict(report.signed))
    parts = [pa.ipc.open_stream(report.parts).read_all() for report in spread]
    return LakeCounts(answered, unhandled, signed, added_parts(parts))
