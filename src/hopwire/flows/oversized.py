"""Flows and requests of any size: where one has more rows than its limit, its first rows are judged, all are counted.

| what has more rows than `max_flow_rows` | what is judged | what counts all rows |
|---|---|---|
| the hops and requests of a flow | its first hops, then its first requests: tree, findings | its totals |
| the hops of a request | its first hops, and the first replies among the others | `hop_count` |

Rows come in one order always: hops by time, then requests by the time when they were asked. So the rows that are judged
are the same in a step, in a task of a whole build, and in a stream of batches of which no more than one is held.

`requests_of` and `flows_of` take tables. `judged_requests` and `flow_runs` take sorted batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.flows.chunks import Summariser, whole_chunks
from hopwire.flows.coverage import Coverage
from hopwire.flows.findings import Known
from hopwire.flows.flows import added, judge_flows, totals_of
from hopwire.flows.groups import has_bytes, in_order
from hopwire.flows.hops import FLOW_ID
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import HOP_SCHEMA, REQUEST_SCHEMA

__all__ = [
    "ASKED",
    "OF_REQUEST",
    "REQUEST",
    "TOGETHER",
    "TOTALS",
    "FlowRun",
    "apart",
    "flow_runs",
    "flows_of",
    "judged_requests",
    "requests_of",
    "totals_of_rows",
]

TOGETHER = ["flow_id", "home_receiver", "home_node", "callback_key"]  # what hops of one request have in common
MAX_LATER_REPLIES = 1_000  # of a request with more hops than fit; the first reply that came home decides
# of hops that do not fit, their number and the replies among them are kept
LATER = pa.schema([("hop_count", pa.int64()), ("replies", pa.list_(pa.struct(list(HOP_SCHEMA))))])
REQUEST = "request"  # the column that has a request; null in rows of hops
OF_REQUEST = (
    "correlation_id",
    "message_key",
    "identity",
    "version",
    "version_raw",
    "home_node",
    "told",
    "is_told_otherwise",
    "reached_node",
    "outcome",
    "is_reused",
    "is_callback_unreached",
    "is_unhandled",
    "asked_at_ns",
    "deadline_ns",
)
ASKED = ("asked_at_ns", "message_key")  # the order of the requests of a flow
ROW = pa.schema([*HOP_SCHEMA, (REQUEST, pa.struct([REQUEST_SCHEMA.field(name) for name in OF_REQUEST]))])


# -- requests


def requests_of(hops: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Give the requests of hops that come in the order of their times, flow by flow."""
    large = _larger(rules.max_flow_rows, hops)
    if not len(large):
        return judge_requests(hops, coverage, rules)
    is_large = pc.is_in(hops[FLOW_ID], large)
    rows = hops.filter(pc.and_(is_large, pa.array(has_bytes(hops["home_receiver"]))))
    judged = judged_requests(_batches(in_order(rows, *TOGETHER)), coverage, rules)
    return pa.concat_tables([judge_requests(hops.filter(pc.invert(is_large)), coverage, rules), *judged])


def judged_requests(batches: Iterable[pa.RecordBatch], coverage: Coverage, rules: Rules) -> Iterator[pa.Table]:
    """Give the requests of batches of hops; the hops of one request come together, in the order of their times."""
    for run in whole_chunks(batches, TOGETHER, rules.max_flow_rows, Summariser(_later, _both)):
        if run.more is None:
            yield judge_requests(run.rows, coverage, rules)
        else:
            yield _oversized(run.rows, run.more, coverage, rules)


