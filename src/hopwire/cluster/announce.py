"""What nodes tell each other about themselves: five control messages.

| message | says | when |
|---|---|---|
| `Hello` | who I am, where I am, what I can read, whether I have heard you | on first contact, until answered |
| `Beat` | I am alive, and this is the revision of my routes | every beat, to every peer |
| `Routes` | all my public routes, or what changed since a revision | after a hello, and at every change |
| `RoutesWanted` | I have missed a change of yours: send all | when a revision was skipped |
| `Bye` | I am leaving | once, on the way out |

A node speaks only for itself: whose routes they are is told by the sender, and the sender by the incarnation that its
hello gave. All of them may be lost or repeated; the revision in the next beat shows what is missing.
"""

from __future__ import annotations

from hopwire.model import Payload

__all__ = ["CONTROL", "AnnouncedRoute", "Beat", "Bye", "Hello", "Routes", "RoutesWanted"]

AnnouncedRoute = tuple[
    bytes, bytes, int, bytes
]  # receiver identity, then identity, version and partition; a hub has no contract


class Hello(Payload, identity="hopwire.hello", version=1):
    """Who a node is and what it can do."""

    node: bytes
    incarnation: int  # new at every start, larger than the one before
    uri: str
    formats: tuple[int, ...] = (6,)  # numbers of the wire formats that it reads
    capabilities: tuple[str, ...] = ()
    heard: int = 0  # the incarnation of the node spoken to, if its hello has arrived; 0 asks for one
    via: str = ""  # the address that was dialled; an answer repeats it


class Beat(Payload, identity="hopwire.beat", version=1):
    """A sign of life."""

    node: bytes
    incarnation: int
    uri: str
    revision: int


class Routes(Payload, identity="hopwire.routes", version=1):
    """Routes of a node: all of them (`base` 0), or what changed between two revisions."""

    node: bytes
    incarnation: int
    revision: int
    base: int = 0
    added: tuple[AnnouncedRoute, ...] = ()
    removed: tuple[AnnouncedRoute, ...] = ()


class RoutesWanted(Payload, identity="hopwire.routes.wanted", version=1):
    """A request for all routes of the node that it is sent to."""

    node: bytes
    incarnation: int


class Bye(Payload, identity="hopwire.bye", version=1):
    """The last word of a node that leaves in good order."""

    node: bytes
    incarnation: int


CONTROL: tuple[type[Payload], ...] = (Hello, Beat, Routes, RoutesWanted, Bye)
