"""`silver.messages`: every sighting that is a message."""

from __future__ import annotations

from hopwire.lake.bronze.sightings import SEEN
from hopwire.lake.split import MESSAGES
from hopwire.lake.table import Column, Table, declare

__all__ = ["MESSAGES_TABLE", "SEEN_AND_SIZED"]

# fmt: off
SEEN_AND_SIZED = SEEN | {
    "direction":   "in, out or dead",
    "dead_reason": "why a dead letter went no further",
    "dead_note":   "the same in words, where there is more to say",
    "frame_count": "frames on the wire",
    "size_bytes":  "of all frames",
}
MEANINGS = SEEN_AND_SIZED | {
    "wire_format":                     "number of the wire format: 3, 4, 5 or 6",
    "identity":                        "the message contract's identity",
    "version":                         "its version in V5 and V6",
    "version_raw":                     "its version in V3 and V4",
    "partition":                       "its partition",
    "body_frames":                     "the body",
    "correlation_id":                  "the flow it belongs to",
    "receiver_identity":               "the hub or actor it is for; empty for any that takes it",
    "receiver_node_identity":          "the node of that receiver",
    "callback_points":                 "the contracts that are an answer",
    "callback_key":                    "which request of the callback receiver; 0 where there is none",
    "callback_receiver_identity":      "the hub that waits for an answer",
    "callback_receiver_node_identity": "the node of that hub",
    "routing":                         "the routers it passed, if it is traced",
    "hops":                            "how often it was sent from node to node",
    "trace_options":                   "what routers are to write down",
    "distribution":                    "0 unicast, 1 broadcast",
    "ttl_ticks":                       "time to live in 100 ns; 0 is for ever",
    "domain":                          "the security domain it claims",
    "signature":                       "as it came",
    "socket_identity":                 "what a ROUTER socket put in front",
    "extensions":                      "frames beyond the format, hopwire's and others'",
    "message_id":                      "from hopwire's extension frame: the same for every attempt; else empty",
    "attempt":                         "from there: number of the attempt to deliver it, from 0",
    "sent_at_ns":                      "from there: when it was first sent, by the clock of that node; else 0",
    "traceparent":                     "from there: W3C trace context; else empty",
    "message_key":                     "16 bytes, the same wherever the message is seen: see `flows/keys.py`",
    "verdict":                         "on the signature: valid, invalid, unsigned, no_key, not_in_domain",
    "outcome_kind":                    "of outcomes: received, failed, undelivered, ended; else empty",
    "outcome_reason":                  "the reason it gives",
    "findings":                        "what is odd about this message alone: bad_extension, bad_outcome",
}
# fmt: on

MESSAGES_TABLE = declare(
    Table(
        "silver.messages",
        key=("segment", "node", "incarnation", "sequence"),
        reads=("bronze.sightings",),
        columns=tuple(Column(each.name, each.type, MEANINGS[each.name]) for each in MESSAGES),
        meaning="One sighting decoded: every field of the wire formats, sizes, the verdict on its signature, its key.",
    )
)
