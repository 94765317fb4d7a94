"""Routes of owners that are asked for and held: how many one owner can make others keep."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.events import Warn
from hopwire.cluster.gossip import MemberRecord, OwnedRoutes, RoutesGiven
from hopwire.cluster.holdings import MODULUS, digest_of, hash_of
from hopwire.cluster.member_events import HoldRoutes
from hopwire.cluster.route_exchange import RouteExchange

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
