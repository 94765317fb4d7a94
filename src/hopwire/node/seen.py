"""What has arrived already: message ids, as many as memory is given for; the oldest are forgotten first."""

from __future__ import annotations

__all__ = ["SeenMessages"]


class SeenMessages:
    """Remembers message ids."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: dict[bytes, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def forget(self, message_id: bytes) -> None:
        """Let an id be new again: its message was not taken."""
        self._ids.pop(message_id, None)

    def is_new(self, message_id: bytes) -> bool:
        """Tell whether an id has not been seen, and remember it."""
        if message_id in self._ids:
            return False
        self._ids[message_id] = None
        if len(self._ids) > self._capacity:
            del self._ids[next(iter(self._ids))]
        return True
