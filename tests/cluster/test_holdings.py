"""Routes of owners: changes, pages, and the hash that proves them."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.holdings import MOST_CHANGES, Holding, hash_of


def route(number: int) -> AnnouncedRoute:
    return (b"\1actor", b"contract.%d" % number, 1, b"")


def test_who_is_one_version_behind_gets_the_changes() -> None:
    holding = Holding(7)
    holding.change((route(1), route(2)), (), 1)
    holding.change((route(3),), (route(1),), 2)
    given_routes = holding.since(b"A", 1, 0, 1000)
    assert given_routes is not None
    assert (given_routes.base, given_routes.version) == (1, 2)
    assert (given_routes.added, given_routes.removed) == ((route(3),), (route(1),))


def test_who_holds_nothing_gets_all_in_pages() -> None:
    holding = Holding(7)
    holding.change(tuple(map(route, range(25))), (), 1)
    holding.change((), (route(0),), 2)
    pages = [holding.since(b"A", 0, offset, 10) for offset in (0, 10, 20)]
    found = [each for page in pages if page is not None for each in page.added]
    assert [page.total for page in pages if page is not None] == [24, 24, 24]
    assert {*found} == set(map(route, range(1, 25)))
    assert hash_of(found) == holding.hash


def test_pages_are_of_the_version_that_is_asked_for_while_routes_go_on_changing() -> None:
    holding = Holding(7)
    holding.change(tuple(map(route, range(20))), (), 1)
    wanted, found = holding.hash, list[AnnouncedRoute]()
    for offset in (0, 10):
        holding.change((route(100 + offset),), (route(offset),), holding.version + 1)
        page = holding.since(b"A", 0, offset, 10, newest=1)
        assert page is not None
        assert (page.version, page.total) == (1, 20)
        found += page.added
    assert hash_of(found) == wanted
    changes = holding.since(b"A", 1, 0, 10, newest=2)
    assert changes is not None
    assert (changes.base, changes.version, changes.added) == (1, 2, (route(100),))
    forgotten = holding.since(b"A", 0, 0, 10, newest=99)
    assert forgotten is not None
    assert forgotten.version == 3, "what was never there is not given: the latest is"


def test_old_changes_are_merged() -> None:
    holding = Holding(7)
    for version in range(1, 3 * MOST_CHANGES):
        holding.change((route(version),), (), version)
    assert len(holding._changes) <= 2 * MOST_CHANGES + 1
    assert len(holding.routes()) == 3 * MOST_CHANGES - 1
    late = holding.since(b"A", 1, 0, 10_000)
    assert late is not None
    assert late.base == 0


@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.integers(0, 5)), min_size=1, max_size=12))
def test_whoever_follows_holds_the_same(changes: list[tuple[set[int], int]]) -> None:
    owner, follower, there = Holding(1), Holding(1), set[int]()
    for version, (wanted, skipped) in enumerate(changes, 1):
        added, removed = wanted - there, there - wanted
        owner.change(tuple(map(route, sorted(added))), tuple(map(route, sorted(removed))), version)
        there = wanted
        if skipped % 3:
            continue
        newer = owner.since(b"A", follower.version, 0, 1000)
        if newer is not None and newer.base:
            follower.change(newer.added, newer.removed, newer.version)
        elif newer is not None:
            follower.replace(newer.added, newer.version, hash_of(newer.added))
        assert follower.hash == owner.hash == hash_of(map(route, there))
        assert {*follower.routes()} == set(map(route, there))


def test_names_that_are_long_are_not_remembered_by_whoever_hashes_them() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            hash_of([(b"\1actor", b"%d" % number + bytes(1_000_000), 1, b"")])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
