"""What happens at this moment: what nodes say about themselves, and what they capture.

Pictures of nodes come from outside (`Look`): whoever starts the page knows how to join a network.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from hopwire.web.capture_tail import CaptureTail
from hopwire.web.live_ring import LiveRing

__all__ = ["Live", "Look"]

RING_ROWS = 5_000
HISTORY = 120  # pictures of a node whose rates are drawn

Look: TypeAlias = Callable[[], AsyncIterator[dict[str, Any]]]
"""Gives pictures of a node without end: as `hopwire top --json` has them, or `{"trouble": why there is none}`."""


class Live:
    """The nodes that are watched, and the tail of captures."""

    def __init__(self, looks: Mapping[str, Look], captures: Path | None = None) -> None:
        self.looks = looks
        self.captures = captures
        self.pictures: dict[str, dict[str, Any]] = {}
        self.history: dict[str, deque[dict[str, float]]] = {address: deque(maxlen=HISTORY) for address in looks}
        self.changes = 0  # grows with each picture
        self.ring = LiveRing(RING_ROWS)
        self.readers = 0
        self.tail: CaptureTail | None = None

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch as long as the page is served."""
        tasks = [asyncio.ensure_future(self._watch(address, look)) for address, look in self.looks.items()]
        if self.captures is not None:
            self.tail = CaptureTail(self.captures, self.ring, time.time_ns())
            self.tail.start()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.tail is not None:
                await asyncio.to_thread(self.tail.stop)

    async def _watch(self, address: str, look: Look) -> None:
        async for picture in look():
            self.take(address, picture)

    def take(self, address: str, picture: dict[str, Any]) -> None:
        """Take a picture of a node; while there is none, the last one stays, and is told to be old."""
        before = self.pictures.get(address, {})
        self.pictures[address] = {**before, **picture} if "trouble" in picture else picture
        if "rates" in picture:
            self.history[address].append(picture["rates"])
        self.changes += 1
