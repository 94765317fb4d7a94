"""When a flow is final: nothing that may still come can change what was said of it.

The verdict on a flow looks at its own sightings, and at who was looking when. It looks at no later time than its
*horizon* (`horizons`). A flow is final when everybody whom it touches was seen after its horizon (`is_final`).

| the last of the flow | horizon |
|---|---|
| a message arrives at 10.0 s, as all others of the flow did | 12.0 s: what a killed node had not written |
| the same, but another message of the flow was not seen to arrive | 17.0 s: the same, and patience of 5 s |
| a request without an answer, asked at 10.0 s with a time to live of 20 s | 42.0 s: deadline, patience, and the 7 s |
| a message left at 10.0 s for a node that was not seen since (`in_flight`) | 622.0 s: 10 min of silence settle it |
| a beat of the minute from 60 s to 120 s | 132.0 s: what arrives in the patience after the minute may belong to it |

| whom the flow touches | holds the flow until |
|---|---|
| a node that captures | it was seen after the horizon, or is silent for 10 min while others go on |
| a node that does not capture | any node was seen after the horizon |
| a node whose clock boots (`clocks.py`) | its clock is known |

That a flow is final is a forecast, and nothing depends on its being right: captures may come in any order, and a
message may come again after days. `changed_since` tells from when on new captures say something else of a node. A
closed flow with a later horizon is then opened again, and so is a closed flow of which there is another sighting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, ints, one_array
from hopwire.flows.coverage import Coverage, LifeSpan, Offset
from hopwire.flows.groups import NEVER, NO_TIME, Groups, codes, distinct_lists
from hopwire.flows.hop_columns import HopColumns
from hopwire.flows.rules import Rules
from hopwire.model.units import NS_PER_MINUTE

__all__ = [
    "MINUTE_BYTES",
    "Frontier",
    "Horizon",
    "HorizonColumns",
    "changed_since",
    "final_horizons",
    "horizon_columns",
    "horizons",
    "latest_of_requests",
    "minutes_in",
]

ENDED = pa.array(["answered", "failed"])  # requests of which no later time says more
MINUTE_BYTES = 8
MAX_MINUTE = 2**27  # 255 years; a larger number is a part of a name, and no minute


class Horizon(NamedTuple):
    """The latest time that the verdict on a flow looks at, and the nodes that it looks at."""

    until_ns: int
    nodes: frozenset[bytes]


class HorizonColumns(NamedTuple):
    """The horizons of many flows, a row for each."""

    flows: pa.Array
    until_ns: Ints
    nodes: pa.ListArray  # sorted

    @classmethod
    def joined(cls, parts: Iterable[HorizonColumns]) -> HorizonColumns:
        """Give the rows of all parts."""
        some = list(parts)
        flows = pa.concat_arrays([pa.array([], pa.binary()), *(each.flows for each in some)])
        nodes = pa.concat_arrays([pa.array([], pa.list_(pa.binary())), *(each.nodes for each in some)])
        return cls(flows, np.concatenate([np.zeros(0, dtype=np.int64), *(each.until_ns for each in some)]), nodes)

    def looking_at(self, since: Mapping[bytes, int], first_ns: int) -> Iterator[bytes]:
        """Give the flows that look at a node after a time that is given for it; `first_ns` is the first of them."""
        late = self.where(self.until_ns >= first_ns)
        rows = zip(late.flows.to_pylist(), late.until_ns.tolist(), late.nodes.to_pylist(), strict=True)
        return (flow for flow, until, nodes in rows if any(since.get(node, NEVER) <= until for node in nodes))

    def where(self, mask: Bools) -> HorizonColumns:
        """Give the rows that the mask marks."""
        kept = pa.array(mask)
        return HorizonColumns(self.flows.filter(kept), self.until_ns[mask], self.nodes.filter(kept))


def horizons(hops: pa.Table, requests: pa.Table, rules: Rules) -> dict[bytes, Horizon]:
    """Give the horizon of each flow."""
    found = horizon_columns(hops, requests, rules)
    flows, nodes = found.flows.to_pylist(), found.nodes.to_pylist()
    made = map(Horizon, found.until_ns.tolist(), map(frozenset, nodes))
    return dict(zip(flows, made, strict=True))


def final_horizons(hops: pa.Table, requests: pa.Table, rules: Rules, frontier: Frontier) -> HorizonColumns:
    """Give the horizon of each flow that is final, as columns."""
    found = horizon_columns(hops, requests, rules)
    return found.where(frontier.are_final(found))


def horizon_columns(hops: pa.Table, requests: pa.Table, rules: Rules) -> HorizonColumns:
    """Give the horizon of each flow, as columns."""
    columns = HopColumns(hops)
    until = _until(columns, requests, rules)
    ends = (columns.source, columns.target, columns.home)
    nodes = distinct_lists(np.concatenate([columns.flow] * len(ends)), np.concatenate(ends), columns.nodes, len(until))
    return HorizonColumns(columns.flows, until, nodes)


def latest_of_requests(requests: pa.Table, rules: Rules) -> int:
    """Give the latest time that the verdict on one flow looks at for some of its requests."""
    _, silences = _silences(requests, rules)
    latest = max([*silences, int(ints(requests["asked_at_ns"]).max())])
    return latest + max(rules.unwritten_ns, rules.duplicate_window_ns) + rules.patience_ns


def _until(columns: HopColumns, requests: pa.Table, rules: Rules) -> Ints:
    """Give the latest time that the verdict on each flow looks at."""
    minute = _ends_of_minutes(columns.table)
    until = np.maximum(columns.left, columns.came)
    until = np.where(columns.has_fate("in_flight"), until + rules.patience_ns + rules.silence_ns, until)
    latest = Groups(columns.flow).most(np.maximum(until, minute))  # codes count from 0: the groups are the flows
    is_settled = np.ones(len(latest), dtype=np.bool_)
    is_settled[columns.flow[~columns.has_fate("arrived") | (minute != NO_TIME) | _is_orphan(columns)]] = False
    names, silences = _silences(requests, rules)
    places = ints(pc.index_in(pa.array(names, pa.binary()), columns.flows), -1)
    is_settled[places[places >= 0]] = False
    np.maximum.at(latest, places[places >= 0], np.array(silences, dtype=np.int64)[places >= 0])
    unwritten = max(rules.unwritten_ns, rules.duplicate_window_ns)
    found: Ints = latest + np.where(is_settled, unwritten, unwritten + rules.patience_ns)
    return found


def _is_orphan(columns: HopColumns) -> Bools:
    """Tell which hops are of a request of which only replies were seen."""
    is_orphan = np.zeros(len(columns), dtype=np.bool_)
    rows = np.flatnonzero(columns.has_home)
    if len(rows):
        asked = Groups(columns.request[rows])
        is_orphan[rows] = ~asked.has(~columns.is_reply[rows])[asked.of]
    return is_orphan


def _ends_of_minutes(hops: pa.Table) -> Ints:
    """Give the end of the minute of each hop whose flow is a minute of equal messages; NO_TIME for other hops."""
    found = np.full(len(hops), NO_TIME)
    for row, minute in minutes_in(hops):
        found[row] = (minute + 1) * NS_PER_MINUTE
    return found


def minutes_in(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Give the rows whose flow is a minute of equal messages, and the minute, of hops or of sightings with flows."""
    flow, key = one_array(rows["flow_id"]), one_array(rows["message_key"])
    is_longer = pc.equal(pc.binary_length(flow), pc.add(pc.binary_length(key), MINUTE_BYTES))
    for row in np.flatnonzero(is_longer.to_numpy(zero_copy_only=False)).tolist():
        name = flow[row].as_py()
        minute = int.from_bytes(name[-MINUTE_BYTES:], signed=True)
        if name.startswith(key[row].as_py()) and abs(minute) < MAX_MINUTE:
            yield row, minute


