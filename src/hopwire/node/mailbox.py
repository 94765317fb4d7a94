"""Bounded queues on one event loop: what waits for an actor here, and what waits for a peer (`outbox.py`).

A queue is full when it holds its limit of items or of bytes. What happens then is the policy:

| policy | a new item |
|---|---|
| `wait` | who puts it waits for room; who cannot wait is refused |
| `refuse` | is refused at once |
| `drop_oldest` | pushes out the oldest, which is handed back |

- An item that is larger than the limit of bytes alone is taken when the queue is empty: it could not be sent otherwise.
- Who was woken, and has not put anything yet, counts as an item: nobody who comes later takes that place.
- A queue that is closed takes nothing, and whoever waits for room is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from hopwire.errors import SettingsError
from hopwire.node.waiters import Waiters
from hopwire.node.waking import Waking

__all__ = ["REFUSED", "TAKEN", "BoundedQueue", "Mailbox", "Overflow"]

T = TypeVar("T")
TAKEN: tuple[bool, Sequence[Any]] = (True, ())
REFUSED: tuple[bool, Sequence[Any]] = (False, ())


class Overflow(StrEnum):
    """What a full queue does with a new item."""

    WAIT = "wait"
    REFUSE = "refuse"
    DROP_OLDEST = "drop_oldest"


class BoundedQueue(Generic[T]):
    """Items with their sizes, in the order in which they came, and who waits for room."""

    def __init__(self, max_items: int, max_bytes: int, overflow: Overflow = Overflow.WAIT) -> None:
        if max_items < 1 or max_bytes < 1:
            raise SettingsError(f"a queue holds at least one item and one byte, found {max_items} and {max_bytes}")
        self.max_items, self.max_bytes, self.overflow = max_items, max_bytes, Overflow(overflow)
        self.size_bytes = 0
        self.is_closed = False
        self.queued: deque[tuple[T, int]] = deque()
        self.putters = Waiters()

    def __len__(self) -> int:
        return len(self.queued)

    def has_room(self, size_bytes: int, more_items: int = 0, more_bytes: int = 0) -> bool:
        """Tell whether an item of that size fits now; some items may have more room than others."""
        taken = len(self.queued) + self.putters.called
        if not taken:
            return True
        return taken < self.max_items + more_items and self.size_bytes + size_bytes <= self.max_bytes + more_bytes

    def make_room(self, size_bytes: int) -> list[T]:
        """Take out the oldest items until one of that size fits."""
        pushed_out = []
        while self.queued and not self.has_room(size_bytes):
            pushed_out.append(self.pop_first())
        return pushed_out

    def pop_first(self) -> T:
        """Take out the oldest item."""
        item, size_bytes = self.queued.popleft()
        self.size_bytes -= size_bytes
        return item

    def items(self) -> list[T]:
        """Give everything that waits, without taking it."""
        return [item for item, _ in self.queued]


class Mailbox(BoundedQueue[T]):
    """A bounded queue between those who put and those who take."""

    def __init__(
        self, max_items: int, max_bytes: int, overflow: Overflow = Overflow.WAIT, waking: Waking | None = None
    ) -> None:
        super().__init__(max_items, max_bytes, overflow)
        self.takers = Waiters(waking)

    def offer(self, item: T, size_bytes: int) -> tuple[bool, Sequence[T]]:
        """Put an item without waiting: whether it was taken, and what was pushed out for it."""
        queued, taken_bytes = self.queued, self.size_bytes + size_bytes
        if taken_bytes > self.max_bytes or len(queued) + self.putters.called >= self.max_items or self.is_closed:
            return self._offer_full(item, size_bytes)
        queued.append((item, size_bytes))
        self.size_bytes = taken_bytes
        if self.takers:
            self.takers.wake()
        return TAKEN

    def _offer_full(self, item: T, size_bytes: int) -> tuple[bool, Sequence[T]]:
        """Do the same where there may be no room."""
        if self.is_closed:
            return REFUSED
        pushed_out: Sequence[T] = ()
        if not self.has_room(size_bytes):
            if self.overflow is not Overflow.DROP_OLDEST:
                return REFUSED
            pushed_out = self.make_room(size_bytes)
        self.queued.append((item, size_bytes))
        self.size_bytes += size_bytes
        if self.takers:
            self.takers.wake()
        return (True, pushed_out) if pushed_out else TAKEN

    async def put(self, item: T, size_bytes: int) -> tuple[bool, Sequence[T]]:
        """Put an item, and wait for room where the policy says so."""
        is_again = False
        while self.overflow is Overflow.WAIT and not self.is_closed:
            if self.has_room(size_bytes) and (is_again or not self.putters):
                break
            await self.putters.wait(is_again)
            is_again = True
        return self.offer(item, size_bytes)

    async def take(self) -> T:
        """Wait for an item and give it."""
        while (item := self.pop()) is None:
            await self.arrival()
        return item

    def arrival(self) -> Awaitable[object]:
        """Wait until an item has come; somebody else may take it first. Who waits last is woken first."""
        return self.takers.wait(is_again=True)

    def close(self) -> list[T]:
        """Take nothing more, and give everything that is there."""
        self.is_closed = True
        rest = [self.pop_first() for _ in range(len(self.queued))]
        self.putters.wake(len(self.putters))
        return rest

    def pop(self) -> T | None:
        """Give the oldest item, or None where there is none."""
        if not self.queued:
            return None
        item, size_bytes = self.queued.popleft()
        self.size_bytes -= size_bytes
        if self.putters and len(self.queued) + self.putters.called < self.max_items:
            self.putters.wake()
        return item
