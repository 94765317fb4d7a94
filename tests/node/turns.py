"""How much happens in one turn of the loop: counted and not timed, so that a busy machine changes nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class Turns:
    """Looks at a counter at the end of each turn of the loop, that is whenever the loop asks its selector."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self.steps: list[int] = []

    def __enter__(self) -> Turns:
        self._selector: selectors.BaseSelector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
        select: Callable[..., list[Any]] = self._selector.select
        before = self._count()

        def look(timeout: float | None = None) -> list[Any]:
            nonlocal before
            now = self._count()
            self.steps.append(now - before)
            before = now
            return select(timeout)

        self._selector.select = look
        return self

    def __exit__(self, *_: object) -> None:
        del self._selector.select

    @property
    def most(self) -> int:
        """The most that the counter grew within one turn."""
        return max(self.steps, default=0)
