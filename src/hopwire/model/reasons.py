"""Every reason that hopwire gives: a short stable code, what the code means, who sees it, and what to do.

`REASONS` is the table; everything else here is a part of it:

| part | the reason stands for |
|---|---|
| `DECODE_REASONS` | bytes that are not a message |
| `ENCODE_REASONS` | a message that cannot be written |
| `ROUTING_REASONS` | a message that finds nobody |
| `NODE_REASONS` | a message that ends in a node without being handled |
| `PROMISE_REASONS` | a question that has no answer, though the message was handled or got lost on the way |
| `SKIP_REASONS` | sightings that are missing in a capture |
| `LOSS_REASONS` | a request that the lake calls lost, where no dead letter says why |

The codes are part of the public interface. They stand in errors, in the quarantine table, in dead letters and in
captures. A code may be added, and is never renamed. What must change with the table: `docs/reasons.md`, which is
generated.

The trap: one code may stand in two parts, such as `closed` for a node and for a capture, and may mean another thing in
each: `no_answer` of a question is a handler that returned nothing, and in the lake a question of which nobody knows.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "DEAD_REASONS",
    "DECODE_REASONS",
    "ENCODE_REASONS",
    "LOSS_REASONS",
    "NODE_REASONS",
    "PROMISE_REASONS",
    "REASONS",
    "ROUTING_REASONS",
    "SKIP_REASONS",
    "WIRE_REASONS",
    "Reason",
]

READING, WRITING, ROUTING = "reading", "writing", "finding the way"
IN_A_NODE, OF_A_QUESTION, IN_A_CAPTURE, IN_THE_LAKE = "in a node", "of a question", "in a capture", "in the lake"


class Reason(NamedTuple):
    """One reason: when it is found, its code, its meaning, who sees it, and what they can do."""

    found: str
    code: str
    meaning: str
    seen_by: str
    remedy: str


# who sees it
READER = "whoever decodes; the node that got the bytes, as a dead letter; the lake, in silver.quarantine"
WRITER = "whoever encodes or sends, as `WireError` or `NoRoute`"
NO_ROUTE = "whoever asks or sends, as `NoRoute`; the node that had it, as a dead letter"
EXPIRED = "whoever asks or sends, as `Expired`; the node that had it, as a dead letter"
QUEUE_FULL = "whoever asks or sends, as `QueueFull`; the node that had it, as a dead letter"
UNREACHABLE = "whoever asks or sends, as `Unreachable`; the node that had it, as a dead letter"
NODE_ONLY = "the node that had it, as a dead letter; whoever asked has to wait for the timeout"
RECEIVER_ONLY = "the node that it came to, as a dead letter; nobody waits for it"
LAKE = "the lake, in `reason` of gold.requests; `hopwire flows show`"
CAPTURE = "`hopwire capture ls`; the lake, where hops of that time are unwitnessed"

# what to do
OTHER_LAYOUT = "the sender writes another layout, or the bytes were damaged: hopwire decode marks the byte"
NOT_OURS = "something else than a node speaks here: find the sender by the peer in the capture"
RAISE_LIMITS = "raise the limit in Limits if such messages are meant to be; else look for their sender"

# fmt: off
REASONS = (
    Reason(READING, "not_frames", "the input is not a sequence of byte strings", READER,
           "give decode a list of bytes"),
    Reason(READING, "too_few_frames", "fewer frames than the format needs", READER, OTHER_LAYOUT),
    Reason(READING, "too_many_frames", "more frames than the limit allows", READER, RAISE_LIMITS),
    Reason(READING, "too_many_bytes", "the frames together are larger than the limit allows", READER, RAISE_LIMITS),
    Reason(READING, "unknown_version", "no format's number stands where its number belongs", READER, NOT_OURS),
    Reason(READING, "retired_version", "the number of a format that is older than any document: V1 or V2", READER,
           "update the sender; V3 is the oldest format that is read"),
    Reason(READING, "retired_layout",
           "the number 4 on one of the short-lived layouts whose tail is not the documented one", READER,
           "update the sender to a release with the documented V4"),
    Reason(READING, "ambiguous_version", "two formats fit whole", READER,
           "the body of a V3 message imitates another format: name the format with --format, or send V6"),
    Reason(READING, "bad_width", "a frame with a fixed width has another one", READER, OTHER_LAYOUT),
    Reason(READING, "bad_offset", "an offset that points into another block, into the tail or beyond the frames",
           READER, OTHER_LAYOUT),
    Reason(READING, "bad_count", "a count that is negative, or for which there is no room", READER, OTHER_LAYOUT),
    Reason(READING, "bad_stride", "fewer frames per entry than an entry has", READER, OTHER_LAYOUT),
    Reason(READING, "too_many_entries", "more entries than the limit allows", READER, RAISE_LIMITS),
    Reason(READING, "truncated", "the meta frame, or an entry in it, ends within a number", READER, OTHER_LAYOUT),
    Reason(READING, "negative_length", "a length or size below zero", READER, OTHER_LAYOUT),
    Reason(READING, "bad_length", "a length or size beyond the end of what holds it", READER, OTHER_LAYOUT),
    Reason(READING, "trailing_bytes", "the meta frame goes on after its last field", READER, OTHER_LAYOUT),
    Reason(READING, "invalid_utf8", "text that is not UTF-8", READER,
           "the sender has to write domains and URIs as UTF-8"),
    Reason(READING, "bad_train", "several messages in one frame, whose lengths are not what is there", READER,
           OTHER_LAYOUT),
    Reason(READING, "bad_extension", "an extension frame of hopwire's own that cannot be read", READER, OTHER_LAYOUT),

    Reason(WRITING, "overflow", "a number that does not fit into its field", WRITER,
           "take a smaller number, or a format with a wider field: docs/wire/formats.md"),
    Reason(WRITING, "cannot_carry", "a field is set that the format has no place for", WRITER,
           "leave the field empty, or send in a later format"),
    Reason(WRITING, "bad_value", "a value of another type than the field has", WRITER,
           "the detail names the field: give it the type that docs/messages.md says"),
    Reason(WRITING, "invalid_utf8", "text that cannot be written as UTF-8", WRITER,
           "take text without half surrogate pairs"),

    Reason(ROUTING, "no_route", "no actor that may be asked handles the contract", NO_ROUTE,
           "is its node up, and met? hopwire routes lists who handles what, hopwire doctor what keeps nodes apart, "
           "and node.knows waits"),
    Reason(ROUTING, "unknown_node", "the receiver node is not among the known nodes", NO_ROUTE,
           "the node has left, or was never met: hopwire members; ask without naming a node"),
    Reason(ROUTING, "unknown_receiver", "the receiver is registered neither here nor on a known node", NO_ROUTE,
           "the actor has stopped, or its address is old: ask without naming a receiver"),
    Reason(ROUTING, "receiver_does_not_handle", "the receiver is here, and handles nothing of this version", NO_ROUTE,
           "compare version and partition of the contract on both sides: hopwire routes"),
    Reason(ROUTING, "broadcast_with_receiver", "a broadcast that names a receiver or a receiver node", NO_ROUTE,
           "send to all, or to one"),
    Reason(ROUTING, "unknown_distribution", "a distribution that is neither unicast nor broadcast", NO_ROUTE,
           "the sender has to write 0 or 1"),
    Reason(ROUTING, "hop_limit", "the message would have to leave, and was sent away too often already", NO_ROUTE,
           "nodes have routes in a circle: hopwire trace shows the way; update the nodes whose routes are old"),
    Reason(ROUTING, "excluded", "all who could take the message were excluded by the caller", NO_ROUTE,
           "exclude fewer, or start another actor"),

    Reason(IN_A_NODE, "expired", "its time to live was over", EXPIRED,
           "give it more time, or find out who was slow: hopwire flows show; it may have been handled"),
    Reason(IN_A_NODE, "queue_full", "there was no room for it, and the policy was not to wait", QUEUE_FULL,
           "start more actors, ask less at once, or let the mailbox wait"),
    Reason(IN_A_NODE, "unreachable", "the node that it was to go to cannot be reached", UNREACHABLE,
           "look at that node and at the network: hopwire doctor; it may have been handled"),
    Reason(IN_A_NODE, "closed", "the actor, the hub or the node that had it was stopped", UNREACHABLE,
           "stop nodes with SIGTERM, which drains them; ask again, if that does no harm"),
    Reason(IN_A_NODE, "handler_missing", "the actor that it names has no method for it", NO_ROUTE,
           "the class of the actor has changed: compare versions on both sides"),
    Reason(IN_A_NODE, "handler_failed", "the method that took it raised an error",
           "whoever asks, as `HandlerFailed`; the node that ran it, in its log, and as a dead letter",
           "mend the method; the error names its type and text"),
    Reason(IN_A_NODE, "bad_payload", "its body is not what its contract promises",
           "whoever asks, as `HandlerFailed`, of an answer as `UnexpectedAnswer`; the node, as a dead letter",
           "two sides have two classes for one identity and version: give the changed class a new version"),
    Reason(IN_A_NODE, "bad_signature", "its signature was not accepted; the detail is the verdict",
           "the node that it came to, as a dead letter and in its log; whoever asked has to wait for the timeout",
           "compare the domains of both sides; hopwire decode --domains judges a captured message"),
    Reason(IN_A_NODE, "bad_control",
           "a control message named an address or a receiver that is none, or spoke for another node", RECEIVER_ONLY,
           "a node of another release, or a stranger: the detail says what was wrong; look at the peer"),
    Reason(IN_A_NODE, "no_proof",
           "it announced routes of a domain, or spoke about a question, without the key of the domain", RECEIVER_ONLY,
           "give the node that hosts the domain its key, or its certificate the right to host it: docs/security.md"),
    Reason(IN_A_NODE, "name_claimed",
           "a process claims the name of a member that lives with another key: the claim waits until that one is gone",
           RECEIVER_ONLY,
           "nothing after a restart; if it lasts, two processes have one identity: give each its own"),
    Reason(IN_A_NODE, "not_met", "it came in a train over a connection whose node has not said hello", UNREACHABLE,
           "harmless right after a restart; if it lasts, the two nodes refuse each other: hopwire doctor"),
    Reason(IN_A_NODE, "node_failed", "the node itself failed while it took the message; its log says how", NODE_ONLY,
           "a fault of hopwire: keep the log and the frames, and report them"),
    Reason(IN_A_NODE, "cannot_sign", "no domain owns it, or none of the keys may sign it now", NO_ROUTE,
           "add the identity to a domain, or a key that is valid now: docs/security.md"),
    Reason(IN_A_NODE, "duplicate", "it has arrived before",
           "the node that it came to, as a dead letter; whoever asked has, or gets, the answer of the first",
           "nothing: a repeated attempt was not handled twice; many of them say that answers are slow"),
    Reason(IN_A_NODE, "nobody_waits", "an answer, or what became of a question, that nobody waits for any more",
           RECEIVER_ONLY, "the asker gave up first: give it more time, or make the handler faster"),
    Reason(IN_A_NODE, "wrong_flow", "it has the key of a question, and the correlation id of another flow",
           RECEIVER_ONLY, "the answering program has to keep the correlation id of the question"),
    Reason(IN_A_NODE, "unexpected_answer", "an answer of another contract than those that were asked for",
           RECEIVER_ONLY, "name the contract of the answer in ask, or return what was asked for"),

    Reason(OF_A_QUESTION, "timed_out", "nothing came back in time", "whoever asks or sends, as `Timeout`",
           "the text names the last reason; hopwire flows show says how far it got; it may have been handled"),
    Reason(OF_A_QUESTION, "no_answer", "the method that took it returned nothing",
           "whoever asks, as `UnexpectedAnswer`",
           "return an answer from the method, or use send instead of ask"),
    Reason(OF_A_QUESTION, "no_stream", "it asked for a stream, and its answer has no number: more of them may get lost",
           "whoever asks for a stream, as `UnexpectedAnswer`", "make the method yield its answers, or use ask"),
    Reason(OF_A_QUESTION, "unexpected_answer",
           "the method that took it returned something that was not asked for and that nobody takes",
           "whoever asks, as `UnexpectedAnswer`",
           "name the contract of the answer in ask, or return what was asked for"),

    Reason(IN_A_CAPTURE, "too_slow", "the disk could not follow, and the buffer was full", CAPTURE,
           "a faster disk, a larger buffer, or a capture of fewer contracts"),
    Reason(IN_A_CAPTURE, "disk_error",
           "the disk refused to write, and the buffer was full; the note says what it said", CAPTURE,
           "make room on the disk, or mend its permissions; the capture goes on by itself"),
    Reason(IN_A_CAPTURE, "too_large", "the message is larger than the whole buffer", CAPTURE,
           "a larger buffer in CaptureSettings"),
    Reason(IN_A_CAPTURE, "not_frames", "the frames are not byte strings", CAPTURE,
           "a fault of hopwire: report it"),
    Reason(IN_A_CAPTURE, "closed", "the capture was being closed", CAPTURE,
           "nothing: the node was stopping"),
    Reason(IN_A_CAPTURE, "bad_train", "the train that holds them is damaged in the capture; the note says how", CAPTURE,
           "the file was damaged on the disk: look at the file that the lake names"),

    Reason(IN_THE_LAKE, "hop_lost", "a message of the request left a node and never arrived at the next", LAKE,
           "lost_from_name and lost_to_name are the two nodes: look at the connection between them"),
    Reason(IN_THE_LAKE, "no_answer",
           "the question arrived, and neither an answer nor a dead letter followed while the lake waited", LAKE,
           "lost_from_name had it last: hopwire flows lives tells whether that node died; else look at its handler"),
)
# fmt: on


def _found(when: str) -> dict[str, str]:
    return {reason.code: reason.meaning for reason in REASONS if reason.found == when}


DECODE_REASONS, ENCODE_REASONS, ROUTING_REASONS = _found(READING), _found(WRITING), _found(ROUTING)
NODE_REASONS, PROMISE_REASONS, SKIP_REASONS = _found(IN_A_NODE), _found(OF_A_QUESTION), _found(IN_A_CAPTURE)
LOSS_REASONS = _found(IN_THE_LAKE)
WIRE_REASONS = {**ENCODE_REASONS, **DECODE_REASONS}
DEAD_REASONS = {**WIRE_REASONS, **ROUTING_REASONS, **NODE_REASONS}  # all that a dead letter can have
