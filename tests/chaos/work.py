"""What the members of a chaotic network say to each other: questions, handlers of every temper, and a slow consumer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import hopwire as hw

__all__ = ["TEMPERS", "Done", "Noted", "Toil", "Toiler", "Told", "Work", "Worker"]

TOIL_SECONDS = 0.05

Note = Callable[[str], None]  # that a handler has begun with the message of this flow


class Work(hw.Payload, identity="chaos.work", version=1):
    """A question; its temper says what the handler does."""

    number: int
    flow: str
    temper: str
    filling: bytes = b""


class Done(hw.Payload, identity="chaos.done", version=1):
    """The answer."""

    number: int


class Noted(hw.Payload, identity="chaos.noted", version=1):
    """An answer that nobody asked for."""

    number: int


class Told(hw.Payload, identity="chaos.told", version=1):
    """A message that wants no answer."""

    flow: str


class Toil(hw.Payload, identity="chaos.toil", version=1):
    """A message that takes its handler long."""

    flow: str


# fmt: off
TEMPERS = {
    # temper      of a thousand questions
    "prompt":     880,
    "slow":        40,  # suspends for a while
    "busy":        30,  # holds the loop for a millisecond
    "overdue":     10,  # takes longer than the asker waits
    "failing":     15,
    "exiting":      5,  # raises SystemExit
    "strange":     10,  # answers something else
    "silent":      10,  # answers nothing
}
# fmt: on


class Worker(hw.Actor):
    """Handles questions, each by its temper."""

    concurrency = 16

    def __init__(self, note: Note) -> None:
        self._note = note

    @hw.handles
    async def work(self, request: Work) -> Done | Noted | None:
        """Do what the temper says."""
        self._note(request.flow)
        match request.temper:
            case "slow":
                await asyncio.sleep(0.02)
            case "busy":
                until = time.monotonic() + 0.001
                while time.monotonic() < until:
                    pass
            case "overdue":
                await asyncio.sleep(3.0)
            case "failing":
                raise ValueError("as asked")
            case "exiting":
                raise SystemExit(3)
            case "strange":
                return Noted(request.number)
            case "silent":
                return None
        return Done(request.number)

    @hw.handles
    async def told(self, request: Told) -> None:
        """Take it, and say nothing."""
        self._note(request.flow)


class Toiler(hw.Actor):
    """A slow consumer."""

    concurrency = 4

    def __init__(self, note: Note) -> None:
        self._note = note

    @hw.handles
    async def toil(self, request: Toil) -> None:
        """Take long."""
        self._note(request.flow)
        await asyncio.sleep(TOIL_SECONDS)
