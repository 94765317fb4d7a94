"""Threads for handlers that block: each actor has threads of its own, as many as messages that it handles at a time.

So a handler that blocks keeps only its own actor waiting. An actor gets its threads with its first blocking message,
and gives them back when the actor is stopped. A node has a limit of threads: actors that come later share the threads
of the event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["ActorThreads", "Threads"]

T = TypeVar("T")
log = logging.getLogger("hopwire.node")
MOST_THREADS = 1000  # of one node: each costs some ten kilobytes, and the system has a limit for all


class Threads:
    """Counts the threads that the actors of a node have."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._left = most
        self._has_warned = False

    def take(self, count: int, name: str) -> bool:
        """Take so many threads out of the limit; False says that so many are not left."""
        if count <= self._left:
            self._left -= count
            return True
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s gets no threads of its own: the actors of this node have too many; it shares those of the loop",
                name,
                extra={"hopwire_event": "too_many_threads", "hopwire_actor": name},
            )
        return False

    def give_back(self, count: int) -> None:
        """Put threads back."""
        self._left += count


class ActorThreads:
    """The threads of one actor."""

    def __init__(self, threads: Threads, count: int, name: str) -> None:
        self._threads, self._count = threads, count
        is_own = threads.take(count, name)
        self._executor = ThreadPoolExecutor(count, f"hopwire-{name}") if is_own else None  # none: those of the loop

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread, and wait for its result."""
        run = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._executor, run, function, *arguments)

    def close(self) -> None:
        """Let the threads go; a thread that is at work goes when its work is done."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
            self._threads.give_back(self._count)
