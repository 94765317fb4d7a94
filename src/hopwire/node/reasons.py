"""Every way in which a message ends in a node without being handled: a short stable code and what it means.

To these come the codes of `wire/reasons.py`, for what is not a message, and of `routing/reasons.py`, for what finds
nobody. A question can be handled, or get lost on the way, and still have no answer: `PROMISE_REASONS`.
"""

from __future__ import annotations

from hopwire.routing import REASONS as ROUTING_REASONS
from hopwire.wire import REASONS as WIRE_REASONS

__all__ = ["DEAD_REASONS", "NODE_REASONS", "PROMISE_REASONS"]

# fmt: off
NODE_REASONS = {
    # code                what happened
    "expired":            "its time to live was over",
    "queue_full":         "there was no room for it, and the policy was not to wait",
    "unreachable":        "the node that it was to go to cannot be reached",
    "closed":             "the actor, the hub or the node that had it was stopped",
    "handler_missing":    "the actor that it names has no method for it",
    "handler_failed":     "the method that took it raised an error",
    "bad_payload":        "its body is not what its contract promises",
    "bad_signature":      "its signature was not accepted; the detail is the verdict",
    "bad_control":        "a control message named an address or a receiver that is none, or spoke for another node",
    "not_met":            "it came in a train over a connection whose node has not said hello",
    "node_failed":        "the node itself failed while it took the message; its log says how",
    "cannot_sign":        "no domain owns it, or none of the keys may sign it now",
    "duplicate":          "it has arrived before",
    "nobody_waits":       "an answer, or what became of a question, that nobody waits for any more",
    "wrong_flow":         "it has the key of a question, and the correlation id of another flow",
    "unexpected_answer":  "an answer of another contract than those that were asked for",
}
PROMISE_REASONS = {
    # code                what became of a question
    "timed_out":          "nothing came back in time",
    "no_answer":          "the method that took it returned nothing",
    "unexpected_answer":  "the method that took it returned something that was not asked for and that nobody takes",
}
# fmt: on

DEAD_REASONS = {**WIRE_REASONS, **ROUTING_REASONS, **NODE_REASONS}
