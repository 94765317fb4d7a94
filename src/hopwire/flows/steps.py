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
from itertools import groupby
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.flows.clocks import ClockFold, rows_from_clocks
from hopwire.flows.closing import MINUTE_BYTES, Frontier, Horizon, changed_since, horizons, minutes_in
from hopwire.flows.coverage import Coverage, coverage_from_rows
from hopwire.flows.crossings import WINDOW_NS, Crossing, crossings_of, quickest, window_of
from hopwire.flows.findings import Contract, Known
from hopwire.flows.flows import judge_flows
from hopwire.flows.groups import NEVER, in_order
from hopwire.flows.hops import FLOW_ID, link, with_flow_ids
from hopwire.flows.matching import read_sightings
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import CLOCK_SCHEMA, FLOW_SCHEMA, HOP_SCHEMA, REQUEST_SCHEMA
from hopwire.flows.spans import PlacedSpan, SourceSpan, joined_spans, placed
from hopwire.model.units import NS_PER_MINUTE

__all__ = [
    "CONTRACT",
    "ClosedFlows",
    "ClosedPart",
    "FlowTables",
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

    def where(self, is_kept: Callable[[pa.ChunkedArray], pa.Array]) -> FlowTables:
        """Give the rows whose flow is marked."""
        tables = (self.sightings, self.hops, self.requests, self.flows)
        return FlowTables(*(table.filter(is_kept(table[FLOW_ID])) for table in tables))

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

    def put(self, tables: FlowTables, known: Mapping[bytes, Horizon]) -> None:
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
        self._minutes: dict[int, dict[bytes, Horizon]] = {}  # flows by the minute of their horizon
        self._windows: dict[int, list[Crossing]] = {}  # the quickest crossings of each window
        self._count = 0
        self.answered: Counter[Contract] = Counter()

    @property
    def tables(self) -> FlowTables:
        """All rows."""
        return self._nothing.plus(*self._parts.values())

    def put(self, tables: FlowTables, known: Mapping[bytes, Horizon]) -> None:
        """Add flows that are final."""
        if not known:
            return
        self._count += 1
        self._parts[self._count] = tables
        self.answered += answered_in(tables.requests)
        self._part_of |= dict.fromkeys(known, self._count)
        for flow, horizon in known.items():
            self._minutes.setdefault(horizon.until_ns // NS_PER_MINUTE, {})[flow] = horizon

    def named(self, flows: set[bytes]) -> set[bytes]:
        """Give those of the flows that are here."""
        return {flow for flow in flows if flow in self._part_of}

    def looking_at(self, since: Mapping[bytes, int]) -> set[bytes]:
        """Give the flows that look at a node at a time after one that is given for the node."""
        first = min(since.values(), default=NEVER) // NS_PER_MINUTE
        return {
            flow
            for minute in [minute for minute in self._minutes if minute >= first]
            for flow, horizon in self._minutes[minute].items()
            if any(since[node] <= horizon.until_ns for node in since.keys() & horizon.nodes)
        }

    def unhandled(self, identities: set[bytes]) -> set[bytes]:
        """Give the flows with a question of one of these contracts that nobody handled."""
        wanted = pa.array(sorted(identities), pa.binary())
        found: set[bytes] = set()
        for part in self._parts.values():
            rows = unhandled_in(part.requests)
            found.update(rows.filter(pc.is_in(rows["identity"], wanted))[FLOW_ID].to_pylist())
        return found

    def horizons(self) -> dict[bytes, Horizon]:
        """Give the horizons of all flows."""
        return {flow: horizon for known in self._minutes.values() for flow, horizon in known.items()}

    def windows(self) -> list[Crossing]:
        """Give the quickest crossings of all windows."""
        return [each for known in self._windows.values() for each in known]

    def take(self, flows: set[bytes]) -> pa.Table:
        """Remove flows, and give their sightings."""
        names = pa.array(sorted(flows), pa.binary())
        taken = []
        for part in {self._part_of.pop(flow) for flow in flows}:
            rows = self._parts[part]
            out = rows.where(lambda flow: pc.is_in(flow, names))
            self.answered -= answered_in(out.requests)
            taken.append(out.sightings)
            self._parts[part] = rows.where(lambda flow: pc.invert(pc.is_in(flow, names)))
        for known in self._minutes.values():
            for flow in flows & known.keys():
                del known[flow]
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


def step(state: StepState, sightings: pa.Table, spans: Iterable[SourceSpan]) -> StepState:
    """Take in new sightings, and the spans of the sources that they are from."""
    state = replace(state, parts=_together((*state.parts, *spans)))
    return advance(state, sightings, placed(joined_spans(state.parts)))


def advance(
    state: StepState, sightings: pa.Table, known: Sequence[PlacedSpan], again: Iterable[bytes] = ()
) -> StepState:
    """Take in new sightings; the spans of all sources are known, and some closed flows are to be opened again."""
    old = len(state.open.sightings)
    rows = pa.concat_tables([state.open.sightings.drop_columns([FLOW_ID]), sightings])
    wanted = set(again)
    while True:
        state, fold = _folded(state, rows, known)
        clocks = rows_from_clocks(known, fold.clocks())
        coverage = coverage_from_rows(clocks)
        opening = wanted | state.closed.looking_at(changed_since(state.coverage, coverage))
        of_flows = with_flow_ids(rows, coverage, state.rules)
        new = of_flows.slice(old, len(sightings))
        opening |= state.closed.named(_flows_of(of_flows, new, coverage, state.rules))
        if not opening:
            judged = judge_sightings(of_flows, coverage, state.rules)
            answered = frozenset(state.closed.answered + answered_in(judged.requests))
            changed = {contract[0] for contract in answered ^ state.answered}
            opening = state.closed.unhandled(changed) if changed else set()
        if not opening:
            break
        taken, wanted = state.closed.take(opening), set()
        state = replace(state, counted=state.counted + Counter(crossings_of(taken)))
        rows = pa.concat_tables([rows, taken.drop_columns([FLOW_ID])])
    flows = judge_flows(judged.hops, judged.requests, Known(coverage, state.rules, answered))
    state = replace(state, clocks=clocks, coverage=coverage, answered=answered)
    return _closed(state, replace(judged, flows=flows), fold)


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
    found = Counter(crossings_of(rows))
    if state.counted - found:  # a crossing of a flow that was closed does not count any more
        state.closed.count_again()
        state = replace(state, counted=Counter(), fold=state.base.copy(), folded=Counter())
    found -= state.counted
    if _until(found, state.fold.window) != state.folded:
        state = replace(state, fold=state.base.copy(), folded=Counter())
    since, end = state.fold.window, max(state.fold.window, _complete_window(known, state))
    newer = (each for each in found.elements() if each.window > since)
    later = quickest([*state.closed.crossings_after(since), *newer])
    fold = state.fold.copy()
    fold.nodes |= {each.span.node for each in known}
    fold.add(each for each in later if each.window <= end)
    fold.window = end
    state = replace(state, fold=fold.copy(), folded=_until(found, end))
    fold.add(each for each in later if each.window > end)
    return state, fold


def _until(crossings: Counter[Crossing], window: int) -> Counter[Crossing]:
    return Counter({each: count for each, count in crossings.items() if each.window <= window})


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
    requests = judge_requests(hops, coverage, rules)
    return FlowTables(rows, hops, requests)


def _in_order(hops: pa.Table) -> pa.Table:
    """Give hops by flow and time; equal times come in the same order always."""
    at = pc.coalesce(hops["left_at_ns"], hops["arrived_at_ns"])
    rows = in_order(hops.append_column("at", at), FLOW_ID, "at", "from_node", "to_node", *SEEN, "message_key")
    return rows.drop_columns(["at"])


def _closed(state: StepState, judged: FlowTables, fold: ClockFold) -> StepState:
    """Close the flows that are final, and keep the others open."""
    frontier = Frontier.of(state.coverage, fold.booting, state.rules)
    final = horizons(judged.hops, judged.requests, state.rules, frontier)
    names = pa.array(sorted(final), pa.binary())
    closing = judged.where(lambda flow: pc.is_in(flow, names))
    state.closed.put(closing, final)
    found = Counter(crossings_of(closing.sightings))
    more = found - state.counted
    state.closed.count(more.elements())
    return replace(
        state,
        open=judged.where(lambda flow: pc.invert(pc.is_in(flow, names))),
        counted=state.counted - found,
        folded=state.folded - more,
    )
