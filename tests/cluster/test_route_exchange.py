"""Routes of owners that are asked for and held: how many one owner can make others keep."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from hopwire.cluster.announce import AnnouncedRoute
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
