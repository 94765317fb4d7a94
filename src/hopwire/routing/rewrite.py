"""What a router changes in a message: the hops, the way so far and the time that is left.

It gives a new message and leaves the one it got, so that every destination can have its own. None of it is signed.
"""

from __future__ import annotations

from msgspec.structs import replace

from hopwire.model import Message, RoutingEntry, TraceOptions

__all__ = ["forwarded"]

ROUTING = int(TraceOptions.ROUTING)


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
