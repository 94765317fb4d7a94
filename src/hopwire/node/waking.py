"""Wakes tasks: all that one turn of the loop woke, with one step of the loop.

The loop of asyncio makes an object for each task that goes on, and asks the system between two turns whether there is
anything to read. A train brings 250 answers, and each lets a task go on. So those tasks are gathered, and go on one
after the other, in the order in which they were woken, each in its own context, as the loop would do it.

- What a task wakes while it runs goes on in the same turn, in a pass of its own. So a question, its handler and its
  answer within one node need one turn, and not three.
- A turn has some passes and no more: the rest has the next turn. How much actors and hubs may do in one turn is
  bounded as ever (`share.py`).
- Whoever has read from a socket lets go on what that woke, once all else is done (`hold`, `run`): that saves a turn.
- A connection is read once in a turn of the loop. So a turn in which a connection was read is over when the connection
  is read again (`Turn`), and whoever wants to know that needs no step of the loop.

A future that is waited for otherwise than by one task, or on a loop that is being debugged, is left to the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context
from typing import Any

from msgspec import Struct

__all__ = ["MOST_PASSES", "Turn", "Waking"]

MOST_PASSES = 8  # in one turn of the loop
Future = asyncio.Future


class Turn(Struct, gc=False):
    """A turn of the loop in which a connection was read; whoever reads the connection again says that it is over."""

    is_over: bool = False


class Waking:
    """Those who are to go on in this turn of the loop."""

    __slots__ = ("_context", "_is_due", "_loop", "_woken", "turn")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: deque[Any] = deque()  # a context, a callback and a future, one behind the other, for each of them
        self._is_due = False  # whether `run` will be called
        self._context = Context()
        self.turn: Turn | None = None  # while a connection is read, and those go on whom that woke

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake those who wait on this loop; before that, and where the loop is debugged, futures wake by themselves."""
        can_look = hasattr(asyncio.Future, "_callbacks")  # who waits for a future; no promise of Python
        self._loop = loop if can_look and not loop.get_debug() else None

    def set_result(self, future: Any, result: Any) -> None:
        """Give a future, or what is like one, its result, and let the task go on that waits for it."""
        loop = self._loop
        waiting = future._callbacks if loop is not None and type(future) is Future else None
        if not waiting or len(waiting) > 1:
            future.set_result(result)
            return
        ((callback, context),) = waiting
        future.remove_done_callback(callback)  # or the loop would wake it too
        future.set_result(result)
        self._woken += context, callback, future
        if not self._is_due:
            assert loop is not None
            self._is_due = True
            loop.call_soon(self.run, context=self._context)

    def hold(self, turn: Turn) -> None:
        """Promise that `run` is called at the end of what is being done: a connection is read."""
        self._is_due, self.turn = True, turn

    def run(self) -> None:
        """Let all go on who were woken, and those whom they wake."""
        woken, take = self._woken, self._woken.popleft
        passes = MOST_PASSES
        try:
            while woken and passes:
                passes -= 1
                for _ in range(0, len(woken), 3):
                    take().run(take(), take())
        finally:  # also after a SystemExit, which ends the loop
            self._is_due, self.turn = bool(woken), None
            if self._is_due and self._loop is not None:
                self._loop.call_soon(self.run, context=self._context)
