"""The tables that this room makes: the columns of hops, requests, flows and clocks, and the words that stand in them.

| table | a row is |
|---|---|
| hops | one crossing of one message from one node to another, or its end at a node |
| requests | one question, and what became of it |
| flows | everything that belongs to one correlation id |
| clocks | one node that captures: when it captured, and how wrong its clock is |
| lives | one life of one node: when it began and ended, and how |

What must change with a column: the judge that fills it, and `docs/tables.md`, which is generated.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hopwire.model.columns import Column, schema_from_columns

__all__ = [
    "AWAITS",
    "CLOCKS",
    "CLOCK_SCHEMA",
    "CLOSED",
    "ENDINGS",
    "FATE",
    "FATES",
    "FATE_NAMES",
    "FINDING_TYPE",
    "FLOWS",
    "FLOW_OUTCOMES",
    "FLOW_SCHEMA",
    "HOPS",
    "HOP_SCHEMA",
    "LIFE_SCHEMA",
    "LIVES",
    "NO_CROSSINGS",
    "OPEN",
    "OUTCOMES",
    "OVERHEARD",
    "REFERENCE",
    "REPEATS",
    "REQUESTS",
    "REQUEST_SCHEMA",
    "STEP_TYPE",
    "STRETCH",
    "in_schema",
]

# -- hops

# fmt: off
FATES = {
    # fate          what is known
    "arrived":      "seen to leave and to arrive",
    "lost":         "seen to leave and never to arrive; the other node was looking, or was not there",
    "in_flight":    "seen to leave so near the end of the capture that the message may still have arrived",
    "unwitnessed":  "seen to leave; the other node did not capture, skipped sightings, or ended with some unwritten",
    "unsent":       "seen to arrive; the sender did not capture, had just begun, skipped sightings, or had just ended",
    "duplicate":    "seen to arrive more often than to leave: the network, or somebody, delivered the message again",
    "foreign":      "seen to arrive from a node that captures and never sent the message there",
    "dead":         "the message ended at the node as a dead letter",
    "local":        "the message went from an actor or a hub to another within the node",
    "told":         "no message: how a promise ended at the node, if not by an answer in the capture",
}
FATE = {name: number for number, name in enumerate(FATES)}
FATE_NAMES = pa.array(list(FATES))
NO_CROSSINGS = ("dead", "local", "told")  # hops that go to no other node
AWAITS = ("", "receipt", "answer", "stream")
REPEATS = ("", "duplicate", "replayed")

HOPS = (
    Column("flow_id",         pa.binary(), "the correlation id; without one, home and callback key, or message key"),
    Column("correlation_id",  pa.binary(), "as on the wire"),
    Column("message_key",     pa.binary(), "the message, wherever it is seen"),
    Column("attempt",         pa.int32(),  "number of the attempt to deliver the message, from 0"),
    Column("crossing",        pa.int32(),  "how many times the message crossed from the one node to the other before"),
    Column("is_first",        pa.bool_(),  "whether a message begins with this hop: the sum is the number of messages"),
    Column("from_node",       pa.binary(), "the node that the message left, or where it ended"),
    Column("to_node",         pa.binary(), "the node that the message went to; empty if dead, told or not known"),
    Column("fate",            pa.string(), "what is known of the crossing: " + ", ".join(FATES)),
    Column("left_at_ns",      pa.int64(),  "when the message left or ended, corrected; null if not seen"),
    Column("arrived_at_ns",   pa.int64(),  "when the message arrived, corrected; null if not seen"),
    Column("left_incarnation", pa.int64(), "the life of from_node in which the message was seen to leave"),
    Column("left_sequence",   pa.int64(),  "number of the sighting at from_node in that life"),
    Column("arrived_incarnation", pa.int64(), "the life of to_node in which the message was seen to arrive"),
    Column("arrived_sequence", pa.int64(), "number of the sighting at to_node in that life"),
    Column("latency_us",      pa.int64(),  "from leaving to arriving; null where leaving or arriving was not seen"),
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
    Column("is_reply",        pa.bool_(),  "whether the message is an answer, an outcome, an exception or a receipt"),
    Column("awaits",          pa.string(), "what the callback points ask for: answer, stream, receipt or nothing"),
    Column("outcome_kind",    pa.string(), "of outcomes and exceptions: received, failed, undelivered"),
    Column("outcome_reason",  pa.string(), "the reason that the outcome or the exception gives"),
    Column("verdict",         pa.string(), "of the signature where the message arrived, or else where it left"),
    Column("dead_reason",     pa.string(), "why a dead letter went no further"),
    Column("told",            pa.string(), "of fate told: the error that whoever asked was told, or answered"),
    Column("told_reason",     pa.string(), "of fate told: the reason of the error, a code"),
    Column("is_insisted",     pa.bool_(),  "whether whoever asked sends the question until the promise is kept"),
    Column("is_control",      pa.bool_(),  "whether nodes say it among themselves: greetings, signs of life, routes"),
    Column("repeat",          pa.string(), "of an arrival that repeats one before: duplicate or replayed"),
    Column("is_route_wrong",  pa.bool_(),  "whether the trace of routers does not end with from_node, or is too short"),
    Column("becomes",         pa.binary(), "within a gateway: message_key as which it goes on in the other network"),
)
# fmt: on
HOP_SCHEMA = schema_from_columns(HOPS)


# -- requests

# fmt: off
OUTCOMES = {  # the worst first
    # outcome       what became of the request
    "lost":         "no answer: a hop was lost, or ended as a dead letter, or nothing came in time",
    "expired":      "no answer: the time to live was over first",
    "late":         "an answer came home when nobody waited for it any more",
    "failed":       "an exception, or the word that the question could not be delivered, came home and was taken",
    "open":         "the capture ends too early to say",
    "answered":     "an answer came home and was taken",
}
FLOW_OUTCOMES = {
    **OUTCOMES,
    "delivered":    "a flow without requests, of which nobody saw anything lost",
}
REQUESTS = (
    Column("flow_id",                         pa.binary(), "the flow of the request"),
    Column("correlation_id",                  pa.binary(), "as on the wire"),
    Column("callback_receiver_node_identity", pa.binary(), "the node where answers go; empty in V3 and V4"),
    Column("callback_receiver_identity",      pa.binary(), "the receiver that answers go to"),
    Column("callback_key",                    pa.int64(),  "which request of that receiver; 0 in V3 and V4"),
    Column("home_node",                       pa.binary(), "the node where answers go, or that asked"),
    Column("message_key",                     pa.binary(), "the question"),
    Column("identity",                        pa.binary(), "the identity of the question's contract"),
    Column("version",                         pa.int32(),  "the version of the contract in V5 and V6"),
    Column("version_raw",                     pa.binary(), "the version of the contract in V3 and V4"),
    Column("partition",                       pa.binary(), "the partition of the contract"),
    Column("awaits",                          pa.string(), "answer, stream or receipt"),
    Column("asked_at_ns",                     pa.int64(),  "when the question left, or was first seen; corrected"),
    Column("deadline_ns",                     pa.int64(),  "when the time to live is over; null if there is none"),
    Column("outcome",                         pa.string(), "answered, failed, late, expired, lost or open"),
    Column("is_outcome_guessed",              pa.bool_(),  "whether nobody saw the reply that decides arrive, or home "
                                                           "may have given it up unseen"),
    Column("open_until_ns",                   pa.int64(),  "if open: until when an answer may come, corrected; null if "
                                                           "not: the deadline and the patience of the lake"),
    Column("reason",                          pa.string(), "of a failure or a dead letter, or hop_lost, no_answer"),
    Column("told",                            pa.string(), "what its asker was told, if the capture has it: an error "
                                                           "such as Timeout, or answered; null if not"),
    Column("told_reason",                     pa.string(), "the reason of the error that its asker was told, or null"),
    Column("told_at_ns",                      pa.int64(),  "when its asker was told, corrected, or null"),
    Column("is_told_otherwise",               pa.bool_(),  "whether told and outcome contradict each other"),
    Column("answered_at_ns",                  pa.int64(),  "when the answer or the failure came home, or null"),
    Column("latency_us",                      pa.int64(),  "from asking to answered_at_ns"),
    Column("answer_identity",                 pa.binary(), "the identity of the answer or the failure that came home"),
    Column("lost_from_node",                  pa.binary(), "if lost: the node that a message left, ended at, or that "
                                                           "had it when that node ended, or where it was last seen"),
    Column("lost_to_node",                    pa.binary(), "if lost between nodes: the node that a message went to"),
    Column("is_holder_gone",                  pa.bool_(),  "if lost after it arrived: whether lost_from_node ended"),
    Column("reached_node",                    pa.binary(), "the last node where the question itself arrived, or null"),
    Column("last_seen_node",                  pa.binary(), "where a message of the request was last seen"),
    Column("last_seen_at_ns",                 pa.int64(),  "when a message of the request was last seen, corrected"),
    Column("attempts",                        pa.int32(),  "how often the question was sent, as the message counts"),
    Column("hop_count",                       pa.int64(),  "hops of all messages of the request"),
    Column("is_reused",                       pa.bool_(),  "whether several questions have the callback key"),
    Column("is_callback_unreached",           pa.bool_(),  "whether an answer left its node and never came home"),
    Column("is_oversized",                    pa.bool_(),  "whether hops beyond the limit were only counted"),
    Column("is_unhandled",                    pa.bool_(),  "whether the question arrived and nothing followed"),
    Column("is_insisted",                     pa.bool_(),  "whether its asker sends it until the promise is kept"),
    Column("is_control",                      pa.bool_(),  "whether nodes ask it among themselves"),
)
# fmt: on
REQUEST_SCHEMA = schema_from_columns(REQUESTS)


# -- flows

STEP_TYPE = pa.struct(
    [
        ("parent", pa.int32()),
        ("is_parent_guessed", pa.bool_()),
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
        ("told", pa.string()),
        ("told_reason", pa.string()),
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
    Column("identity",         pa.binary(), "the identity of the message that the flow begins with"),
    Column("outcome",          pa.string(), "the worst of its requests; without any: lost, expired, open or delivered"),
    Column("started_at_ns",    pa.int64(),  "the first sighting of the flow, corrected"),
    Column("ended_at_ns",      pa.int64(),  "the last sighting, corrected, without repeats and messages of strangers"),
    Column("duration_us",      pa.int64(),  "from the first sighting to the last"),
    Column("depth",            pa.int32(),  "hops in its longest chain"),
    Column("hop_count",        pa.int64(),  "hops of all its messages"),
    Column("message_count",    pa.int64(),  "its messages"),
    Column("size_bytes",       pa.int64(),  "of all frames, once for each hop"),
    Column("lost_count",       pa.int64(),  "hops that are lost"),
    Column("dead_count",       pa.int64(),  "dead letters"),
    Column("in_flight_count",  pa.int64(),  "hops that the capture ends too early for"),
    Column("request_count",    pa.int64(),  "its requests"),
    Column("answered_count",   pa.int64(),  "requests that were answered"),
    Column("nodes",            pa.list_(pa.binary()), "the nodes that the flow touched"),
    Column("contracts",        pa.list_(pa.binary()), "the identities of its messages"),
    Column("critical_path",    pa.list_(pa.int32()),  "the steps that lead to the last arrival, first to last"),
    Column("critical_path_us", pa.int64(),  "from the first step of the critical path to the last arrival"),
    Column("steps",            pa.list_(STEP_TYPE),   "its hops by time; parent is a number among them, -1 is none; "
                                                      "is_parent_guessed: several may be the parent"),
    Column("findings",         pa.list_(FINDING_TYPE), "what is odd about the flow"),
    Column("is_oversized",     pa.bool_(),  "whether there are more hops than steps; tree and findings are of steps"),
    Column("is_control",       pa.bool_(),  "whether nodes alone speak in the flow"),
)
# fmt: on
FLOW_SCHEMA = schema_from_columns(FLOWS)


# -- clocks

CLOSED, OPEN, OVERHEARD = "closed", "open", "overheard"
# fmt: off
ENDINGS = {
    # ending    how an incarnation ends in its captures
    CLOSED:     "the node closed its capture: everything that it saw is there",
    OPEN:       "the node did not close its capture, or nobody knows: the last sightings may be missing",
    OVERHEARD:  "somebody else recorded what the node saw: there are no dead letters",
}
# fmt: on
STRETCH = pa.struct([("incarnation", pa.int64()), ("first_ns", pa.int64()), ("last_ns", pa.int64())])
LIFE = pa.struct([*STRETCH, ("ending", pa.string())])
REFERENCE = pa.struct([("incarnation", pa.int64()), ("since_ns", pa.int64()), ("reference_node", pa.binary())])
OFFSET = pa.struct(
    [
        ("incarnation", pa.int64()),
        ("since_ns", pa.int64()),
        ("offset_ns", pa.int64()),
        ("drift", pa.float64()),
        ("at_ns", pa.int64()),
    ]
)
# fmt: off
CLOCKS = (
    Column("node",             pa.binary(), "identity of a node that captures"),
    Column("node_name",        pa.string(), "what people call the node"),
    Column("first_seen_at_ns", pa.int64(),  "its first sighting, by its own clock"),
    Column("last_seen_at_ns",  pa.int64(),  "its last sighting, by its own clock"),
    Column("sighting_count",   pa.int64(),  "how many sightings it wrote down"),
    Column("skipped",          pa.int64(),  "how many sightings it could not write down"),
    Column("missing",          pa.int64(),  "how many other sightings are in no source, by their numbers"),
    Column("lives",            pa.list_(LIFE),    "first and last sighting of each incarnation, by its own clock, and "
                                                  "how its captures end: " + ", ".join(ENDINGS)),
    Column("skips",            pa.list_(STRETCH), "from when to when sightings are missing, by its own clock"),
    Column("reference_node",   pa.binary(), "the node whose clock the times are corrected to"),
    Column("offset_ns",        pa.int64(),  "how far the clock is ahead of the reference; time minus this is right"),
    Column("offsets",          pa.list_(OFFSET),
           "if the offset changes: from since_ns on, by its own clock, it is offset_ns at at_ns, and more by drift "
           "with each unit of time. offset_ns is then the median. An incarnation that is missing is as the one before"),
    Column("doubts",           pa.list_(STRETCH), "from when to when its clock was set, nobody knows when exactly"),
    Column("references",       pa.list_(REFERENCE), "if the reference changes: which, and from when on"),
    Column("is_corrected",     pa.bool_(),  "whether traffic in both directions tells the offset; if not, it is 0"),
    Column("via_node",         pa.binary(), "the node whose clock this clock was compared with"),
    Column("error_ns",         pa.int64(),  "how wrong the offset may be at most; null if not corrected"),
    Column("crossing_count",   pa.int64(),  "crossings that were compared, both directions"),
)
# fmt: on
CLOCK_SCHEMA = schema_from_columns(CLOCKS)


# -- lives

# fmt: off
LIVES = (
    Column("node",         pa.binary(), "identity of the node"),
    Column("node_name",    pa.string(), "what people call the node"),
    Column("incarnation",  pa.int64(),  "which start of the node this is"),
    Column("began_at_ns",  pa.int64(),  "the first sighting of the life, corrected"),
    Column("ended_at_ns",  pa.int64(),  "the last sighting of the life, corrected"),
    Column("ending",       pa.string(), "stopped, died or running: see `flows/lives.py`"),
    Column("back_at_ns",   pa.int64(),  "when a node of the same name began anew, corrected; null if none did"),
    Column("away_us",      pa.int64(),  "from the end of the life to back_at_ns"),
    Column("back_as_node", pa.binary(), "identity under which the node came back; null if it did not"),
)
# fmt: on
LIFE_SCHEMA = schema_from_columns(LIVES)


def in_schema(schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Give columns as a table of this schema: in its order, and as its types."""
    return pa.table([columns[field.name].cast(field.type) for field in schema], schema=schema)
