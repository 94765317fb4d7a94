"""How much memory the routes of each owner may take, where the routes of all owners are too many.

There is one limit over all owners. When it is reached, the owner with the most makes way for an owner with less:

    The limit is 100. A has 60 and B has 40. C comes with 30: A makes way, and B and C have 70.
    Now A comes again with 60. Nobody has more than A, so A is left out.

So an owner that needs no more than its share (the limit divided by the number of owners) is never left out, whoever
else was there before. Everybody else is left out in the order of what they take.
"""

from __future__ import annotations

__all__ = ["RouteShares"]


class RouteShares:
    """The bytes that are kept of each owner."""

    __slots__ = ("_sizes", "total_bytes")

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}
        self.total_bytes = 0

    def size_bytes(self, owner: bytes) -> int:
        """Give what an owner takes."""
        return self._sizes.get(owner, 0)

    def note(self, owner: bytes, size_bytes: int) -> None:
        """Say what an owner takes from now on."""
        self.total_bytes += size_bytes - self._sizes.pop(owner, 0)
        if size_bytes:
            self._sizes[owner] = size_bytes

    def who_makes_way(self, owner: bytes, more_bytes: int, most_bytes: int) -> list[bytes] | None:
        """Give the owners that make way for more bytes of an owner; None if that owner is to be left out itself.

        >>> shares = RouteShares()
        >>> shares.note(b"A", 60), shares.note(b"B", 40)
        (None, None)
        >>> shares.who_makes_way(b"C", 30, most_bytes=100), shares.who_makes_way(b"C", 60, most_bytes=100)
        ([b'A'], None)
        """
        missing = self.total_bytes + more_bytes - most_bytes
        if missing <= 0:
            return []
        after = self.size_bytes(owner) + more_bytes
        larger = sorted([(size, other) for other, size in self._sizes.items() if size > after], reverse=True)
        leaving: list[bytes] = []
        for size, other in larger:
            leaving.append(other)
            missing -= size
            if missing <= 0:
                return leaving
        return None
