"""Every reason that hopwire gives: a short stable code, and what the code means.

| table | the reason stands for |
|---|---|
| `DECODE_REASONS` | bytes that are not a message |
| `ENCODE_REASONS` | a message that cannot be written |
| `ROUTING_REASONS` | a message that finds nobody |
| `NODE_REASONS` | a message that ends in a node without being handled |
| `PROMISE_REASONS` | a question that has no answer, though the message was handled or got lost on the way |
| `SKIP_REASONS` | sightings that are missing in a capture |

The codes are part of the public interface. They stand in errors, in the quarantine table, in dead letters and in
captures. A code may be added, and is never renamed.
"""

from __future__ import annotations

__all__ = [
    "DEAD_REASONS",
    "DECODE_REASONS",
    "ENCODE_REASONS",
    "NODE_REASONS",
    "PROMISE_REASONS",
    "ROUTING_REASONS",
    "SKIP_REASONS",
    "WIRE_REASONS",
]

# fmt: off
DECODE_REASONS = {
    # code               what was found
    "not_frames":        "the input is not a sequence of byte strings",
    "too_few_frames":    "fewer frames than the format needs",
    "too_many_frames":   "more frames than the limit allows",
    "too_many_bytes":    "the frames together are larger than the limit allows",
    "unknown_version":   "no format's number stands where its number belongs",
    "retired_version":   "the number of a format that is older than any document: V1 or V2",
    "retired_layout":    "the number 4 on one of the short-lived layouts whose tail is not the documented one",
    "ambiguous_version": "two formats fit whole",
    "bad_width":         "a frame with a fixed width has another one",
    "bad_offset":        "an offset that points into another block, into the tail or beyond the frames",
    "bad_count":         "a count that is negative, or for which there is no room",
    "bad_stride":        "fewer frames per entry than an entry has",
    "too_many_entries":  "more entries than the limit allows",
    "truncated":         "the meta frame, or an entry in it, ends within a number",
    "negative_length":   "a length or size below zero",
    "bad_length":        "a length or size beyond the end of what holds it",
    "trailing_bytes":    "the meta frame goes on after its last field",
    "invalid_utf8":      "text that is not UTF-8",
    "bad_train":         "several messages in one frame, whose lengths are not what is there",
    "bad_extension":     "an extension frame of hopwire's own that cannot be read",
}

ENCODE_REASONS = {
    # code               what was asked for
    "overflow":          "a number that does not fit into its field",
    "cannot_carry":      "a field is set that the format has no place for",
    "bad_value":         "a value of another type than the field has",
    "invalid_utf8":      "text that cannot be written as UTF-8",
}

ROUTING_REASONS = {
    # code                        what was found
    "no_route":                   "no actor that may be asked handles the contract",
    "unknown_node":               "the receiver node is not among the known nodes",
    "unknown_receiver":           "the receiver is registered neither here nor on a known node",
    "receiver_does_not_handle":   "the receiver is here, and handles nothing of this version",
    "broadcast_with_receiver":    "a broadcast that names a receiver or a receiver node",
    "unknown_distribution":       "a distribution that is neither unicast nor broadcast",
    "hop_limit":                  "the message would have to leave, and was sent away too often already",
    "excluded":                   "all who could take the message were excluded by the caller",
}

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
    "no_proof":           "it announced routes of a domain, or spoke about a question, without the key of the domain",
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
    "no_stream":          "it asked for a stream, and its answer has no number: more of them may get lost",
    "unexpected_answer":  "the method that took it returned something that was not asked for and that nobody takes",
}

SKIP_REASONS = {
    # code        why sightings are missing
    "too_slow":   "the disk could not follow, and the buffer was full",
    "disk_error": "the disk refused to write, and the buffer was full; the note says what it said",
    "too_large":  "the message is larger than the whole buffer",
    "not_frames": "the frames are not byte strings",
    "closed":     "the capture was being closed",
    "bad_train":  "the train that holds them is damaged in the capture; the note says how",
}
# fmt: on

WIRE_REASONS = {**ENCODE_REASONS, **DECODE_REASONS}
DEAD_REASONS = {**WIRE_REASONS, **ROUTING_REASONS, **NODE_REASONS}  # all that a dead letter can have
