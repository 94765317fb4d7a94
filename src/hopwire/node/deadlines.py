"""When promises end: thousands of deadlines with a handful of timers.

A timer of the event loop for each promise costs more than the rest of the promise, and nearly all are cancelled. So
deadlines that lie close together share one timer: a promise ends at its time or up to a thirty-second part of its
timeout later, never earlier.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache
from itertools import chain
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

from hopwire.node.share import in_slices

__all__ = ["Deadlines", "Group", "UntilDone", "Within"]

log = logging.getLogger("hopwire.node")
PARTS = 32  # of a timeout: how exact it is
K = TypeVar("K", bound=Hashable)
Group: TypeAlias = dict[K, Any]  # keys that end together; a dict, so that one of them is removed as fast as added


class Deadlines(Generic[K]):
    """The deadlines of keys; `on_end` is called with each key that is not removed before."""

    def __init__(self, on_end: Callable[[K], None]) -> None:
        self._on_end = on_end
        self._groups: dict[tuple[float, int], Group[K]] = {}
        self._timers: dict[tuple[float, int], asyncio.TimerHandle] = {}
        self._ending: dict[tuple[float, int], Group[K]] = {}  # groups whose time is over, and that did not all end yet
        self._last: Group[K] = {}  # where the last key went, with its timeout, and from when to when others go there
        self._last_timeout = self._last_since = self.until = 0.0

    def add(self, key: K, now: float, timeout: float) -> Group[K]:
        """Let a key end at `now + timeout`; it is removed from the group that is given back if it ends otherwise.

        Times need not rise from one call to the next: who has waited for a turn comes with the time when it began.
        """
        if timeout == self._last_timeout and self._last_since < now <= self.until:
            self._last[key] = None
            return self._last
        width = _width(timeout)
        number = math.ceil((now + timeout) / width)
        group = self._groups.get((width, number))
        if group is None:
            group = self._groups[width, number] = {}
            timer = asyncio.get_running_loop().call_at(number * width, self._end, (width, number))
            self._timers[width, number] = timer
        group[key] = None
        self._last, self._last_timeout = group, timeout
        self._last_since, self.until = (number - 1) * width - timeout, number * width - timeout
        return group

    def _end(self, place: tuple[float, int]) -> None:
        group = self._groups.pop(place)
        del self._timers[place]
        if group is self._last:
            self._last_timeout = 0.0
        self._ending[place] = group
        in_slices(asyncio.get_running_loop(), self._end_keys(group, place))

    def _end_keys(self, group: Group[K], place: tuple[float, int] | None = None) -> Iterator[None]:
        """Let the keys of a group end, one with each step."""
        for key in list(group):
            if group.pop(key, self) is self:  # what a key before did has ended this one
                continue
            try:
                self._on_end(key)
            except Exception:  # a fault of ours must not cost the deadlines behind it
                log.exception("a deadline could not be kept")
            yield
        if place is not None:
            self._ending.pop(place, None)

    def end_all(self) -> None:
        """Let every key end now; no timer is left."""
        for _ in self.ending_all():
            pass

    def ending_all(self) -> Iterator[None]:
        """Give steps of which each lets a key end, until all have ended; no timer is left."""
        for timer in self._timers.values():
            timer.cancel()
        groups = [*self._ending.values(), *self._groups.values()]
        self._timers.clear()
        self._groups.clear()
        self._ending.clear()
        self._last_timeout = 0.0
        return chain.from_iterable(map(self._end_keys, groups))


@lru_cache(maxsize=1024)  # programs use few different timeouts
def _width(timeout: float) -> float:
    """Give the time within which deadlines are one, a power of two."""
    return 2.0 ** math.floor(math.log2(timeout / PARTS))


class Within:
    """What `asyncio.timeout` does, with a deadline that shares its timer with others: a TimeoutError when time is over.

        async with Within(deadlines, now, seconds): ...

    `deadlines` are made with `on_end=Within.end`.
    """

    __slots__ = ("_cancelling", "_group", "_is_over", "_place", "_task")

    def __init__(self, deadlines: Deadlines[Within], now: float, seconds: float) -> None:
        self._place = deadlines, now, seconds
        self._is_over = False

    def end(self) -> None:
        """The time is over."""
        self._is_over = True
        self._task.cancel()

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        deadlines, now, seconds = self._place
        self._group = deadlines.add(self, now, seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.pop(self, None)
        if self._is_over and self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error


class UntilDone:
    """Gives up what is waited for inside as soon as a future is done, and goes on behind it.

    async with UntilDone(future) as until: ...     # afterwards `until.is_over` says whether it was given up
    """

    __slots__ = ("_cancelling", "_future", "_is_inside", "_task", "is_over")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future
        self._is_inside = self.is_over = False

    def _end(self, _: asyncio.Future[Any]) -> None:
        if self._is_inside:  # a future that is done calls a turn later, and whoever has left is not to be disturbed
            self.is_over = True
            self._task.cancel()

    async def __aenter__(self) -> UntilDone:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling, self._is_inside = task, task.cancelling(), True
        self._future.add_done_callback(self._end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._is_inside = False
        self._future.remove_done_callback(self._end)
        if not self.is_over or self._task.uncancel() > self._cancelling:
            return False
        return isinstance(error, asyncio.CancelledError)
