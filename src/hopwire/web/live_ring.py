"""The newest rows of something that goes on, for readers who come and go.

Every row has a number, from 0 on. The ring keeps the newest rows and forgets the others. A reader asks for the rows
behind the last number that it has seen, and is told how many rows it has missed.

    the ring keeps 3 rows, 10 came: a reader at number 4 gets the rows 7, 8 and 9, and has missed 3.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["LiveRing", "LiveRows"]

Row = dict[str, Any]


class LiveRows(NamedTuple):
    """What a reader gets."""

    rows: list[Row]  # the oldest first
    next: int  # where the reader goes on
    missed: int  # rows since the last time that nobody can show any more, or that are too many to show


class LiveRing:
    """The newest rows; one thread writes, any number read."""

    def __init__(self, size: int) -> None:
        self._rows: deque[tuple[int, Row]] = deque(maxlen=size)
        self._lock = threading.Lock()
        self._total = 0

    @property
    def total(self) -> int:
        """How many rows came so far."""
        return self._total

    def add(self, rows: Iterable[Row], skipped: int = 0) -> None:
        """Take rows; before them came so many that nobody looked at."""
        with self._lock:
            self._total += skipped
            for row in rows:
                self._rows.append((self._total, row))
                self._total += 1

    def after(self, number: int, most: int, is_wanted: Callable[[Row], bool] = lambda row: True) -> LiveRows:
        """Give the newest rows from a number on that are wanted, at most so many."""
        with self._lock:
            kept = [row for at, row in self._rows if at >= number]
            total = self._total
        wanted = [row for row in kept if is_wanted(row)]
        shown = wanted[-most:] if most else []
        came = max(0, total - number)
        return LiveRows(shown, total, came - len(kept) + len(wanted) - len(shown))
