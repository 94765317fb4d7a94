"""Hops and requests to flows: a row for each flow, with its tree, its totals, its outcome and what is odd about it.

*The tree* says what caused each hop.

- The parent of a hop is an arrival at the node that the hop leaves, before the hop leaves: the last arrival of the same
  message, or of what became this message at a border between two networks; else the last arrival of the same request;
  else the last arrival of any message of the flow. Both times are of one clock. B sees m at 10.000 s and n at 10.100
  s, and sends r at 10.150 s: the parent of r is the arrival of n. B sends m on at 10.150 s, or answers m: the parent is
  the arrival of m.
- The parent is a guess if it is of another message and of no common request, and is not the only arrival before:
  `is_parent_guessed`. In the example, the parent of r is a guess.
- What an asker was told has the question as its parent.
- Where leaving was not seen, arriving stands for it. Where nobody could see the message arrive, leaving stands for
  arriving. So a node without a capture does not tear the tree.
- The critical path is the chain of parents that leads to the last arrival. Duplicates, replays, messages of strangers
  and dead letters are no last arrival.

The depth of a hop is found by jumping: in each round every hop looks twice as far up, so a chain of a million hops
takes twenty rounds.

*The totals* add up: the totals of the parts of a flow are the totals of the flow. So a flow may be longer than fits.

*The outcome* of a flow is the worst outcome of its requests. A flow without requests is `lost` if a message was lost,
on its way or as a dead letter; else `expired` if the time of a message was over; else `open` if a hop is in flight;
else `delivered`. A dead letter that is `HARMLESS` loses nothing (`hop_columns.py`): a message that came twice and was
handled once is delivered.

The trap: a wrong match, or a clock that was set back, could make a circle of parents. In a circle, a parent that is not
before its hop is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.findings import Known, find
from hopwire.flows.groups import (
    NEVER,
    NO_TIME,
    Groups,
    codes,
    distinct_lists,
    equal_text,
    filled_forward,
    is_reserved,
    lists_of_groups,
    nullable,
    order_by,
    pack,
)
from hopwire.flows.hop_columns import HopColumns
from hopwire.flows.schemas import FLOW_OUTCOMES, FLOW_SCHEMA, STEP_TYPE, in_schema
from hopwire.model.units import NS_PER_US

__all__ = ["CauseTree", "added", "grow", "judge_flows", "totals_of"]

OUTCOME_NAMES = pa.array(list(FLOW_OUTCOMES))
OUTCOME_NUMBER = {name: number for number, name in enumerate(FLOW_OUTCOMES)}
NO_REQUEST = len(FLOW_OUTCOMES)  # no outcome: better than any
OF_LOSSES = ("loss_count", "expiry_count")  # they decide the outcome, and are no columns of a flow
SUMS = (
    "hop_count",
    "message_count",
    "size_bytes",
    "lost_count",
    "dead_count",
    "in_flight_count",
    "request_count",
    "answered_count",
    *OF_LOSSES,
)
LISTS = ("nodes", "contracts")
TOTALS_SCHEMA = pa.schema(
    [("flow_id", pa.binary()), ("correlation_id", pa.binary()), ("worst", pa.int64())]
    + [("started_at_ns", pa.int64()), ("ended_at_ns", pa.int64())]
    + [(name, pa.int64()) for name in SUMS]
    + [(name, pa.list_(pa.binary())) for name in LISTS]
)


def judge_flows(hops: pa.Table, requests: pa.Table, known: Known, totals: pa.Table | None = None) -> pa.Table:
    """Give the flows of these hops and their requests.

    All hops of a flow must be among them. Of a flow that is too long its first hops are enough, if `totals` counts all.
    """
    if not len(hops):
        return FLOW_SCHEMA.empty_table()
    columns = HopColumns(hops)
    requests = requests.filter(pc.is_in(requests["flow_id"], columns.flows))
    if totals is None:
        totals = _totals(columns, requests)
    tree = grow(columns)
    by_time = Groups(columns.flow, columns.begun, columns.begun_sequence)
    order = by_time.order
    number = np.empty(len(order), dtype=np.int64)  # of each hop among the steps of its flow
    number[order] = np.arange(len(order)) - by_time.starts[by_time.of[order]]
    started, ended = ints(totals["started_at_ns"]), ints(totals["ended_at_ns"])
    found = {name: one_array(totals[name]) for name in FLOW_SCHEMA.names if name in totals.column_names}
    found |= {
        "identity": columns["identity"].take(pa.array(by_time.first)),
        "outcome": _outcomes(totals),
        "duration_us": pa.array((ended - started) // NS_PER_US),
        "depth": pa.array(by_time.most(np.where(columns.is_told, -1, tree.depth)) + 1),
        "is_control": pa.array(~by_time.has(~bools(is_reserved(columns["identity"])))),
        **_critical_path(columns, tree, by_time, number),
        "steps": _steps(columns, tree, by_time, number),
        "findings": find(columns, requests, tree.parent, known),
        "is_oversized": pa.array(ints(totals["hop_count"]) > by_time.total(~columns.is_told)),
    }
    return in_schema(FLOW_SCHEMA, found)


def _critical_path(hops: HopColumns, tree: CauseTree, by_time: Groups, number: Ints) -> dict[str, pa.Array]:
    rows = np.flatnonzero(tree.is_critical)
    rows = rows[order_by(hops.flow[rows], tree.depth[rows])]
    begin = by_time.least(hops.begun, tree.is_critical)
    end = by_time.most(hops.reached, tree.is_critical)
    took = np.where(end == NO_TIME, NO_TIME, (end - begin) // NS_PER_US)
    return {
        "critical_path": lists_of_groups(hops.flow[rows], pa.array(number[rows], pa.int32()), len(by_time)),
        "critical_path_us": nullable(took),
    }


def _steps(hops: HopColumns, tree: CauseTree, by_time: Groups, number: Ints) -> pa.Array:
    taken = pa.array(by_time.order)
    made = {
        "parent": pa.array(np.where(tree.parent < 0, -1, number[tree.parent]), pa.int32()),
        "is_parent_guessed": pa.array(tree.is_guessed & (tree.parent >= 0)),
        "depth": pa.array(tree.depth, pa.int32()),
        "is_critical": pa.array(tree.is_critical),
    }
    parts = [(made[field.name] if field.name in made else hops[field.name]).take(taken) for field in STEP_TYPE]
    bounds = pa.array(np.append(by_time.starts, len(taken)).astype(np.int32))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(parts, fields=list(STEP_TYPE)))


def _outcomes(totals: pa.Table) -> pa.Array:
    """Give the outcome of each flow: of its worst request, or without any of its hops."""
    worst = ints(totals["worst"])
    has_some = (ints(totals[name]) > 0 for name in (*OF_LOSSES, "in_flight_count"))
    outcome = np.select(
        [worst != NO_REQUEST, *has_some],
        [worst, *(OUTCOME_NUMBER[name] for name in ("lost", "expired", "open"))],
        OUTCOME_NUMBER["delivered"],
    )
    return OUTCOME_NAMES.take(pa.array(outcome))


# -- the tree


class CauseTree(NamedTuple):
    """What caused each hop."""

    parent: Ints  # the number of another hop, -1 for a root
    is_guessed: Bools  # whether another hop may be the parent as well
    depth: Ints  # from 0
    is_critical: Bools  # whether the hop leads to the last arrival


def grow(hops: HopColumns) -> CauseTree:
    """Give the trees of all flows among the hops."""
    parent, is_guessed = _parents(hops)
    root, depth, jumps = _climb(parent)
    in_circle = parent[root] >= 0
    if in_circle.any():
        rank = np.empty(len(parent), dtype=np.int64)
        rank[order_by(hops.begun, hops.begun_sequence)] = np.arange(len(parent))
        parent = np.where(in_circle & (rank[parent] >= rank), -1, parent)
        _, depth, jumps = _climb(parent)
    return CauseTree(parent, is_guessed, depth, _critical(hops, jumps))


def _parents(hops: HopColumns) -> tuple[Ints, Bools]:
    """Give the parent of each hop, and whether it is a guess.

    Departures and arrivals are laid side by side, and each looks back.
    """
    size = len(hops)
    here = np.flatnonzero(hops.reached != NO_TIME)
    flow, key = np.append(hops.flow, hops.flow[here]), np.append(hops.key, hops.key[here])
    node = np.append(hops.source, hops.target[here])
    at = np.append(hops.begun, hops.reached[here])
    sequence = np.append(hops.begun_sequence, hops.reached_sequence[here])
    in_time = order_by(at, sequence)
    is_arrival = np.arange(len(flow)) >= size
    place = pack(flow, node)
    request = np.append(hops.request, hops.request[here])
    of_same = filled_forward(Groups(pack(place, key), order=in_time), is_arrival)[:size]
    made_of = np.append(hops.key, hops.becomes[here])
    if (made_of != key).any():  # something has crossed a border
        of_border = filled_forward(Groups(pack(place, made_of), order=in_time), is_arrival)[:size]
        of_same = np.where(of_same < 0, of_border, of_same)
    of_request = filled_forward(Groups(pack(place, request), order=in_time), is_arrival)[:size]
    of_request[~hops.has_home] = -1
    before = filled_forward(Groups(place, order=in_time), is_arrival)
    of_any = before[:size]
    is_guessed = (of_same < 0) & (of_request < 0) & (of_any >= 0) & (before[of_any] >= 0)
    event = np.select([of_same >= 0, of_request >= 0], [of_same, of_request], of_any)
    parent = np.where(event >= 0, np.append(here, -1)[np.maximum(event - size, -1)], -1)
    parent = np.where(parent == np.arange(size), -1, parent)
    if hops.is_told.any():
        parent, is_guessed = np.where(hops.is_told, _questions(hops), parent), is_guessed & ~hops.is_told
    return parent, is_guessed


def _questions(hops: HopColumns) -> Ints:
    """Give the first hop of the request of each hop, -1 where nothing was seen of the request before."""
    groups = Groups(hops.request, hops.begun, hops.begun_sequence)
    first = groups.first_where(~hops.is_told)[groups.of]
    return np.where((first >= 0) & hops.has_home & (hops.begun[first] <= hops.begun), first, -1)


def _climb(parent: Ints) -> tuple[Ints, Ints, list[Ints]]:
    """Give for each hop the highest hop above it, how far up that is, and the jumps of 1, 2, 4 ... hops."""
    jump = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    jumps = [jump]
    for _ in range(len(parent).bit_length() + 1):
        twice = jump[jump]
        if (twice == jump).all():
            break
        depth = depth + depth[jump]
        jump = twice
        jumps.append(jump)
    return jump, depth, jumps


def _critical(hops: HopColumns, jumps: list[Ints]) -> Bools:
    """Tell which hops lead to the last arrival of their flow."""
    flows = Groups(hops.flow)
    is_arrival = (hops.reached != NO_TIME) & ~hops.is_again & ~hops.is_dead
    last_at = flows.most(hops.reached, is_arrival)
    last = flows.first_where(is_arrival & (hops.reached == last_at[flows.of]))
    is_critical = np.zeros(len(hops), dtype=np.bool_)
    is_critical[last[last >= 0]] = True
    for jump in reversed(jumps):
        is_critical[jump[is_critical]] = True
    return is_critical


# -- the totals


def totals_of(hops: pa.Table, requests: pa.Table) -> pa.Table:
    """Give one row for each flow of the hops and requests."""
    return _totals(HopColumns(hops), requests)


def added(totals: pa.Table) -> pa.Table:
    """Add up the totals of parts: one row for each flow, in the order in which the flows first come."""
    (flow,), values = codes(totals["flow_id"])
    if len(values) == len(totals):
        return totals
    groups = Groups(flow)
    first = pa.array(groups.first)
    started, ended = ints(totals["started_at_ns"], NO_TIME), ints(totals["ended_at_ns"], NO_TIME)
    earliest = groups.least(started, started != NO_TIME)
    columns = {
        "flow_id": one_array(totals["flow_id"]).take(first),
        "correlation_id": one_array(totals["correlation_id"]).take(first),
        "worst": pa.array(groups.least(ints(totals["worst"]))),
        "started_at_ns": nullable(np.where(earliest == NEVER, NO_TIME, earliest)),
        "ended_at_ns": nullable(groups.most(ended)),
    }
    columns |= {name: pa.array(groups.total(ints(totals[name]))) for name in SUMS}
    for name in LISTS:
        parts = one_array(totals[name])
        rows = np.repeat(flow, ints(pc.list_value_length(parts)))
        columns[name] = _distinct(rows, parts.flatten(), len(groups))
    return in_schema(TOTALS_SCHEMA, columns)


def _totals(hops: HopColumns, requests: pa.Table) -> pa.Table:
    parts = [
        *([_totals_of_hops(hops)] if len(hops) else []),
        *([_totals_of_requests(requests)] if len(requests) else []),
    ]
    return added(pa.concat_tables(parts)) if parts else TOTALS_SCHEMA.empty_table()


def _totals_of_hops(hops: HopColumns) -> pa.Table:
    groups = Groups(hops.flow)
    first, size = pa.array(groups.first), len(groups)
    seen_last = np.maximum(hops.left, hops.came)
    ended = groups.most(seen_last, ~hops.is_again)
    nothing = pa.array(np.zeros(size, dtype=np.int64))
    columns = {
        "flow_id": hops["flow_id"].take(first),
        "correlation_id": hops["correlation_id"].take(first),
        "worst": pa.array(np.full(size, NO_REQUEST)),
        "started_at_ns": nullable(groups.least(hops.begun)),
        "ended_at_ns": nullable(np.where(ended == NO_TIME, groups.most(seen_last), ended)),
        "hop_count": pa.array(groups.total(~hops.is_told)),
        "message_count": pa.array(groups.total(bools(hops["is_first"]))),
        "size_bytes": pa.array(groups.total(np.where(hops.is_told, 0, ints(hops["size_bytes"])))),
        "lost_count": pa.array(groups.total(hops.has_fate("lost"))),
        "dead_count": pa.array(groups.total(hops.is_dead)),
        "in_flight_count": pa.array(groups.total(hops.has_fate("in_flight"))),
        "loss_count": pa.array(groups.total(hops.is_lost)),
        "expiry_count": pa.array(groups.total(hops.is_expired)),
        "request_count": nothing,
        "answered_count": nothing,
        "nodes": _distinct(
            np.append(hops.flow, hops.flow), pa.concat_arrays([hops["from_node"], hops["to_node"]]), size
        ),
        "contracts": _distinct(hops.flow, hops["identity"], size),
    }
    return in_schema(TOTALS_SCHEMA, columns)


def _totals_of_requests(requests: pa.Table) -> pa.Table:
    (flow,), _ = codes(requests["flow_id"])
    groups = Groups(flow)
    first, size = pa.array(groups.first), len(groups)
    nothing = pa.array(np.zeros(size, dtype=np.int64))
    columns = dict.fromkeys(SUMS, nothing) | dict.fromkeys(LISTS, pa.array([[]] * size, pa.list_(pa.binary())))
    columns |= {
        "flow_id": one_array(requests["flow_id"]).take(first),
        "correlation_id": one_array(requests["correlation_id"]).take(first),
        "worst": pa.array(groups.least(ints(pc.index_in(one_array(requests["outcome"]), OUTCOME_NAMES)))),
        "started_at_ns": pa.nulls(size),
        "ended_at_ns": pa.nulls(size),
        "request_count": pa.array(groups.sizes),
        "answered_count": pa.array(groups.total(equal_text(requests["outcome"], "answered"))),
    }
    return in_schema(TOTALS_SCHEMA, columns)


def _distinct(group: Ints, values: pa.Array, size: int) -> pa.Array:
    """Give the distinct values of each group as a list, sorted, without the empty value."""
    (code,), names = codes(values)
    return distinct_lists(group, code, names, size)
