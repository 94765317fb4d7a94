"""Hires workers for an actor when there is work for them, and none before.

A recruiter stands in the line of those who wait for the messages of an actor, behind the workers that are idle. A
message that finds no idle worker wakes the recruiter, who hires one worker more, up to the `concurrency` of the actor.
Workers stay once they are hired.

    concurrency 8, three messages at once, one at a time afterwards: three workers are hired, and no more
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hopwire.node.mailbox import Mailbox

__all__ = ["Recruiter"]


class Recruiter:
    """Waits for messages in the place of workers that are not there yet."""

    __slots__ = ("_hire", "_inbox", "_places")

    def __init__(self, inbox: Mailbox[Any], hire: Callable[[], None], places: int) -> None:
        self._inbox, self._hire, self._places = inbox, hire, places

    def start(self, idle: int = 0) -> None:
        """Hire for what waits already, beside so many workers that are idle, and for what comes."""
        for _ in range(min(len(self._inbox) - idle, self._places)):
            self._hire_one()
        if self._places > 0:
            self._inbox.takers[self] = None

    def stop(self) -> None:
        """Hire nobody any more."""
        self._places = 0
        self._inbox.takers.pop(self, None)

    def done(self) -> bool:
        """Tell whether nobody is hired any more."""
        return self._places <= 0

    def set_result(self, _: bool | None, /) -> None:
        """A message has come that finds nobody idle."""
        self._inbox.takers.called -= 1
        self._hire_one()
        if self._places > 0:
            self._inbox.takers[self] = None  # behind all who are idle

    def _hire_one(self) -> None:
        self._places -= 1
        self._hire()
