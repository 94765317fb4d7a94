"""The closed flows of a lake, in its files: they are found by statistics, and rows that are opened again leave them.

`StoredFlows` is the closed part that a step goes on from (`flows/steps.py`). Flows that the run closes wait in memory
until its end. Flows of the lake stay where they are, and are read in three cases:

| case | what is read |
|---|---|
| is a flow of the new sightings closed? | a column of 8 bytes of silver.closed_flows, once in a process |
| who looks at a node of which captures now say something else? | silver.closed_flows, files with such horizons |
| a flow is opened again | the files of hops, requests and messages of its time |

The sightings of a closed flow are not stored twice: its hops say which rows of silver.messages they are.

The trap: sources without numbers may have two sightings of one number. So what is found is counted, and if there are
too many or too few sightings, the lake is judged as a whole (`WholeNeeded`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hopwire.columnar import Ints, ints
from hopwire.errors import WholeNeeded
from hopwire.flows.closing import HorizonColumns
from hopwire.flows.crossings import Crossing
from hopwire.flows.findings import Contract
from hopwire.flows.groups import NO_TIME
from hopwire.flows.hops import FLOW_ID
from hopwire.flows.steps import ClosedFlows, FlowTables, answered_in, unhandled_in
from hopwire.lake.kept_rows import kept_rows
from hopwire.lake.manifest import StoredFile
from hopwire.lake.silver.carried import Carried
from hopwire.lake.silver.closed_flows import CLOSED_TABLE, hashes_of
from hopwire.lake.silver.crossings import CROSSINGS_TABLE, crossings_from_rows
from hopwire.lake.silver.messages import MESSAGES_TABLE, OF_SIGHTINGS, with_route
from hopwire.lake.store import LakeRun, dataset_of, read_whole
from hopwire.lake.tables import Table, all_tables
from hopwire.lake.unreadable import UNREADABLE

__all__ = ["StoredFlows", "TableFiles"]

NUMBER = ("message_key", "node", "incarnation", "sequence")
TIMES_OF_HOPS = ("left_at_ns", "arrived_at_ns")
TIMES = {  # the columns whose statistics find the rows of a flow: each row has one of these times
    "silver.hops": TIMES_OF_HOPS,
    "gold.requests": ("last_seen_at_ns",),
    "gold.flows": ("started_at_ns",),
    CLOSED_TABLE.name: ("started_at_ns",),
}
MAX_KNOWN = 32_000_000  # hashes that a process keeps: 256 MB, the flows of more than an hour at the highest rate

_KNOWN_HASHES: dict[str, Ints] = {}  # of the files that the last step of each lake looked at, sorted


class TableFiles:
    """The files that a table had when the run began, without those of open flows."""

    def __init__(self, run: LakeRun, table: Table, *, is_new: bool = False) -> None:
        self._run, self.table = run, table
        stored = run.before.tables.get(table.name)
        step = stored.step if stored and not is_new else None
        all_files = [] if is_new else run.files_before(table.name)
        self.open = [file for file in all_files if step and file.part == step.open_part]
        self.closed = [file for file in all_files if file not in self.open]

    def about(self, numbers: Collection[int], *columns: str, unit: int = 1) -> list[StoredFile]:
        """Give the closed files that may have one of the numbers in one of the columns, which have this unit."""
        if not numbers:
            return []
        wanted = sorted(numbers)
        known = [self._run.ranges_before(self.table.name, column) for column in columns]

        def may_have(file: StoredFile) -> bool:
            ranges = [each[file.path] for each in known if file.path in each]
            return not ranges or any(_is_between(wanted, low // unit, high // unit) for low, high in ranges)

        return [file for file in self.closed if may_have(file)]

    def within(self, first: int, last: int, *columns: str) -> list[StoredFile]:
        """Give the closed files that may have a number between two in one of the columns."""
        known = [self._run.ranges_before(self.table.name, column) for column in columns]
        found = []
        for file in self.closed:
            ranges = [each[file.path] for each in known if file.path in each]
            if not ranges or any(low <= last and first <= high for low, high in ranges):
                found.append(file)
        return found

    def read(self, files: Sequence[StoredFile], columns: Iterable[str] | None = None, where: Any = None) -> pa.Table:
        """Read files, or some of their columns and rows."""
        names = self.table.schema.names if columns is None else list(columns)
        if not files:
            return self.table.schema.empty_table().select(names)
        if not all(self._run.has(self.table.name, file) for file in files):
            raise WholeNeeded(f"{self.table.name}: a file is not as it was written")
        if where is None and (kept := kept_rows(files)) is not None:
            return kept.select(names)
        try:
            data = dataset_of(self._run.log(self.table.name).place, files, self.table.stored_schema)
            return data.to_table(columns=names, filter=where)
        except UNREADABLE as error:
            raise WholeNeeded(f"{self.table.name}: a file cannot be read ({error})") from None

    def has_rows(self, file: StoredFile, where: Any) -> bool:
        """Tell whether a file has a row of some kind."""
        return len(self.read([file], self.table.key[:1], where)) > 0

    def path(self, file: StoredFile) -> str:
        """Give where a file lies: nothing else is ever written there."""
        return str(self._run.log(self.table.name).place / file.path)

    @property
    def place(self) -> str:
        """Where all files of the table lie."""
        return str(self._run.log(self.table.name).place)

    def numbers(self, file: StoredFile, column: str) -> Ints:
        """Read one column of numbers."""
        try:
            return ints(read_whole(self._run.log(self.table.name).place / file.path, [column])[column])
        except UNREADABLE as error:
            raise WholeNeeded(f"{self.table.name}: a file cannot be read ({error})") from None


def _is_between(numbers: Sequence[int], low: int, high: int) -> bool:
    place = bisect_left(numbers, low)
    return place < len(numbers) and numbers[place] <= high


class StoredFlows:
    """The closed flows of a lake, and those that a run closes."""

    def __init__(self, run: LakeRun, carried: Carried, nothing: FlowTables, *, limit: int, is_new: bool) -> None:
        self.fresh = ClosedFlows(nothing)
        self.gone: set[bytes] = set()  # flows of the lake that the run has opened
        self.gone_hops: list[pa.Table] = []
        self.gone_requests: list[pa.Table] = []
        self.gone_times: list[tuple[int, int]] = []  # from when to when hops of these flows are
        self._limit = limit  # sightings that may be opened in one run
        self._answered = Counter(dict(carried.closed_answered))
        self.unhandled_count = Counter(dict(carried.closed_unhandled))
        tables = all_tables()
        self.index, self.hops, self.requests, self.crossings, self.messages = (
            TableFiles(run, tables[name], is_new=is_new)
            for name in (CLOSED_TABLE.name, "silver.hops", "gold.requests", CROSSINGS_TABLE.name, MESSAGES_TABLE.name)
        )

    @property
    def answered(self) -> Counter[Contract]:
        """How many requests of each contract were answered, in flows that are here."""
        return self._answered + self.fresh.answered

    @property
    def stored_answered(self) -> Counter[Contract]:
        """The same, of flows that the lake had."""
        return self._answered

    def put(self, tables: FlowTables, known: HorizonColumns) -> None:
        """Add flows that are final."""
        self.fresh.put(tables, known)

    # -- finding

    def named(self, flows: set[bytes]) -> set[bytes]:
        """Give those of the flows that are here."""
        found = self.fresh.named(flows)
        rest = flows - found - self.gone
        return found | (rest & set(self._indexed(rest, [FLOW_ID])[FLOW_ID].to_pylist()))

    def _indexed(self, flows: set[bytes], columns: Iterable[str] | None = None) -> pa.Table:
        """The rows of silver.closed_flows of some flows."""
        wanted = np.sort(hashes_of(flows))
        files = [file for file, hashes in self._hashes if _have_common(wanted, hashes)]
        is_wanted = ds.field("flow_hash").isin(wanted.tolist()) & ds.field(FLOW_ID).isin(_names(flows))
        return self.index.read(files, columns, is_wanted)

    @cached_property
    def _hashes(self) -> list[tuple[StoredFile, Ints]]:
        known = {file: _KNOWN_HASHES.get(self.index.path(file)) for file in self.index.closed}
        read = {file: np.sort(self.index.numbers(file, "flow_hash")) for file, each in known.items() if each is None}
        found = [(file, read[file] if hashes is None else hashes) for file, hashes in known.items()]
        _keep_hashes(self.index.place, {self.index.path(file): hashes for file, hashes in found})
        return found

    def looking_at(self, since: Mapping[bytes, int]) -> set[bytes]:
        """Give the flows that look at a node at a time after one that is given for the node."""
        found = self.fresh.looking_at(since)
        if not since:
            return found
        first = min(since.values())
        files = self.index.within(first, 2**63 - 1, "horizon_ns")
        rows = self.index.read(files, [FLOW_ID, "horizon_ns", "nodes"], ds.field("horizon_ns") >= first)
        looking = {
            row[FLOW_ID]
            for row in rows.to_pylist()
            if any(since[node] <= row["horizon_ns"] for node in since.keys() & set(row["nodes"]))
        }
        return found | (looking - self.gone)

    def unhandled(self, identities: set[bytes]) -> set[bytes]:
        """Give the flows with a question of one of these contracts that nobody handled."""
        found = self.fresh.unhandled(identities)
        wanted = [each for each in sorted(identities) if self.unhandled_count[each]]
        if wanted:
            where = ds.field("is_unhandled") & ds.field("identity").isin(pa.array(wanted, pa.binary()))
            rows = self.requests.read(self.requests.closed, [FLOW_ID], where)
            found |= set(rows[FLOW_ID].to_pylist()) - self.gone
        return found

    def touching(self, nodes: set[bytes]) -> set[bytes]:
        """Give the flows of the lake that look at one of the nodes."""
        return self.looking_at(dict.fromkeys(nodes, NO_TIME)) if nodes else set()

    # -- opening

    def take(self, flows: set[bytes]) -> pa.Table:
        """Remove flows, and give their sightings."""
        here = self.fresh.named(flows)
        taken = self.fresh.take(here)
        return pa.concat_tables([taken, self._taken(flows - here)]) if flows - here else taken

    def sightings_of(self, flows: set[bytes]) -> pa.Table:
        """Give the sightings of flows of the lake; the flows stay where they are."""
        index = self._indexed(flows)
        return self._sightings(self._hops_of(flows, *_times(index)), index)

    def _hops_of(self, flows: set[bytes], first: int, last: int) -> pa.Table:
        is_wanted = ds.field(FLOW_ID).isin(_names(flows))
        return self.hops.read(self.hops.within(first, last, *TIMES_OF_HOPS), None, is_wanted)

    def _taken(self, flows: set[bytes]) -> pa.Table:
        index, is_wanted = self._indexed(flows), ds.field(FLOW_ID).isin(_names(flows))
        count = pc.sum(index["sighting_count"]).as_py() or 0
        if count > self._limit:
            raise WholeNeeded(f"{count:,} sightings of closed flows may change")
        self.gone |= flows
        first, last = _times(index)
        self.gone_times.append((first, last))
        hops = self._hops_of(flows, first, last)
        self.gone_hops.append(hops)
        asked = self.requests.read(self.requests.within(first, last, *TIMES["gold.requests"]), None, is_wanted)
        self.gone_requests.append(asked)
        self._answered -= answered_in(asked)
        self.unhandled_count -= Counter(unhandled_in(asked)["identity"].to_pylist())
        return self._sightings(hops, index)

    def _sightings(self, hops: pa.Table, index: pa.Table) -> pa.Table:
        """Find the sightings that hops are made of, with their flows."""
        first, last = pc.min(index["first_seen_at_ns"]).as_py(), pc.max(index["last_seen_at_ns"]).as_py()
        keys = pc.unique(hops["message_key"].combine_chunks())
        files = self.messages.within(first, last, "seen_at_ns")
        where = (
            ds.field("message_key").isin(keys) & (ds.field("seen_at_ns") >= first) & (ds.field("seen_at_ns") <= last)
        )
        rows = with_route(self.messages.read(files, [*OF_SIGHTINGS, "routing"], where).combine_chunks())
        flow_of = _flows_by_number(hops)
        flows = [flow_of.get(number) for number in _numbers(rows, *NUMBER)]
        found = rows.append_column(FLOW_ID, pa.array(flows, pa.binary()))
        found = found.filter(pc.is_valid(found[FLOW_ID]))
        count = pc.sum(index["sighting_count"]).as_py() or 0
        if len(found) != count:
            raise WholeNeeded(f"found {len(found):,} sightings of closed flows, expected {count:,}")
        return found

    def files_of_gone(self, files: TableFiles) -> list[StoredFile]:
        """Give the files of a table that may have rows of flows that the run has opened."""
        found = {
            file.path: file
            for first, last in self.gone_times
            for file in files.within(first, last, *TIMES[files.table.name])
        }
        return list(found.values())

    # -- crossings

    def crossings_after(self, window: int) -> list[Crossing]:
        """Give the quickest crossings of later windows, of flows that are here or were here."""
        files = self.crossings.within(window + 1, 2**63 - 1, "window")
        rows = self.crossings.read(files, None, ds.field("window") > window)
        return [*crossings_from_rows(rows), *self.fresh.crossings_after(window)]

    def count(self, crossings: Iterable[Crossing]) -> None:
        """Add crossings of flows that are put here."""
        self.fresh.count(crossings)

    def count_again(self) -> None:
        """Find the crossings of the flows that are here anew: no step does this."""
        raise WholeNeeded("a message came again, and a crossing of a closed flow may be mistaken")


def _keep_hashes(place: str, found: Mapping[str, Ints]) -> None:
    """Keep the hashes of all files of a lake, and those of other lakes of this process while there is room."""
    others = {path: hashes for path, hashes in _KNOWN_HASHES.items() if not path.startswith(f"{place}/")}
    _KNOWN_HASHES.clear()
    left = MAX_KNOWN
    for path, hashes in (*found.items(), *others.items()):  # the last lake first
        left -= len(hashes)
        if left >= 0:
            _KNOWN_HASHES[path] = hashes


def _times(index: pa.Table) -> tuple[int, int]:
    """Give from when to when hops of flows are, corrected."""
    return pc.min(index["started_at_ns"]).as_py(), pc.max(index["ended_at_ns"]).as_py()


def _names(flows: set[bytes]) -> pa.Array:
    return pa.array(sorted(flows), pa.binary())


def _have_common(one: Ints, other: Ints) -> bool:
    """Tell whether a number is among some and among others; both are sorted, and the fewer are looked up."""
    few, many = (one, other) if len(one) < len(other) else (other, one)
    if not len(few):
        return False
    place = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return bool((many[place] == few).any())


def _flows_by_number(hops: pa.Table) -> dict[tuple[Any, ...], bytes]:
    """Give the flows of the sightings that hops are made of, by the numbers of these."""
    found: dict[tuple[Any, ...], bytes] = {}
    for node, end in (("from_node", "left"), ("to_node", "arrived")):
        rows = hops.filter(pc.is_valid(hops[f"{end}_sequence"]))
        numbers = _numbers(rows, "message_key", node, f"{end}_incarnation", f"{end}_sequence")
        found.update(zip(numbers, rows[FLOW_ID].to_pylist(), strict=True))
    return found


def _numbers(rows: pa.Table, *columns: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in columns), strict=True)
