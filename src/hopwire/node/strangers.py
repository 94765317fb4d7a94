"""What unproved connections share: the bytes that they may hold, and their part of a turn of the loop.

A connection that others opened is unproved until a hello over it was believed. Strangers may open many, so their cost
is counted together.

- Messages that are not complete: `MAX_UNPROVED_BYTES` of all of them.
- Time: in one turn of the loop they are read, and what was read is taken, for `TURN_SECONDS`. Who has to wait comes
  first in the next turn, in the order in which they came, so that a newcomer has its turn however much the others say.
- Noise: after `MOST_NOISE` messages over one of them that cannot be read, the connection is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from hopwire.wire.zmtp import ZmtpError

__all__ = ["MAX_UNPROVED_BYTES", "MOST_NOISE", "TAKE_AT_MOST", "Strangers"]

MAX_UNPROVED_BYTES = 32 * 1024 * 1024  # of messages that are not complete
TURN_SECONDS = 0.01  # a read takes some milliseconds at most
TAKE_AT_MOST = 32  # messages of one of them before the next has its turn
MOST_NOISE = 100  # messages of one of them that cannot be read; each is a dead letter, and may be captured

Read = Callable[[], None]


class Strangers:
    """The cost of all unproved connections."""

    __slots__ = ("_ends_at", "_loop", "_waiting", "held")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.held = 0
        self._ends_at = 0.0  # of their part of this turn; 0 if nothing was read yet
        self._waiting: dict[Read, None] = {}  # reads for the next turn, in order

    def change(self, more: int) -> None:
        """Count bytes that a connection holds more, or less, than before; a ZmtpError says that there are too many."""
        self.held += more
        if more > 0 and self.held > MAX_UNPROVED_BYTES:
            raise ZmtpError("too_large", f"nodes that nobody knows hold more than {MAX_UNPROVED_BYTES} bytes")

    def read_later(self, read: Read) -> None:
        """Go on with a connection behind all others that wait."""
        if not self._ends_at:
            self._begin_turn()
        self._waiting[read] = None

    def read(self, read: Read) -> None:
        """Read from a connection now, or in the next turn if this one is over."""
        if not self._ends_at:
            self._begin_turn()
        if self._waiting or monotonic() >= self._ends_at:
            self._waiting[read] = None
        else:
            read()

    def _begin_turn(self) -> None:
        self._ends_at = monotonic() + TURN_SECONDS
        self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._ends_at = 0.0
        if not self._waiting:
            return
        self._begin_turn()
        for _ in range(len(self._waiting)):  # each once: who goes on waits for the next turn
            read = next(iter(self._waiting))
            del self._waiting[read]
            read()
            if monotonic() >= self._ends_at:
                return
