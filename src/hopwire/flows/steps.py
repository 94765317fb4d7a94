"""The columns of a flow, and of the steps and findings in it."""

from __future__ import annotations

import pyarrow as pa

from hopwire.model.columns import Column, schema_from_columns

__all__ = ["FINDING_TYPE", "FLOWS", "FLOW_SCHEMA", "STEP_TYPE"]

STEP_TYPE = pa.struct(
    [
        ("parent", pa.int32()),
        ("depth", pa.int32()),
        ("is_critical", pa.bool_()),
        ("from_node", pa.binary()),
        ("to_node", pa.binary()),
        ("identity", pa.binary()),
        ("version", pa.int32()),
        ("version_raw", pa.binary()),
        ("fate", pa.string()),
        ("left_at_ns", pa.int64()),
        ("arrived_at_ns", pa.int64()),
        ("latency_us", pa.int64()),
        ("is_corrected", pa.bool_()),
        ("is_reply", pa.bool_()),
        ("awaits", pa.string()),
        ("outcome_kind", pa.string()),
        ("outcome_reason", pa.string()),
        ("dead_reason", pa.string()),
        ("repeat", pa.string()),
        ("attempt", pa.int32()),
        ("size_bytes", pa.int64()),
        ("message_key", pa.binary()),
    ]
)
FINDING_TYPE = pa.struct(
    [("kind", pa.string()), ("message_key", pa.binary()), ("node", pa.binary()), ("detail", pa.string())]
)

# fmt: off
FLOWS = (
    Column("flow_id",          pa.binary(), "the correlation id; without one, home and callback key, or message key"),
    Column("correlation_id",   pa.binary(), "as on the wire"),
    Column("identity",         pa.binary(), "of the message that it begins with"),
    Column("outcome",          pa.string(), "the worst of its requests; without any: lost, open or delivered"),
    Column("started_at_ns",    pa.int64(),  "the first sighting of it, corrected"),
    Column("ended_at_ns",      pa.int64(),  "the last one; what came again or from somebody else does not count"),
    Column("duration_us",      pa.int64(),  "from the first to the last"),
    Column("depth",            pa.int32(),  "hops in its longest chain"),
    Column("hop_count",        pa.int64(),  "hops of all its messages"),
    Column("message_count",    pa.int64(),  "its messages"),
    Column("size_bytes",       pa.int64(),  "of all frames, once for each hop"),
    Column("lost_count",       pa.int64(),  "hops that are lost"),
    Column("dead_count",       pa.int64(),  "dead letters"),
    Column("in_flight_count",  pa.int64(),  "hops that the capture ends too early for"),
    Column("request_count",    pa.int64(),  "its requests"),
    Column("answered_count",   pa.int64(),  "those of them that were answered in time"),
    Column("nodes",            pa.list_(pa.binary()), "the nodes that it touched"),
    Column("contracts",        pa.list_(pa.binary()), "the identities of its messages"),
    Column("critical_path",    pa.list_(pa.int32()),  "the steps that lead to the last arrival, first to last"),
    Column("critical_path_us", pa.int64(),  "from the first of them to that arrival"),
    Column("steps",            pa.list_(STEP_TYPE),   "its hops by time; parent is a number among them, -1 is none"),
    Column("findings",         pa.list_(FINDING_TYPE), "what is odd about it"),
    Column("is_oversized",     pa.bool_(),  "whether it has more hops than steps; tree and findings are of these"),
)
# fmt: on
FLOW_SCHEMA = schema_from_columns(FLOWS)
