"""The share of the event loop that somebody may take in one turn.

A handler that never waits gives the loop nothing back, and an actor takes its next message without waiting while there
is one. So an actor asks between two messages whether the share of this turn is over, and if so goes on in the next. The
share is one for all actors: ten busy actors hold the loop for one share and one message each.

Hubs have a longer share of their own. Who asks ten thousand questions at once waits for a turn when the share is over:
some are let in at the end of each turn, in the order in which they came. A thousand questions fit into one turn.

A turn is over when something runs that was put at the end of the loop's queue. That costs, so a turn is marked once in
each share of time and not before each message: a turn may last up to two shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hopwire.node.waiters import Waiters

__all__ = ["HUB_SECONDS", "Share"]

SHARE_SECONDS = 0.005  # of all actors: time for hundreds of quick messages, so that trains stay long


HUB_SECONDS = 0.04  # of all hubs
LET_IN = 256  # of those who wait for their turn, at the end of each turn


class Share:
    """How long the loop may be held in one turn."""

    def __init__(self, clock: Callable[[], float], seconds: float = SHARE_SECONDS) -> None:
        self.clock, self._seconds = clock, seconds
        self.ends_at = 0.0  # before this time there is no need to ask
        self._is_same_turn = False
        self.waiters = Waiters()

    def is_full(self) -> bool:
        """Tell whether somebody who comes now has to wait for a turn."""
        return bool(self.waiters) or (self.clock() >= self.ends_at and self.is_over())

    async def turn(self) -> None:
        """Wait for a turn, behind those who came before."""
        if not self.waiters:
            asyncio.get_running_loop().call_soon(self._let_in)
        await self.waiters.wait()

    def _let_in(self) -> None:
        self.waiters.wake(LET_IN)
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
