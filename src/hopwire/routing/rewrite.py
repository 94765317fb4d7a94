"""What a router changes in a message: the receiver of an answer, the hops and the way so far.

Each function gives a new message and leaves the one it got, so that every destination can have its own.

The trap: the receiver is signed, hops and way are not. Apply callbacks before signing; forward after.
"""

from __future__ import annotations

from msgspec.structs import replace

from hopwire.model import Distribution, Message, RoutingEntry, TraceOptions

__all__ = ["forwarded", "with_callback_applied"]

ROUTING = int(TraceOptions.ROUTING)


def with_callback_applied(message: Message) -> Message:
    """Address a message to its callback receiver, if it is one of its callback points.

    A broadcast has no receiver, and without a callback receiver there is nobody to go home to: both stay as they are.
    """
    if not message.callback_receiver_identity or message.distribution == Distribution.BROADCAST:
        return message
    contract = (message.identity, message.version, message.partition)
    for point in message.callback_points:
        if (point.identity, point.version, point.partition) == contract:
            return message.replace(
                receiver_identity=message.callback_receiver_identity,
                receiver_node_identity=message.callback_receiver_node_identity,
            )
    return message


def forwarded(message: Message, uri: str, identity: bytes, ttl_ticks: int | None = None) -> Message:
    """Give the message as it leaves the node of that address: one hop more and, if traced, one entry more.

    `ttl_ticks` is the time to live that is left, where time was spent here.
    """
    routing = message.routing
    if message.trace_options & ROUTING:
        entry = RoutingEntry(uri, identity)
        if routing[-1:] != (entry,):
            routing = (*routing, entry)
    left = message.ttl_ticks if ttl_ticks is None else ttl_ticks
    return replace(message, hops=message.hops + 1, routing=routing, ttl_ticks=left)
