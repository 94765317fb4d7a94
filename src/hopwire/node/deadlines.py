"""When promises end: thousands of deadlines with a handful of timers.

A timer of the event loop for each promise costs more than the rest of the promise, and nearly all are cancelled. So
deadlines that lie close together share one timer: a promise ends at its time or up to a thirty-second part of its
timeout later, never earlier.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

__all__ = ["Deadlines", "Group"]

PARTS = 32  # of a timeout: how exact it is
Group: TypeAlias = dict[int, None]  # keys that end together; a dict, so that one of them is removed as fast as added


class Deadlines:
    """The deadlines of keys; `on_end` is called with each key that is not removed before."""

    def __init__(self, on_end: Callable[[int], None]) -> None:
        self._on_end = on_end
        self._groups: dict[tuple[float, int], Group] = {}

    def add(self, key: int, now: float, timeout: float) -> Group:
        """Let a key end at `now + timeout`; it is removed from the group that is given back if it ends otherwise."""
        width = _width(timeout)
        number = math.ceil((now + timeout) / width)
        group = self._groups.get((width, number))
        if group is None:
            group = self._groups[width, number] = {}
            asyncio.get_running_loop().call_at(number * width, self._end, (width, number))
        group[key] = None
        return group

    def _end(self, place: tuple[float, int]) -> None:
        for key in list(self._groups.pop(place)):
            self._on_end(key)


@lru_cache(maxsize=1024)  # programs use few different timeouts
def _width(timeout: float) -> float:
    """Give the time within which deadlines are one, a power of two."""
    return 2.0 ** math.floor(math.log2(timeout / PARTS))
