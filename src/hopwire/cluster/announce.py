"""What nodes tell each other about themselves: eight control messages.

| message | says | when |
|---|---|---|
| `Hello` | who I am, where I am, what I can read, whether I have heard you | on first contact, until answered |
| `Beat` | I am alive, and this is the revision of my routes | every beat, to every peer |
| `Routes` | all my public routes, or what changed since a revision | after a hello, and at every change |
| `RoutesWanted` | I have missed a change of your routes: send all routes | when a revision was skipped |
| `Bye` | I am leaving | once, on the way out |
| `Credit` | so much of what you sent was taken, and so much more may come | after each quarter of a window |
| `CreditWanted` | I have sent so much and heard nothing: what was taken? | when a sender has waited for a second |
| `Doubled` | another process says that it is you | when a hello has the identity of a peer that lives |

A node announces only its own routes. Where messages are signed, a route counts only with a proof of the key of its
domain (`security/proofs.py`). Every control message names its sender by node and incarnation. After a hello,
only control messages of that incarnation are believed. Any control message may be lost or repeated: the revision in
the next beat shows what is missing. Example: B knows revision 4 of A, the message with revision 5 is lost, the next
beat of A says 5, and B asks A for all routes.

Every field has a limit of its own (`LIMITS`), far above what an honest node says. What goes beyond is not heeded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hopwire.model import Payload

__all__ = [
    "CONTROL",
    "AnnouncedRoute",
    "Beat",
    "Bye",
    "Credit",
    "CreditWanted",
    "Doubled",
    "Hello",
    "Routes",
    "RoutesWanted",
    "beyond",
    "is_route",
    "proved_bytes",
]

# The identity of a receiver, then the identity, version and partition of a contract; a hub has an empty contract.
AnnouncedRoute = tuple[bytes, bytes, int, bytes]


class Hello(Payload, identity="hopwire.hello", version=1):
    """Who a node is and what it can do."""

    node: bytes
    incarnation: int  # new at every start, and larger than at the start before
    uri: str
    formats: tuple[int, ...] = (6,)  # numbers of the wire formats that the node reads
    capabilities: tuple[str, ...] = ()
    heard: int = 0  # the incarnation of the node spoken to, if its hello has arrived; 0 asks for a hello
    via: str = ""  # the address that was dialled; an answer repeats the address
    proof: bytes = b""  # a secret: who gets it repeats it over the connection that it names, if that one is its own
    seal: bytes = b""  # of a member, by the key in its record, for the process whose start `heard` names


class Beat(Payload, identity="hopwire.beat", version=1):
    """A sign of life."""

    node: bytes
    incarnation: int
    uri: str
    revision: int


class Routes(Payload, identity="hopwire.routes", version=1):
    """Routes of a node: all routes (`base` 0), or what changed from revision `base` to `revision`."""

    node: bytes
    incarnation: int
    revision: int
    base: int = 0
    added: tuple[AnnouncedRoute, ...] = ()
    removed: tuple[AnnouncedRoute, ...] = ()
    proofs: tuple[tuple[str, bytes], ...] = ()  # for each domain of the routes: that the node has a key of the domain


class RoutesWanted(Payload, identity="hopwire.routes.wanted", version=1):
    """A request for all routes of the node that gets the request."""

    node: bytes
    incarnation: int


class Bye(Payload, identity="hopwire.bye", version=1):
    """The last word of a node that leaves in good order."""

    node: bytes
    incarnation: int


class Credit(Payload, identity="hopwire.credit", version=1):
    """What a node has taken of another's messages, and how many more may be on the way."""

    node: bytes
    incarnation: int
    line: bytes  # the receiver that the messages name, or their identity
    taken: int
    taken_bytes: int
    max_messages: int
    max_bytes: int


class CreditWanted(Payload, identity="hopwire.credit.wanted", version=1):
    """A question for credit, with everything that was sent so far."""

    node: bytes
    incarnation: int
    line: bytes
    sent: int
    sent_bytes: int


class Doubled(Payload, identity="hopwire.doubled", version=1):
    """News for a node: another process says that it is the same node."""

    node: bytes
    incarnation: int
    doubled: bytes  # the identity that two processes have
    uri: str  # where the other process says that it is


CONTROL: tuple[type[Payload], ...] = (Hello, Beat, Routes, RoutesWanted, Bye, Credit, CreditWanted, Doubled)

NAME_BYTES = 255  # of an identity, as in ZeroMQ
PROOF_BYTES = NAME_BYTES + 16
SEAL_BYTES = 512
ROUTE_BYTES = 4096  # of receiver, contract and partition together
URI_CHARACTERS = 1024  # a host name has 253
WORDS, WORD_CHARACTERS = 64, 64  # capabilities, and formats
PROOFS, DOMAIN_CHARACTERS, KEY_PROOF_BYTES = 1024, 1024, 512  # a proof has a key id, a node and 84 bytes more
LARGEST = 2**63  # what a signed number of 64 bits holds


def _is_name(value: Any) -> bool:
    return len(value) <= NAME_BYTES


def _is_number(value: Any) -> bool:
    return bool(0 <= value < LARGEST)


def _is_proof(value: Any) -> bool:
    domain, proof = value
    return len(domain) <= DOMAIN_CHARACTERS and len(proof) <= KEY_PROOF_BYTES


def _is_uri(value: Any) -> bool:
    return len(value) <= URI_CHARACTERS


# fmt: off
LIMITS: dict[str, Callable[[Any], bool]] = {
    # field             is within its limit
    "node":             lambda value: 1 <= len(value) <= NAME_BYTES,
    "doubled":          _is_name,
    "line":             lambda value: len(value) <= ROUTE_BYTES,
    "proof":            lambda value: len(value) <= PROOF_BYTES,
    "seal":             lambda value: len(value) <= SEAL_BYTES,
    "proofs":           lambda value: len(value) <= PROOFS and all(map(_is_proof, value)),
    "uri":              _is_uri,
    "via":              _is_uri,
    "formats":          lambda value: len(value) <= WORDS,
    "capabilities":     lambda value: len(value) <= WORDS and all(len(word) <= WORD_CHARACTERS for word in value),
    "incarnation":      _is_number,
    "heard":            _is_number,
    "revision":         _is_number,
    "base":             _is_number,
    "sent":             _is_number,
    "sent_bytes":       _is_number,
    "taken":            _is_number,
    "taken_bytes":      _is_number,
    "max_messages":     _is_number,
    "max_bytes":        _is_number,
}
# fmt: on


def is_route(route: AnnouncedRoute) -> bool:
    """Tell whether a route is within the limits; looked at where it is entered, since a node may have very many."""
    receiver, identity, version, partition = route
    return len(receiver) + len(identity) + len(partition) <= ROUTE_BYTES and _is_number(version)


def proved_bytes(routes: Routes) -> bytes:
    """Give what the proofs of an announcement are made of: the same bytes for whoever writes and whoever reads it."""
    said = (routes.node, routes.incarnation, routes.revision, routes.base, routes.added, routes.removed)
    return msgspec.msgpack.encode(said)


def beyond(said: Payload) -> str:
    """Give the first field of a control message that is beyond its limit, or nothing.

    >>> beyond(Bye(b"A", -1))
    'incarnation'
    """
    for name in said.__struct_fields__:
        is_within = LIMITS.get(name)
        if is_within is not None and not is_within(getattr(said, name)):
            return name
    return ""
