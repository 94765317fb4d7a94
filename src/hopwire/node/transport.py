"""What a node needs of a transport: it moves frames between addresses, and knows nothing of messages.

A transport never waits and never raises for a peer's sake. `send` puts frames into the peer's own queue and tells
whether there was room; who can wait, waits for `room`. What cannot be sent comes back through `on_refused`, with the
reason. Everything happens on one event loop.

The first frame of what arrives is the name of the connection (`wire/connection.py`). It stays the same for as long as
the other side does not connect anew. Who is at the other end is for the node to find out. The first frame of what is
sent names the node that the frames are for, and does not leave.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from hopwire.errors import SettingsError
from hopwire.node.certificate import Certificate, own_certificate
from hopwire.node.waiters import OtherPlaces

__all__ = [
    "ADOPTED",
    "FirstWords",
    "Frames",
    "OnEnded",
    "OnFrames",
    "OnGone",
    "OnRefused",
    "OnSent",
    "OutboxLimits",
    "Tls",
    "Transport",
    "forget_nothing",
    "ignore",
    "in_silence",
]


ADOPTED = "foreign:"  # how an address begins that stands for a connection which others opened
Frames: TypeAlias = list[bytes]
OnFrames: TypeAlias = Callable[[Frames], int]  # gives the number of messages that the frames were
OnGone: TypeAlias = Callable[[str], None]  # the address of a peer that was connected, and cannot be reached any more
OnEnded: TypeAlias = Callable[[bytes], None]  # the name of a connection that has ended, and whose proof ends with it
FirstWords: TypeAlias = Callable[[str], list[Frames]]  # what goes over a new connection to an address before all else
OnSent: TypeAlias = Callable[[Frames, int], None]  # frames that leave now, the node in front, and the messages in them
OnRefused: TypeAlias = Callable[[str, Frames, str], None]  # address, frames, reason: unreachable, closed, queue_full


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """How much may wait for one peer."""

    max_messages: int = 10_000
    max_bytes: int = 64 * 1024 * 1024
    drops_oldest: bool = False  # to make room; else there is none

    def __post_init__(self) -> None:
        if self.max_messages < 1 or self.max_bytes < 1:
            raise SettingsError(f"a queue holds at least one message and one byte, found {self}")


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of a node, and the authority that has signed the certificates of all nodes of the network.

    The first three are files in PEM, as operators have them. Both sides of a connection show their certificate, and
    nobody gets in without one. A certificate names the node that it is of, and the domains that the node may host
    (`certificate.py`); `any_identity` lets certificates in that name no node, each of which may claim to be any node.
    `allowed` and `revoked` are lists of nodes and certificates. All files may change at any time (`admission.py`).
    """

    certificate: str | Path
    key: str | Path
    authority: str | Path
    allowed: str | Path | None = None
    revoked: str | Path | None = None
    any_identity: bool = False

    def own(self) -> Certificate | None:
        """Give the certificate itself, if its authority vouches for it now; else None."""
        return own_certificate(*self.contexts())

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Give what a client needs, and what a server needs."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT), self._context(ssl.PROTOCOL_TLS_SERVER)

    def _context(self, side: int) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        if side == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # each connection is judged by its own handshake
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise SettingsError(f"cannot read the authority {self.authority}: {_why(error)}") from None
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot read the certificate {self.certificate} or its key: {_why(error)}") from None
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is here who could type its password")


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", "") or error)


def ignore(_uri: str) -> None:
    """Do nothing about a peer that is gone."""


def forget_nothing(_connection: bytes) -> None:
    """Do nothing about a connection that has ended."""


def in_silence(_uri: str) -> list[Frames]:
    """Say nothing special over a new connection."""
    return []


