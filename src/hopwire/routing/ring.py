"""The ring: the same key finds the same actor, on every node that knows the same actors.

Every actor has 8 points on a circle, made of its identity alone. A key has 8 places on the circle, made of the key
alone. From each place one walks on to the next point; the actor with the shortest walk is the actor of the key.

    actors at 10 and 60 on a circle of 100, a key at 55 and 80: the walks are 5 to 60, and 30 to 10; so the actor at 60

- The order in which actors came does not matter, since nothing is made of it.
- An actor that comes makes some walks shorter: just those keys move, and all of them to the new actor. An actor that
  goes makes its own walks longer: just its keys move. With n actors about 1/n of the keys move.
- `exclude` gives what a ring without the excluded actors would give.
- Many places of a key are what makes shares equal, as many points of an actor would, and they cost no memory. The tests
  hold 0.6 to 1.35 times the equal share for 10 actors, and 0.45 to 1.55 times for 100 (`tests/routing/test_ring.py`).

Points are kept in buckets by their first bits, about one bucket for each actor. So a search looks at a few points,
however many actors there are; with 100,000 actors it takes about three times as long as with ten, since memory is slow.

The trap: points and places are part of what nodes agree on. Whoever changes `POINTS`, `PLACES` or a hash moves nearly
all keys, and nodes of both kinds disagree while they run side by side.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator
from hashlib import blake2b
from typing import TypeAlias

from hopwire.model.choice import KEY_BITS

__all__ = ["Ring"]

POINTS = 8  # of an actor: what one digest of 64 bytes gives
PLACES = 8  # of a key
SPAN = 1 << KEY_BITS
STRIDE = 0x9E3779B97F4A7C15  # odd, and its bits look like chance: the places of a key lie anywhere
MOST_FOUND = 4096  # keys whose actor is remembered until the ring changes: a few keys are often most of the traffic
MOST_FILLED, LEAST_FILLED = 2.0, 0.25  # actors for each bucket, before there are more buckets, or fewer

Bucket: TypeAlias = tuple[list[int], list[bytes]]  # points in order, and the actor of each


def points_of(actor: bytes) -> list[int]:
    """Give the points of an actor."""
    return [point >> 1 for point in struct.unpack(f">{POINTS}Q", blake2b(actor).digest())]


class Ring:
    """Actors on a circle.

    >>> ring = Ring([b"one", b"two"])
    >>> ring.find(12345) == Ring([b"two", b"one"]).find(12345)
    True
    """

    __slots__ = ("_actors", "_buckets", "_found", "_shift")

    def __init__(self, actors: Iterable[bytes] = ()) -> None:
        self._actors: dict[bytes, int] = {}  # with how often each was added
        for actor in actors:
            self._actors[actor] = self._actors.get(actor, 0) + 1
        self._buckets: list[Bucket] = []
        self._found: dict[int, bytes] = {}
        self._resize()
        for actor in self._actors:
            self._put(actor)

    def __len__(self) -> int:
        return len(self._actors)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._actors)

    def __contains__(self, actor: object) -> bool:
        return actor in self._actors

    def add(self, actor: bytes) -> bool:
        """Add an actor, and tell whether it is new; an actor that is added twice is removed by two removals."""
        count = self._actors.get(actor, 0)
        self._actors[actor] = count + 1
        if count:
            return False
        self._found.clear()
        self._put(actor)
        if len(self._actors) > MOST_FILLED * len(self._buckets):
            self._resize()
        return True

    def remove(self, actor: bytes) -> bool:
        """Undo `add`, and tell whether the actor is gone now."""
        count = self._actors.get(actor, 0)
        if count > 1:
            self._actors[actor] = count - 1
        if count != 1:
            return False
        del self._actors[actor]
        self._found.clear()
        for point in points_of(actor):
            points, owners = self._buckets[point >> self._shift]
            index = owners.index(actor, bisect_left(points, point))
            del points[index], owners[index]
        if len(self._actors) < LEAST_FILLED * len(self._buckets):
            self._resize()
        return True

    def find(self, key: int, exclude: Container[bytes] = ()) -> bytes:
        """Give the actor of a key, or b"" if none is left."""
        if exclude:
            return self._search(key, exclude) if any(actor not in exclude for actor in self._actors) else b""
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            found = self._found[key] = self._search(key, ()) if self._actors else b""
        return found

    def _search(self, key: int, exclude: Container[bytes]) -> bytes:
        nearest, found = 2 * SPAN, b""
        stride = (key * STRIDE >> 8) % SPAN | 1
        for _ in range(PLACES):
            point, actor = self._next(key, exclude)
            if point - key < nearest:
                nearest, found = point - key, actor
            key = (key + stride) % SPAN
        return found

    def _next(self, place: int, exclude: Container[bytes]) -> tuple[int, bytes]:
        """Give the first point behind a place whose actor is not excluded; a point of the next round is further on."""
        buckets, at, round_begins = self._buckets, place >> self._shift, 0
        points, owners = buckets[at]
        index = bisect_left(points, place)
        while True:
            while index < len(points):
                if owners[index] not in exclude:
                    return points[index] + round_begins, owners[index]
                index += 1
            at, index = at + 1, 0
            if at == len(buckets):
                at, round_begins = 0, SPAN
            points, owners = buckets[at]

    def _put(self, actor: bytes) -> None:
        for point in points_of(actor):
            points, owners = self._buckets[point >> self._shift]
            index = bisect_left(points, point)
            while index < len(points) and points[index] == point and owners[index] < actor:  # the smaller name is first
                index += 1
            points.insert(index, point)
            owners.insert(index, actor)

    def _resize(self) -> None:
        """Make as many buckets as fit the actors, and move all points there, in their order."""
        bits = max(0, (len(self._actors) - 1).bit_length())
        self._shift = shift = KEY_BITS - bits
        before, self._buckets = self._buckets, [([], []) for _ in range(1 << bits)]
        for points, owners in before:
            for point, owner in zip(points, owners, strict=True):
                bucket = self._buckets[point >> shift]
                bucket[0].append(point)
                bucket[1].append(owner)
