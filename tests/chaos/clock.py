"""The wall clock of one process, set wrong on command.

This is the one place of the chaos with a mock: nobody may set the clock of a machine that others work on. Everything
in hopwire reads the wall clock as `time.time_ns()`, at the time of need, so the process believes the mock.
"""

from __future__ import annotations

import time

from hopwire.model.units import NS_PER_SECOND

__all__ = ["WallClock"]


class WallClock:
    """Takes the place of `time.time` and `time.time_ns`; the monotonic clock stays as it is."""

    def __init__(self, ahead_ns: int = 0) -> None:
        self.ahead_ns = ahead_ns
        self._right = time.time_ns
        time.time_ns = self.time_ns
        time.time = lambda: self.time_ns() / NS_PER_SECOND

    def time_ns(self) -> int:
        """Give the time that the process believes."""
        return self._right() + self.ahead_ns
