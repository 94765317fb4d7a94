"""The values of `peers.py`: what a node knows of itself and of others, the events, and the commands.

An event says what has happened to the node. A command says what the node has to do. No value here has behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hopwire.cluster.announce import AnnouncedRoute, Beat, Hello
from hopwire.errors import SettingsError
from hopwire.model import Payload
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "ApplyRoutes",
    "Command",
    "Connect",
    "Dialled",
    "Disconnect",
    "Doubted",
    "Event",
    "Heard",
    "Link",
    "LoseNode",
    "MeetNode",
    "Overheard",
    "Pace",
    "Peer",
    "Refused",
    "Released",
    "Risen",
    "RoutesChanged",
    "Say",
    "Self",
    "Stirred",
    "Ticked",
    "Warn",
]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often peers are talked to, and how long their silence is borne."""

    beat_ns: int = 1 * NS_PER_SECOND  # between two beats to a peer
    silence_ns: int = 5 * NS_PER_SECOND  # five beats: one lost message, or a pause for garbage, is not death
    gone_ns: int = 3 * NS_PER_SECOND // 10  # a peer whose connection died, and that was not reached again, is gone
    hello_ns: int = NS_PER_SECOND // 10  # the first pause between two hellos; the pause doubles each time
    longest_hello_ns: int = 5 * NS_PER_SECOND  # the longest such pause
    hearsay_tries: int = 5  # hellos to an address that only a stranger has named
    unanswered_ns: int = 5 * NS_PER_SECOND  # until a warning about an address without an answer; doubles each time

    def __post_init__(self) -> None:
        if not 0 < self.beat_ns < self.silence_ns or not 0 < self.hello_ns <= self.longest_hello_ns:
            raise SettingsError(f"a pace needs 0 < beat < silence and 0 < hello <= longest hello, found {self}")


@dataclass(frozen=True, slots=True)
class Self:
    """What a node says of itself."""

    node: bytes
    incarnation: int
    uri: str
    formats: tuple[int, ...] = (6, 5, 4, 3)
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Peer:
    """A node that has said hello."""

    node: bytes
    incarnation: int
    uri: str
    formats: tuple[int, ...]
    capabilities: tuple[str, ...]
    heard_at_ns: int
    revision: int = 0  # of the peer's routes, as far as they are known here; 0 is nothing yet


@dataclass(frozen=True, slots=True)
class Link:
    """An address that is dialled: for as long as the node runs, or a few times if a stranger named the address."""

    uri: str
    pause_ns: int
    next_hello_ns: int
    tries_left: int | None = None
    node: bytes = b""  # who answered
    since_ns: int = 0  # when the address was dialled
    hellos: int = 1  # sent to the address since then
    warn_ns: int = 0  # a warning is due after this time without an answer


# -- events


@dataclass(frozen=True, slots=True)
class Dialled:
    """An address was given; with `tries`, it is greeted so often at most."""

    uri: str
    tries: int | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A control message arrived."""

    said: Payload


@dataclass(frozen=True, slots=True)
class Doubted:
    """A hello arrived over a connection that does not prove itself; the secret is for the peer whose name it has."""

    said: Hello
    proof: bytes


@dataclass(frozen=True, slots=True)
class Overheard:
    """A beat arrived over a connection whose node has not said hello: a hint, and no sign of life."""

    said: Beat


@dataclass(frozen=True, slots=True)
class RoutesChanged:
    """Public routes of this node were added or removed."""

    added: tuple[AnnouncedRoute, ...] = ()
    removed: tuple[AnnouncedRoute, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The transport cannot reach a node."""

    node: bytes


@dataclass(frozen=True, slots=True)
class Released:
    """The connection to a member of the cluster is not needed for now."""

    node: bytes


@dataclass(frozen=True, slots=True)
class Stirred:
    """Something came over connections of these nodes, whatever it was: they are alive, also those that were silent."""

    nodes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Ticked:
    """Some time has passed; the tick comes late by so much, in which this node listened to nobody."""

    late_ns: int = 0


@dataclass(frozen=True, slots=True)
class Risen:
    """This node goes on under a later start."""

    incarnation: int


Event: TypeAlias = Dialled | Heard | Doubted | Overheard | RoutesChanged | Refused | Released | Risen | Stirred | Ticked


# -- commands

LOST = {  # why a node is lost, in words
    "unreachable": "its connection closed",
    "left": "it said goodbye",
    "silent": "it says nothing any more",
    "restarted": "it was started again",
}


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a connection to an address."""

    uri: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection to an address."""

    uri: str


@dataclass(frozen=True, slots=True)
class Say:
    """Send a control message to an address, for the peer there; a hello is for whoever lives at the address."""

    uri: str
    payload: Payload
    node: bytes = b""


@dataclass(frozen=True, slots=True)
class MeetNode:
    """Talk to a node from now on, at this address."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class LoseNode:
    """Forget a node that is gone: its routes, and everything that waits for the node."""

    node: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class ApplyRoutes:
    """Enter the routes of a node into the tables; with `is_all`, in place of all routes that the node had."""

    node: bytes
    added: tuple[AnnouncedRoute, ...]
    removed: tuple[AnnouncedRoute, ...]
    is_all: bool


@dataclass(frozen=True, slots=True)
class Warn:
    """Warn people: `duplicate`, `future`, `set_back`, `unanswered` or `too_many_peers`."""

    what: str
    node: bytes
    uri: str = ""
    detail: str = ""


Command: TypeAlias = Connect | Disconnect | Say | MeetNode | LoseNode | ApplyRoutes | Warn
