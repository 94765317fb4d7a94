"""What Python workers do to judge a whole lake: some jobs, with files between them (`exchange.py`).

| job | a task has | what a task does |
|---|---|---|
| `spread` | some files that the lake had | counts contracts; writes the sightings by flow, in parts (`spreading.py`) |
| `cross` | some parts: whole flows | finds the quickest crossings, by which the driver compares clocks |
| `judge` | one part | judges hops, requests and flows, writes their files; writes what minutes are made of |
| `finish` | minutes, and flows that wait | makes minutes of links, security and latencies; judges flows that waited |

A flow waits if it has a question that nobody handled. The finding `unknown_version` needs to know which contracts were
answered in any flow, and this is known when all tasks of `judge` have ended. Such flows are few.

The judge is that of a step (`flows/steps.py`). A part is judged in pieces of whole flows. A flow that is too large for
one process (`flow_rows`) is refused: `too_large` says so, and then the tables are built one after the other by Spark,
which holds no flow as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.flows.closing import horizon_columns
from hopwire.flows.crossings import CrossingColumns
from hopwire.flows.findings import Contract, Known
from hopwire.flows.groups import codes
from hopwire.flows.histograms import OF_REQUESTS, latencies_of, minutes_asked
from hopwire.flows.hops import FLOW_ID, flow_names, with_flow_ids
from hopwire.flows.minutes import (
    BY_ARRIVAL,
    BY_DEPARTURE,
    crossings_in,
    links_of,
    minutes_by,
    security_of,
    signed_in,
)
from hopwire.flows.oversized import flows_of
from hopwire.flows.steps import FlowTables, answered_in, judge_sightings, unhandled_in
from hopwire.lake.dataframes import AgedOutput
from hopwire.lake.exchange import parts_by, read_part, write_parts
from hopwire.lake.manifest import StoredFile
from hopwire.lake.readable import Names
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.closed_flows import CLOSED_TABLE, index_rows, most_off_ns
from hopwire.lake.spreading import SightingSpread, SpreadJob, SpreadReport, read_columns
from hopwire.lake.tables import all_tables
from hopwire.places import Place, open_file, place_of

__all__ = [
    "CrossReport",
    "FinishTask",
    "FlowJob",
    "JudgeReport",
    "SpreadTask",
    "cross_parts",
    "finish_part",
    "judge_part",
    "spread_files",
]

PIECE_ROWS = 100_000  # sightings that are judged at a time: enough for numpy, and some hundred megabytes
OF_CROSSINGS = (
    "message_key", "attempt", "message_id", "correlation_id", "callback_key",
    "node", "peer", "direction", "incarnation", "seen_at_ns",
)  # fmt: skip
LINKS, SECURITY, LATENCIES, HOPS, REQUESTS, FLOWS = (
    "gold.links", "gold.security", "gold.latencies", "silver.hops", "gold.requests", "gold.flows",
)  # fmt: skip
JUDGED = (HOPS, REQUESTS, FLOWS, CLOSED_TABLE.name)
BY_MINUTE = (LINKS, SECURITY, LATENCIES)


class FlowJob(msgspec.Struct, frozen=True):
    """Where the run has its files, and into how many parts rows go."""

    lake: str
    work: str
    run: str
    part_count: int
    minute_count: int
    recent_ns: int  # rows of later times have files of their own
    flow_rows: int  # sightings of one flow that fit into one process

    def path(self, kind: str, number: int) -> Place:
        """Give the file of one task."""
        return place_of(self.work) / f"{kind}-{number}.arrow"

    def output(self, table: str, names: Names, settings: LakeSettings) -> AgedOutput:
        """Give the files of one task of a table."""
        layer, _, name = table.partition(".")
        place = place_of(self.lake) / layer / name
        return AgedOutput(place, self.run, all_tables()[table].layout(names), settings, self.recent_ns)


# -- spread


class SpreadTask(msgspec.Struct, frozen=True):
    """Files of the tables that captures become, each with its table."""

    files: list[tuple[str, str]]


def spread_files(task: SpreadTask, job: SpreadJob, file_mode: int) -> list[SpreadReport]:
    """Read files of a lake, count their rows, and write the sightings of messages by flow."""
    spread = SightingSpread(job, file_mode)
    for table, path in task.files:
        with open_file(place_of(path)) as file:
            spread.add(table, pq.read_table(file, columns=read_columns(table), use_threads=False))
    return spread.close()


# -- cross


class CrossReport(msgspec.Struct):
    """The quickest crossings of some parts, as columns: a large lake has millions."""

    nodes: list[bytes]
    columns: list[bytes]  # of numbers

    @classmethod
    def of(cls, crossings: CrossingColumns) -> CrossReport:
        """Give the report of crossings."""
        return cls(crossings.nodes, [column.astype("<i8").tobytes() for column in crossings.columns])

    @property
    def crossings(self) -> CrossingColumns:
        """The crossings of the report."""
        return CrossingColumns(self.nodes, tuple(np.frombuffer(column, dtype="<i8") for column in self.columns))


def cross_parts(numbers: Iterable[int], sightings: Sequence[str]) -> CrossReport:
    """Give the quickest crossings of the flows of some parts, which are read one after the other."""
    found = [
        CrossingColumns.of(read_part(map(place_of, sightings), number, OF_CROSSINGS)).quickest() for number in numbers
    ]
    return CrossReport.of(CrossingColumns.joined(found).quickest())


# -- judge


class JudgeReport(msgspec.Struct):
    """The files of a part, and what was counted of it."""

    files: dict[str, list[StoredFile]] = {}
    answered: list[tuple[Contract, int]] = []
    unhandled: list[tuple[bytes, int]] = []
    signed: list[tuple[bytes, int]] = []
    linked: int = 0  # sightings that hops are made of
    waiting: int = 0  # flows that wait
    too_large: str = ""  # why no process can judge the part


class _TooLarge(Exception):
    """A flow does not fit into one process."""


def judge_part(
    number: int, job: FlowJob, sightings: Sequence[str], known: Known, names: Names, settings: LakeSettings
) -> JudgeReport:
    """Judge the flows of a part, and write their rows."""
    try:
        return _JudgedPart(number, job, known, names, settings).report(read_part(map(place_of, sightings), number))
    except (_TooLarge, pa.ArrowException, OverflowError) as error:
        return JudgeReport(too_large=str(error))


class _JudgedPart:
    """A part on its way."""

    def __init__(self, number: int, job: FlowJob, known: Known, names: Names, settings: LakeSettings) -> None:
        self.number, self.job, self.known, self.settings = number, job, known, settings
        self.outputs = {table: job.output(table, names, settings) for table in JUDGED}
        self.answered: Counter[Contract] = Counter()
        self.unhandled: Counter[bytes] = Counter()
        self.signed: Counter[bytes] = Counter()
        self.kept: dict[str, list[pa.Table]] = {kind: [] for kind in (*BY_MINUTE, "hops", "requests")}
        self.linked = self.waiting = 0

    def report(self, sightings: pa.Table) -> JudgeReport:
        for piece in _pieces(sightings, self.job.flow_rows):
            self._judge(piece)
        for kind in (LINKS, SECURITY, LATENCIES):
            self._exchange(kind)
        for kind in ("hops", "requests"):
            if self.kept[kind]:
                rows = pa.concat_tables(self.kept[kind])
                path = self.job.path(f"waiting-{kind}", self.number)
                write_parts(path, rows, np.zeros(len(rows), dtype=np.int64), 1, self.settings.file_mode)
        return JudgeReport(
            {table: output.close() for table, output in self.outputs.items()},
            list(self.answered.items()),
            list(self.unhandled.items()),
            list(self.signed.items()),
            self.linked,
            self.waiting,
        )

    def _judge(self, sightings: pa.Table) -> None:
        coverage, rules = self.known.coverage, self.known.rules
        found = judge_sightings(with_flow_ids(sightings, coverage, rules), coverage, rules)
        unhandled = unhandled_in(found.requests)
        waiting = pc.unique(unhandled[FLOW_ID].combine_chunks())
        hops, requests = self._settled(found, waiting) if len(waiting) else (found.hops, found.requests)
        index = index_rows(found.hops, horizon_columns(found.hops, found.requests, rules), most_off_ns(coverage))
        self._write(HOPS, found.hops)
        self._write(REQUESTS, found.requests)
        self._write(FLOWS, flows_of(hops, requests, self.known))
        self._write(CLOSED_TABLE.name, index)
        self.answered += answered_in(found.requests)
        self.unhandled += Counter(unhandled["identity"].to_pylist())
        self.signed += signed_in(found.hops)
        self.linked += sum(
            len(found.hops) - found.hops[name].null_count for name in ("left_sequence", "arrived_sequence")
        )
        self._keep_for_minutes(found)

    def _settled(self, found: FlowTables, waiting: pa.Array) -> tuple[pa.Table, pa.Table]:
        """Keep the hops and requests of flows that wait aside, and give those of the others."""
        self.waiting += len(waiting)
        settled = []
        for kind, rows in (("hops", found.hops), ("requests", found.requests)):
            is_waiting = pc.is_in(rows[FLOW_ID], waiting)
            self.kept[kind].append(rows.filter(is_waiting))
            settled.append(rows.filter(pc.invert(is_waiting)))
        return settled[0], settled[1]

    def _write(self, table: str, rows: pa.Table) -> None:
        for batch in rows.combine_chunks().to_batches():
            self.outputs[table].add(batch)

    def _keep_for_minutes(self, found: FlowTables) -> None:
        crossings = crossings_in(found.hops)
        is_odd = pc.or_(pc.not_equal(crossings["verdict"], "valid"), pc.equal(crossings["repeat"], "replayed"))
        self.kept[LINKS].append(crossings)
        self.kept[SECURITY].append(crossings.filter(is_odd))
        self.kept[LATENCIES].append(found.requests.select(OF_REQUESTS))

    def _exchange(self, table: str) -> None:
        """Write what minutes of a table are made of, by the key of the table."""
        if not self.kept[table]:
            return
        rows = pa.concat_tables(self.kept[table]).combine_chunks()
        part = parts_by(self.job.minute_count, *MINUTE_KEYS[table](rows))
        write_parts(self.job.path(table, self.number), rows, part, self.job.minute_count, self.settings.file_mode)


MINUTE_KEYS: dict[str, Callable[[pa.Table], tuple[Any, ...]]] = {
    LINKS: lambda rows: (minutes_by(rows, *BY_DEPARTURE), rows["from_node"], rows["to_node"], rows["identity"]),
    SECURITY: lambda rows: (minutes_by(rows, *BY_ARRIVAL), rows["from_node"]),
    LATENCIES: lambda rows: (minutes_asked(rows), rows["identity"]),
}


def _pieces(sightings: pa.Table, flow_rows: int) -> Iterator[pa.Table]:
    """Give whole flows, about as many as are judged at a time; a flow that does not fit into a process is refused."""
    if not len(sightings):
        return
    (flow,), _ = codes(flow_names(sightings))
    sizes = np.bincount(flow)
    if sizes.max() > flow_rows:
        raise _TooLarge(f"a flow has {sizes.max():,} sightings")
    if len(sightings) <= PIECE_ROWS * 3 // 2:
        yield sightings
        return
    piece = ((np.cumsum(sizes) - sizes) // PIECE_ROWS)[flow]
    for number in np.unique(piece).tolist():
        yield sightings.filter(pa.array(piece == number)).combine_chunks()


# -- finish


class FinishTask(msgspec.Struct, frozen=True):
    """The parts whose files have rows of minutes, and those whose flows wait for this task."""

    parts: list[int]
    waiting: list[int]


def finish_part(
    number: int,
    task: FinishTask,
    job: FlowJob,
    known: Known,
    signed: frozenset[bytes],
    names: Names,
    settings: LakeSettings,
) -> dict[str, list[StoredFile]]:
    """Make minutes of links, security and latencies, and judge the flows that waited; give the files."""

    def part_of(table: str) -> pa.Table:
        return read_part([job.path(table, each) for each in task.parts], number)

    made: dict[str, Iterable[pa.Table]] = {
        LINKS: (links_of(part_of(each)) for each in [LINKS]),
        SECURITY: (security_of(part_of(each), signed) for each in [SECURITY]),
        LATENCIES: (latencies_of(part_of(each)) for each in [LATENCIES]),
        FLOWS: (_waited(each, job, known) for each in task.waiting),
    }
    files = {}
    for table, tables in made.items():
        output = job.output(table, names, settings)
        for rows in tables:
            for batch in rows.combine_chunks().to_batches():
                output.add(batch)
        files[table] = output.close()
    return files


def _waited(part: int, job: FlowJob, known: Known) -> pa.Table:
    hops, requests = (read_part([job.path(f"waiting-{kind}", part)], 0) for kind in ("hops", "requests"))
    return flows_of(hops, requests, known)
