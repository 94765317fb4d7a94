"""A step: what was known before, and new sightings, to what is known then. A step reads what is new and what is open.

Every table has a closed part, which only grows, and an open part, which each step makes anew.

1. New sightings are laid beside the sightings of open flows.
2. The clocks are folded on (`clocks.py`), and the coverage is laid out (`spans.py`).
3. Closed flows that this may change are opened again: those with a new sighting, and those that look at a node at a
   time of which the captures now say something else (`closing.py`). In captures that come in order there are none.
4. All open flows are judged: hops, requests, flows. If a contract is answered for the first time, closed flows with
   a question of it that nobody handled are opened again: the finding `unknown_version` looks at all requests.
5. Flows that are final are closed.

Where closed flows lie is behind one door, `ClosedPart`: in memory (`ClosedFlows`), or in the files of a lake.

The law: the tables are the same, row for row, however the captures were cut into steps, and in whatever order the steps
came. So every verdict is a function of the sightings, and never of the step that first saw them.

The trap: a message that comes again may prove that a crossing of a closed flow could have been mistaken. Then the
crossings of all closed flows are found anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import bools
from hopwire.flows.clocks import ClockFold, rows_from_clocks
from hopwire.flows.closing import MINUTE_BYTES, Frontier, HorizonColumns, changed_since, final_horizons, minutes_in
from hopwire.flows.coverage import Coverage, coverage_from_rows
from hopwire.flows.crossings import WINDOW_NS, Crossing, CrossingColumns, crossings_of, quickest, window_of
from hopwire.flows.findings import Contract, Known
from hopwire.flows.groups import NEVER, codes, in_order
from hopwire.flows.hops import FLOW_ID, link, with_flow_ids
from hopwire.flows.matching import read_sightings
from hopwire.flows.oversized import flows_of, requests_of
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import CLOCK_SCHEMA, FLOW_SCHEMA, HOP_SCHEMA, REQUEST_SCHEMA
from hopwire.flows.spans import PlacedSpan, SourceSpan, joined_spans, placed
from hopwire.model.units import NS_PER_MINUTE

__all__ = [
    "ALONE",
    "CONTRACT",
    "ClosedFlows",
    "ClosedPart",
    "FlowTables",
    "JudgedParts",
    "StepState",
    "advance",
    "answered_in",
    "begin",
    "judge_sightings",
    "step",
    "unhandled_in",
]

SIGHTING = ("node", "incarnation", "sequence")
SEEN = ("left_incarnation", "left_sequence", "arrived_incarnation", "arrived_sequence")


@dataclass(frozen=True)
class FlowTables:
    """Flows with all that belongs to them: their sightings, hops and requests."""

    sightings: pa.Table
    hops: pa.Table = field(default_factory=HOP_SCHEMA.empty_table)
    requests: pa.Table = field(default_factory=REQUEST_SCHEMA.empty_table)
    flows: pa.Table = field(default_factory=FLOW_SCHEMA.empty_table)

    def parted(self, flows: pa.Array) -> tuple[FlowTables, FlowTables]:
        """Give the rows of some flows, and the rows of all others."""
        tables = (self.sightings, self.hops, self.requests, self.flows)
        masks = [pc.is_in(table[FLOW_ID], flows) for table in tables]
        some = (table.filter(mask) for table, mask in zip(tables, masks, strict=True))
        others = (table.filter(pc.invert(mask)) for table, mask in zip(tables, masks, strict=True))
        return FlowTables(*some), FlowTables(*others)

    def plus(self, *others: FlowTables) -> FlowTables:
        """Give the rows of all."""
        tables = [(each.sightings, each.hops, each.requests, each.flows) for each in (self, *others)]
        return FlowTables(*(pa.concat_tables(some) for some in zip(*tables, strict=True)))


CONTRACT = ["identity", "version", "version_raw"]
ANSWERED = pa.array(["answered", "late"])


def answered_in(requests: pa.Table) -> Counter[Contract]:
    """Count the requests that were answered, by contract."""
    rows = requests.filter(pc.is_in(requests["outcome"], ANSWERED)).group_by(CONTRACT).aggregate([([], "count_all")])
    return Counter({tuple(row[name] for name in CONTRACT): row["count_all"] for row in rows.to_pylist()})


def unhandled_in(requests: pa.Table) -> pa.Table:
    """Give the requests that arrived, and nothing followed."""
    return requests.filter(requests["is_unhandled"])


class ClosedPart(Protocol):
    """The closed part of all tables: rows are put behind one another, and seldom taken back."""

    @property
    def answered(self) -> Counter[Contract]:
        """How many requests of each contract were answered, in flows that are here."""

    def put(self, tables: FlowTables, known: HorizonColumns) -> None:
        """Add flows that are final."""

    def named(self, flows: set[bytes]) -> set[bytes]:
        """Give those of the flows that are here."""

    def looking_at(self, since: Mapping[bytes, int]) -> set[bytes]:
        """Give the flows that look at a node at a time after one that is given for the node."""

    def unhandled(self, identities: set[bytes]) -> set[bytes]:
        """Give the flows with a question of one of these contracts that nobody handled."""

    def take(self, flows: set[bytes]) -> pa.Table:
        """Remove flows, and give their sightings."""

    def crossings_after(self, window: int) -> list[Crossing]:
        """Give the quickest crossings of later windows, of flows that are here or were here."""

    def count(self, crossings: Iterable[Crossing]) -> None:
        """Add crossings of flows that are put here."""

    def count_again(self) -> None:
        """Find the crossings of the flows that are here anew."""


class ClosedFlows:
    """The closed part of all tables, in memory."""

    def __init__(self, nothing: FlowTables) -> None:
        self._nothing = nothing
        self._parts: dict[int, FlowTables] = {}
        self._part_of: dict[bytes, int] = {}
        self._horizons: dict[int, HorizonColumns] = {}  # of the flows of each part
        self._windows: dict[int, list[Crossing]] = {}  # the quickest crossings of each window
        self._count = 0
        self.answered: Counter[Contract] = Counter()

    @property
    def tables(self) -> FlowTables:
        """All rows."""
        return self._nothing.plus(*self._parts.values())

    def put(self, tables: FlowTables, known: HorizonColumns) -> None:
        """Add flows that are final."""
        if not len(known.flows):
            return
        self._count += 1
        self._parts[self._count] = tables
        self.answered += answered_in(tables.requests)
        self._part_of |= dict.fromkeys(known.flows.to_pylist(), self._count)
        self._horizons[self._count] = known

    def named(self, flows: set[bytes]) -> set[bytes]:
        """Give those of the flows that are here."""
        return {flow for flow in flows if flow in self._part_of}

    def looking_at(self, since: Mapping[bytes, int]) -> set[bytes]:
        """Give the flows that look at a node at a time after one that is given for the node."""
        first = min(since.values(), default=NEVER)
        return {flow for known in self._horizons.values() for flow in known.looking_at(since, first)}

    def unhandled(self, identities: set[bytes]) -> set[bytes]:
        """Give the flows with a question of one of these contracts that nobody handled."""
        wanted = pa.array(sorted(identities), pa.binary())
        found: set[bytes] = set()
        for part in self._parts.values():
            rows = unhandled_in(part.requests)
            found.update(rows.filter(pc.is_in(rows["identity"], wanted))[FLOW_ID].to_pylist())
        return found

    def horizons(self) -> HorizonColumns:
        """Give the horizons of all flows."""
        return HorizonColumns.joined(self._horizons.values())

    def windows(self) -> list[Crossing]:
        """Give the quickest crossings of all windows."""
        return [each for known in self._windows.values() for each in known]

    def take(self, flows: set[bytes]) -> pa.Table:
        """Remove flows, and give their sightings."""
        names = pa.array(sorted(flows), pa.binary())
        taken = []
        for part in {self._part_of.pop(flow) for flow in flows}:
            rows = self._parts[part]
            out, self._parts[part] = rows.parted(names)
            self.answered -= answered_in(out.requests)
            taken.append(out.sightings)
            known = self._horizons[part]
            self._horizons[part] = known.where(~bools(pc.is_in(known.flows, names)))
        return pa.concat_tables([self._nothing.sightings, *taken])

    def crossings_after(self, window: int) -> list[Crossing]:
        """Give the quickest crossings of later windows, of flows that are here or were here."""
        return [each for own, known in self._windows.items() if own > window for each in known]

    def count(self, crossings: Iterable[Crossing]) -> None:
        """Add crossings of flows that are put here."""
        for window, some in groupby(sorted(crossings, key=window_of), key=window_of):
            self._windows[window] = quickest([*self._windows.get(window, ()), *some])

    def count_again(self) -> None:
        """Find the crossings of the flows that are here anew."""
        self._windows = {}
        self.count(crossings_of(self.tables.sightings))


def _one_by_one(work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    return [work(part) for part in parts]


@dataclass(frozen=True)
class JudgedParts:
    """How judging is shared: flows in so many parts, each by itself, by who does the same to many things."""

    count: int = 1
    each: Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]] = _one_by_one
    least_rows: int = 20_000  # sightings of a part: fewer are not worth the parting

    def parts(self, rows: pa.Table) -> list[pa.Table]:
        """Give sightings with their flows in parts; a flow is in one part."""
        count = min(self.count, len(rows) // self.least_rows)
        if count < 2:
            return [rows]
        (flow,), names = codes(rows[FLOW_ID])
        part = flow * count // len(names)
        return [rows.filter(pa.array(part == number)) for number in range(count)]


ALONE = JudgedParts()


@dataclass(frozen=True)
class StepState:
    """What is known after a step; the closed flows are those of the last step."""

    rules: Rules
    open: FlowTables
    closed: ClosedPart
    parts: tuple[SourceSpan, ...] = ()  # of the sources, as they came
    counted: Counter[Crossing] = field(default_factory=Counter)  # crossings of open flows that count as of closed ones
    base: ClockFold = field(default_factory=ClockFold)  # the clocks as far as crossings are gone: folding begins here
    fold: ClockFold = field(default_factory=ClockFold)  # the clocks up to a window that is complete, as it seems
    folded: Counter[Crossing] = field(default_factory=Counter)  # crossings of open flows in this fold
    clocks: pa.Table = field(default_factory=CLOCK_SCHEMA.empty_table)
    coverage: Coverage = field(default_factory=Coverage)
    answered: frozenset[Contract] = frozenset()  # contracts that somebody answered


def begin(sightings: pa.Schema, rules: Rules, closed: ClosedPart | None = None) -> StepState:
    """Give the state before the first step."""
    nothing = FlowTables(sightings.append(pa.field(FLOW_ID, pa.binary())).empty_table())
    return StepState(rules, nothing, closed or ClosedFlows(nothing))


def step(state: StepState, sightings: pa.Table, spans: Iterable[SourceSpan], share: JudgedParts = ALONE) -> StepState:
    """Take in new sightings, and the spans of the sources that they are from."""
    state = replace(state, parts=_together((*state.parts, *spans)))
    return advance(state, sightings, placed(joined_spans(state.parts)), share=share)


def advance(
    state: StepState,
    sightings: pa.Table,
    known: Sequence[PlacedSpan],
    again: Iterable[bytes] = (),
    share: JudgedParts = ALONE,
    most_waiting: int = NEVER,
) -> StepState:
    """Take in new sightings; the spans of all sources are known, and some closed flows are to be opened again.

    Flows wait for clocks that boot, as long as no more sightings than `most_waiting` are judged at a time. Where there
    are more, such flows are closed, and opened again if their clocks turn out to be others.
    """
    old, rules = len(state.open.sightings), state.rules
    rows = pa.concat_tables([state.open.sightings.drop_columns([FLOW_ID]), sightings])
    wanted, still = set(again), set(pc.unique(state.open.sightings[FLOW_ID]).to_pylist())
    while True:
        state, fold = _folded(state, rows, known)
        clocks = rows_from_clocks(known, fold.clocks())
        coverage = coverage_from_rows(clocks)
        opening = wanted | state.closed.looking_at(changed_since(state.coverage, coverage))
        of_flows = with_flow_ids(rows, coverage, state.rules)
        new = of_flows.slice(old, len(sightings))
        opening |= state.closed.named(_flows_of(of_flows, new, coverage, state.rules) - still)
        if not opening:
            judged = share.each(partial(judge_sightings, coverage=coverage, rules=rules), share.parts(of_flows))
            answered = frozenset(sum((answered_in(part.requests) for part in judged), state.closed.answered))
            changed = {contract[0] for contract in answered ^ state.answered}
            opening = state.closed.unhandled(changed) if changed else set()
        if not opening:
            break
        taken, wanted = state.closed.take(opening), set()
        state = replace(state, counted=state.counted + Counter(crossings_of(taken)))
        rows = pa.concat_tables([rows, taken.drop_columns([FLOW_ID])])
    booting = fold.booting if len(rows) <= most_waiting else ()
    facts, frontier = Known(coverage, rules, answered), Frontier.of(coverage, booting, rules)
    ended = share.each(partial(_Ended.of, known=facts, frontier=frontier), judged)
    return _closed(replace(state, clocks=clocks, coverage=coverage, answered=answered), ended)


def _place(span: SourceSpan) -> tuple[str, bytes, int, int]:
    return span.segment, span.node, span.incarnation, span.first_sequence


def _together(parts: Iterable[SourceSpan]) -> tuple[SourceSpan, ...]:
    """Give the parts of sources in order, and as one where they follow one another."""
    found: list[SourceSpan] = []
    for part in sorted(parts, key=_place):
        before = found[-1] if found else None
        if before and _place(before)[:3] == _place(part)[:3] and before.last_sequence + 1 == part.first_sequence:
            found[-1:] = joined_spans([before, part])
        else:
            found.append(part)
    return tuple(found)


# -- clocks


def _folded(state: StepState, rows: pa.Table, known: Sequence[PlacedSpan]) -> tuple[StepState, ClockFold]:
    """Fold the clocks on, from the last window that was complete; from the base, if it was not complete after all."""
    found = CrossingColumns.of(rows)
    if state.counted and state.counted - Counter(found.all()):  # a crossing of a closed flow does not count any more
        state.closed.count_again()
        state = replace(state, counted=Counter(), fold=state.base.copy(), folded=Counter())
    found = found.without(state.counted)
    if _until(found, state.fold.window) != state.folded:
        state = replace(state, fold=state.base.copy(), folded=Counter())
    since, end = state.fold.window, max(state.fold.window, _complete_window(known, state))
    later = quickest([*state.closed.crossings_after(since), *found.where(found.window > since).quickest().all()])
    fold = state.fold.copy()
    fold.nodes |= {each.span.node for each in known}
    fold.add(each for each in later if each.window <= end)
    fold.window = end
    state = replace(state, fold=fold.copy(), folded=_until(found, end))
    fold.add(each for each in later if each.window > end)
    return state, fold


def _until(crossings: CrossingColumns, window: int) -> Counter[Crossing]:
    return Counter(crossings.where(crossings.window <= window).all())


def _complete_window(known: Sequence[PlacedSpan], state: StepState) -> int:
    """Give the last window that every node has seen the end of, by its own clock; who is silent for long is left out.

    A was seen until 100 s, B until 95 s, and C until 20 s: the window until 20 s is complete. After 620 s of A: the
    last window that A and B have seen the end of. If C comes back and tells of 30 s, the clocks are folded anew.
    """
    last: dict[bytes, int] = {}
    for each in known:
        last[each.span.node] = max(each.span.last_seen_at_ns, last.get(each.span.node, 0))
    ahead = state.coverage.offsets_ns
    limit = max((at - ahead.get(node, 0) for node, at in last.items()), default=0) - state.rules.silence_ns
    return min((at for node, at in last.items() if at - ahead.get(node, 0) >= limit), default=0) // WINDOW_NS - 1


# -- opening


def _flows_of(rows: pa.Table, new: pa.Table, coverage: Coverage, rules: Rules) -> set[bytes]:
    """Give the flows of sightings; of new ones near the end of a minute of equal messages also the other minute."""
    found = set(pc.unique(rows[FLOW_ID]).to_pylist())
    at = read_sightings(new, coverage).at
    for row, minute in minutes_in(new):
        key = new["message_key"][row].as_py()
        for other, edge in ((minute - 1, minute), (minute + 1, minute + 1)):
            if abs(int(at[row]) - edge * NS_PER_MINUTE) <= 2 * rules.patience_ns:
                found.add(key + other.to_bytes(MINUTE_BYTES, signed=True))
    return found


# -- judging and closing


def judge_sightings(rows: pa.Table, coverage: Coverage, rules: Rules) -> FlowTables:
    """Give the hops and requests of sightings with their flows; the flows are judged when all requests are known."""
    rows = in_order(rows, FLOW_ID, "message_key", "seen_at_ns", *SIGHTING)
    hops = _in_order(link(rows, coverage, rules))
    requests = requests_of(hops, coverage, rules)
    return FlowTables(rows, hops, requests)


def _in_order(hops: pa.Table) -> pa.Table:
    """Give hops by flow and time; equal times come in the same order always."""
    at = pc.coalesce(hops["left_at_ns"], hops["arrived_at_ns"])
    rows = in_order(hops.append_column("at", at), FLOW_ID, "at", "from_node", "to_node", *SEEN, "message_key")
    return rows.drop_columns(["at"])


@dataclass(frozen=True)
class _Ended:
    """Flows that were judged: those that are final with their horizons, and the others."""

    final: HorizonColumns
    closing: FlowTables
    open: FlowTables
    crossings: CrossingColumns  # of flows that are final

    @classmethod
    def of(cls, judged: FlowTables, known: Known, frontier: Frontier) -> _Ended:
        """Judge the flows of hops and requests, and find those that are final."""
        tables = replace(judged, flows=flows_of(judged.hops, judged.requests, known))
        final = final_horizons(tables.hops, tables.requests, known.rules, frontier)
        closing, still = tables.parted(final.flows)
        return cls(final, closing, still, CrossingColumns.of(closing.sightings))


def _closed(state: StepState, parts: Sequence[_Ended]) -> StepState:
    """Close the flows that are final, and keep the others open."""
    counted, folded = state.counted, state.folded
    for part in parts:
        state.closed.put(part.closing, part.final)
        more = part.crossings.without(counted)
        state.closed.count(more.quickest().all())
        counted = counted - Counter(part.crossings.all()) if counted else counted
        folded = folded - _until(more, state.fold.window)
    first, *others = (part.open for part in parts)
    return replace(state, open=first.plus(*others), counted=counted, folded=folded)
