"""Rows that leave a lake, by whole flows: out of every table, and nothing else changes.

    gone = remove(run, settings, leaving)       # then `run.publish(gone.sources, ...)`

What leaves is a set of flows, and sightings that are no messages. A flow leaves with its sightings, hops, requests and
its row, so no half of a flow stays. No other flow is judged anew.

| file | what is done |
|---|---|
| all rows are before the floor: no flow that stays has a row there | the file is dropped unread, but for its counts |
| may have rows of a flow that leaves, by its statistics | the file is written anew without these rows |
| any other | stays |

- Sightings are found by the numbers that hops have, as when a flow is opened again (`stored_flows.py`).
- A file of the ingest belongs to a part, and sources know their parts by name. Files of a part that are written anew
  get a part of their own, which the sources of the old part have too. They are numbered on: a part may have many.
- Minutes of gold.links, gold.security and gold.latencies that lose rows are made anew from the rows that stay.
- Each source counts the rows that it lost, so gold.quality adds up.
- What the next step begins with stays true: open flows that leave count as closed ones for the clocks.

The trap: times of sightings are by the clocks of nodes, times of flows are corrected. So there are two floors.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, bools, ints
from hopwire.errors import LakeError
from hopwire.flows.clocks import FoldParts
from hopwire.flows.contract_parts import OF_MESSAGES, PART_SCHEMA, added_parts, contracts_of, parts_of
from hopwire.flows.crossings import Crossing, CrossingColumns, crossings_of
from hopwire.flows.histograms import OF_REQUESTS, latencies_of, minutes_asked
from hopwire.flows.hops import FLOW_ID
from hopwire.flows.minutes import (
    BY_ARRIVAL,
    BY_DEPARTURE,
    OF_HOPS,
    crossings_in,
    links_of,
    minutes_by,
    security_of,
)
from hopwire.flows.steps import FlowTables
from hopwire.lake.bronze.sources import SOURCES_TABLE, rows_of_sources
from hopwire.lake.gold.quality import quality_rows
from hopwire.lake.increment import OWN, STEPPED
from hopwire.lake.known_spans import spans_of
from hopwire.lake.manifest import StoredFile, StoredSource, StoredStep, hash_of, part_name
from hopwire.lake.parquet_output import TableLayout, TableOutput, write_rows
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.carried import CARRIED_TABLE, Carried, carried_from_rows, rows_from_carried
from hopwire.lake.silver.closed_flows import CLOSED_TABLE
from hopwire.lake.silver.crossings import CROSSINGS_TABLE, rows_from_crossings
from hopwire.lake.silver.messages import MESSAGES_TABLE
from hopwire.lake.silver.open_sightings import OPEN_TABLE
from hopwire.lake.store import LakeRun, dataset_of
from hopwire.lake.stored_flows import NUMBER, TIMES, StoredFlows
from hopwire.lake.tables import Table, all_tables
from hopwire.lake.unreadable import UNREADABLE, in_short
from hopwire.lake.worker import INGESTED
from hopwire.model.units import NS_PER_MINUTE, NS_PER_US

__all__ = ["NO_FLOOR", "Gone", "Leaving", "crossings_of_flows", "flow_numbers", "remove", "rows_in", "whole_lake"]

NO_FLOOR = -(2**62)
FLOW_TABLES = ("silver.hops", "gold.requests", "gold.flows", CLOSED_TABLE.name)
QUARANTINE, SIGHTINGS = "silver.quarantine", "bronze.sightings"
SIGHTING_KEY = ("segment", "node", "incarnation", "sequence")
OF_NOTES = ("message_key", "correlation_id", "seen_at_ns")  # what later runs know forgotten messages by
DECODED = {"bronze_count": SIGHTINGS, "message_count": MESSAGES_TABLE.name, "quarantine_count": QUARANTINE}
MINUTE_US = NS_PER_MINUTE // NS_PER_US

Mask = Callable[[pa.Table], Bools]


@dataclass(frozen=True)
class Leaving:
    """What leaves: all flows with a row before the floor, some flows, and sightings that are no messages."""

    flows: pa.Array  # those that may have rows after the floor
    first_ns: int = NO_FLOOR  # from when to when rows of these flows are, corrected, and as nodes saw them
    last_ns: int = NO_FLOOR
    first_seen_ns: int = NO_FLOOR
    last_seen_ns: int = NO_FLOOR
    floor_ns: int = NO_FLOOR
    floor_seen_ns: int = NO_FLOOR
    others_before_ns: int = NO_FLOOR  # sightings that are no messages leave, if they are older
    is_other: Mask | None = None  # and these sightings
    window: int = -1  # crossings up to this window leave
    base: FoldParts | None = None  # the clocks up to this window: a fold that ends before begins here


@dataclass
class Gone:
    """What has left."""

    sources: dict[str, StoredSource] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)  # by table
    of_source: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # table: source: rows
    skipped: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    messages: list[pa.Table] = field(default_factory=list)  # of flows that were named

    @property
    def sightings(self) -> Counter[str]:
        """How many sightings each source has lost."""
        return self.of_source[SIGHTINGS]


def whole_lake(run: LakeRun) -> Carried:
    """Give what the last step of a lake has carried over; a lake that is not wholly built is refused."""
    run.refuse_days()
    steps = [stored.step if (stored := run.before.tables.get(name)) else None for name in (*STEPPED, *OWN)]
    is_whole = None not in steps and len({step.name for step in steps if step}) == 1
    carried = carried_from_rows(rows_in(run, CARRIED_TABLE.name)) if is_whole else None
    if carried is None:
        remedy = "first build all of them: hopwire lake build CAPTURES LAKE"
        raise LakeError(f"{run.lake}: its tables are not of one build; {remedy}")
    return carried


def rows_in(run: LakeRun, name: str, columns: Sequence[str] | None = None, files: Any = None) -> pa.Table:
    """Read a table of a run as it is at this moment, or some of its columns and files."""
    found = run.files(name) if files is None else files
    schema, place = run.schema(name), run.log(name).place
    if not found:
        return schema.empty_table().select(schema.names if columns is None else list(columns))
    for file in found:
        if not run.has(name, file):
            raise LakeError(f"{name}: {file.path} is not as it was written; build the lake again; nothing was done")
    try:
        data = dataset_of(place, found, schema)
        return data.to_table(columns=None if columns is None else list(columns))
    except UNREADABLE as error:
        raise LakeError(f"{name}: cannot be read ({in_short(error)}); build the lake again; nothing was done") from None


def crossings_of_flows(run: LakeRun, carried: Carried, flows: Collection[bytes]) -> list[Crossing]:
    """Give all crossings of flows that a lake had when the run began, closed or open."""
    rows = rows_in(run, OPEN_TABLE.name, OPEN_TABLE.schema.names, run.files_before(OPEN_TABLE.name))
    own = rows.filter(pc.is_in(rows[FLOW_ID], pa.array(sorted(flows), pa.binary())))
    closed = set(flows) - set(own[FLOW_ID].to_pylist())
    stored = StoredFlows(run, carried, FlowTables(rows.slice(0, 0)), limit=0, is_new=False)
    return [*crossings_of(own), *(crossings_of(stored.sightings_of(closed)) if closed else ())]


def flow_numbers(hops: pa.Table) -> set[tuple[Any, ...]]:
    """Give the numbers of the sightings that hops are made of."""
    found: set[tuple[Any, ...]] = set()
    for node, end in (("from_node", "left"), ("to_node", "arrived")):
        rows = hops.filter(pc.is_valid(hops[f"{end}_sequence"]))
        columns = ("message_key", node, f"{end}_incarnation", f"{end}_sequence")
        found.update(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    return found


def remove(run: LakeRun, settings: LakeSettings, leaving: Leaving, kind: str, names: Mapping[bytes, str]) -> Gone:
    """Take rows out of all tables of a run; each source counts its rows under `expired` or `forgotten`."""
    carried = whole_lake(run)
    return _Removing(run, settings, leaving, names).make(carried, kind)


class _Removing:
    """One removal on its way."""

    def __init__(self, run: LakeRun, settings: LakeSettings, leaving: Leaving, names: Mapping[bytes, str]) -> None:
        self._run, self._settings, self._leaving, self._names = run, settings, leaving, names
        self._gone = Gone()
        self._parts = 0
        self._linked = 0  # sightings of hops that are gone
        self._hops: list[pa.Table] = []  # of flows that were named
        self._requests: list[pa.Table] = []
        self._others: set[Any] = set()  # the sightings that leave and are no messages
        self._renamed: dict[str, str] = defaultdict(self._part)  # parts of which files are written anew
        self._file_counts: Counter[tuple[str, str]] = Counter()  # files of a table and a part

    def make(self, carried: Carried, kind: str) -> Gone:
        """Take the rows out, and put all tables that have lost some."""
        for name in FLOW_TABLES:
            self._cut_flows(name)
        self._cut_ingested()
        self._check()
        self._make_minutes(carried)
        carried = self._take_open(carried)
        self._gone.sources = self._sources(kind)
        if any(self._gone.rows.values()):
            self._put_counts(carried)
        return self._gone

    # -- tables of flows

    def _cut_flows(self, name: str) -> None:
        run, leaving = self._run, self._leaving
        stored = run.before.tables[name].step
        known = [run.ranges_before(name, column) for column in TIMES[name]]
        files, step = run.files_before(name), stored
        opened = [file for file in files if stored and file.part == stored.open_part]
        kept: list[StoredFile] = []
        for file in (file for file in files if file not in opened):
            ranges = [each[file.path] for each in known if file.path in each]
            if ranges and all(high < leaving.floor_ns for _, high in ranges):
                self._drop(name, file)
            elif ranges and not self._is_near(ranges, leaving.first_ns, leaving.last_ns, leaving.floor_ns):
                kept.append(file)
            else:
                kept += self._cut(name, [file], self._of_flows(name), self._part())[0]
        if stored and opened:
            rest, part = self._cut(name, opened, self._of_flows(name), self._part())
            step = StoredStep(stored.name, part, sum(file.row_count for file in rest))
            kept += rest
        run.replace(name, kept, step)

    def _is_near(self, ranges: Iterable[tuple[int, int]], first: int, last: int, floor: int) -> bool:
        return any(low < floor or (low <= last and first <= high) for low, high in ranges)

    def _of_flows(self, name: str) -> Mask:
        leaving = self._leaving

        def mask(rows: pa.Table) -> Bools:
            found = bools(pc.is_in(rows[FLOW_ID], leaving.flows))
            for column in TIMES[name]:
                found = found | bools(pc.fill_null(pc.less(rows[column], leaving.floor_ns), False))
            return found

        return mask

    # -- files

    def _part(self) -> str:
        self._parts += 1
        return part_name(self._run.name, self._parts)

    def _drop(self, name: str, file: StoredFile) -> None:
        """Count the rows of a file that goes as a whole."""
        columns = {"silver.hops": ["left_sequence", "arrived_sequence"], SIGHTINGS: ["segment", "direction", "skipped"]}
        wanted = columns.get(name, ["segment"] if name in INGESTED else [])
        rows = rows_in(self._run, name, wanted, [file]) if wanted else None
        self._count(name, rows, file.row_count)

    def _count(self, name: str, rows: pa.Table | None, count: int) -> None:
        self._gone.rows[name] += count
        if rows is None:
            return
        if name == "silver.hops":
            self._linked += sum(len(rows) - rows[each].null_count for each in ("left_sequence", "arrived_sequence"))
        if name in INGESTED:
            for each in rows["segment"].value_counts():
                self._gone.of_source[name][each["values"].as_py()] += each["counts"].as_py()
        if name == SIGHTINGS:
            for row in rows.filter(pc.equal(rows["direction"], "skipped")).select(["segment", "skipped"]).to_pylist():
                self._gone.skipped[row["segment"]].update(skipped_rows=1, skipped=row["skipped"])

    def _cut(self, name: str, files: Sequence[StoredFile], mask: Mask, part: str) -> tuple[list[StoredFile], str]:
        """Give the files in place of files of one part, without the rows that leave, and the name of their part."""
        rows = rows_in(self._run, name, files=files)
        is_gone = mask(rows)
        if not is_gone.any():
            return list(files), files[0].part
        gone = rows.filter(pa.array(is_gone))
        self._count(name, gone, len(gone))
        if name == "silver.hops":
            self._hops.append(gone)
        if name == "gold.requests":
            self._requests.append(gone)
        if name == MESSAGES_TABLE.name:
            self._gone.messages.append(gone.select([*SIGHTING_KEY, *OF_NOTES]))
        return self._write(name, rows.filter(pa.array(~is_gone)), part), part

    def _write(self, name: str, rows: pa.Table, part: str) -> list[StoredFile]:
        """Write rows as they are stored."""
        known = INGESTED.get(name)
        layout = TableLayout(self._run.schema(name), (), None, *((known.dictionaries, known.searched) if known else ()))
        output = TableOutput(self._run.place(name), part, layout, self._settings, begun=self._file_counts[name, part])
        for batch in rows.combine_chunks().to_batches():
            output.add_stored(batch)
        files = output.close()
        self._file_counts[name, part] += len(files)
        return files

    # -- tables of the ingest

    def _cut_ingested(self) -> None:
        numbers = flow_numbers(pa.concat_tables(self._hops)) if self._hops else set()
        keys = pa.array(sorted({number[0] for number in numbers}), pa.binary())
        for name, mask in (
            (MESSAGES_TABLE.name, self._of_messages(numbers, keys)),
            (QUARANTINE, self._of_others),
            (SIGHTINGS, self._of_sightings),
        ):
            self._cut_parts(name, mask)

    def _cut_parts(self, name: str, mask: Mask) -> None:
        run, leaving = self._run, self._leaving
        known = run.ranges_before(name, "seen_at_ns")
        floor = max(leaving.floor_seen_ns, leaving.others_before_ns)
        kept: list[StoredFile] = []
        for file in run.files_before(name):
            span = [known[file.path]] if file.path in known else []
            if span and span[0][1] < leaving.floor_seen_ns:
                self._drop(name, file)
            elif (
                span
                and leaving.is_other is None
                and not self._is_near(span, leaving.first_seen_ns, leaving.last_seen_ns, floor)
            ):
                kept.append(file)
            else:
                kept += self._cut(name, [file], mask, self._renamed[file.part])[0]
        run.replace(name, kept)

    def _is_old(self, rows: pa.Table, limit: int) -> Bools:
        return ints(rows["seen_at_ns"]) < limit

    def _of_messages(self, numbers: Collection[Any], keys: pa.Array) -> Mask:
        def mask(rows: pa.Table) -> Bools:
            found = self._is_old(rows, self._leaving.floor_seen_ns)
            near = np.flatnonzero(bools(pc.is_in(rows["message_key"], keys)))
            some = rows.select(list(NUMBER)).take(pa.array(near))
            own = zip(*(some[name].to_pylist() for name in NUMBER), strict=True)
            found[near] |= np.fromiter((number in numbers for number in own), np.bool_, len(near))
            return found

        return mask

    def _of_others(self, rows: pa.Table) -> Bools:
        found = self._is_old(rows, self._leaving.others_before_ns)
        if self._leaving.is_other is not None:
            found = found | self._leaving.is_other(rows)
        if found.any():
            self._others.update(_keys(rows.filter(pa.array(found))))
        return found

    @cached_property
    def _left(self) -> set[Any]:
        return {key for table in self._gone.messages for key in _keys(table)} | self._others

    def _of_sightings(self, rows: pa.Table) -> Bools:
        """Which sightings are those of messages that have left, or of others that have."""
        is_skip = bools(pc.equal(rows["direction"], "skipped"))
        found = self._is_old(rows, self._leaving.floor_seen_ns)
        found |= is_skip & self._is_old(rows, self._leaving.others_before_ns)
        if self._leaving.is_other is not None:
            found |= is_skip & self._leaving.is_other(rows)
        return found | np.fromiter((key in self._left for key in _keys(rows)), np.bool_, len(rows))

    def _check(self) -> None:
        """Refuse to go on if sightings and hops do not lose the same."""
        found = self._gone.rows[MESSAGES_TABLE.name]
        if found != self._linked:
            said = f"found {found:,} sightings of the flows that leave, expected {self._linked:,}"
            raise LakeError(f"{self._run.lake}: {said}; build the lake anew from captures; nothing was done")
        others = self._gone.rows[QUARANTINE] + sum(each["skipped_rows"] for each in self._gone.skipped.values())
        if self._gone.rows[SIGHTINGS] != found + others:
            raise LakeError(f"{self._run.lake}: its sightings do not add up; build the lake anew; nothing was done")

    # -- minutes

    def _make_minutes(self, carried: Carried) -> None:
        if not self._gone.rows["silver.hops"]:
            return
        floor = self._leaving.floor_ns // NS_PER_MINUTE
        hops = crossings_in(pa.concat_tables(self._hops)) if self._hops else None
        found: set[int] = {floor} if self._leaving.floor_ns > 0 else set()
        if hops is not None:
            found |= {int(each) for times in (BY_DEPARTURE, BY_ARRIVAL) for each in minutes_by(hops, *times)}
        minutes = {minute for minute in found if minute >= floor}
        stay = crossings_in(self._near("silver.hops", OF_HOPS, minutes, "left_at_ns", "arrived_at_ns"))
        wanted = pa.array(sorted(minutes), pa.int64())

        def within(*times: str) -> pa.Table:
            return stay.filter(pc.is_in(pa.array(minutes_by(stay, *times)), wanted)).combine_chunks()

        signed = {identity for identity, count in carried.signed if count}
        self._put_minutes("gold.links", links_of(within(*BY_DEPARTURE)), minutes, floor)
        self._put_minutes("gold.security", security_of(within(*BY_ARRIVAL), signed), minutes, floor)
        asked = {int(each) for rows in self._requests for each in minutes_asked(rows)}
        minutes = {minute for minute in asked | found if minute >= floor}
        rows = self._near("gold.requests", OF_REQUESTS, minutes, "asked_at_ns")
        rows = rows.filter(pc.is_in(pa.array(minutes_asked(rows)), pa.array(sorted(minutes), pa.int64())))
        self._put_minutes("gold.latencies", latencies_of(rows.combine_chunks()), minutes, floor)

    def _near(self, name: str, columns: Sequence[str], minutes: Collection[int], *times: str) -> pa.Table:
        """The rows that stay of files that may have rows of these minutes."""
        if not minutes:
            return rows_in(self._run, name, columns, [])
        first, last = min(minutes) * NS_PER_MINUTE, (max(minutes) + 1) * NS_PER_MINUTE
        known = [self._run.ranges_before(name, column) for column in times]

        def may_have(file: StoredFile) -> bool:
            ranges = [each[file.path] for each in known if file.path in each]
            return not ranges or any(low < last and first <= high for low, high in ranges)

        return rows_in(self._run, name, columns, [file for file in self._run.files(name) if may_have(file)])

    def _put_minutes(self, name: str, rows: pa.Table, minutes: Collection[int], floor: int) -> None:
        run, table = self._run, all_tables()[name]
        known = run.ranges_before(name, "minute")
        times = pa.array([minute * MINUTE_US for minute in sorted(minutes)], pa.int64())
        kept: list[StoredFile] = []

        def mask(rows: pa.Table) -> Bools:
            minute = rows["minute"].cast(pa.int64())
            return bools(pc.or_(pc.less(minute, floor * MINUTE_US), pc.is_in(minute, times)))

        for file in run.files_before(name):
            low, high = (each // MINUTE_US for each in known.get(file.path, (NO_FLOOR, -NO_FLOOR)))
            if high < floor:
                self._drop(name, file)
            elif low >= floor and not any(low <= minute <= high for minute in minutes):
                kept.append(file)
            else:
                kept += self._cut(name, [file], mask, self._part())[0]
        run.replace(name, [*kept, *self._written(table, rows)])
        self._gone.rows[name] = run.before.tables[name].row_count - run.tables[name].stored.row_count

    # -- what the next step begins with

    def _take_open(self, carried: Carried) -> Carried:
        """Take open flows out of what the next step begins with; their crossings count as those of closed flows."""
        run = self._run
        rows = rows_in(run, OPEN_TABLE.name)
        is_gone = bools(pc.is_in(rows[FLOW_ID], self._leaving.flows))
        is_gone |= self._is_old(rows, self._leaving.floor_seen_ns)
        gone = rows.filter(pa.array(is_gone)).select(OPEN_TABLE.schema.names)
        self._put_crossings(carried, gone)
        stay = rows.filter(pa.array(~is_gone))
        if len(gone):
            run.replace(OPEN_TABLE.name, self._write(OPEN_TABLE.name, stay, self._part()))
        base = self._leaving.base
        fold = base if base and base.window > carried.fold.window else carried.fold
        counted = Counter(dict(carried.counted)) - Counter(crossings_of(gone.drop_columns([FLOW_ID])))
        found = CrossingColumns.of(stay.drop_columns([FLOW_ID])).without(counted)
        folded = Counter(found.where(found.window <= fold.window).all())
        return msgspec.structs.replace(carried, fold=fold, counted=list(counted.items()), folded=list(folded.items()))

    def _put_crossings(self, carried: Carried, gone: pa.Table) -> None:
        """Drop the crossings of old windows, and add those of open flows that leave."""
        run, name, window = self._run, CROSSINGS_TABLE.name, self._leaving.window
        known = run.ranges_before(name, "window")
        kept: list[StoredFile] = []
        for file in run.files_before(name):
            low, high = known.get(file.path, (NO_FLOOR, -NO_FLOOR))
            if high <= window:
                self._drop(name, file)
            elif low > window:
                kept.append(file)
            else:
                kept += self._cut(name, [file], lambda rows: ints(rows["window"]) <= window, self._part())[0]
        more = Counter(crossings_of(gone.drop_columns([FLOW_ID]))) - Counter(dict(carried.counted))
        left = [each for each in more.elements() if each.window > window]
        new = self._written(CROSSINGS_TABLE, rows_from_crossings(left, run.before.number + 1)) if left else []
        run.replace(name, [*kept, *new])

    def _written(self, table: Table, rows: pa.Table) -> list[StoredFile]:
        """Write rows with their readable columns."""
        output = TableOutput(self._run.place(table.name), self._part(), table.layout(self._names), self._settings)
        for batch in rows.select(table.schema.names).cast(table.schema).combine_chunks().to_batches():
            output.add(batch)
        return output.close()

    # -- counts

    def _sources(self, kind: str) -> dict[str, StoredSource]:
        """The sources, each with the rows that it lost and the parts that it has now."""
        there = {file.part for name in INGESTED for file in self._run.files(name)}
        found = {}
        for name, source in self._run.before.sources.items():
            parts = [each for part in source.parts for each in (part, self._renamed.get(part, "")) if each in there]
            changes: dict[str, Any] = {"parts": tuple(parts), kind: getattr(source, kind) + self._gone.sightings[name]}
            found[name] = msgspec.structs.replace(source, **changes)
        return found

    def _put_counts(self, carried: Carried) -> None:
        """Put gold.contracts, bronze.sources, gold.quality and what is carried over."""
        run = self._run
        parts = PART_SCHEMA.empty_table()
        for batch in self._batches(MESSAGES_TABLE.name, OF_MESSAGES):
            parts = added_parts([parts, parts_of(batch)])
        contracts = all_tables()["gold.contracts"]
        self._put_whole(contracts, pa.Table.from_pylist(contracts_of(parts), contracts.schema))
        carried = msgspec.structs.replace(carried, contracts=[tuple(row.values()) for row in parts.to_pylist()])
        self._put_whole(CARRIED_TABLE, rows_from_carried(carried))
        foreign = self._foreign()
        sources = pa.concat_tables([rows_of_sources(self._gone.sources, ()), foreign])
        write_rows(run, SOURCES_TABLE, hash_of(run.name), sources)
        self._put_quality(sources)

    def _foreign(self) -> pa.Table:
        """The rows of bronze.sources that are of no source of the lake: files that are no captures."""
        rows = rows_in(self._run, SOURCES_TABLE.name, SOURCES_TABLE.schema.names)
        known = pa.array(sorted(self._run.before.sources), pa.string())
        return rows.filter(pc.invert(pc.is_in(rows["segment"], known)))

    def _put_quality(self, sources: pa.Table) -> None:
        old = rows_in(self._run, "gold.quality").to_pylist()
        counts: dict[str, Counter[str]] = {}
        for row in (row for row in old if row["step"] == "decode"):
            names = ("message_count", "quarantine_count", "skipped_rows", "skipped")
            count = Counter({"bronze_count": row["rows_in"]} | {name: row[name] for name in names})
            count.subtract({column: self._gone.of_source[name][row["segment"]] for column, name in DECODED.items()})
            count.subtract(self._gone.skipped[row["segment"]])
            counts[row["segment"]] = count
        linked = next((row["rows_out"] for row in old if row["step"] == "link"), 0) - self._linked
        messages = sum(file.row_count for file in self._run.files(MESSAGES_TABLE.name))
        rows = quality_rows(sources, counts, spans_of(self._run).placed, (messages, linked))
        if bad := [row["segment"] for row in rows.to_pylist() if not row["is_balanced"]]:
            raise LakeError(
                f"{self._run.lake}: {bad[0] or 'the lake'} does not add up; nothing was done; please report it"
            )
        self._put_whole(all_tables()["gold.quality"], rows)

    def _put_whole(self, table: Table, rows: pa.Table) -> None:
        """Put rows in place of all rows of a table; the table counts as made from what is there now."""
        stored, files = self._run.before.tables[table.name], self._written(table, rows)
        basis, step = stored.basis, stored.step
        self._run.put(table.name, basis, table.stored_schema, files, made_from=table.reads, step=step)

    def _batches(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        for file in self._run.files(name):
            yield rows_in(self._run, name, columns, [file])


def _keys(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in SIGHTING_KEY), strict=True)
