"""The ring: the members in the order of their hashes, and who watches whom.

Each member monitors those that follow it on the ring. So each member is monitored by as many as it monitors itself, the
number does not grow with the cluster, and everybody can work out who the monitors of a member are.

    the ring is A, D, B, E, C, and two are monitored: A monitors D and B; the monitors of A are C and E

Members that are lost keep their place, and are passed over. A ring may share its places with other rings until it
changes: a simulation has thousands of rings with the same members.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b

__all__ = ["MemberRing", "place_of"]

Place = tuple[int, bytes]


@lru_cache(maxsize=65_536)
def place_of(node: bytes) -> int:
    """Give the place of a member on the ring."""
    return int.from_bytes(blake2b(node, digest_size=8).digest(), "big")


class MemberRing:
    """Places of members, in order."""

    __slots__ = ("_is_shared", "_places")

    def __init__(self, nodes: Iterable[bytes] = ()) -> None:
        self._places: list[Place] = sorted((place_of(node), node) for node in nodes)
        self._is_shared = False

    def __len__(self) -> int:
        return len(self._places)

    def shared(self) -> MemberRing:
        """Give a ring with the same places, which are copied when one of the two changes."""
        ring = MemberRing()
        ring._places, ring._is_shared, self._is_shared = self._places, True, True
        return ring

    def add(self, node: bytes) -> None:
        """Give a member its place."""
        place = (place_of(node), node)
        index = bisect_left(self._places, place)
        if index == len(self._places) or self._places[index] != place:
            self._own()
            self._places.insert(index, place)

    def remove(self, node: bytes) -> None:
        """Take the place of a member away."""
        place = (place_of(node), node)
        index = bisect_left(self._places, place)
        if index < len(self._places) and self._places[index] == place:
            self._own()
            del self._places[index]

    def _own(self) -> None:
        if self._is_shared:
            self._places, self._is_shared = list(self._places), False

    def after(self, node: bytes, count: int, absent: Collection[bytes] = ()) -> list[bytes]:
        """Give the members that follow a member, the next one first, without those that are absent."""
        return self._walk(bisect_right(self._places, (place_of(node), node)), 1, node, count, absent)

    def before(self, node: bytes, count: int, absent: Collection[bytes] = ()) -> list[bytes]:
        """Give the members in front of a member, the next one first: its monitors."""
        return self._walk(bisect_left(self._places, (place_of(node), node)) - 1, -1, node, count, absent)

    def at(self, chance: float) -> bytes:
        """Give the member that chance has chosen, from 0 to below 1; nothing if there is none."""
        return self._places[int(chance * len(self._places))][1] if self._places else b""

    def _walk(self, index: int, step: int, node: bytes, count: int, absent: Collection[bytes]) -> list[bytes]:
        places, found = self._places, list[bytes]()
        for _ in range(len(places)):
            if len(found) == count:
                break
            other = places[index % len(places)][1]
            if other == node:
                break
            if other not in absent:
                found.append(other)
            index += step
        return found
