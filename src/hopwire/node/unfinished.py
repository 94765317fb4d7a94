"""What all nodes that are known have sent of messages that are not complete, and who of them is read on.

A message may have 256 MiB, and a node that lies may begin one over each of many connections. So beyond `FEW_BYTES` of
all of them one connection alone is read on: the one that holds the most, until its message is complete. Whoever is in
the middle of a message waits meanwhile, and the kernel lets the sender wait. All other connections are read as ever.

    A has sent 40 MiB of 100, and B 30 MiB of 50. B waits. A is complete at 100 MiB, and B goes on.

Who keeps others waiting for `PATIENCE_SECONDS` is cut off. A peer counts as silent later than that.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

__all__ = ["COUNTED_BYTES", "FEW_BYTES", "HELD_UP", "Unfinished"]

COUNTED_BYTES = 64 * 1024  # less is not counted: a connection has a buffer that is larger
FEW_BYTES = 64 * 1024 * 1024
PATIENCE_SECONDS = 2.0
HELD_UP = "held_up"  # the end of a connection that kept others waiting


class Holder(Protocol):
    """A connection in the middle of a message."""

    def read_on(self) -> None:
        """Read again."""

    def close(self, reason: str) -> None:
        """End the connection."""


class Unfinished:
    """The messages of known nodes that are not complete."""

    __slots__ = ("_favourite", "_held", "_loop", "_timer", "_total", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held: dict[Holder, int] = {}
        self._total = 0
        self._favourite: Holder | None = None  # who alone is read on
        self._waiting: dict[Holder, None] = {}
        self._timer: asyncio.TimerHandle | None = None  # when the favourite has kept others waiting for too long

    @property
    def total_bytes(self) -> int:
        """What all of them hold."""
        return self._total

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """Note how much a connection holds of a message that is not complete; 0: of none."""
        self._total += held_bytes - self._held.pop(holder, 0)
        if held_bytes:
            self._held[holder] = held_bytes
            if self._favourite is None and self._total > FEW_BYTES:
                self._favourite = max(self._held, key=self._held.__getitem__)
            return
        self._waiting.pop(holder, None)
        if holder is self._favourite:
            self._next_favourite()

    def keeps_waiting(self, holder: Holder) -> bool:
        """Tell whether a connection has to wait with the rest of its message; then `read_on` is called in time."""
        if self._favourite is None or holder is self._favourite or holder not in self._held:
            return False
        self._waiting[holder] = None
        if self._timer is None:
            self._timer = self._loop.call_later(PATIENCE_SECONDS, self._cut_off)
        return True

    def _next_favourite(self) -> None:
        """Let the next go on, or all of them if there is room again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        is_full = self._total > FEW_BYTES
        self._favourite = max(self._held, key=self._held.__getitem__) if is_full else None
        waiting, self._waiting = self._waiting, {}
        for holder in waiting:  # who has to wait again says so when it is read
            holder.read_on()

    def _cut_off(self) -> None:
        self._timer = None
        if self._favourite is not None and self._waiting:
            self._favourite.close(HELD_UP)
