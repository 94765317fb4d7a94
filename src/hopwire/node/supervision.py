"""The life of an actor: it is started, works, fails, is started again or not.

An actor fails if its `on_start` raises, or if one of its workers ends without being told to. A handler that raises does
not make its actor fail: the error goes to whoever waits, and the actor goes on.

| supervision | after a failure |
|---|---|
| `restart` | the actor is started again after a pause; what waits for it is kept |
| `stop` | the actor stays down; what waits for it is given up |
| `escalate` | the node stops, and its user gets an `Escalated` |

An actor that is down has no routes. Each `on_start` is followed by one `on_stop` before the next `on_start`, also an
`on_start` that raised.

An actor without an `on_start` of its own is up as soon as it is started, and has no worker yet. Workers are hired one
by one, when there is work for them (`recruiting.py`): a hundred thousand actors that wait are no tasks at all.

Pauses: an actor that fails whenever it is started fails at 0.0 s, 0.1 s, 0.3 s, 0.7 s and so on; the pause doubles up
to 30 s. An actor that had worked for 30 s or longer is started again after 0.1 s.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from hopwire.node.actors import Actor, Supervision
from hopwire.node.share import Share
from hopwire.node.stepping import Stepping

__all__ = ["Keeper", "Life", "Pauses", "end_lives"]

log = logging.getLogger("hopwire.node")
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 30.0
WORKED_WELL_SECONDS = 30.0  # after which earlier failures are forgotten
HOOK_SECONDS = 10.0  # for an `on_stop` before the next `on_start`


class Pauses:
    """How long to wait before each restart.

    >>> pauses = Pauses()
    >>> [pauses.after(worked) for worked in (0.0, 5.0, 0.0, 30.0)]
    [0.1, 0.2, 0.4, 0.1]
    """

    def __init__(self) -> None:
        self._next = FIRST_PAUSE_SECONDS

    def after(self, worked_seconds: float) -> float:
        """Give the pause after a failure of an actor that had worked for so long."""
        pause = FIRST_PAUSE_SECONDS if worked_seconds >= WORKED_WELL_SECONDS else self._next
        self._next = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return pause


class Keeper(Protocol):
    """Who is told of the life of an actor."""

    def went_up(self, restarts: int, workers: int) -> None:
        """The actor is prepared, and has so many workers; others are hired."""

    def went_down(self, error: BaseException, where: str, restarts_in: float | None) -> None:
        """The actor failed."""

    def held(self, work: Any, seconds: float) -> None:
        """The actor held the loop for so long, with this work."""


class Life:
    """Starts an actor, watches its workers, and starts it again."""

    def __init__(
        self,
        actor: Actor,
        work: Callable[[Stepping], Coroutine[Any, Any, None]],
        supervision: Supervision,
        keeper: Keeper,
        clock: Callable[[], float],
        share_clock: Callable[[], float],
    ) -> None:
        self.name = type(actor).__name__
        self.is_ending = False
        self.is_fallen = False  # from a failure until all former workers have ended
        self._actor, self._work, self._supervision, self._keeper = actor, work, supervision, keeper
        self._clock, self._share_clock = clock, share_clock
        self._pauses = Pauses()
        self._restarts = 0
        self._up_since = 0.0  # 0 is down
        self._wants_stop = False  # whether `on_start` was called since the last `on_stop`
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._context: contextvars.Context | None = None  # of whoever started the actor, for all of its workers

    def start(self) -> None:
        """Let the actor prepare itself and work."""
        self._context = contextvars.copy_context()
        if _has_hook(self._actor, "on_start"):
            self._spawn(self._live)
        else:
            self._wants_stop = True
            self._go_up(0)

    def hire(self) -> None:
        """Let one worker more begin."""
        self._spawn(self._work_on)

    def _spawn(self, work: Callable[[Stepping], Coroutine[Any, Any, None]]) -> None:
        stepping = Stepping(self._share_clock, self._keeper.held)
        context = None if self._context is None else self._context.copy()  # not of whoever has sent a message
        task = asyncio.get_running_loop().create_task(stepping.drive(work), context=context)
        task.add_done_callback(lambda task: self._look_at(task, stepping))
        self._tasks.add(task)

    def _look_at(self, task: asyncio.Task[None], stepping: Stepping) -> None:
        """A task has ended; one that somebody cancelled before its first step has told nobody."""
        if stepping.task is None and not self.is_ending and task.cancelled():
            self._fall(asyncio.CancelledError(), f"a worker of {self.name}")

    def _go_up(self, workers: int) -> None:
        self._up_since = self._clock()
        self._keeper.went_up(self._restarts, workers)

    async def _live(self, stepping: Stepping) -> None:
        """Prepare the actor, and work; the first worker is the one that called `on_start`."""
        self._wants_stop = True
        try:
            await self._actor.on_start()
        except BaseException as error:
            if self._ends(stepping, error):
                raise
            stepping.go_on()
            self._fall(error, f"{self.name}.on_start")
            return
        if self.is_ending:
            return
        self._go_up(1)
        await self._work_on(stepping)

    async def _work_on(self, stepping: Stepping) -> None:
        try:
            await self._work(stepping)
        except BaseException as error:
            if self._ends(stepping, error):
                raise
            self._fall(error, f"a worker of {self.name}")

    def _ends(self, stepping: Stepping, error: BaseException) -> bool:
        """Tell whether an error is the end that was asked for, and no failure."""
        return stepping.is_ending(error) and (self.is_ending or isinstance(error, GeneratorExit))

    def _fall(self, error: BaseException, where: str) -> None:
        """The actor has failed: no worker goes on, and the supervision says what becomes of the actor."""
        if self.is_fallen:  # the first failure counts
            return
        self.log(logging.WARNING, where, error)
        if self.is_ending:
            return
        pause = self._pauses.after(self._clock() - self._up_since if self._up_since else 0.0)
        self._up_since, self.is_fallen = 0.0, True
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause, self._mend)
        self._keeper.went_down(error, where, pause if self._supervision is Supervision.RESTART else None)

    def _mend(self) -> None:
        former, self._tasks = self._tasks, set()
        self._spawn(lambda stepping: self._begin_again(stepping, former))

    async def _begin_again(self, stepping: Stepping, former: set[asyncio.Task[None]]) -> None:
        """Wait for the former workers, let the actor clean up, and live again."""
        try:
            await _wait(dict.fromkeys(former, self.name), HOOK_SECONDS)
            hook = self.last_hook()
            if hook is not None:
                cleaning = asyncio.ensure_future(hook)
                self._tasks.add(cleaning)
                await _wait({cleaning: self.name}, HOOK_SECONDS)
        except BaseException as error:
            if self._ends(stepping, error):
                raise
            self.log(logging.WARNING, self.name, error)
        self._timer, self.is_fallen = None, False
        if self._supervision is Supervision.RESTART and not self.is_ending:
            self._restarts += 1
            await self._live(stepping)

    def log(self, level: int, where: str, error: BaseException | None) -> None:
        """Log an error with its stack."""
        fields = {"hopwire_actor": self.name, "hopwire_where": where, "hopwire_error": type(error).__name__}
        log.log(level, "%s failed: %s", where, type(error).__name__, exc_info=error, extra=fields)

    def cancel(self) -> set[asyncio.Task[None]]:
        """End all work, and give the tasks that are to end; a task that ends its own actor goes on to its end."""
        self.is_ending = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        return tasks

    def last_hook(self) -> Coroutine[Any, Any, None] | None:
        """Give the last call of `on_stop`, if there is anything to call."""
        wants_stop, self._wants_stop = self._wants_stop, False
        return self._stop() if wants_stop and _has_hook(self._actor, "on_stop") else None

    async def _stop(self) -> None:
        try:
            await self._actor.on_stop()
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            self.log(logging.WARNING, f"{self.name}.on_stop", error)


def _has_hook(actor: Actor, name: str) -> bool:
    """Tell whether an actor has a hook of its own."""
    return getattr(type(actor), name) is not getattr(Actor, name) or name in vars(actor)


async def end_lives(lives: Sequence[Life], timeout: float, share: Share) -> None:
    """End actors, all at once; what does not end in time is left behind."""
    tasks = {task: life.name async for life in share.spread(lives) for task in life.cancel()}
    await _wait(tasks, timeout / 2)
    hooks: dict[asyncio.Task[Any], str] = {}
    async for life in share.spread(lives):
        hook = life.last_hook()
        if hook is not None:
            hooks[asyncio.ensure_future(hook)] = life.name
    await _wait(hooks, timeout / 2)


async def _wait(tasks: dict[asyncio.Task[Any], str], timeout: float) -> None:
    stuck = {task for task in tasks if not task.done()}
    if stuck:
        _, stuck = await asyncio.wait(stuck, timeout=timeout)
    for task, name in tasks.items():
        if task in stuck:
            task.cancel()
            log.warning("%s did not stop within %s s", name, timeout, extra={"hopwire_actor": name})
        elif not task.cancelled() and (error := task.exception()) is not None:
            log.warning("%s failed while it stopped: %s", name, type(error).__name__, exc_info=error)
