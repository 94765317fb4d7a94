"""The message: what one actor says to another, in every generation of the wire format.

The attributes have the same names everywhere: in the format tables, the columns, the JSON. Values are frozen; a change
is a new message (`message.replace(hops=1)`). An identity that is not set is `b""`, as on the wire.

The trap: `version` is as it was on the wire. V3 and V4 carry raw bytes (`b"1.0"`), V5 and V6 a number (`1`).
`hopwire.wire.transcode` is the only place that turns raw bytes into a number, or a number into raw bytes.

A new field is one line here and one row in every format of `wire/formats.py` that carries it.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any, NamedTuple, TypeAlias

import msgspec

__all__ = [
    "CallbackPoint",
    "Contract",
    "Distribution",
    "Message",
    "RoutingEntry",
    "Selectors",
    "TraceOptions",
    "Version",
]

Version: TypeAlias = int | bytes
PART_BYTES = 48  # that a frame, a callback point or a router takes in memory beside its bytes


class Distribution(IntEnum):
    """Who gets a message: one actor, or all actors. A direct message is unicast with a receiver node."""

    UNICAST = 0
    BROADCAST = 1


class TraceOptions(IntFlag):
    """What the routers on the way write down."""

    NONE = 0
    ROUTING = 1


class Contract(NamedTuple):
    """What kind of message this is; handlers are found by their contract."""

    identity: bytes
    version: Version
    partition: bytes


class CallbackPoint(msgspec.Struct, frozen=True, gc=False):
    """A contract that brings its message home to the callback receiver."""

    identity: bytes
    version: Version = 1
    partition: bytes = b""


class RoutingEntry(msgspec.Struct, frozen=True, gc=False):
    """One router that a message passed."""

    uri: str
    identity: bytes = b""


class Selectors(msgspec.Struct, frozen=True, gc=False):
    """The fields of a message that decide on its way."""

    identity: bytes
    version: Version
    partition: bytes
    receiver_identity: bytes
    receiver_node_identity: bytes
    distribution: int


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message with its whole story, as a frozen value.

    >>> ping = Message(identity=b"KINO.PING", version=1)
    >>> ping.replace(hops=1).hops
    1
    """

    identity: bytes
    version: Version = 1
    partition: bytes = b""
    body_frames: tuple[bytes, ...] = (b"",)
    correlation_id: bytes = b""
    receiver_identity: bytes = b""
    receiver_node_identity: bytes = b""
    callback_points: tuple[CallbackPoint, ...] = ()
    callback_key: int = 0
    callback_receiver_identity: bytes = b""
    callback_receiver_node_identity: bytes = b""
    routing: tuple[RoutingEntry, ...] = ()
    hops: int = 0
    trace_options: int = 0
    distribution: int = 0
    ttl_ticks: int = 0
    domain: str = ""
    signature: bytes = b""
    socket_identity: bytes = b""
    extensions: tuple[bytes, ...] = ()

    @property
    def body(self) -> bytes:
        """All body frames joined into one."""
        return self.body_frames[0] if len(self.body_frames) == 1 else b"".join(self.body_frames)

    @property
    def beside_bytes(self) -> int:
        """What a message takes in memory beside its body, roughly: all that is as long as its sender likes."""
        names = len(self.identity) + len(self.partition) + len(self.correlation_id) + len(self.domain)
        names += len(self.receiver_identity) + len(self.receiver_node_identity) + len(self.signature)
        names += len(self.callback_receiver_identity) + len(self.callback_receiver_node_identity)
        if len(self.body_frames) > 1:
            names += PART_BYTES * len(self.body_frames)
        for point in self.callback_points:
            names += PART_BYTES + len(point.identity) + len(point.partition)
        for entry in self.routing:
            names += PART_BYTES + len(entry.uri) + len(entry.identity)
        return names + sum(map(len, self.extensions)) if self.extensions else names

    @property
    def contract(self) -> Contract:
        """Identity, version and partition of the message."""
        return Contract(self.identity, self.version, self.partition)

    def replace(self, **changes: Any) -> Message:
        """Give a copy with the named fields changed."""
        return msgspec.structs.replace(self, **changes)
