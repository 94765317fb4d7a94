"""What the members of a chaotic network say to each other: one question, and handlers of every temper."""

from __future__ import annotations

import asyncio
import time

import hopwire as hw

__all__ = ["TEMPERS", "Done", "Noted", "Told", "Work", "Worker"]


class Work(hw.Payload, identity="chaos.work", version=1):
    """A question; its temper says what the handler does."""

    number: int
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

    number: int


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

    @hw.handles
    async def work(self, request: Work) -> Done | Noted | None:
        """Do what the temper says."""
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
