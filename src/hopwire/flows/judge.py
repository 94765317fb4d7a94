"""Hops and requests to flows: one row for each, with its tree, its totals, its outcome and what is odd about it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Ints, ints, one_array
from hopwire.flows.arrays import NO_TIME, Groups, nullable
from hopwire.flows.findings import Known, find
from hopwire.flows.steps import FLOW_SCHEMA, STEP_TYPE
from hopwire.flows.totals import lists, outcomes_of, totals_of
from hopwire.flows.trees import Steps, Tree, grow, read_steps

__all__ = ["judge_flows"]


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


def _critical_path(steps: Steps, tree: Tree, by_time: Groups, number: Ints) -> dict[str, pa.Array]:
    rows = np.flatnonzero(tree.is_critical)
    rows = rows[np.lexsort((tree.depth[rows], steps.flow[rows]))]
    begin = by_time.least(steps.left, tree.is_critical)
    end = by_time.most(steps.came, tree.is_critical)
    took = np.where(end == NO_TIME, NO_TIME, (end - begin) // 1000)
    return {
        "critical_path": lists(steps.flow[rows], pa.array(number[rows], pa.int32()), len(by_time)),
        "critical_path_us": nullable(took),
    }


def _steps(hops: pa.Table, tree: Tree, by_time: Groups, number: Ints) -> pa.Array:
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
