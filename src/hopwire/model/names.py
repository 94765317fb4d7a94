"""Names that mean something to every node: the identities that are reserved by hopwire and by the original.

An identity that begins with `hopwire.` or `KINO.` belongs to the nodes, not to their users. The first byte of a
receiver's identity says what the receiver is.

| first byte | receiver | reached by |
|---|---|---|
| 0 | hub | its identity |
| 1 | actor | its identity, or a contract that it handles |

The rest of such an identity is a guid as text, as the original writes guids. An actor whose rest begins with
`partner/NAME/` stands in for actors of the partner network of that name.
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
    "OF_QUESTIONS",
    "OUTCOME",
    "OWN_PREFIX",
    "PARTNER",
    "RECEIPT",
    "STREAM",
    "guid_from_bytes",
    "is_actor",
    "is_control",
    "is_hub",
    "partner_of",
    "stand_in_name",
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
OF_QUESTIONS = (OUTCOME, DEMAND, ENOUGH, KINO_EXCEPTION, KINO_RECEIPT)  # said by nodes about a question of somebody

FEEDS = HUB + OWN_PREFIX + b"feeds"  # on each node, the receiver of what is said to the streams that it produces
FOREIGN = HUB + OWN_PREFIX + b"foreign"  # where answers arrive that are for programs which are no nodes
PARTNER = HUB + OWN_PREFIX + b"partner/"  # and a name: where answers arrive that are for a partner network
IMPORTED = ACTOR + b"partner/"
NO_CORRELATION = (b"", b"00000000-0000-0000-0000-000000000000", b"\0\0\0")  # values that mean "no correlation id"


def is_control(identity: bytes) -> bool:
    """Tell whether nodes use an identity among themselves, and not to say what became of a question of somebody."""
    return identity.startswith((OWN_PREFIX, KINO_PREFIX)) and identity not in OF_QUESTIONS


def is_hub(receiver: bytes) -> bool:
    """Tell whether an identity is a hub's."""
    return receiver[:1] == HUB


def is_actor(receiver: bytes) -> bool:
    """Tell whether an identity is an actor's."""
    return receiver[:1] == ACTOR


def stand_in_name(partner: str, rest: bytes) -> bytes:
    """Give the identity of an actor that stands in for actors of a partner network.

    >>> partner_of(stand_in_name("acme", b"7"))
    'acme'
    """
    return b"%s%s/%s" % (IMPORTED, partner.encode(), rest)


def partner_of(receiver: bytes) -> str:
    """Give the partner network that an actor stands in for; nothing of an actor that handles messages itself."""
    if not receiver.startswith(IMPORTED):
        return ""
    return receiver[len(IMPORTED) :].partition(b"/")[0].decode(errors="backslashreplace") or "?"


def guid_from_bytes(data: bytes) -> bytes:
    """Give sixteen bytes as the text of a guid, which identities are made of."""
    return str(UUID(bytes=data)).encode()
