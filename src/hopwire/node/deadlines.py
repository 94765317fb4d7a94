"""When promises end: thousands of deadlines with a handful of timers.

A timer of the event loop for each promise costs more than the rest of the promise, and nearly all are cancelled. So
deadlines that lie close together share one timer: a promise ends at its time or up to a thirty-second part of its
timeout later, never earlier.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

__all__ = ["Deadlines", "Group", "Within"]

log = logging.getLogger("hopwire.node")
PARTS = 32  # of a timeout: how exact it is
K = TypeVar("K", bound=Hashable)
Group: TypeAlias = dict[K, None]  # keys that end together; a dict, so that one of them is removed as fast as added


class Deadlines(Generic[K]):
    """The deadlines of keys; `on_end` is called with each key that is not removed before."""

    def __init__(self, on_end: Callable[[K], None]) -> None:
        self._on_end = on_end
        self._groups: dict[tuple[float, int], Group[K]] = {}
        self._timers: dict[tuple[float, int], asyncio.TimerHandle] = {}
        self._last: Group[K] = {}  # where the last key went, with its timeout, and until when others go there
        self._last_timeout, self._last_until = 0.0, 0.0

    def add(self, key: K, now: float, timeout: float) -> Group[K]:
        """Let a key end at `now + timeout`; it is removed from the group that is given back if it ends otherwise."""
        if timeout == self._last_timeout and now <= self._last_until:
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
        self._last, self._last_timeout, self._last_until = group, timeout, number * width - timeout
        return group

    def _end(self, place: tuple[float, int]) -> None:
        group = self._groups.pop(place)
        del self._timers[place]
        if group is self._last:
            self._last_timeout = 0.0
        for key in list(group):
            try:
                self._on_end(key)
            except Exception:  # a fault of ours must not cost the deadlines behind it
                log.exception("a deadline could not be kept")

    def end_all(self) -> None:
        """Let every key end now; no timer is left."""
        for place, timer in list(self._timers.items()):
            timer.cancel()
            self._end(place)


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
