"""Processes for handlers that compute: each actor that wants some has as many as messages that it handles at a time.

Threads of one process take turns on one core; processes do not. An actor says `executor = "processes"`, and its
handlers that are no coroutines run there.

- The actor is copied into its processes when its first message has come, after `on_start`. What a handler changes in
  its actor stays in that process, and is gone with it.
- Actor, payloads and answers travel as pickles: their classes must be found by import. A handler has no context there.
- A process that ends in the middle of a handler costs the messages that are in processes of this actor at that time:
  whoever waits is told `HandlerFailed`. The next message finds new processes.
- Processes end when the actor is stopped, also in the middle of a handler, and when the process of the node is killed.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import Any

from hopwire.errors import ProcessEnded, SettingsError

__all__ = ["ActorProcesses"]


class ActorProcesses:
    """The processes of one actor."""

    def __init__(self, actor: Any, count: int, name: str) -> None:
        self._actor, self._count, self._name = actor, count, name
        self._executor: ProcessPoolExecutor | None = None
        self._copy()  # an actor that cannot be copied is refused when it is hosted

    def _copy(self) -> bytes:
        try:
            return pickle.dumps(self._actor)
        except Exception as error:  # whatever the parts of an actor raise
            said = f"{type(error).__name__}: {error}"
            raise SettingsError(f"{self._name} runs in processes, and cannot be copied to them: {said:.200}") from None

    async def call(self, handler: str, payload: Any) -> Any:
        """Call a handler of the actor in a process, and wait for its result."""
        if self._executor is None:
            # a fork would copy the locks of all threads
            self._executor = ProcessPoolExecutor(self._count, get_context("spawn"), _begin, (self._copy(),))
        executor, loop = self._executor, asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(executor, _call, handler, payload)
        except BrokenProcessPool:
            if executor is self._executor:
                self.close()
            raise ProcessEnded(f"a process of {self._name} has ended") from None

    def close(self) -> None:
        """End the processes."""
        executor, self._executor = self._executor, None
        if executor is not None:
            processes = list((getattr(executor, "_processes", None) or {}).values())
            executor.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()


# -- in the process

_actor: Any = None


def _begin(actor: bytes) -> None:
    """Make a process ready: it leaves signals to all processes of a service to the node, and ends with the node."""
    global _actor
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _actor = pickle.loads(actor)  # noqa: S301 - the node itself has written it


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _call(handler: str, payload: Any) -> Any:
    try:
        return getattr(_actor, handler)(payload)
    except (StopIteration, GeneratorExit) as error:  # a future cannot hold the one, and the other ends who waits for it
        raise RuntimeError(type(error).__name__) from error
    except BaseException as error:
        if _can_travel(error):
            raise
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _can_travel(error: BaseException) -> bool:
    """Tell whether an error can be read where it arrives; one that cannot would cost the node all processes."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - this process itself has written it
    except Exception:  # whatever the parts of an error raise
        return False
    return True