def _silences(requests: pa.Table, rules: Rules) -> tuple[list[bytes], list[int]]:
    """Give until when requests without an end wait, one row for each flow."""
    waiting = requests.filter(pc.invert(pc.is_in(requests["outcome"], ENDED)))
    if not len(waiting):
        return [], []
    deadline, asked = ints(waiting["deadline_ns"], NO_TIME), ints(waiting["asked_at_ns"])
    has_none = deadline == NO_TIME
    silence = np.where(has_none, asked + rules.patience_without_ttl_ns, deadline + rules.patience_ns * ~has_none)
    is_open = pc.equal(waiting["outcome"], "open").to_numpy()
    silence = silence + np.where(is_open, rules.silence_ns, 0)
    (flow,), names = codes(waiting["flow_id"])
    groups = Groups(flow)
    return names.take(pa.array(flow[groups.first])).to_pylist(), groups.most(silence).tolist()


# -- what is final


class Frontier(NamedTuple):
    """Until when everything is known: the last sighting of each node, and of all."""

    last_ns: Mapping[bytes, int]
    end_ns: int
    booting: frozenset[bytes]
    silence_ns: int

    @classmethod
    def of(cls, coverage: Coverage, booting: Iterable[bytes], rules: Rules) -> Frontier:
        """Give the frontier of a coverage; the clocks of some nodes boot."""
        last = {node: end for node, (_, end) in coverage.nodes.items()}
        return cls(last, coverage.end_ns, frozenset(booting), rules.silence_ns)

    def are_final(self, known: HorizonColumns) -> Bools:
        """Tell which flows are final."""
        until = known.until_ns
        flow = np.repeat(np.arange(len(until)), ints(pc.list_value_length(known.nodes)))
        (node,), nodes = codes(known.nodes.flatten())
        names = nodes.to_pylist()
        last = np.array([self.last_ns.get(name, self.end_ns) for name in names], dtype=np.int64)
        boots = np.array([name in self.booting for name in names], dtype=np.bool_)
        is_late = until + self.silence_ns < self.end_ns
        holds = boots[node] | ~(is_late[flow] | (last[node] > until[flow]))
        is_final: Bools = until < self.end_ns
        is_final[flow[holds]] = False
        return is_final

    def is_final(self, horizon: Horizon) -> bool:
        """Tell whether a flow with this horizon is final."""
        if horizon.until_ns >= self.end_ns:
            return False
        is_late = horizon.until_ns + self.silence_ns < self.end_ns
        return all(
            node not in self.booting and (is_late or self.last_ns.get(node, self.end_ns) > horizon.until_ns)
            for node in horizon.nodes
        )


