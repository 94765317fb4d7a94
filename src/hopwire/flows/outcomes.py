"""The columns of a request, and what may become of it."""

from __future__ import annotations

import pyarrow as pa

from hopwire.model.columns import Column, schema_from_columns

__all__ = ["FLOW_OUTCOMES", "OUTCOMES", "REQUESTS", "REQUEST_SCHEMA"]

# fmt: off
OUTCOMES = {  # the worst first
    # outcome       what became of the request
    "lost":         "no answer: a hop was lost, or ended as a dead letter, or nothing came in time",
    "expired":      "no answer: the time to live was over before",
    "late":         "an answer came home when nobody waited for it any more",
    "failed":       "an exception came home and was taken, or the word that it could not be delivered",
    "open":         "the capture ends too early to say",
    "answered":     "an answer came home and was taken",
}
FLOW_OUTCOMES = {
    **OUTCOMES,
    "delivered":    "a flow without requests, of which nothing was lost",
}
REQUESTS = (
    Column("flow_id",                         pa.binary(), "the flow that it belongs to"),
    Column("correlation_id",                  pa.binary(), "as on the wire"),
    Column("callback_receiver_node_identity", pa.binary(), "the node where answers go; empty in V3 and V4"),
    Column("callback_receiver_identity",      pa.binary(), "the receiver that answers go to"),
    Column("callback_key",                    pa.int64(),  "which request of that receiver; 0 in V3 and V4"),
    Column("home_node",                       pa.binary(), "the node where answers go, or that asked"),
    Column("message_key",                     pa.binary(), "the question"),
    Column("identity",                        pa.binary(), "its contract's identity"),
    Column("version",                         pa.int32(),  "its version in V5 and V6"),
    Column("version_raw",                     pa.binary(), "its version in V3 and V4"),
    Column("partition",                       pa.binary(), "its partition"),
    Column("awaits",                          pa.string(), "answer or receipt"),
    Column("asked_at_ns",                     pa.int64(),  "when it left, or was first seen; corrected"),
    Column("deadline_ns",                     pa.int64(),  "when its time to live is over; null without one"),
    Column("outcome",                         pa.string(), "answered, failed, late, expired, lost or open"),
    Column("reason",                          pa.string(), "of an outcome or a dead letter, or hop_lost, no_answer"),
    Column("answered_at_ns",                  pa.int64(),  "when the answer or the failure came home, or null"),
    Column("latency_us",                      pa.int64(),  "from asking to that"),
    Column("answer_identity",                 pa.binary(), "what came home"),
    Column("lost_from_node",                  pa.binary(), "if lost: the node that it left, or where it ended"),
    Column("lost_to_node",                    pa.binary(), "if a hop was lost, or nobody saw it arrive: where it went"),
    Column("reached_node",                    pa.binary(), "the last node where the question itself arrived, or null"),
    Column("last_seen_node",                  pa.binary(), "where a message of it was last seen"),
    Column("last_seen_at_ns",                 pa.int64(),  "and when"),
    Column("attempts",                        pa.int32(),  "how many times the question was sent, by its own count"),
    Column("hop_count",                       pa.int64(),  "hops of all messages of it"),
    Column("is_reused",                       pa.bool_(),  "whether several questions have its key"),
    Column("is_callback_unreached",           pa.bool_(),  "whether an answer left its node and never came home"),
    Column("is_oversized",                    pa.bool_(),  "whether not all of its hops were looked at, but counted"),
    Column("is_unhandled",                    pa.bool_(),  "whether the question arrived and nothing followed"),
)
# fmt: on
REQUEST_SCHEMA = schema_from_columns(REQUESTS)
