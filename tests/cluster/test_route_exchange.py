"""Routes of owners that are asked for and held: how many one owner can make others keep."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given as given_that
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import MemberRecord, OwnedRoutes, RoutesAsked, RoutesGiven
from hopwire.cluster.holdings import MODULUS, bytes_of, digest_of, hash_of
from hopwire.cluster.member_events import HoldRoutes, Tell
from hopwire.cluster.route_exchange import MOST_EARLY, RouteExchange

Change = tuple[tuple[AnnouncedRoute, ...], tuple[AnnouncedRoute, ...]]


def routes(word: bytes, version: int, count: int) -> tuple[AnnouncedRoute, ...]:
    return tuple((b"\1actor", b"%s.%d.%d" % (word, version, number), 1, b"") for number in range(count))


def follow(changes: Iterable[Change]) -> RouteExchange:
    """Hear of changes of an owner, each with a record of its own that fits."""
    record, hashed = MemberRecord(b"owner", 1, 1, "tcp://owner:1"), 0
    exchange = RouteExchange(b"me", 1, {b"owner"}, lambda _: record)
    for version, (added, removed) in enumerate(changes, 1):
        hashed = (hashed + hash_of(added) - hash_of(removed)) % MODULUS
        record = replace(record, sequence=version, routes_version=version, routes_hash=digest_of(hashed))
        exchange.want(record, b"owner")
        exchange.ask()
        given = OwnedRoutes(b"owner", 1, version - 1, version, added, removed, 0, len(added))
        exchange.hear_given(RoutesGiven(b"owner", 1, (given,)))
    return exchange


@pytest.mark.parametrize(("removed", "held"), [(0, 100), (10, 50)], ids=["ever more", "removing what was never there"])
def test_owner_that_announces_ever_more_routes_is_kept_to_its_limit(
    removed: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_ROUTES", 50)
    changes = [(routes(b"new", each, 10), routes(b"never", each, removed * (each > 1))) for each in range(1, 200)]
    exchange = follow(changes)
    holding = exchange.holdings[b"owner"]
    assert held <= len(holding.routes()) <= 100  # twice as many are kept as one owner may have
    assert sum(len(added) + len(gone) for _, _, added, gone in holding._changes) <= 100


def test_owner_that_changes_its_routes_for_long_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_ROUTES", 50)
    exchange = follow((routes(b"new", each, 20), routes(b"new", each - 1, 20 * (each > 1))) for each in range(1, 200))
    assert exchange.holdings[b"owner"].version == 199
    assert exchange.holdings[b"owner"].routes() == routes(b"new", 199, 20)
    assert sum(isinstance(command, HoldRoutes) for command in exchange.commands) == 199


def test_routes_of_all_owners_together_have_a_limit_and_people_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", 100_000)
    records: dict[bytes, MemberRecord] = {}
    exchange = RouteExchange(b"me", 1, {b"liar"}, records.get)
    for number in range(50):  # each invented member is far below the limit of one owner
        owner, held = b"invented %d" % number, routes(b"r%d" % number, 1, 20)
        record = MemberRecord(owner, 1, 1, "tcp://nowhere:1", routes_version=1, routes_hash=digest_of(hash_of(held)))
        records[owner] = record
        exchange.want(record, b"liar")
        exchange.ask()
        exchange.hear_given(RoutesGiven(b"liar", 1, (OwnedRoutes(owner, 1, 0, 1, held, (), 0, len(held)),)))
    total = sum(holding.size_bytes for owner, holding in exchange.holdings.items() if owner != b"me")
    assert 90_000 < total <= 100_000
    told = [command for command in exchange.commands if isinstance(command, Warn)]
    assert {warning.what for warning in told} == {"too_many_routes"}
    assert len(told) + len(exchange.holdings) - 1 == 50
    assert not exchange.is_pulling  # what found no room is not asked for again and again
    for owner in list(records)[:10]:
        exchange.forget(owner)
    exchange.want(records[b"invented 49"], b"liar")
    exchange.ask()
    last = routes(b"r49", 1, 20)
    exchange.hear_given(RoutesGiven(b"liar", 1, (OwnedRoutes(b"invented 49", 1, 0, 1, last, (), 0, len(last)),)))
    assert b"invented 49" in exchange.holdings


def test_pages_that_never_end_are_within_the_limit_of_all_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", 100_000)
    records = {
        b"%d" % number: MemberRecord(b"%d" % number, 1, 1, "tcp://nowhere:1", routes_version=1, routes_hash=b"?")
        for number in range(50)
    }
    exchange = RouteExchange(b"me", 1, {b"liar"}, records.get)
    for owner, record in records.items():
        exchange.want(record, b"liar")
        exchange.ask()
        page = routes(owner, 1, 20)
        exchange.hear_given(RoutesGiven(b"liar", 1, (OwnedRoutes(owner, 1, 0, 1, page, (), 0, 1000),)))
    assert sum(len(pull.pages) for pull in exchange._pulls.values()) * 200 <= 100_000


class Owners:
    """Owners that announce routes, and a member that hears of them through a neighbour."""

    def __init__(self) -> None:
        self.records: dict[bytes, MemberRecord] = {}
        self.latest: dict[bytes, tuple[AnnouncedRoute, ...]] = {}
        self.exchange = RouteExchange(b"me", 1, {b"neighbour"}, self.records.get)

    def announce(self, owner: bytes, count: int) -> None:
        version = 1 if owner not in self.records else self.records[owner].routes_version + 1
        held = self.latest[owner] = routes(owner, version, count)
        digest = digest_of(hash_of(held))
        self.records[owner] = MemberRecord(
            owner, 1, version, "tcp://nowhere:1", routes_version=version, routes_hash=digest
        )
        self.exchange.want(self.records[owner], b"neighbour")
        self.exchange.ask()
        self.give(owner, held, version)

    def give(self, owner: bytes, added: tuple[AnnouncedRoute, ...], version: int, total: int = 0) -> None:
        given = OwnedRoutes(owner, 1, 0, version, added, (), 0, total or len(added))
        self.exchange.hear_given(RoutesGiven(b"neighbour", 1, (given,)))

    @property
    def kept_bytes(self) -> int:
        held = [holding.size_bytes for owner, holding in self.exchange.holdings.items() if owner != b"me"]
        coming = [bytes_of(pull.pages) for pull in self.exchange._pulls.values()]
        early = [bytes_of(given.added) for given, _ in self.exchange._early.values()]
        return sum(held) + sum(coming) + sum(early)

    def entered(self) -> dict[bytes, set[AnnouncedRoute]]:
        """Give the routes that whoever carries out the commands has in the end."""
        found: dict[bytes, set[AnnouncedRoute]] = {}
        for command in self.exchange.commands:
            if isinstance(command, HoldRoutes):
                before = set() if command.is_all else found.get(command.owner, set())
                found[command.owner] = (before - {*command.removed}) | {*command.added}
        return {owner: entered for owner, entered in found.items() if entered}


@settings(max_examples=60)
@given_that(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(1, 60)), max_size=40))
def test_owner_that_needs_no_more_than_its_share_is_never_left_out(announced: list[tuple[bytes, int]]) -> None:
    most_bytes, owners = 20_000, Owners()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", most_bytes)
        for owner, count in announced:
            owners.announce(owner, count)
            assert owners.kept_bytes <= most_bytes
            holdings = owners.exchange.holdings
            for each, latest in owners.latest.items():
                if bytes_of(latest) <= most_bytes / 4:
                    assert holdings[each].version == owners.records[each].routes_version
        held = {owner: {*held.routes()} for owner, held in owners.exchange.holdings.items() if owner != b"me"}
        assert owners.entered() == held


def test_who_filled_the_memory_first_makes_way_for_those_with_less_and_people_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", 100_000)
    owners = Owners()
    owners.announce(b"greedy", 300)
    owners.announce(b"large", 120)
    owners.announce(b"honest", 100)
    assert owners.exchange.holdings.keys() == {b"me", b"large", b"honest"}
    assert owners.entered().keys() == {b"large", b"honest"}
    told = [command.node for command in owners.exchange.commands if isinstance(command, Warn)]
    assert told == [b"greedy"]
    owners.announce(b"greedy", 300)  # it has the most still, and nobody makes way for it
    assert owners.exchange.holdings.keys() == {b"me", b"large", b"honest"}


def test_who_was_left_out_is_asked_for_again_as_soon_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", 100_000)
    owners = Owners()
    owners.announce(b"first", 200)
    owners.announce(b"second", 200)
    owners.announce(b"third", 210)
    exchange = owners.exchange
    assert b"third" not in exchange.holdings
    assert not exchange.is_pulling
    exchange.forget(b"first")
    exchange.beat += 2
    exchange.commands.clear()
    exchange.pull_again([b"neighbour"], lambda: 0.0)
    (told,) = exchange.commands
    assert isinstance(told, Tell)
    assert isinstance(told.payload, RoutesAsked)
    assert [owner for owner, *_ in told.payload.wanted] == [b"third"]
    owners.give(b"third", owners.latest[b"third"], 1)
    assert b"third" in exchange.holdings


def test_nobody_makes_way_for_routes_that_are_not_those_of_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", 100_000)
    owners = Owners()
    owners.announce(b"large", 300)
    owners.records[b"small"] = MemberRecord(b"small", 1, 1, "tcp://nowhere:1", routes_version=1, routes_hash=b"?")
    for version in (1, 2):  # not what the record says, and newer than the record
        owners.give(b"small", routes(b"forged", 1, 250), version)
    assert owners.exchange.holdings.keys() == {b"me", b"large"}
    assert owners.kept_bytes <= 100_000


def test_routes_that_come_before_their_records_are_within_the_limit_of_all_owners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hopwire.cluster.route_exchange.MOST_BYTES", 100_000)
    owners = Owners()
    for number in range(MOST_EARLY):
        owner = b"invented %d" % number
        owners.records[owner] = MemberRecord(owner, 1, 1, "tcp://nowhere:1", routes_version=1, routes_hash=b"?")
        owners.give(owner, routes(owner, 2, 100), 2)
    assert 70_000 < owners.kept_bytes <= 100_000
