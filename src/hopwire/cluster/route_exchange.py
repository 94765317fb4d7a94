"""How routes travel in a cluster: a member asks a neighbour for what is newer, and holds what fits the owner's hash.

| step | what happens |
|---|---|
| `want` | a record tells of a newer version than is held: the neighbour that passed it on is to be asked |
| `ask` | some neighbours are asked, for up to 64 owners each |
| `hear_asked` | a neighbour asks: it gets changes, or a page of all; what is not here yet is sent when it has come |
| `hear_given` | routes have come: they are held, or the next page is asked for, or they are wrong |
| `want` again | routes that were newer than the record are held as soon as the record has come |
| `pull_again` | no answer for two beats, or a wrong one: another neighbour is asked, and after that the owner itself |

    A announces. B hears it from A, and C from B. B asks A, C asks B. C may be quicker than the answer of A: then B
    sends the routes to C as soon as they have come. So A answers its neighbours, and not the whole cluster.

Nothing is held but what fits the digest in the record of its owner, whoever gives it. There is a limit for each owner,
and one for all of them: without certificates a member can invent members, and give each of them routes. What is held,
what is coming and what came too early count. Where it is too much, the owner with the most is left out (`RouteShares`).
Who was left out is asked for again when the routes change, or when there is room again.

The trap: a neighbour that gives wrong routes again and again. What is wrong is never asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import ROUTES_AT_A_TIME, MemberRecord, OwnedRoutes, RoutesAsked, RoutesGiven
from hopwire.cluster.holdings import MODULUS, Holding, bytes_of, digest_of, hash_of
from hopwire.cluster.member_events import HoldRoutes, MemberCommand, Tell
from hopwire.cluster.route_shares import RouteShares

__all__ = ["RouteExchange"]

MOST_ROUTES = 200_000  # of one owner; twice as many are kept of one that adds and removes
MOST_BYTES = 256 * 1024 * 1024  # that the routes of all owners take: about a million routes with short names
ROOM_AGAIN = 3 / 4  # of these bytes: so many are taken at most when those are asked for again who were left out
MOST_ASKERS = 16  # that wait for routes of one owner
PULL_BEATS, PULLS_AT_A_TIME = 2, 64
TRIES_AROUND = 2  # neighbours that are asked before the owner
MOST_EARLY = 64  # owners whose routes have come before their records: a record is some milliseconds behind
HELD, MORE, EARLY, WRONG, CROWDED = "held", "more", "early", "wrong", "crowded"  # what became of routes that were given


@dataclass(slots=True)
class _Pull:
    """Routes that are asked for."""

    source: bytes  # who is asked
    beat: int  # of the question
    promised: tuple[int, bytes] = 0, b""  # version and digest in the record of the owner
    tries: int = 0
    version: int = 0  # of the pages that have come
    pages: list[AnnouncedRoute] = field(default_factory=list)
    hash: int = 0  # of the pages that have come
    size_bytes: int = 0  # that they take

    def begin(self, version: int = 0) -> None:
        self.version, self.pages, self.hash, self.size_bytes = version, [], 0, 0

    def note(self, record: MemberRecord) -> None:
        """Remember the digest of the version whose pages come: the owner may be at another by the last page."""
        if record.routes_version == self.version:
            self.promised = record.routes_version, record.routes_hash


class RouteExchange:
    """The routes of all owners, as one member holds them, and those that it asks for."""

    def __init__(
        self, node: bytes, incarnation: int, links: set[bytes], find: Callable[[bytes], MemberRecord | None]
    ) -> None:
        self._me, self._links, self._find = (node, incarnation), links, find
        self.holdings: dict[bytes, Holding] = {node: Holding(incarnation)}
        self._own: dict[AnnouncedRoute, None] = {}
        self._wanted: dict[bytes, bytes] = {}  # owners whose routes are to be asked for, and whom to ask
        self._pulls: dict[bytes, _Pull] = {}
        self._askers: dict[bytes, dict[bytes, tuple[int, int, int]]] = {}  # who waits for routes of an owner
        self._early: dict[bytes, tuple[OwnedRoutes, int]] = {}  # newer than the record of their owner, and their size
        self._shares = RouteShares()  # about how many bytes are kept of each other owner
        self._left_out: dict[bytes, None] = {}  # owners whose routes found no room
        self.beat = 0
        self.commands: list[MemberCommand] = []

    @property
    def is_wanting(self) -> bool:
        """Whether somebody is to be asked."""
        return bool(self._wanted)

    @property
    def is_pulling(self) -> bool:
        """Whether answers are missing."""
        return bool(self._pulls)

    def rise(self, incarnation: int) -> None:
        """Own the same routes under a later start of this node."""
        node, _ = self._me
        self._me = node, incarnation
        self.holdings[node].incarnation = incarnation

    def forget(self, owner: bytes) -> None:
        """Hold no routes of an owner that is gone, or of the process before."""
        self._wanted.pop(owner, None)
        self._askers.pop(owner, None)
        self._left_out.pop(owner, None)
        self._clear(owner)
        if self._left_out and self._shares.total_bytes <= ROOM_AGAIN * MOST_BYTES:
            for other in self._left_out:
                self._pulls.setdefault(other, _Pull(other, self.beat))
            self._left_out.clear()

    def _clear(self, owner: bytes) -> None:
        for kept in (self.holdings, self._pulls, self._early):
            kept.pop(owner, None)
        self._count(owner)

    def _count(self, owner: bytes) -> None:
        """Note what is kept of an owner: what is held, what is coming, and what came too early."""
        pull = self._pulls.get(owner)
        coming = 0 if pull is None else pull.size_bytes
        self._shares.note(owner, self._held_bytes(owner) + coming + self._early_bytes(owner))

    def _held_bytes(self, owner: bytes) -> int:
        holding = self.holdings.get(owner)
        return 0 if holding is None else holding.size_bytes

    def _early_bytes(self, owner: bytes) -> int:
        return self._early[owner][1] if owner in self._early else 0

    def _is_crowded(self, owner: bytes, more_bytes: int) -> bool:
        """Tell whether there is no room for so many bytes more of an owner; those who have more make way before that.

        Whoever is left out is told to people.
        """
        leaving = self._shares.who_makes_way(owner, more_bytes, MOST_BYTES)
        for other in [owner] if leaving is None else leaving:
            record = self._find(other)
            self.commands.append(Warn("too_many_routes", other, "" if record is None else record.uri))
            self._left_out[other] = None
        for other in leaving or ():
            if other in self.holdings:
                self.commands.append(HoldRoutes(other, (), (), True))
            self._clear(other)
        return leaving is None

    # -- one's own routes

    def change(self, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...]) -> Holding | None:
        """Change the routes of this node; nothing is given where nothing changes."""
        added = tuple([route for route in added if route not in self._own])
        removed = tuple([route for route in removed if route in self._own])
        if not added and not removed:
            return None
        self._own.update(dict.fromkeys(added))
        for route in removed:
            del self._own[route]
        holding = self.holdings[self._me[0]]
        holding.change(added, removed, holding.version + 1)
        return holding

    def latest(self) -> OwnedRoutes | None:
        """Give the latest change of the routes of this node."""
        node, _ = self._me
        holding = self.holdings[node]
        return holding.since(node, max(holding.version - 1, 0), 0, ROUTES_AT_A_TIME)

    # -- asking

    def want(self, record: MemberRecord, source: bytes) -> bool:
        """Note that routes are to be asked for, if a record tells of newer ones."""
        early, _ = self._early.get(record.node, (None, 0))
        if early is not None and early.version <= record.routes_version:
            del self._early[record.node]
            self._count(record.node)
            if early.incarnation == record.incarnation and self._take(record, early) == HELD:
                self._pulls.pop(record.node, None)
                self._count(record.node)
        pull = self._pulls.get(record.node)
        if pull is not None:
            pull.note(record)
        holding = self.holdings.get(record.node)
        is_behind = holding is None or holding.version < record.routes_version
        if is_behind and record.node not in self._pulls:
            self._wanted[record.node] = source
            return True
        return False

    def ask(self) -> None:
        """Ask for some of the routes that are wanted."""
        by_source: dict[bytes, list[bytes]] = {}
        for owner in list(self._wanted)[: 4 * PULLS_AT_A_TIME]:
            by_source.setdefault(self._wanted.pop(owner), []).append(owner)
        for source, owners in by_source.items():
            self._ask(source, owners)

    def _ask(self, source: bytes, owners: Sequence[bytes]) -> None:
        wanted: list[tuple[bytes, int, int, int, int]] = []
        for owner in owners:
            record, holding = self._find(owner), self.holdings.get(owner)
            if record is None:
                continue
            pull = self._pulls.setdefault(owner, _Pull(source, self.beat))
            pull.source, pull.beat = source, self.beat
            if not pull.pages:
                pull.promised = record.routes_version, record.routes_hash
            held = 0 if holding is None else holding.version
            newest = pull.version if pull.pages else record.routes_version  # pages of one version, whatever follows
            wanted.append((owner, record.incarnation, held, len(pull.pages), newest))
        if source in self._links:
            for start in range(0, len(wanted), PULLS_AT_A_TIME):
                asked = RoutesAsked(*self._me, tuple(wanted[start : start + PULLS_AT_A_TIME]))
                self.commands.append(Tell(source, asked))

    def pull_again(self, neighbours: Sequence[bytes], chance: Callable[[], float]) -> list[bytes]:
        """Ask others for what has not come; give the owners that have to be asked and cannot be reached."""
        unreached: list[bytes] = []
        late = [owner for owner, pull in self._pulls.items() if self.beat - pull.beat >= PULL_BEATS]
        for owner in late[:PULLS_AT_A_TIME]:
            pull = self._pulls[owner]
            pull.tries += 1
            pull.begin()
            self._count(owner)
            source = neighbours[int(chance() * len(neighbours))] if neighbours else owner
            if pull.tries > TRIES_AROUND:
                source = owner
                if owner not in self._links:
                    unreached.append(owner)
            self._ask(source, [owner])
        return unreached

    # -- giving

    def hear_asked(self, said: RoutesAsked) -> None:
        """Give a neighbour what is newer than what it holds."""
        room, given = ROUTES_AT_A_TIME, list[OwnedRoutes]()
        for owner, incarnation, version, offset, newest in said.wanted:
            holding = self.holdings.get(owner)
            if holding is not None and holding.incarnation == incarnation and holding.version >= max(newest, 1):
                part = holding.since(owner, version, offset, room, newest) if room > 0 else None
                if part is not None:
                    given.append(part)
                    room -= len(part.added) + len(part.removed) + 1
            elif self._find(owner) is not None:
                askers = self._askers.setdefault(owner, {})
                if len(askers) < MOST_ASKERS:
                    askers[said.node] = version, newest, self.beat
        self._give(said.node, given)

    def serve(self, owner: bytes) -> None:
        """Give those who wait for routes of an owner what has come."""
        holding, waiting = self.holdings[owner], self._askers.pop(owner, {})
        for node, (version, newest, beat) in waiting.items():
            if node not in self._links or self.beat - beat > 2 * PULL_BEATS:
                continue
            if holding.version < newest:  # what came is older than what this one has heard of
                self._askers.setdefault(owner, {})[node] = version, newest, beat
            else:
                part = holding.since(owner, version, 0, ROUTES_AT_A_TIME, newest)
                self._give(node, [] if part is None else [part])

    def _give(self, node: bytes, given: Iterable[OwnedRoutes]) -> None:
        parts = tuple(given)
        if parts:
            self.commands.append(Tell(node, RoutesGiven(*self._me, parts)))

    # -- taking

    def hear_given(self, said: RoutesGiven) -> None:
        """Hold the routes that a neighbour gives, and ask for what is still missing."""
        again: list[bytes] = []
        for given in said.given:
            owner, record = given.owner, self._find(given.owner)
            is_own = owner == self._me[0]
            if record is None or record.incarnation != given.incarnation or is_own or given.total > MOST_ROUTES:
                continue
            taken = self._take(record, given)
            if taken == WRONG:  # somebody else is asked, after a while
                self._pulls.setdefault(owner, _Pull(said.node, self.beat)).begin()
            elif taken in (HELD, CROWDED):  # what finds no room is not asked for before it has changed
                self._pulls.pop(owner, None)
                self._wanted.pop(owner, None)
            self._count(owner)
            if taken == MORE or (taken == HELD and self.holdings[owner].version < record.routes_version):
                again.append(owner)
        again = [owner for owner in again if owner not in self._left_out]  # by what came behind it
        left = [owner for owner, pull in self._pulls.items() if pull.source == said.node and owner not in again]
        if left and not again and len(said.given) > 1:  # what found no room in the answer
            again = left[:PULLS_AT_A_TIME]
        self._ask(said.node, again)

    def _take(self, record: MemberRecord, given: OwnedRoutes) -> str:
        """Hold routes that were given, and tell what became of them."""
        owner = given.owner
        holding = self.holdings.get(owner)
        version = 0 if holding is None else holding.version
        if given.version <= version:
            return HELD
        pull, is_early = self._pulls.get(owner), given.version > record.routes_version
        if pull is not None and not given.base and not given.offset and pull.version != given.version:
            pull.begin(given.version)
            pull.note(record)
            self._count(owner)
        promised = {} if pull is None else dict([pull.promised])
        digest = {**promised, record.routes_version: record.routes_hash}.get(given.version)
        if given.base:
            if holding is None or given.base != version:
                return WRONG
            if not holding.has_room(len(given.added), len(given.removed), MOST_ROUTES):
                return WRONG
            if is_early:
                return self._keep(given)
            if digest_of(holding.hash_after(given.added, given.removed)) != digest:
                return WRONG
            if self._is_crowded(owner, bytes_of(given.added) + bytes_of(given.removed)):
                return CROWDED
            holding.change(given.added, given.removed, given.version)
            self.commands.append(HoldRoutes(owner, given.added, given.removed, False))
        else:
            taken, routes, hashed = self._pages(given)
            if taken != HELD:
                return taken
            self._count(owner)
            if is_early:
                return self._keep(OwnedRoutes(owner, given.incarnation, 0, given.version, routes, (), 0, len(routes)))
            if digest_of(hashed) != digest:
                return WRONG
            if self._is_crowded(owner, bytes_of(routes) - self._held_bytes(owner)):
                return CROWDED
            holding = self.holdings[owner] = Holding(record.incarnation)
            holding.replace(routes, given.version, hashed)
            self.commands.append(HoldRoutes(owner, routes, (), True))
        self._count(owner)
        self._left_out.pop(owner, None)
        self.serve(owner)
        return HELD

    def _keep(self, given: OwnedRoutes) -> str:
        """Keep routes until the record of their owner tells whether they are right; nobody makes way for them."""
        owner, size_bytes = given.owner, bytes_of(given.added) + bytes_of(given.removed)
        has_place = owner in self._early or len(self._early) < MOST_EARLY
        more_bytes = size_bytes - self._early_bytes(owner)
        if has_place and self._shares.who_makes_way(owner, more_bytes, MOST_BYTES) == []:
            self._early[owner] = given, size_bytes
        return EARLY

    def _pages(self, given: OwnedRoutes) -> tuple[str, tuple[AnnouncedRoute, ...], int]:
        """Put a page to those before it; give all routes and their hash, once they are complete."""
        hashed = hash_of(given.added)
        if not given.offset and len(given.added) == given.total:
            return HELD, given.added, hashed
        pull = self._pulls.get(given.owner)
        if pull is None or not given.added:
            return WRONG, (), 0
        if pull.version != given.version or len(pull.pages) != given.offset:
            return WRONG, (), 0
        size_bytes = bytes_of(given.added)
        if self._is_crowded(given.owner, size_bytes):
            return CROWDED, (), 0
        pull.pages += given.added
        pull.size_bytes += size_bytes
        pull.hash = (pull.hash + hashed) % MODULUS
        if len(pull.pages) < given.total:
            return MORE, (), 0
        routes, hashed = tuple(pull.pages), pull.hash
        pull.begin()
        return HELD, routes, hashed
