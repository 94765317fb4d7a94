"""Dead letters: every message that goes no further, with the reason; none is dropped in silence.

Each is counted, the latest are kept, and subscribers are told. A subscriber that raises is not asked again.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from hopwire.model import Message

__all__ = ["DeadLetter", "DeadLetters"]

KEPT = 1000
log = logging.getLogger("hopwire.node")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that goes no further; frames where it never was a message."""

    reason: str
    detail: str = ""
    message: Message | None = None
    frames: tuple[bytes, ...] = ()


class DeadLetters:
    """Counts, keeps and passes on."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.latest: deque[DeadLetter] = deque(maxlen=KEPT)
        self._subscribers: list[Callable[[DeadLetter], None]] = []

    def subscribe(self, subscriber: Callable[[DeadLetter], None]) -> None:
        """Call a function for every dead letter from now on."""
        self._subscribers.append(subscriber)

    def add(self, letter: DeadLetter) -> None:
        """Record one."""
        self.counts[letter.reason] += 1
        self.latest.append(letter)
        for subscriber in list(self._subscribers):
            try:
                subscriber(letter)
            except Exception:
                log.exception("a subscriber to dead letters failed and is not asked again")
                self._subscribers.remove(subscriber)
