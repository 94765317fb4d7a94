"""How code that blocks waits for something on an event loop: no longer than it asked for, and a grace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from hopwire.errors import Timeout
from hopwire.node.calls import LONGEST_SECONDS

__all__ = ["CALL_SECONDS", "GRACE_SECONDS", "each_of", "result_of"]

T = TypeVar("T")
CALL_SECONDS = 30.0  # for a call that takes no time unless the loop is held
# A promise ends up to 1/32 of its timeout late. A free loop ends its promises itself within the grace.
LATEST, GRACE_SECONDS = 33 / 32, 1.0


def result_of(future: Future[T], seconds: float | None) -> T:
    """Wait for a result, for so many seconds and a grace; without seconds, until it is there."""
    limit = None
    if isinstance(seconds, int | float):  # what is no time the call itself refuses, within the grace
        limit = min(max(0.0, seconds), LONGEST_SECONDS) * LATEST + GRACE_SECONDS
    try:
        return future.result(limit)
    except TimeoutError:
        if future.cancel():
            raise Timeout("timed_out", f"the loop of the node was held for longer than {seconds:g} s") from None
        return future.result()  # the call has ended at this moment, with its own error or its result


def each_of(
    parts: AsyncGenerator[T, None], seconds: float, call: Callable[..., Any], loop: asyncio.AbstractEventLoop
) -> Iterator[T]:
    """Give the parts of a stream one by one; `call` runs a coroutine function on the loop and waits for its result."""
    ends_at = time.monotonic() + seconds
    try:
        while (part := call(max(0.0, ends_at - time.monotonic()), anext, parts, None)) is not None:
            yield part
    finally:
        if not loop.is_closed():
            asyncio.run_coroutine_threadsafe(_close(parts), loop)  # nobody waits: the loop may be held


async def _close(parts: AsyncGenerator[Any, None]) -> None:
    await parts.aclose()
