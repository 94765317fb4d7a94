"""What one message passes on to the next: the rules of a flow, as pure functions.

- The correlation id is copied to everything that is said within a flow.
- A unicast message carries the callback data of the one that caused it, so the answer finds home over any number of
  actors; if it is one of the callback points it is addressed to the callback receiver. A broadcast carries none.
- What a handler returns is in the partition of what it was given, and so is the answer that is waited for.
- A receipt is for one message only, so that callback point stays behind.
- Trace options and, when traced, the way so far are carried on. Hops begin anew.
- The time that is left is what the next message gets.
"""

from __future__ import annotations

from functools import lru_cache

from hopwire.model import (
    CallbackPoint,
    Message,
    Payload,
    TraceOptions,
    Version,
    body_from_payload,
    contract_of,
)
from hopwire.model.message import TICKS_PER_SECOND

__all__ = ["RECEIPT", "Outcome", "Way", "outcome_of", "seconds_from_ticks", "spawned", "ticks_from_seconds"]


class Outcome(Payload, identity="hopwire.outcome", version=1):
    """What became of a message, said to whoever waits for it: `failed`, `undelivered` or `received`."""

    kind: str
    reason: str = ""
    detail: str = ""


class Way(Payload, identity="hopwire.way", version=1):
    """The way that a message would take: the routers that it passes, and who would get it at its end."""

    node: bytes
    uri: str
    receivers: tuple[bytes, ...]
    passed: tuple[tuple[str, bytes], ...] = ()  # address and identity of each node before the last


OUTCOME = contract_of(Outcome)
ROUTING = int(TraceOptions.ROUTING)
RECEIPT = CallbackPoint(b"hopwire.receipt", 1)  # among the callback points of a message that wants a receipt


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
        points, home = _onward(cause.callback_points)
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


@lru_cache(maxsize=1024)  # the same few questions are asked again and again
def _onward(
    points: tuple[CallbackPoint, ...],
) -> tuple[tuple[CallbackPoint, ...], frozenset[tuple[bytes, Version, bytes]]]:
    """Give the callback points that the next message carries, and the contracts that bring it home."""
    onward = tuple([point for point in points if point != RECEIPT])
    return onward, frozenset((point.identity, point.version, point.partition) for point in onward)


def outcome_of(cause: Message, outcome: Outcome) -> Message | None:
    """Give the message that tells who waits what became of `cause`; None where nobody waits, or it is one itself."""
    if not cause.callback_receiver_identity or not cause.callback_key or cause.contract == OUTCOME:
        return None
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