def _oversized(rows: pa.Table, later: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Judge a request by its first hops and the replies that came later; all hops are counted."""
    replies = pa.Table.from_struct_array(later["replies"].combine_chunks().flatten())
    judged = judge_requests(pa.concat_tables([_hops(rows), replies]), coverage, rules)
    count = len(rows) + later["hop_count"][0].as_py()
    made = {"hop_count": pa.repeat(pa.scalar(count), len(judged)), "is_oversized": pa.repeat(True, len(judged))}
    for name, column in made.items():
        judged = judged.set_column(judged.schema.get_field_index(name), REQUEST_SCHEMA.field(name), column)
    return judged


def _later(rows: pa.Table) -> pa.Table:
    replies = rows.filter(pc.or_(rows["is_reply"], pc.equal(rows["fate"], "told"))).slice(0, MAX_LATER_REPLIES)
    return _kept(len(rows), _hops(replies).to_struct_array().combine_chunks())


def _hops(rows: pa.Table) -> pa.Table:
    """Hops as they are declared: Spark says of some columns that they are never null."""
    return rows.select(HOP_SCHEMA.names).cast(HOP_SCHEMA)


def _both(parts: pa.Table) -> pa.Table:
    replies = parts["replies"].combine_chunks().flatten().slice(0, MAX_LATER_REPLIES)
    return _kept(pc.sum(parts["hop_count"]).as_py(), replies)


def _kept(hop_count: int, replies: pa.StructArray) -> pa.Table:
    lists = pa.ListArray.from_arrays(pa.array([0, len(replies)], pa.int32()), replies)
    return pa.table([pa.array([hop_count]), lists], schema=LATER)


# -- flows


class FlowRun(NamedTuple):
    """Some whole flows, and what they were judged by; or one flow that was cut, with the summary of its other rows."""

    flows: pa.Table
    hops: pa.Table
    requests: pa.Table
    more: pa.Table | None


def flows_of(hops: pa.Table, requests: pa.Table, known: Known) -> pa.Table:
    """Give the flows of hops that come in the order of their times, flow by flow, and of their requests."""
    large = _larger(known.rules.max_flow_rows, hops, requests)
    if not len(large):
        return judge_flows(hops, requests, known)
    is_large = pc.is_in(hops[FLOW_ID], large)
    small = judge_flows(hops.filter(pc.invert(is_large)), requests, known)
    asked = requests.filter(pc.is_in(requests[FLOW_ID], large))
    rows = in_order(_together(hops.filter(is_large), in_order(asked, *ASKED)), FLOW_ID)
    return pa.concat_tables([small, *(run.flows for run in flow_runs(_batches(rows), known))])


def flow_runs(batches: Iterable[pa.RecordBatch], known: Known, summary: Summariser | None = None) -> Iterator[FlowRun]:
    """Give the flows of batches of hops and requests; the rows of a flow come together, and in their order.

    A summary must have the totals (`totals_of_rows`), and may have more.
    """
    for run in whole_chunks(batches, [FLOW_ID], known.rules.max_flow_rows, summary or TOTALS):
        hops, requests = apart(run.rows)
        totals = None
        if run.more is not None:
            counted = totals_of(hops, requests)
            totals = added(pa.concat_tables([counted, run.more.select(counted.column_names)]))
        yield FlowRun(judge_flows(hops, requests, known, totals), hops, requests, run.more)


def totals_of_rows(rows: pa.Table) -> pa.Table:
    """Give the totals of hops and requests."""
    return totals_of(*apart(rows))


TOTALS = Summariser(totals_of_rows, added)


def apart(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Hops and requests, each with its own columns."""
    is_request = pc.is_valid(rows[REQUEST])
    hops = rows.filter(pc.invert(is_request)).select(HOP_SCHEMA.names)
    asked = rows.filter(is_request)
    parts = asked[REQUEST].combine_chunks()
    columns = {FLOW_ID: asked[FLOW_ID]} | {name: pc.struct_field(parts, name) for name in OF_REQUEST}
    return hops, pa.table(columns).cast(pa.schema([REQUEST_SCHEMA.field(name) for name in columns]))


def _together(hops: pa.Table, requests: pa.Table) -> pa.Table:
    """Lay requests behind hops."""
    parts = requests.select(list(OF_REQUEST)).to_struct_array().combine_chunks()
    nothing = {field.name: pa.nulls(len(requests), field.type) for field in HOP_SCHEMA}
    asked = pa.table(nothing | {FLOW_ID: requests[FLOW_ID], REQUEST: parts.cast(ROW.field(REQUEST).type)}, schema=ROW)
    of_hops = [*hops.select(HOP_SCHEMA.names).columns, pa.nulls(len(hops), ROW.field(REQUEST).type)]
    return pa.concat_tables([pa.table(of_hops, schema=ROW), asked])


def _larger(limit: int, *tables: pa.Table) -> pa.Array:
    """Give the flows that have more rows than the limit."""
    if sum(map(len, tables)) <= limit:
        return pa.array([], pa.binary())
    chunks = [chunk for table in tables for chunk in table[FLOW_ID].chunks]
    counts = pa.chunked_array(chunks, pa.binary()).value_counts()
    return counts.filter(pc.greater(counts.field("counts"), limit)).field("values")


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    return rows.combine_chunks().to_batches()  # type: ignore[no-any-return]
