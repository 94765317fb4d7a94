"""The event loop that a node was started on, its clock, and chance.

Everybody in a node is given one `Timing` when the node is made. The node starts on a loop later, and `start` fills the
value in. Before that there is no clock: whoever asks is told that the node is not started.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

from hopwire.errors import Closed
from hopwire.node.share import HUB_SECONDS, Share
from hopwire.node.waking import Waking

__all__ = ["Timing"]


def _not_started() -> float:
    raise Closed("the node is not started")


class Timing:
    """The loop of a node, and what is measured on it."""

    __slots__ = ("chance", "clock", "hub_share", "is_one_clock", "loop", "new_future", "share", "thread", "waking")

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop
        self.new_future: Callable[[], asyncio.Future[Any]]
        self.thread = 0  # that the loop runs in; none before the start
        self.clock: Callable[[], float] = _not_started
        self.is_one_clock = False  # whether shares are measured by the same clock as everything else
        self.share = Share(time.monotonic)  # not the clock of the loop, which may stand still within a turn
        self.hub_share = Share(time.monotonic, HUB_SECONDS)
        self.chance: Callable[[], float] = random.random
        self.waking = Waking()

    def start(self) -> None:
        """Take the loop that runs here."""
        self.loop, self.thread = asyncio.get_running_loop(), get_ident()
        self.waking.start(self.loop)
        kind, ordinary = type(self.loop), asyncio.BaseEventLoop  # what the loop would do is done here at half the price
        self.clock = time.monotonic if getattr(kind, "time", None) is ordinary.time else self.loop.time
        self.is_one_clock = self.clock is time.monotonic
        is_plain = getattr(kind, "create_future", None) is ordinary.create_future
        self.new_future = partial(asyncio.Future, loop=self.loop) if is_plain else self.loop.create_future

    def now(self) -> float:
        """Give the time of the loop."""
        return self.clock()
