"""The queues of a transport: what waits for each peer, bounded in messages and bytes, and who waits for room in them.

- A message that comes alone leaves at once. One that comes closely behind another waits until the end of this turn of
  the loop, with all that are queued meanwhile: to a peer that reads trains they are sent as trains. Control messages
  and those that fit no train go as plain frames.
- What is sent is built before its first byte is sent, and stays in the queue until it was taken.

A transport says what sending is: `_send_waiting`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from itertools import count
from time import monotonic_ns
from typing import NamedTuple, TypeAlias

from hopwire.node.transport import Frames, OnRefused, OutboxLimits
from hopwire.node.waiters import Waiters
from hopwire.wire.train import SMALLEST, TRAIN_BYTES, TRAIN_FRAMES, TRAIN_MESSAGES, pack_train

__all__ = ["CONTROL_MESSAGES", "RETRY_SECONDS", "Item", "Outbox", "Outboxes"]

WAKE_AT_MOST = 256  # of those who wait for room, in one turn of the loop: what comes back has to be read meanwhile
ALONE_NS = 50_000  # a message so long after the last to the same peer is sent at once
RETRY_SECONDS = 0.002  # after no more was taken for a peer
CONTROL_MESSAGES, CONTROL_BYTES = 1000, 16 * 1024 * 1024  # so much more may wait if it is control messages

# frames, their bytes, a number that grows, whether it goes alone, when it was queued
Item: TypeAlias = tuple[Frames, int, int, bool, int]


class Load(NamedTuple):
    """What is sent next: the parts of one message, or a train of several."""

    messages: int
    size_bytes: int
    parts: list[bytes]


class Outbox:
    """What waits for one peer."""

    __slots__ = (
        "alias",
        "dates_trains",
        "items",
        "load",
        "mean_bytes",
        "sent_at",
        "size_bytes",
        "takes_trains",
        "waiters",
    )

    def __init__(self, alias: bytes = b"") -> None:
        self.alias = alias  # the name of the connection, where the transport needs one
        self.takes_trains = self.dates_trains = False
        self.sent_at = 0
        self.items: deque[Item] = deque()
        self.size_bytes = 0
        self.load: Load | None = None  # of the first items, which are still among them
        self.mean_bytes = 1  # of a message, in the last load
        self.waiters = Waiters()

    def pop(self) -> Frames:
        """Give what came first."""
        frames, size_bytes, _, _, _ = self.items.popleft()
        self.size_bytes -= size_bytes
        self.load = None
        return frames

    def next_load(self) -> Load:
        """Build what is sent next; nothing leaves the queue yet."""
        items = self.items
        first, first_bytes, _, goes_alone, queued_ns = items[0]
        if goes_alone or not self.takes_trains:
            load = Load(1, first_bytes, first[1:])  # the alias stands for the first frame
        else:
            messages: list[Frames] = []
            total = 0
            for frames, size_bytes, _, goes_alone, at_ns in items:
                if goes_alone or total + size_bytes > TRAIN_BYTES or len(messages) == TRAIN_MESSAGES:
                    break
                messages.append(frames)
                total += size_bytes
                queued_ns = at_ns
            train = pack_train(messages, queued_ns if self.dates_trains else None)
            load = Load(len(messages), total, [train])
        self.load = load
        self.mean_bytes = load.size_bytes // load.messages + 1
        return load

    def take(self, load: Load) -> list[Item]:
        """Take out what is sent, so that nothing pushes it out meanwhile."""
        items = [self.items.popleft() for _ in range(load.messages)]
        self.size_bytes -= load.size_bytes
        self.load = None
        return items


class Outboxes(ABC):
    """The queues of all peers of a transport."""

    _loop: asyncio.AbstractEventLoop
    _on_refused: OnRefused

    def __init__(self, limits: OutboxLimits | None, alone_bytes: int = TRAIN_BYTES) -> None:
        self._limits = limits or OutboxLimits()
        self._alone_bytes = alone_bytes  # a larger message goes alone
        self._peers: dict[str, Outbox] = {}
        self._busy: dict[str, None] = {}  # peers with something to send, in the order in which it came
        self._flush_at: asyncio.Handle | None = None
        self._numbers = count(1)
        self._is_closed = False

    @abstractmethod
    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
        """Send what waits for a peer; False where no more is taken for now, and it is tried again."""

    def allow_trains(self, uri: str, is_dated: bool = False) -> None:
        """Send what waits for a peer in trains from now on."""
        if uri in self._peers:
            self._peers[uri].takes_trains, self._peers[uri].dates_trains = True, is_dated

    def empty(self, uri: str) -> None:
        """Refuse what waits for a peer that is gone; the connection stays, for whoever comes next."""
        if uri in self._peers:
            self._refuse(uri, self._peers[uri], "unreachable")

    def send(self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False) -> str:
        """Put frames into the queue of a peer; gives `queue_full` or `unreachable` where that is not possible."""
        outbox = self._peers.get(uri)
        if outbox is None or self._is_closed:
            return "unreachable"
        waiting = len(outbox.items)
        if waiting and self._is_full(outbox, size_bytes, is_control):
            if is_control or not self._limits.drops_oldest:
                return "queue_full"
            while outbox.items and self._is_full(outbox, size_bytes):
                self._on_refused(uri, outbox.pop(), "queue_full")
        goes_alone = is_control or size_bytes > self._alone_bytes or not SMALLEST < len(frames) <= TRAIN_FRAMES + 1
        now = monotonic_ns()
        outbox.items.append((frames, size_bytes, next(self._numbers), goes_alone, now))
        outbox.size_bytes += size_bytes
        if not waiting:
            before, outbox.sent_at = outbox.sent_at, now
            if now - before > ALONE_NS and self._send_waiting(uri, outbox):
                return ""
            self._busy[uri] = None
            if self._flush_at is None:
                self._flush_at = self._loop.call_soon(self._flush)
        return ""

    def _is_full(self, outbox: Outbox, size_bytes: int, is_control: bool = False) -> bool:
        limits = self._limits
        taken, taken_bytes = len(outbox.items) + outbox.waiters.called, outbox.size_bytes + size_bytes
        if is_control:
            taken, taken_bytes = taken - CONTROL_MESSAGES, taken_bytes - CONTROL_BYTES
        return taken >= limits.max_messages or taken_bytes > limits.max_bytes

    def waiting(self) -> tuple[int, int]:
        """Give the messages and bytes that wait in all queues."""
        outboxes = self._peers.values()
        return sum(len(outbox.items) for outbox in outboxes), sum(outbox.size_bytes for outbox in outboxes)

    def mark(self, uri: str) -> int:
        """Give the number of the last message in the queue of a peer, or 0 where none waits."""
        outbox = self._peers.get(uri)
        if outbox is None or not outbox.items:
            return 0
        _, _, number, _, _ = outbox.items[-1]
        return number

    def is_queued(self, uri: str, mark: int) -> bool:
        """Tell whether a message still waits for a peer that was put into its queue up to that mark."""
        outbox = self._peers.get(uri)
        if outbox is None or not outbox.items:
            return False
        _, _, number, _, _ = outbox.items[0]
        return number <= mark

    async def room(self, uri: str) -> bool:
        """Wait until there may be room in the queue of a peer; False says that there is no such connection."""
        outbox = self._peers.get(uri)
        if outbox is None or self._is_closed:
            return False
        if not outbox.items:  # room came before anybody asked for it, and nothing is left that would bring more
            await asyncio.sleep(0)
        else:
            await outbox.waiters.wait()
        if not outbox.items:  # who was woken may put nothing there, and then nobody else would wake the next
            self._loop.call_soon(self._wake, outbox)
        return uri in self._peers and not self._is_closed

    def _wake(self, outbox: Outbox) -> None:
        """Wake as many of those who wait for room as there is room for."""
        waiters, limits = outbox.waiters, self._limits
        if not waiters:
            return
        taken = len(outbox.items) + waiters.called
        free_bytes = limits.max_bytes - outbox.size_bytes - waiters.called * outbox.mean_bytes
        free = min(limits.max_messages - taken, free_bytes // outbox.mean_bytes)
        free = max(free, 0 if taken else 1)  # a message that is larger than the limit needs an empty queue
        waiters.wake(min(free, WAKE_AT_MOST - waiters.called))

    def _flush(self) -> None:
        self._flush_at = None
        for uri in list(self._busy):
            if self._send_waiting(uri, self._peers[uri]):
                self._busy.pop(uri, None)
        if self._busy and not self._is_closed:
            self._flush_at = self._loop.call_later(RETRY_SECONDS, self._flush)

    def _refuse(self, uri: str, outbox: Outbox, reason: str) -> None:
        while outbox.items:
            self._on_refused(uri, outbox.pop(), reason)
        outbox.waiters.wake(len(outbox.waiters))
