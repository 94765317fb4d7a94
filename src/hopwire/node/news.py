"""What happens to a node, told as it happens: `async for event in node.events()`.

Each reader has a queue of its own. A reader that is too slow loses the oldest events, and is told how many were lost.
Nothing waits for a reader, and a reader that is forgotten costs nothing.

    limit 1000, and 1003 events since the last look: EventsSkipped(3), then the latest 1000
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakSet

from hopwire.cluster.announce import Beat, Hello
from hopwire.model import Contract, contract_of
from hopwire.node.calls import Address
from hopwire.node.dead import DeadLetter
from hopwire.node.spawn import words_of
from hopwire.node.waiters import Waiters

SAID_AGAIN = frozenset(contract_of(each).identity for each in (Hello, Beat))

__all__ = [
    "ActorFailed",
    "ActorRestarted",
    "ActorStarted",
    "ActorStopped",
    "Events",
    "EventsSkipped",
    "KeysMoved",
    "MessageGivenUp",
    "News",
    "NodeEvent",
    "PeerLost",
    "PeerMet",
    "RoutesUpdated",
]

MOST_CHARACTERS = 1000  # of a text in an event: names may be as long as their sender likes
KEPT_EVENTS = 1000  # for each reader: seconds of a busy node, and less than a megabyte


@dataclass(frozen=True, slots=True)
class PeerMet:
    """Another node said hello, and can be talked to."""

    node: bytes
    uri: str


@dataclass(frozen=True, slots=True)
class PeerLost:
    """Another node is gone: it left, fell silent, restarted or cannot be reached."""

    node: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class RoutesUpdated:
    """A node, this node or another, announced routes or took some back."""

    node: bytes
    added: int
    removed: int
    is_all: bool = False  # whether the routes take the place of all that the node had announced before


@dataclass(frozen=True, slots=True)
class KeysMoved:
    """Actors came or went, and with them about this share of the keys of a contract; the first 16 are named."""

    contract: str
    came: int
    went: int
    actors: tuple[bytes, ...]
    share: float


@dataclass(frozen=True, slots=True)
class ActorStarted:
    """An actor is prepared and takes messages."""

    actor: Address
    name: str


@dataclass(frozen=True, slots=True)
class ActorFailed:
    """An actor is down: the place and the error, and the seconds until it is started again; None if it is not."""

    actor: Address
    name: str
    where: str
    error: BaseException
    restarts_in: float | None


@dataclass(frozen=True, slots=True)
class ActorRestarted:
    """An actor that had failed takes messages again; `attempt` counts its restarts."""

    actor: Address
    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ActorStopped:
    """An actor takes no more messages: `unhosted`, `closed` with its node, or `failed`."""

    actor: Address
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class MessageGivenUp:
    """A message went no further: a dead letter."""

    reason: str
    contract: str
    detail: str


@dataclass(frozen=True, slots=True)
class EventsSkipped:
    """The reader was too slow, and so many events were thrown away."""

    count: int


NodeEvent: TypeAlias = (
    PeerMet
    | PeerLost
    | RoutesUpdated
    | KeysMoved
    | ActorStarted
    | ActorFailed
    | ActorRestarted
    | ActorStopped
    | MessageGivenUp
    | EventsSkipped
)


class Events:
    """The events of a node from now on, as an async iterator; the iterator ends when the node has stopped."""

    def __init__(self) -> None:
        self._waiting: deque[NodeEvent] = deque()
        self._skipped = 0
        self._is_over = False
        self._readers = Waiters()

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> NodeEvent:
        while (event := self.take()) is None:
            if self._is_over:
                raise StopAsyncIteration
            await self._readers.wait()
        return event

    def take(self) -> NodeEvent | None:
        """Give the oldest event that waits, or None where there is none."""
        if self._skipped:
            skipped, self._skipped = self._skipped, 0
            return EventsSkipped(skipped)
        return self._waiting.popleft() if self._waiting else None

    def put(self, event: NodeEvent) -> None:
        """Add an event; the oldest goes where there is no room."""
        if self._is_over:
            return
        if len(self._waiting) >= KEPT_EVENTS:
            self._waiting.popleft()
            self._skipped += 1
        self._waiting.append(event)
        self._readers.wake()

    def close(self) -> None:
        """Take no more events; those that wait can still be read."""
        self._is_over = True
        self._readers.wake(len(self._readers))


class News:
    """Tells every reader what happens to a node; false while nobody reads."""

    def __init__(self) -> None:
        self._readers: WeakSet[Events] = WeakSet()
        self._is_over = False

    def __bool__(self) -> bool:
        return len(self._readers) > 0

    def read(self) -> Events:
        """Give a new reader, which hears all that happens from now on."""
        events = Events()
        if self._is_over:
            events.close()
        else:
            self._readers.add(events)
        return events

    def tell(self, event: NodeEvent) -> None:
        """Tell every reader of an event."""
        for reader in tuple(self._readers):
            reader.put(event)

    def saw_dead(self, letter: DeadLetter) -> None:
        """Tell every reader of a dead letter."""
        if not self._readers:
            return
        message = letter.message
        if message is not None and message.identity in SAID_AGAIN:
            return  # a node says them again and again, whoever hears them
        contract = words_of(Contract(message.identity, message.version, message.partition)) if message else ""
        self.tell(MessageGivenUp(letter.reason, contract[:MOST_CHARACTERS], letter.detail[:MOST_CHARACTERS]))

    def end(self) -> None:
        """Nothing happens any more."""
        self._is_over = True
        for reader in tuple(self._readers):
            reader.close()
        self._readers.clear()
