"""What one message passes on to the next: the rules of a flow, as pure functions.

- The correlation id is copied to everything that is said within a flow.
- A unicast message carries the callback data of the one that caused it, so the answer finds home over any number of
  actors; if it is one of the callback points it is addressed to the callback receiver. A broadcast carries none, and
  neither does what a handler says beside or after an answer.
- What a handler returns is in the partition of what it was given, and so is the answer that is waited for.
- A receipt is for one message only, so that callback point stays behind.
- Trace options and, when traced, the way so far are carried on. Hops begin anew.
- The time that is left is what the next message gets.
"""

from __future__ import annotations

from typing import TypeAlias

from hopwire.model import (
    CallbackPoint,
    Contract,
    Message,
    Payload,
    TraceOptions,
    Version,
    body_from_payload,
    contract_of,
    names,
)
from hopwire.model.choice import Choice, choice_of
from hopwire.model.outcome import Outcome
from hopwire.model.payload import rule_of
from hopwire.model.units import TICKS_PER_SECOND
from hopwire.report.words import text_or_hex
from hopwire.wire.extension import Extension, with_extension

__all__ = [
    "NO_ANSWER",
    "RECEIPT",
    "STREAM",
    "Way",
    "choice_within",
    "numbered",
    "outcome_of",
    "seconds_from_ticks",
    "spawned",
    "ticks_from_seconds",
    "wants_answer",
    "wants_stream",
    "without_callback",
    "words_of",
]


class Way(Payload, identity="hopwire.way", version=1):
    """The way that a message would take: the routers that it passes, and who would get it at its end."""

    node: bytes
    uri: str
    receivers: tuple[bytes, ...]
    passed: tuple[tuple[str, bytes], ...] = ()  # address and identity of each node before the last
    choose: str = ""  # how the receiver was chosen, and by which key
    key: str = ""


OUTCOME = contract_of(Outcome)
NO_ANSWER = "no_answer"  # the reason of an outcome: a handler returned nothing
ROUTING = int(TraceOptions.ROUTING)
Onward: TypeAlias = tuple[tuple[CallbackPoint, ...], frozenset[tuple[bytes, Version, bytes]]]
KNOWN, KNOWN_POINTS, KNOWN_BYTES = 1024, 16, 1024  # a sender chooses the points: few and small ones are remembered
_KNOWN: dict[tuple[CallbackPoint, ...], Onward] = {}  # the same few questions are asked again and again
RECEIPT = CallbackPoint(names.RECEIPT, 1)  # among the callback points of a message that wants a receipt
STREAM = CallbackPoint(names.STREAM, 1)  # among the callback points of a question that takes many answers


def ticks_from_seconds(seconds: float) -> int:
    """Give a time to live; the smallest is one tick, since 0 means for ever."""
    return round(seconds * TICKS_PER_SECOND) or 1


def seconds_from_ticks(ticks: int) -> float:
    """Give the seconds of a time to live."""
    return ticks / TICKS_PER_SECOND


def spawned(
    cause: Message,
    payload: Payload,
    ttl_ticks: int,
    *,
    partition: bytes = b"",
    distribution: int = 0,
) -> Message:
    """Give the message that carries a payload on within the flow of `cause`."""
    contract = contract_of(payload, partition)
    points: tuple[CallbackPoint, ...] = ()
    hub, node, key = b"", b"", 0
    is_home = False
    if cause.callback_receiver_identity and not distribution:
        points, home = _KNOWN.get(cause.callback_points) or _onward(cause.callback_points)
        if points:
            hub, node, key = cause.callback_receiver_identity, cause.callback_receiver_node_identity, cause.callback_key
            is_home = contract in home
    return Message(
        identity=contract.identity,
        version=contract.version,
        partition=partition,
        body_frames=(body_from_payload(payload),),
        correlation_id=cause.correlation_id,
        receiver_identity=hub if is_home else b"",
        receiver_node_identity=node if is_home else b"",
        callback_points=points,
        callback_key=key,
        callback_receiver_identity=hub,
        callback_receiver_node_identity=node,
        routing=cause.routing if cause.trace_options & ROUTING else (),
        trace_options=cause.trace_options,
        distribution=distribution,
        ttl_ticks=ttl_ticks,
    )


def choice_within(payload: Payload, message: Message) -> Choice | None:
    """Give how the actor of a message is chosen that is said within a flow; None if the message has a receiver."""
    if message.receiver_identity or message.distribution:
        return None
    return choice_of(rule_of(payload), payload, message)


def without_callback(message: Message) -> Message:
    """Give a message that nobody waits for."""
    return message.replace(
        callback_points=(), callback_key=0, callback_receiver_identity=b"", callback_receiver_node_identity=b""
    )


def _onward(points: tuple[CallbackPoint, ...]) -> Onward:
    """Give the callback points that the next message carries, and the contracts that bring it home."""
    onward = tuple([point for point in points if point != RECEIPT])
    found = (onward, frozenset((point.identity, point.version, point.partition) for point in onward))
    if len(points) <= KNOWN_POINTS and sum(map(_size_bytes, points)) <= KNOWN_BYTES:
        if len(_KNOWN) >= KNOWN:
            _KNOWN.clear()
        _KNOWN[points] = found
    return found


def _size_bytes(point: CallbackPoint) -> int:
    return len(point.identity) + len(point.partition) + (len(point.version) if type(point.version) is bytes else 0)


def wants_answer(message: Message) -> bool:
    """Tell whether somebody waits for an answer, and not for a receipt alone."""
    return bool(message.callback_key and message.callback_receiver_identity and _onward(message.callback_points)[0])


def wants_stream(message: Message) -> bool:
    """Tell whether whoever waits takes many answers."""
    return STREAM in message.callback_points


def numbered(message: Message, part: int, message_id: bytes = b"") -> Message:
    """Give a part of a stream, or the end of a stream, with its number."""
    return with_extension(message, Extension(message_id=message_id, part=part))


def words_of(contract: Contract) -> str:
    """Give a contract in words: `shop.payment.charge v2`."""
    version = contract.version if isinstance(contract.version, int) else text_or_hex(contract.version)
    partition = f" in partition {text_or_hex(contract.partition)}" if contract.partition else ""
    return f"{text_or_hex(contract.identity)} v{version}{partition}"


def outcome_of(cause: Message, outcome: Outcome, node: bytes) -> Message | None:
    """Give the message by which a node tells who waits what became of `cause`.

    There is none where nobody waits, or where `cause` is an outcome itself.
    """
    if not cause.callback_receiver_identity or not cause.callback_key or cause.contract == OUTCOME:
        return None
    if outcome.kind != "received":
        outcome = Outcome(outcome.kind, outcome.reason, outcome.detail, words_of(cause.contract), node)
    return Message(
        identity=OUTCOME.identity,
        version=OUTCOME.version,
        body_frames=(body_from_payload(outcome),),
        correlation_id=cause.correlation_id,
        receiver_identity=cause.callback_receiver_identity,
        receiver_node_identity=cause.callback_receiver_node_identity,
        callback_key=cause.callback_key,
        trace_options=cause.trace_options,
    )
