"""Those who wait for one thing on one event loop, in the order in which they came.

To come, to be woken and to give up cost the same for one who waits and for a hundred thousand. Who is woken and gives
up before running wakes the next. `called` are those who were woken and have not run yet: what they were woken for is
theirs.

The line is a dict of futures, so that to ask whether anybody waits is no call; an ordered one, which finds its first
key at once after any number of removals.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol

__all__ = ["Waiter", "Waiters"]


class Waiter(Protocol):
    """Somebody who waits: a future, or what has the same two methods."""

    def done(self) -> bool:
        """Tell whether nobody waits any more."""

    def set_result(self, result: None, /) -> None:
        """Be woken; whoever does at once what it waited for takes itself off `called`."""


class Waiters(OrderedDict[Waiter, None]):
    """A line of those who wait."""

    __slots__ = ("called",)

    def __init__(self) -> None:
        super().__init__()
        self.called = 0

    def wake(self, count: int = 1) -> None:
        """Wake so many of those who came first, or all if they are fewer."""
        while count > 0 and self:
            future = next(iter(self))
            del self[future]
            if not future.done():
                self.called += 1
                count -= 1
                future.set_result(None)

    async def wait(self, is_again: bool = False) -> None:
        """Wait to be woken; who was woken in vain waits again in front of all others."""
        future = asyncio.get_running_loop().create_future()
        self[future] = None
        if is_again:
            self.move_to_end(future, last=False)
        try:
            await future
        except asyncio.CancelledError:
            self.pop(future, None)
            if future.done() and not future.cancelled():
                self.called -= 1
                self.wake()
            raise
        self.called -= 1

    def return_to_front(self, waiter: Waiter) -> None:
        """Let somebody who was woken in vain wait again, in front of all others."""
        self[waiter] = None
        self.move_to_end(waiter, last=False)
