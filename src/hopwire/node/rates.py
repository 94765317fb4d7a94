"""How often something is done for somebody: so many times in a second, and then no more until the next.

Rate(10): of 25 questions of one peer within a second, 10 are answered; in the next second 10 more
"""

from __future__ import annotations

__all__ = ["Rate"]

SECOND = 1.0
MOST_KEPT = 16_384  # keys; the oldest are forgotten


class Rate:
    """Counts what is done for each key in the current second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[bytes, tuple[float, int]] = {}  # since when, how many

    def is_due(self, key: bytes, now: float) -> bool:
        """Tell whether it may be done once more, and count it."""
        since, count = self._counts.pop(key, (now, 0))
        if now - since >= SECOND:
            since, count = now, 0
        if len(self._counts) >= MOST_KEPT:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = since, count + 1
        return count < self._most

    def forget(self, key: bytes) -> None:
        """Count no more for a key."""
        self._counts.pop(key, None)
