"""A bounded queue between one who puts and those who take, on one event loop.

It is full when it holds its limit of messages or of bytes. What happens then is the policy:

| policy | a new item |
|---|---|
| `wait` | `put` waits for room; `offer` is refused |
| `refuse` | is refused at once |
| `drop_oldest` | pushes out the oldest, which is handed back |

An item that is larger than the limit of bytes alone is taken when the queue is empty: it could not be sent otherwise.
A queue that is closed takes nothing, and whoever waits for room is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from hopwire.errors import SettingsError
from hopwire.node.waiters import Waiters

__all__ = ["Mailbox", "Overflow"]

T = TypeVar("T")
TAKEN: tuple[bool, Sequence[Any]] = (True, ())
REFUSED: tuple[bool, Sequence[Any]] = (False, ())


class Overflow(StrEnum):
    """What a full queue does with a new item."""

    WAIT = "wait"
    REFUSE = "refuse"
    DROP_OLDEST = "drop_oldest"


class Mailbox(Generic[T]):
    """A bounded queue."""

    def __init__(self, max_items: int, max_bytes: int, overflow: Overflow = Overflow.WAIT) -> None:
        if max_items < 1 or max_bytes < 1:
            raise SettingsError(f"a queue holds at least one item and one byte, found {max_items} and {max_bytes}")
        self.max_items, self.max_bytes, self.overflow = max_items, max_bytes, Overflow(overflow)
        self.size_bytes = 0
        self.is_closed = False
        self._items: deque[tuple[T, int]] = deque()
        self._takers, self._putters = Waiters(), Waiters()

    def __len__(self) -> int:
        return len(self._items)

    def has_room(self, size_bytes: int) -> bool:
        """Tell whether an item of that size fits now."""
        if not self._items:
            return True
        return len(self._items) < self.max_items and self.size_bytes + size_bytes <= self.max_bytes

    def offer(self, item: T, size_bytes: int) -> tuple[bool, Sequence[T]]:
        """Put an item without waiting: whether it was taken, and what was pushed out for it."""
        if self.is_closed:
            return REFUSED
        pushed_out: list[T] = []
        if self._items and not self.has_room(size_bytes):
            if self.overflow is not Overflow.DROP_OLDEST:
                return REFUSED
            while not self.has_room(size_bytes):
                pushed_out.append(self._pop())
        self._items.append((item, size_bytes))
        self.size_bytes += size_bytes
        if self._takers:
            self._takers.wake()
        return (True, pushed_out) if pushed_out else TAKEN

    async def put(self, item: T, size_bytes: int) -> tuple[bool, Sequence[T]]:
        """Put an item, and wait for room where the policy says so."""
        while self.overflow is Overflow.WAIT and not self.is_closed and not self.has_room(size_bytes):
            await self._putters.wait()
        return self.offer(item, size_bytes)

    async def take(self) -> T:
        """Wait for an item and give it."""
        while (item := self.pop()) is None:
            await self._takers.wait()
        return item

    def items(self) -> list[T]:
        """Give everything that waits, without taking it."""
        return [item for item, _ in self._items]

    def close(self) -> list[T]:
        """Take nothing more, and give everything that is there."""
        self.is_closed = True
        rest = [self._pop() for _ in range(len(self._items))]
        self._putters.wake(len(self._putters))
        return rest

    def pop(self) -> T | None:
        """Give the oldest item, or None where there is none."""
        return self._pop() if self._items else None

    def _pop(self) -> T:
        item, size_bytes = self._items.popleft()
        self.size_bytes -= size_bytes
        if self._putters:
            self._putters.wake()
        return item
