"""What nodes tell each other about themselves: seven control messages.

| message | says | when |
|---|---|---|
| `Hello` | who I am, where I am, what I can read, whether I have heard you | on first contact, until answered |
| `Beat` | I am alive, and this is the revision of my routes | every beat, to every peer |
| `Routes` | all my public routes, or what changed since a revision | after a hello, and at every change |
| `RoutesWanted` | I have missed a change of your routes: send all routes | when a revision was skipped |
| `Bye` | I am leaving | once, on the way out |
| `Credit` | so much of what you sent was taken, and so much more may come | after each quarter of a window |
| `CreditWanted` | I have sent so much and heard nothing: what was taken? | when a sender has waited for a second |

A node announces only its own routes. Every control message names its sender by node and incarnation. After a hello,
only control messages of that incarnation are believed. Any control message may be lost or repeated: the revision in
the next beat shows what is missing. Example: B knows revision 4 of A, the message with revision 5 is lost, the next
beat of A says 5, and B asks A for all routes.
"""

from __future__ import annotations

from hopwire.model import Payload

__all__ = ["CONTROL", "AnnouncedRoute", "Beat", "Bye", "Credit", "CreditWanted", "Hello", "Routes", "RoutesWanted"]

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


CONTROL: tuple[type[Payload], ...] = (Hello, Beat, Routes, RoutesWanted, Bye, Credit, CreditWanted)
