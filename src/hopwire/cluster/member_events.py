"""The values of `members.py`: the times, the events and the commands of a cluster.

An event says what has happened to the node. A command says what the node has to do. No value here has behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import MemberRecord
from hopwire.errors import SettingsError
from hopwire.model import Payload
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "Admit",
    "Departing",
    "Dismiss",
    "HoldRoutes",
    "JudgeRoutes",
    "Knock",
    "LinkClosed",
    "LinkOpened",
    "MemberCommand",
    "MemberEvent",
    "MemberSaid",
    "OwnRoutes",
    "Refuse",
    "Rise",
    "RoutesSeen",
    "SealChanged",
    "SignsOfLife",
    "Tell",
    "Tempo",
    "Tie",
    "TimePassed",
    "Urged",
]


@dataclass(frozen=True, slots=True)
class Tempo:
    """How often members look after each other; every other time is a multiple of the period."""

    period_ns: int = NS_PER_SECOND

    def __post_init__(self) -> None:
        if self.period_ns < 1:
            raise SettingsError(f"a period takes at least a nanosecond, found {self.period_ns}")


# -- events


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """A member can be talked to over a connection that is known to be its own."""

    node: bytes


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A connection to a member has ended; `is_gone` says that it died, and could not be opened again."""

    node: bytes
    is_gone: bool


@dataclass(frozen=True, slots=True)
class MemberSaid:
    """A message between members arrived, over a connection of the member that it names."""

    said: Payload


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """Something came from these members, whatever it was."""

    nodes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class OwnRoutes:
    """Public routes of this node were added or removed; its proofs are all that it has now."""

    added: tuple[AnnouncedRoute, ...] = ()
    removed: tuple[AnnouncedRoute, ...] = ()
    proofs: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class RoutesSeen:
    """A neighbour says that these owners have routes that are missing here."""

    neighbour: bytes
    owners: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Urged:
    """Whoever is connected has to know at once what changed last of the routes of this node."""


@dataclass(frozen=True, slots=True)
class SealChanged:
    """This node signs with another key from now on."""


@dataclass(frozen=True, slots=True)
class Departing:
    """This node is about to leave."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """The time has come at which something was due."""


MemberEvent: TypeAlias = (
    LinkOpened
    | LinkClosed
    | MemberSaid
    | SignsOfLife
    | OwnRoutes
    | RoutesSeen
    | SealChanged
    | Urged
    | Departing
    | TimePassed
)


# -- commands


@dataclass(frozen=True, slots=True)
class Tie:
    """Open a link to a member."""

    node: bytes
    uri: str


@dataclass(frozen=True, slots=True)
class Knock:
    """Try an address: a door, or the last address of a member that is lost."""

    address: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to a member that there is a link to."""

    node: bytes
    payload: Payload


@dataclass(frozen=True, slots=True)
class Admit:
    """A member is there: new, back again, or with another address than before."""

    record: MemberRecord


@dataclass(frozen=True, slots=True)
class Dismiss:
    """A member is gone: `dead`, `left` or `restarted`."""

    node: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class HoldRoutes:
    """Enter routes of a member into the tables; with `is_all`, in place of all routes that the member had."""

    owner: bytes
    added: tuple[AnnouncedRoute, ...]
    removed: tuple[AnnouncedRoute, ...]
    is_all: bool


@dataclass(frozen=True, slots=True)
class JudgeRoutes:
    """Judge routes that are held anew: the record of their owner has other proofs, or (`is_moved`) address or key."""

    owner: bytes
    is_moved: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """A record or an accusation of a member does not count: `forged`, `unknown`, `claimed`; a neighbour told it."""

    node: bytes
    neighbour: bytes
    verdict: str


@dataclass(frozen=True, slots=True)
class Rise:
    """Go on under a later start: others know one of this node that its clock has not reached."""

    incarnation: int


MemberCommand: TypeAlias = Rise | Tie | Knock | Tell | Admit | Dismiss | HoldRoutes | JudgeRoutes | Refuse | Warn
