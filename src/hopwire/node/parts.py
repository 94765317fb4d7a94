"""Streams of answers, where they are taken: parts are put in order, counted, and handed out one by one.

Parts may overtake each other on the way. So a part waits here until all parts before it have come. No more than one
window of parts is held: a producer that sends more than was asked for breaks the rules, and its stream ends.
"""

from __future__ import annotations

import asyncio
from collections import deque

from hopwire.errors import HopwireError
from hopwire.model import Payload
from hopwire.node.demand import WINDOW_BYTES, WINDOW_PARTS, Demand

__all__ = ["Ending", "StreamParts"]


class Ending:
    """The last of a stream: an error, or nothing where all is well."""

    __slots__ = ("error",)

    def __init__(self, error: HopwireError | None = None) -> None:
        self.error = error


class StreamParts:
    """What has come of one stream, and how much of it was taken."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Payload, int]] = deque()
        self._early: dict[int, tuple[Payload | Ending, int]] = {}  # by number: these wait for others before them
        self._arrived = 0  # parts in order
        self._held_bytes = 0
        self._taken_parts = self._taken_bytes = 0
        self._told_parts = self._told_bytes = 0
        self._news: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._ready)

    @property
    def taken(self) -> int:
        """How many parts were handed out."""
        return self._taken_parts

    def missing(self) -> int:
        """Give the number of the part that the others wait for; 0 where none is missing."""
        return self._arrived + 1 if self._early else 0

    def put(self, number: int, item: Payload | Ending, size_bytes: int) -> str:
        """Take a part or the end of the stream; gives the reason why it is refused."""
        if number <= self._arrived or number in self._early:
            return "duplicate"
        is_beyond = number > self._taken_parts + WINDOW_PARTS or self._held_bytes >= WINDOW_BYTES
        if is_beyond and isinstance(item, Payload):
            return "queue_full"
        self._early[number] = item, size_bytes
        self._held_bytes += size_bytes
        return ""

    def add(self, item: Payload) -> None:
        """Take a part that has no number."""
        self._ready.append((item, 0))

    def settle(self) -> Ending | None:
        """Let those parts be handed out that have all others before them; gives the end where it is reached."""
        while (found := self._early.pop(self._arrived + 1, None)) is not None:
            item, size_bytes = found
            if isinstance(item, Ending):
                return item
            self._arrived += 1
            self._ready.append((item, size_bytes))
        return None

    def pop(self) -> Payload:
        """Hand out the next part."""
        part, size_bytes = self._ready.popleft()
        self._held_bytes -= size_bytes
        self._taken_parts += 1
        self._taken_bytes += size_bytes
        return part

    def demand(self) -> Demand | None:
        """Give what is to be said to the producer: how much was taken, after each half of a window."""
        parts, size_bytes = self._taken_parts - self._told_parts, self._taken_bytes - self._told_bytes
        if parts < WINDOW_PARTS // 2 and size_bytes < WINDOW_BYTES // 2:
            return None
        self._told_parts, self._told_bytes = self._taken_parts, self._taken_bytes
        return Demand(self._taken_parts, self._taken_bytes)

    async def news(self) -> None:
        """Wait until something came, or the stream has ended."""
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def wake(self) -> None:
        """Let whoever waits for news look."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