class Transport(Protocol):
    """Moves frames between addresses."""

    @property
    def open_address(self) -> str:
        """The address that other machines can reach without a key, or nothing."""

    def start(
        self,
        on_frames: OnFrames,
        on_refused: OnRefused,
        on_gone: OnGone = ignore,
        first_words: FirstWords = in_silence,
        on_ended: OnEnded = forget_nothing,
        on_sent: OnSent | None = None,
    ) -> str:
        """Begin to listen, and give the address that others reach this one by.

        `on_sent` is told of everything that leaves, just before it leaves.
        """

    def connect(self, uri: str, over: bytes = b"") -> None:
        """Open a connection; frames may be sent to it from now on.

        `over` names a connection that others opened and that the address was heard over: it may serve as well.
        """

    def why_silent(self, uri: str) -> str:
        """Say in words why an address could not be reached, as far as that is known; nothing where it is not."""

    def turned_away(self) -> list[str]:
        """Say in words which connections of others were cut off of late, and why."""

    def dial(self, uri: str) -> None:
        """Reach an address by a connection of our own, and by none that others opened."""

    def address_of(self, connection: bytes) -> str:
        """Give the address that a connection leads to, if this side opened it; nothing if others did."""

    def opened_as(self, name: bytes) -> str:
        """Give the address of the connection that this side opened under a name, or nothing."""

    def certificate_of(self, connection: bytes) -> Certificate | None:
        """Give the certificate at the other end of a connection; None where there is no TLS."""

    def certificate_at(self, uri: str) -> Certificate | None:
        """Give the certificate of whoever gets what is sent to an address; None where that is nobody, or no TLS."""

    def reload(self) -> None:
        """Look now whether files have changed that say who may be connected."""

    def reply(self, connection: bytes, frames: Frames) -> None:
        """Send a control message over a connection that others opened, whoever they are; it may get lost."""

    def dial_foreign(self, uri: str) -> None:
        """Open a connection to a program that is no node, under the identity of this node itself.

        `first_words` is asked each time the connection is open, and `on_gone` told as soon as it is not any more.
        """

    def adopt(self, connection: bytes) -> str:
        """Give an address that stands for a connection which others opened, and ends with it; nothing if it has ended.

        What is sent to the address goes over that connection and no other, out of a small queue of its own.
        """

    def prove(self, uri: str, over: bytes) -> None:
        """Say that the peer at an address has proved that a connection which others opened is its own."""

    def stirred(self) -> list[bytes]:
        """Give the names of connections over which anything came since the last look."""

    def believe(self, connection: bytes) -> None:
        """Say that a hello over a connection was believed: whoever is there is no stranger any more."""

    def hang_up(self, connection: bytes) -> None:
        """Close a connection that others opened: who is at the other end has to say hello again."""

    def leave(self, uri: str) -> None:
        """Keep a connection that is no longer needed as long as the other side does, and open no other in its place.

        It is idle (`is_idle`) until something is sent. `connect` needs it again.
        """

    def disconnect(self, uri: str) -> None:
        """Close a connection; what waits for it is refused."""

    def allow_trains(self, uri: str, is_dated: bool = False) -> None:
        """Send what waits for a peer in trains from now on, if this transport gains by it."""

    def forbid_trains(self, uri: str) -> None:
        """Send what comes from now on for a peer alone, until there was a hello again."""

    def send(
        self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False, goes_first: bool = False
    ) -> str:
        """Put frames into the queue of a peer; gives `queue_full` or `unreachable` where that is not possible.

        For control messages there is more room than for others: they are few, and a node that cannot beat counts as
        dead. Those that depend on no order may go first, before what waits already.
        """

    def empty(self, uri: str) -> None:
        """Refuse what waits for a peer that is gone; the connection stays, for whoever comes next."""

    def waiting(self) -> tuple[int, int]:
        """Give the messages and bytes that wait in all queues."""

    def is_full(self, uri: str) -> bool:
        """Tell whether there is no room in the queue of a peer, so that who can wait has to."""

    def is_idle(self, uri: str, seconds: float) -> bool:
        """Tell whether nothing waits for a peer, and nothing was sent to it for so long."""

    def mark(self, uri: str) -> int:
        """Give the number of the last message in the queue of a peer, or 0 where none waits."""

    def is_queued(self, uri: str, mark: int) -> bool:
        """Tell whether a message still waits for a peer that was put into its queue up to that mark."""

    async def room(self, uri: str, elsewhere: OtherPlaces | None = None) -> str:
        """Wait until there may be room in the queue of a peer; gives `unreachable` if there is no such connection.

        Who is called elsewhere meanwhile gets `elsewhere`.
        """

    async def close(self, timeout: float) -> None:
        """Send what waits, for so many seconds at most, and stop."""
