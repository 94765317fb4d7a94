"""Names that mean something to every node: the identities that are reserved by hopwire and by the original.

An identity that begins with `hopwire.` or `KINO.` belongs to the nodes, not to their users. The first byte of a
receiver's identity says what the receiver is.

| first byte | receiver | reached by |
|---|---|---|
| 0 | hub | its identity |
| 1 | actor | its identity, or a contract that it handles |

The rest of such an identity is a guid as text, as the original writes guids.
"""

from __future__ import annotations

from uuid import UUID

__all__ = [
    "ACTOR",
    "DEMAND",
    "ENOUGH",
    "FEEDS",
    "FOREIGN",
    "HUB",
    "KINO_EXCEPTION",
    "KINO_PREFIX",
    "KINO_RECEIPT",
    "NO_CORRELATION",
    "OUTCOME",
    "OWN_PREFIX",
    "RECEIPT",
    "STREAM",
    "guid_from_bytes",
    "is_actor",
    "is_hub",
]

HUB, ACTOR = b"\0", b"\1"
OWN_PREFIX, KINO_PREFIX = b"hopwire.", b"KINO."  # ours, and the original's

# fmt: off
OUTCOME        = OWN_PREFIX + b"outcome"       # says what became of a question that gets no answer
RECEIPT        = OWN_PREFIX + b"receipt"       # among callback points: the sender wants to know of the arrival
STREAM         = OWN_PREFIX + b"stream"        # among callback points: the sender takes many answers, in order
DEMAND         = OWN_PREFIX + b"demand"        # says how much of a stream was taken, or that no more is taken
ENOUGH         = OWN_PREFIX + b"enough"        # says that the sender has all that it wanted of a stream
KINO_EXCEPTION = KINO_PREFIX + b"EXCEPTION"    # the original's answer of a handler that failed
KINO_RECEIPT   = KINO_PREFIX + b"RCPTCONFIRM"  # the original's receipt
# fmt: on

FEEDS = HUB + OWN_PREFIX + b"feeds"  # on each node, the receiver of what is said to the streams that it produces
FOREIGN = HUB + OWN_PREFIX + b"foreign"  # where answers arrive that are for programs which are no nodes
NO_CORRELATION = (b"", b"00000000-0000-0000-0000-000000000000", b"\0\0\0")  # values that mean "no correlation id"


def is_hub(receiver: bytes) -> bool:
    """Tell whether an identity is a hub's."""
    return receiver[:1] == HUB


def is_actor(receiver: bytes) -> bool:
    """Tell whether an identity is an actor's."""
    return receiver[:1] == ACTOR


def guid_from_bytes(data: bytes) -> bytes:
    """Give sixteen bytes as the text of a guid, which identities are made of."""
    return str(UUID(bytes=data)).encode()
