"""The share of the event loop that somebody may take in one turn.

A handler that never waits gives the loop nothing back, and an actor takes its next message without waiting while there
is one. So an actor asks before each message whether the share of this turn is over, and if so waits for a turn. The
share is one for all actors. Hubs have a longer share of their own: a thousand questions fit into one turn.

Those who wait are let in at the end of each turn, some at a time, in the order in which they came; each does one thing,
and more while the share lasts. How many are let in follows from how long turns take: with handlers of 20 us up to 256,
with handlers of 1 ms 8 or a few more. So a thousand actors with handlers of 1 ms hold the loop for some 10 ms.

What hubs say waits in a line for each hub and contract, and each line has its turn: a question does not wait behind
50,000 messages of another contract.

A turn is over when something runs that was put at the end of the loop's queue. That costs, so a turn is marked once in
each share of time and not before each message: a turn may last up to two shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from hopwire.node.waiters import Lines

__all__ = ["AT_ONCE", "HUB_SECONDS", "Share", "in_slices"]

T = TypeVar("T")

SHARE_SECONDS = 0.005  # of all actors: time for hundreds of quick messages, so that trains stay long


HUB_SECONDS = 0.04  # of all hubs
AT_ONCE = 500  # steps in one turn: each may end a promise, which costs a dead letter, a row of a capture and a task
FEWEST, MOST = 8, 256  # of those who wait for their turn that are let in at the end of each turn


class Share:
    """How long the loop may be held in one turn."""

    def __init__(self, clock: Callable[[], float], seconds: float = SHARE_SECONDS) -> None:
        self.clock, self._seconds = clock, seconds
        self.ends_at = 0.0  # before this time there is no need to ask
        self._is_same_turn = False
        self._let_in_count, self._let_in_at = FEWEST, 0.0
        self.waiters = Lines()

    def is_full(self) -> bool:
        """Tell whether somebody who comes now has to wait for a turn."""
        return bool(self.waiters) or (self.clock() >= self.ends_at and self.is_over())

    async def turn(self, line: Hashable = None) -> None:
        """Wait for a turn, behind those who came before in the same line; each line has its turn."""
        if not self.waiters:
            self._let_in_at = self.clock()
            asyncio.get_running_loop().call_soon(self._let_in)
        await self.waiters.wait(line)

    async def spread(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Give items one by one, and let the loop turn whenever the share is over: for what is done to very many."""
        for item in items:
            if self.is_full():
                await self.turn()
            yield item

    def _let_in(self) -> None:
        """Wake some of those who wait: more than the last time if this turn was short, fewer if it was long."""
        now = self.clock()
        took, self._let_in_at = now - self._let_in_at, now
        if took < self._seconds:
            self._let_in_count = min(2 * self._let_in_count, MOST)
        elif took > 2 * self._seconds:
            self._let_in_count = max(self._let_in_count // 2, FEWEST)
        self.waiters.wake(self._let_in_count)
        if self.waiters:
            asyncio.get_running_loop().call_soon(self._let_in)

    def is_over(self) -> bool:
        """Tell whether the loop is to do something else first."""
        now = self.clock()
        if now < self.ends_at:
            return False
        if self._is_same_turn:
            return True
        self.ends_at, self._is_same_turn = now + self._seconds, True
        asyncio.get_running_loop().call_soon(self._turn)
        return False

    def _turn(self) -> None:
        self._is_same_turn = False


def in_slices(loop: asyncio.AbstractEventLoop, steps: Iterator[Any]) -> None:
    """Take some steps now and the others in the next turns of the loop: for what happens to very many at once.

    A node is lost that has 100,000 questions: 500 of them end in each turn, and beats are answered meanwhile.
    """
    if sum(1 for _ in islice(steps, AT_ONCE)) == AT_ONCE:
        loop.call_soon(in_slices, loop, steps)
