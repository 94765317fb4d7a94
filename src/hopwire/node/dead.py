"""Dead letters: every message that goes no further, with the reason; none is dropped in silence.

Each is counted, the latest are kept, in number and in bytes, and subscribers are told. A subscriber that raises is not
asked again.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from hopwire.model import Message
from hopwire.model.message import PART_BYTES

__all__ = ["DeadLetter", "DeadLetters"]

KEPT, KEPT_BYTES = 1000, 16 * 1024 * 1024  # the latest: enough to see what happens, and no more than memory can spare
log = logging.getLogger("hopwire.node")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that goes no further; frames where it never was a message."""

    reason: str
    detail: str = ""
    message: Message | None = None
    frames: tuple[bytes, ...] = ()

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, roughly."""
        message = self.message
        said = 0 if message is None else sum(map(len, message.body_frames)) + message.beside_bytes
        return len(self.detail) + PART_BYTES * len(self.frames) + sum(map(len, self.frames)) + said


class DeadLetters:
    """Counts, keeps and passes on."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.latest: deque[DeadLetter] = deque()
        self._kept_bytes = 0
        self._subscribers: list[Callable[[DeadLetter], None]] = []

    def subscribe(self, subscriber: Callable[[DeadLetter], None]) -> None:
        """Call a function for every dead letter from now on."""
        self._subscribers.append(subscriber)

    def add(self, letter: DeadLetter) -> None:
        """Record one."""
        self.counts[letter.reason] += 1
        self._keep(letter)
        log.debug("dead letter: %s %s", letter.reason, letter.detail, extra=_fields(letter))
        for subscriber in list(self._subscribers):
            try:
                subscriber(letter)
            except Exception:
                log.exception("a subscriber to dead letters failed and is not asked again")
                self._subscribers.remove(subscriber)

    def _keep(self, letter: DeadLetter) -> None:
        self.latest.append(letter)
        self._kept_bytes += letter.size_bytes
        while len(self.latest) > KEPT or (self._kept_bytes > KEPT_BYTES and len(self.latest) > 1):
            self._kept_bytes -= self.latest.popleft().size_bytes


def _fields(letter: DeadLetter) -> dict[str, str]:
    """What a log record of a dead letter says beside its text."""
    message = letter.message
    fields = {"hopwire_reason": letter.reason, "hopwire_detail": letter.detail}
    if message is None:
        return fields
    names = {"hopwire_identity": message.identity, "hopwire_correlation_id": message.correlation_id}
    return fields | {name: value.decode(errors="replace") for name, value in names.items()}
