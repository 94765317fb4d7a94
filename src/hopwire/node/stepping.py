"""A coroutine driven step by step, to see what asyncio does not tell.

A step goes from one pause of the coroutine to the next. Two facts are seen between two steps:

- how long the step held the loop. A step of 0.3 s is reported with 0.3 s, whatever the coroutine did before.
- whether the task was cancelled within its own step, that is from inside, or between two steps, from outside.

A worker handles many messages within one step while there are messages, so the cost is not paid for each message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

__all__ = ["HELD_SECONDS", "Stepping"]

HELD_SECONDS = 0.1  # a step that is longer is told: twenty times the share of all actors


class Stepping:
    """What is known of the task that drives a coroutine."""

    __slots__ = ("_clock", "_on_held", "is_cancelled_outside", "task", "work")

    def __init__(self, clock: Callable[[], float], on_held: Callable[[Any, float], None]) -> None:
        self._clock, self._on_held = clock, on_held
        self.task: asyncio.Task[Any] | None = None
        self.work: Any = None  # what the coroutine works on, as the coroutine says
        self.is_cancelled_outside = False

    def is_ending(self, error: BaseException) -> bool:
        """Tell whether an error ends the task, or only what the task works on."""
        if isinstance(error, asyncio.CancelledError):
            return self.is_cancelled_outside and self.task is not None and self.task.cancelling() > 0
        return isinstance(error, GeneratorExit) and not self._is_current()

    def _is_current(self) -> bool:
        """Tell whether the task runs now; a coroutine that is thrown away is closed from elsewhere."""
        try:
            return self.task is asyncio.current_task()
        except RuntimeError:
            return False

    def go_on(self) -> None:
        """Forget that the task was cancelled from inside."""
        while self.task is not None and self.task.cancelling() and not self.is_cancelled_outside:
            self.task.uncancel()

    async def drive(self, work: Callable[[Stepping], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine function to its end."""
        await _Steps(self, work(self))


class _Steps:
    __slots__ = ("_coroutine", "_stepping")

    def __init__(self, stepping: Stepping, coroutine: Coroutine[Any, Any, None]) -> None:
        self._stepping, self._coroutine = stepping, coroutine

    def __await__(self) -> Generator[Any, Any, None]:
        stepping, coroutine = self._stepping, self._coroutine
        task = stepping.task = asyncio.current_task()
        assert task is not None
        clock, send, is_cancelled_inside = stepping._clock, coroutine.send, False
        step: Callable[[Any], Any] = send
        argument: Any = None
        while True:
            began = clock()
            try:
                waits_for = step(argument)
            except StopIteration:
                return
            finally:
                held = clock() - began
                if held >= HELD_SECONDS:
                    stepping._on_held(stepping.work, held)
            if not task.cancelling():
                stepping.is_cancelled_outside = is_cancelled_inside = False
            else:
                is_cancelled_inside = not stepping.is_cancelled_outside
            try:
                argument = yield waits_for
                step = send
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                if task.cancelling() and not is_cancelled_inside:
                    stepping.is_cancelled_outside = True
                step, argument = coroutine.throw, error
