"""The routes of all owners, as every member holds them: versions, changes, and a hash that proves them.

An owner numbers the versions of its routes from 1. Whoever holds version 4 and hears of version 6 asks any other holder
for what changed since 4. A holder remembers the last `MOST_CHANGES` changes of each owner. Who is further behind gets
all routes, in pages. The digest of all routes is in the owner's record: what does not fit the digest is thrown away and
asked for anew, of somebody else.

    B holds version 4 of A. The record of A says 6. B asks C, which gives the changes from 4 to 6.
    D has just come and holds nothing. D asks C, which gives all routes of version 6.

The hash of a set of routes is the sum of the hashes of its routes, so a change costs as much as it changes. The sum has
1,024 bits: in a shorter one, whoever passes routes on could find others with the same sum. Its digest has 16 bytes.
Changes are kept as they came and are merged when somebody asks for all: most holders are never asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256, shake_128

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.gossip import ROUTES_AT_A_TIME, OwnedRoutes

__all__ = ["Holding", "bytes_of", "digest_of", "hash_of"]

MOST_CHANGES = 256  # that are kept of each owner; who has missed more gets all routes
MOST_PAGED = 4  # versions whose routes are being given out in pages
OVERHEAD_BYTES = 200  # of a route: a tuple and three values
REMEMBERED_BYTES = 128  # of names of a route whose hash is remembered: with 65,536 routes some 40 MB at most
SUM_BYTES = 128  # 200,000 routes that have a given sum are found in 2^70 steps; with 32 bytes, in 2^31
MODULUS = 1 << 8 * SUM_BYTES
Change = tuple[int, int, tuple[AnnouncedRoute, ...], tuple[AnnouncedRoute, ...]]  # base, version, added, removed


def _hash(route: AnnouncedRoute) -> int:
    receiver, identity, version, partition = route
    text = b"%d:%d:%d:%d:" % (len(receiver), len(identity), version, len(partition))
    return int.from_bytes(shake_128(text + receiver + identity + partition).digest(SUM_BYTES), "big")


_known_hash = lru_cache(maxsize=65_536)(_hash)  # a route is hashed when it comes and when it goes


def hash_of(routes: Iterable[AnnouncedRoute]) -> int:
    """Give the hash of a set of routes; those with long names are not remembered, whoever says them.

    >>> hash_of([(b"a", b"greet", 1, b""), (b"b", b"greet", 1, b"")]) == hash_of(
    ...     [(b"b", b"greet", 1, b""), (b"a", b"greet", 1, b"")]
    ... )
    True
    """
    return sum([_known_hash(each) if _is_small(each) else _hash(each) for each in routes]) % MODULUS


def _is_small(route: AnnouncedRoute) -> bool:
    return len(route[0]) + len(route[1]) + len(route[3]) <= REMEMBERED_BYTES


def bytes_of(routes: Iterable[AnnouncedRoute]) -> int:
    """Give about how much memory routes take."""
    return sum([OVERHEAD_BYTES + len(route[0]) + len(route[1]) + len(route[3]) for route in routes])


def digest_of(hashed: int) -> bytes:
    """Give what a record says of the hash of all routes; nothing where there are none."""
    return sha256(hashed.to_bytes(SUM_BYTES, "big")).digest()[:16] if hashed else b""


class Holding:
    """The routes of one owner, in one incarnation."""

    __slots__ = ("_changes", "_kept", "_paged", "hash", "incarnation", "size_bytes", "version")

    def __init__(self, incarnation: int) -> None:
        self.incarnation, self.version, self.hash = incarnation, 0, 0
        self._changes: list[Change] = []  # the first may stand for all before it, and has base 0
        self._kept = self.size_bytes = 0  # routes in these changes, and about how much memory they take
        self._paged: dict[int, tuple[AnnouncedRoute, ...]] = {}  # all routes of some versions, in an order that stays

    def routes(self) -> tuple[AnnouncedRoute, ...]:
        """Give all routes, in an order that stays as long as the version."""
        return self._routes_at(self.version)

    def _routes_at(self, version: int) -> tuple[AnnouncedRoute, ...]:
        """Give all routes of a version that is one of those in the changes."""
        routes = self._paged.get(version)
        if routes is None:
            routes = _merged([change for change in self._changes if change[1] <= version])
            if len(self._paged) >= MOST_PAGED:
                del self._paged[next(iter(self._paged))]
            self._paged[version] = routes
        return routes

    def _has(self, version: int) -> bool:
        return any(each == version for _, each, _, _ in reversed(self._changes))

    def hash_after(self, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...]) -> int:
        """Give the hash of all routes after a change."""
        return (self.hash + hash_of(added) - hash_of(removed)) % MODULUS

    def has_room(self, added: int, removed: int, most: int) -> bool:
        """Tell whether so many more routes in changes can be kept; changes are merged before that is denied.

        Twice as many are kept as an owner may have, so that changes are merged seldom.
        """
        if self._kept + added + removed > 2 * most:
            self._changes = [(0, self.version, _merged(self._changes), ())]
            self._count()
        return self._kept + added + removed <= 2 * most

    def _count(self) -> None:
        self._kept = sum(len(added) + len(removed) for _, _, added, removed in self._changes)
        self.size_bytes = sum(bytes_of(added) + bytes_of(removed) for _, _, added, removed in self._changes)

    def change(self, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], version: int) -> None:
        """Go on to another version; the changes are those from the version that is held."""
        self._changes.append((self.version, version, added, removed))
        self.version = version
        self.hash = self.hash_after(added, removed)
        self._kept += len(added) + len(removed)
        self.size_bytes += bytes_of(added) + bytes_of(removed)
        if len(self._changes) > 2 * MOST_CHANGES:
            rest = self._changes[-MOST_CHANGES:]
            oldest = rest[0][0]
            self._changes = [(0, oldest, _merged(self._changes[:-MOST_CHANGES]), ()), *rest]
            self._count()

    def replace(self, routes: tuple[AnnouncedRoute, ...], version: int, hashed: int) -> None:
        """Hold these routes, whose hash is known, and no others."""
        self._changes, self._kept = [(0, version, routes, ())], len(routes)
        self.version, self.hash, self._paged = version, hashed, {version: routes}
        self.size_bytes = bytes_of(routes)

    def since(self, owner: bytes, version: int, offset: int, room: int, newest: int = 0) -> OwnedRoutes | None:
        """Give what is newer than a version, as changes or as a page of all; nothing if that is more than fits.

        All of it is of the version that is asked for, if that is still known: whoever asks has the digest of that
        version, and may never hear that of a later one. Example: an owner changes a route every 20 ms. Who asks for
        version 7 gets 50 pages of version 7, and then the changes since.
        """
        given = newest if newest > version and self._has(newest) else self.version
        if not offset:
            for index, (base, _, _, _) in enumerate(self._changes):
                if base == version and (base or index == 0):
                    newer = [change for change in self._changes[index:] if change[1] <= given]
                    if version == 0 and len(newer) > 1:
                        break
                    added, removed = _joined(newer)
                    if len(added) + len(removed) <= room:
                        return OwnedRoutes(owner, self.incarnation, base, given, added, removed, 0, len(added))
                    break
        routes = self._routes_at(given)
        page = routes[offset : offset + min(room, ROUTES_AT_A_TIME)]
        if not page and len(routes) > offset:
            return None
        return OwnedRoutes(owner, self.incarnation, 0, given, page, (), offset, len(routes))


def _merged(changes: Iterable[Change]) -> tuple[AnnouncedRoute, ...]:
    """Give the routes that are there after changes."""
    found: dict[AnnouncedRoute, None] = {}
    for _, _, added, removed in changes:
        for route in removed:
            found.pop(route, None)
        found.update(dict.fromkeys(added))
    return tuple(found)


def _joined(changes: list[Change]) -> tuple[tuple[AnnouncedRoute, ...], tuple[AnnouncedRoute, ...]]:
    """Give several changes as one: a route that came and went is in neither list."""
    if len(changes) == 1:
        return changes[0][2], changes[0][3]
    added: dict[AnnouncedRoute, None] = {}
    removed: dict[AnnouncedRoute, None] = {}
    for _, _, more, fewer in changes:
        for route in fewer:
            if route in added:
                del added[route]
            else:
                removed[route] = None
        for route in more:
            if route in removed:
                del removed[route]
            else:
                added[route] = None
    return tuple(added), tuple(removed)
