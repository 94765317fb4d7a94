"""Hops and requests to flows: one row for each, with its tree, its totals, its outcome and what is odd about it.

What is counted of a flow, however long it is: totals of parts add up to the totals of the whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Ints, bools, ints, one_array
from hopwire.flows.findings import Known, find
from hopwire.flows.groups import NO_TIME, Groups, codes, equal_text, lists_of_groups, nullable
from hopwire.flows.schemas import FLOW_OUTCOMES, FLOW_SCHEMA, STEP_TYPE
from hopwire.flows.trees import CauseTree, Steps, grow, read_steps

__all__ = ["TOTALS_SCHEMA", "added", "distinct_lists", "judge_flows", "lists_of_groups", "outcomes_of", "totals_of"]

# -- flows


def judge_flows(hops: pa.Table, requests: pa.Table, known: Known, totals: pa.Table | None = None) -> pa.Table:
    """Give the flows of these hops and their requests.

    All hops of a flow must be among them; of an oversized one some are enough if `totals` counts all.
    """
    if not len(hops):
        return FLOW_SCHEMA.empty_table()
    steps = read_steps(hops)
    tree = grow(steps)
    requests = requests.filter(pc.is_in(requests["flow_id"], steps.flows))
    if totals is None:
        totals = totals_of(hops, requests)
    by_time = Groups(steps.flow, steps.left, steps.left_sequence)
    first = pa.array(by_time.first)
    order = by_time.order
    number = np.empty(len(order), dtype=np.int64)  # of each hop among the steps of its flow
    number[order] = np.arange(len(order)) - by_time.starts[by_time.of[order]]
    started, ended = ints(totals["started_at_ns"]), ints(totals["ended_at_ns"])
    columns = {name: one_array(totals[name]) for name in FLOW_SCHEMA.names if name in totals.column_names}
    columns |= {
        "identity": one_array(hops["identity"]).take(first),
        "outcome": outcomes_of(totals),
        "duration_us": pa.array((ended - started) // 1000),
        "depth": pa.array(by_time.most(tree.depth, np.ones(len(order), dtype=np.bool_)) + 1),
        **_critical_path(steps, tree, by_time, number),
        "steps": _steps(hops, tree, by_time, number),
        "findings": find(hops, requests, steps, tree, known),
        "is_oversized": pa.array(ints(totals["hop_count"]) > by_time.sizes),
    }
    return pa.table([columns[name].cast(FLOW_SCHEMA.field(name).type) for name in FLOW_SCHEMA.names], FLOW_SCHEMA)


def _critical_path(steps: Steps, tree: CauseTree, by_time: Groups, number: Ints) -> dict[str, pa.Array]:
    rows = np.flatnonzero(tree.is_critical)
    rows = rows[np.lexsort((tree.depth[rows], steps.flow[rows]))]
    begin = by_time.least(steps.left, tree.is_critical)
    end = by_time.most(steps.came, tree.is_critical)
    took = np.where(end == NO_TIME, NO_TIME, (end - begin) // 1000)
    return {
        "critical_path": lists_of_groups(steps.flow[rows], pa.array(number[rows], pa.int32()), len(by_time)),
        "critical_path_us": nullable(took),
    }


def _steps(hops: pa.Table, tree: CauseTree, by_time: Groups, number: Ints) -> pa.Array:
    taken = pa.array(by_time.order)
    made = {
        "parent": pa.array(np.where(tree.parent < 0, -1, number[tree.parent]), pa.int32()),
        "depth": pa.array(tree.depth, pa.int32()),
        "is_critical": pa.array(tree.is_critical),
    }
    parts = [made.get(field.name) for field in STEP_TYPE]
    columns = [
        (one_array(hops[field.name]) if part is None else part).take(taken)
        for part, field in zip(parts, STEP_TYPE, strict=True)
    ]
    bounds = pa.array(np.append(by_time.starts, len(taken)).astype(np.int32))
    return pa.ListArray.from_arrays(bounds, pa.StructArray.from_arrays(columns, fields=list(STEP_TYPE)))


# -- totals


OUTCOME_NAMES = pa.array(list(FLOW_OUTCOMES))
NO_REQUEST = len(FLOW_OUTCOMES)  # no outcome: better than any
SUMS = (
    "hop_count",
    "message_count",
    "size_bytes",
    "lost_count",
    "dead_count",
    "in_flight_count",
    "request_count",
    "answered_count",
)
LISTS = ("nodes", "contracts")
TOTALS_SCHEMA = pa.schema(
    [("flow_id", pa.binary()), ("correlation_id", pa.binary()), ("worst", pa.int64())]
    + [("started_at_ns", pa.int64()), ("ended_at_ns", pa.int64())]
    + [(name, pa.int64()) for name in SUMS]
    + [(name, pa.list_(pa.binary())) for name in LISTS]
)


def totals_of(hops: pa.Table, requests: pa.Table) -> pa.Table:
    """Give one row for each flow of the hops and requests."""
    parts = [part for part in (_of_hops(hops), _of_requests(requests)) if len(part)]
    return added(pa.concat_tables(parts)) if parts else TOTALS_SCHEMA.empty_table()


def added(totals: pa.Table) -> pa.Table:
    """Give the totals of parts as those of the whole: one row for each flow, in the order of their first."""
    (flow,), values = codes(totals["flow_id"])
    if len(values) == len(totals):
        return totals
    groups = Groups(flow)
    first = pa.array(groups.first)
    everything = np.ones(len(flow), dtype=np.bool_)
    started, ended = ints(totals["started_at_ns"], NO_TIME), ints(totals["ended_at_ns"], NO_TIME)
    columns = {
        "flow_id": one_array(totals["flow_id"]).take(first),
        "correlation_id": one_array(totals["correlation_id"]).take(first),
        "worst": pa.array(groups.least(ints(totals["worst"]), everything)),
        "started_at_ns": nullable(_or_none(groups.least(started, started != NO_TIME))),
        "ended_at_ns": nullable(groups.most(ended, everything)),
    }
    columns |= {name: pa.array(groups.total(ints(totals[name]))) for name in SUMS}
    for name in LISTS:
        parts = one_array(totals[name])
        rows = np.repeat(flow, ints(pc.list_value_length(parts)))
        columns[name] = distinct_lists(rows, parts.flatten(), len(groups))
    return pa.table([columns[name] for name in TOTALS_SCHEMA.names], schema=TOTALS_SCHEMA)


def outcomes_of(totals: pa.Table) -> pa.Array:
    """Give the outcome of each flow: of its worst request, or without any of its hops."""
    worst = ints(totals["worst"])
    number = {name: i for i, name in enumerate(FLOW_OUTCOMES)}
    is_lost = (ints(totals["lost_count"]) > 0) | (ints(totals["dead_count"]) > 0)
    of_hops = np.where(
        is_lost, number["lost"], np.where(ints(totals["in_flight_count"]) > 0, number["open"], number["delivered"])
    )
    return OUTCOME_NAMES.take(pa.array(np.where(worst == NO_REQUEST, of_hops, worst)))


def _of_hops(hops: pa.Table) -> pa.Table:
    if not len(hops):
        return TOTALS_SCHEMA.empty_table()
    (flow,), _ = codes(hops["flow_id"])
    groups = Groups(flow)
    first = pa.array(groups.first)
    left, came = ints(hops["left_at_ns"], NO_TIME), ints(hops["arrived_at_ns"], NO_TIME)
    fate = one_array(hops["fate"])
    is_again = bools(pc.is_in(fate, pa.array(["foreign", "duplicate"]))) | ~equal_text(hops["repeat"], "")
    begin, end = np.where(left != NO_TIME, left, came), np.maximum(left, came)
    ended, ended_at_all = groups.most(end, ~is_again), groups.most(end, np.ones(len(end), dtype=np.bool_))
    columns = {
        "flow_id": one_array(hops["flow_id"]).take(first),
        "correlation_id": one_array(hops["correlation_id"]).take(first),
        "worst": pa.array(np.full(len(groups), NO_REQUEST)),
        "started_at_ns": nullable(groups.least(begin, np.ones(len(begin), dtype=np.bool_))),
        "ended_at_ns": nullable(np.where(ended == NO_TIME, ended_at_all, ended)),
        "hop_count": pa.array(groups.sizes),
        "message_count": pa.array(groups.total(bools(hops["is_first"]))),
        "size_bytes": pa.array(groups.total(ints(hops["size_bytes"]))),
        "lost_count": pa.array(groups.total(equal_text(fate, "lost"))),
        "dead_count": pa.array(groups.total(equal_text(fate, "dead"))),
        "in_flight_count": pa.array(groups.total(equal_text(fate, "in_flight"))),
        "request_count": pa.array(np.zeros(len(groups), dtype=np.int64)),
        "answered_count": pa.array(np.zeros(len(groups), dtype=np.int64)),
        "nodes": distinct_lists(
            np.append(flow, flow),
            pa.concat_arrays([one_array(hops[name]) for name in ("from_node", "to_node")]),
            len(groups),
        ),
        "contracts": distinct_lists(flow, one_array(hops["identity"]), len(groups)),
    }
    return pa.table([columns[name] for name in TOTALS_SCHEMA.names], schema=TOTALS_SCHEMA)


def _of_requests(requests: pa.Table) -> pa.Table:
    if not len(requests):
        return TOTALS_SCHEMA.empty_table()
    (flow,), _ = codes(requests["flow_id"])
    groups = Groups(flow)
    first = pa.array(groups.first)
    outcome = ints(pc.index_in(one_array(requests["outcome"]), OUTCOME_NAMES))
    zero = pa.array(np.zeros(len(groups), dtype=np.int64))
    never = nullable(np.full(len(groups), NO_TIME))
    nobody = pa.array([[]] * len(groups), pa.list_(pa.binary()))
    columns = dict.fromkeys(SUMS, zero) | dict.fromkeys(LISTS, nobody)
    columns |= {
        "flow_id": one_array(requests["flow_id"]).take(first),
        "correlation_id": one_array(requests["correlation_id"]).take(first),
        "worst": pa.array(groups.least(outcome, np.ones(len(outcome), dtype=np.bool_))),
        "started_at_ns": never,
        "ended_at_ns": never,
        "request_count": pa.array(groups.sizes),
        "answered_count": pa.array(groups.total(equal_text(requests["outcome"], "answered"))),
    }
    return pa.table([columns[name] for name in TOTALS_SCHEMA.names], schema=TOTALS_SCHEMA)


def distinct_lists(group: Ints, values: pa.Array, size: int) -> pa.Array:
    """Give the distinct values of each group as a list, sorted, without the empty one."""
    (code,), names = codes(values)
    rank = np.empty(len(names), dtype=np.int64)
    rank[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    width = len(names) + 1
    pairs = np.sort(group * width + rank[code])
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
    sorted_names = names.take(pc.sort_indices(names))
    is_named = bools(pc.greater(pc.binary_length(sorted_names), 0))[pairs % width]
    pairs = pairs[is_named]
    return lists_of_groups(pairs // width, sorted_names.take(pa.array(pairs % width)), size)


def _or_none(values: Ints) -> Ints:
    return np.where(values == np.iinfo(np.int64).max, NO_TIME, values)
