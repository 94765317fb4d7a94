"""The columns of a hop: one crossing of one message from one node to another, or its end at a node."""

from __future__ import annotations

import pyarrow as pa

from hopwire.model.columns import Column, schema_from_columns

__all__ = ["AWAITS", "FATES", "HOPS", "HOP_SCHEMA", "REPEATS"]

# fmt: off
FATES = {
    # fate          what is known
    "arrived":      "seen to leave and to arrive",
    "lost":         "seen to leave; the other node was looking, or was not there, and it never came",
    "in_flight":    "seen to leave, so near the end of the capture that it may still have arrived",
    "unwitnessed":  "seen to leave; the other node did not capture, skipped sightings, or ended with some unwritten",
    "unsent":       "seen to arrive; the node it came from did not capture, skipped sightings, or ended shortly before",
    "duplicate":    "seen to arrive more often than it left: the network, or somebody, delivered it again",
    "foreign":      "seen to arrive from a node that captures and never sent it there",
    "dead":         "ended at the node as a dead letter",
}
AWAITS = ("", "receipt", "answer")
REPEATS = ("", "duplicate", "replayed")

HOPS = (
    Column("flow_id",         pa.binary(), "the correlation id; without one, home and callback key, or message key"),
    Column("correlation_id",  pa.binary(), "as on the wire"),
    Column("message_key",     pa.binary(), "the message, wherever it is seen"),
    Column("attempt",         pa.int32(),  "number of the attempt to deliver it, from 0"),
    Column("crossing",        pa.int32(),  "how many times before this message crossed from the one node to the other"),
    Column("is_first",        pa.bool_(),  "whether a message begins with it: their sum is the messages"),
    Column("from_node",       pa.binary(), "the node it left, or where it ended"),
    Column("to_node",         pa.binary(), "the node it went to; empty if the capture does not say, and if dead"),
    Column("fate",            pa.string(), "what is known of the crossing: " + ", ".join(FATES)),
    Column("left_at_ns",      pa.int64(),  "when it left, or ended as a dead letter, corrected; null if not seen"),
    Column("arrived_at_ns",   pa.int64(),  "when it arrived, corrected; null if not seen"),
    Column("left_incarnation", pa.int64(), "the life of from_node in which it was seen to leave"),
    Column("left_sequence",   pa.int64(),  "number of the sighting at from_node in that life"),
    Column("arrived_incarnation", pa.int64(), "the life of to_node in which it was seen to arrive"),
    Column("arrived_sequence", pa.int64(), "number of the sighting at to_node in that life"),
    Column("latency_us",      pa.int64(),  "from leaving to arriving; null where one of them was not seen"),
    Column("is_corrected",    pa.bool_(),  "whether the clocks are known against each other; else latency is doubtful"),
    Column("wire_format",     pa.int8(),   "number of the wire format"),
    Column("identity",        pa.binary(), "the message contract's identity"),
    Column("version",         pa.int32(),  "its version in V5 and V6"),
    Column("version_raw",     pa.binary(), "its version in V3 and V4"),
    Column("partition",       pa.binary(), "its partition"),
    Column("distribution",    pa.int32(),  "0 unicast, 1 broadcast"),
    Column("hop_count",       pa.int32(),  "hops as the message counts them"),
    Column("ttl_ticks",       pa.int64(),  "time to live as the message has it, in 100 ns; 0 is for ever"),
    Column("size_bytes",      pa.int64(),  "of all frames"),
    Column("home_node",       pa.binary(), "the node where an answer goes; empty in V3 and V4"),
    Column("home_receiver",   pa.binary(), "the receiver that an answer goes to; empty where none is awaited"),
    Column("callback_key",    pa.int64(),  "which request of that receiver; 0 in V3 and V4"),
    Column("is_reply",        pa.bool_(),  "whether it is an answer, an outcome, an exception or a receipt"),
    Column("awaits",          pa.string(), "what its callback points ask for: answer, receipt or nothing"),
    Column("outcome_kind",    pa.string(), "of outcomes and exceptions: received, failed, undelivered"),
    Column("outcome_reason",  pa.string(), "the reason it gives"),
    Column("verdict",         pa.string(), "of the signature where it arrived, or where it left"),
    Column("dead_reason",     pa.string(), "why a dead letter went no further"),
    Column("repeat",          pa.string(), "of an arrival that came before: duplicate or replayed"),
    Column("is_route_wrong",  pa.bool_(),  "whether the routers it names do not end in from_node, or are too few"),
)
# fmt: on
HOP_SCHEMA = schema_from_columns(HOPS)
