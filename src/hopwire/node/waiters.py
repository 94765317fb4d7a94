"""Those who wait for one thing on one event loop, in the order in which they came.

To come, to be woken and to give up cost the same for one who waits and for a hundred thousand. Who is woken and gives
up before running wakes the next. `called` are those who were woken and have not run yet: what they were woken for is
theirs.
"""

from __future__ import annotations

import asyncio

__all__ = ["Waiters"]


class Waiters:
    """A line of those who wait."""

    __slots__ = ("_futures", "called")

    def __init__(self) -> None:
        self._futures: dict[asyncio.Future[None], None] = {}
        self.called = 0

    def __len__(self) -> int:
        return len(self._futures)

    def wake(self, count: int = 1) -> None:
        """Wake so many of those who came first, or all if they are fewer."""
        futures = self._futures
        while count > 0 and futures:
            future = next(iter(futures))
            del futures[future]
            if not future.done():
                future.set_result(None)
                self.called += 1
                count -= 1

    async def wait(self) -> None:
        """Wait to be woken."""
        future = asyncio.get_running_loop().create_future()
        self._futures[future] = None
        try:
            await future
        except asyncio.CancelledError:
            self._futures.pop(future, None)
            if future.done() and not future.cancelled():
                self.called -= 1
                self.wake()
            raise
        self.called -= 1