# -- what has changed


def changed_since(before: Coverage, after: Coverage) -> dict[bytes, int]:
    """Give from when on, corrected, captures say something else of a node than before; other nodes are left out.

    B was seen from 0 s to 100 s, and now from 0 s to 200 s: from 100 s on.
    """
    found: dict[bytes, int] = {}

    def note(node: bytes, at_ns: int) -> None:
        found[node] = min(at_ns, found.get(node, at_ns))

    for old, new in zip(before.stretches, after.stretches, strict=True):
        for node, at_ns in _first_differences(old, new):
            note(node, at_ns)
    for span, since_ns in _other_versions(before, after):
        at_ns = max(since_ns, span.first_ns)
        for coverage in (before, after):
            note(span.node, coverage.corrected([span._replace(first_ns=at_ns, last_ns=at_ns)])[0].first_ns)
    return found


def _first_differences(old: Iterable[LifeSpan], new: Iterable[LifeSpan]) -> Iterable[tuple[bytes, int]]:
    """Give when spans that differ begin to do so: where one goes on, or at its begin."""
    ends: dict[tuple[bytes, int, int], list[int]] = {}
    for span in set(old) ^ set(new):
        ends.setdefault((span.node, span.incarnation, span.first_ns), []).append(span.last_ns)
    for (node, _, first_ns), lasts in ends.items():
        yield node, min(lasts) if len(lasts) > 1 else first_ns


def _other_versions(before: Coverage, after: Coverage) -> Iterable[tuple[LifeSpan, int]]:
    """Give the lives whose clocks are known otherwise now, and since when, by the clock itself."""
    known = {(span.node, span.incarnation) for span in before.spans}
    for span in after.spans:
        if (span.node, span.incarnation) in known:
            pairs = zip_longest(*(_clock_of(coverage, span) for coverage in (before, after)))
            if other := next((pair for pair in pairs if pair[0] != pair[1]), None):
                yield span, min(version[0] for version in other if version)


def _clock_of(coverage: Coverage, life: LifeSpan) -> list[tuple[int, Any]]:
    """Give what is known of the clock of a life, from when on, in order."""
    node = life.node
    steady = [Offset(0, coverage.offsets_ns.get(node, 0))]
    offsets = coverage.offsets_of(node, life.incarnation) if node in coverage.changes else steady
    references = coverage.references.get(node) or [(life.incarnation, 0, coverage.clocks.get(node, node))]
    names = [(max(since, 0), name) for of_life, since, name in references if of_life == life.incarnation]
    return sorted([*((each.since_ns, each) for each in offsets), *names], key=lambda version: version[0])
