"""The ring: the same actor for the same key, few keys that move, and shares that are nearly equal."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.model.choice import number_of
from hopwire.routing.ring import Ring

KEYS = [number_of(b"key %d" % number) for number in range(120)]
NAMES = st.integers(0, 40).map(lambda number: b"\x01actor-%d" % number)
ACTORS = st.lists(NAMES, min_size=1, max_size=24, unique=True)


def owners(ring: Ring, *excluded: bytes) -> list[bytes]:
    return [ring.find(key, excluded) for key in KEYS]


def actors(count: int, name: str = "actor") -> list[bytes]:
    return [f"\1{name}-{number}".encode() for number in range(count)]


def test_nobody_has_a_key_where_nobody_is() -> None:
    assert Ring().find(KEYS[0]) == b""
    assert Ring([b"a"]).find(KEYS[0], [b"a"]) == b""


def test_keys_stay_where_they_are_from_version_to_version() -> None:
    """Nodes of two versions run side by side: these owners may never change."""
    ring = Ring(actors(5))
    found = [ring.find(number_of(b"s" + name)) for name in (b"ada", b"bob", b"eve", b"zoe")]
    assert found == [b"\x01actor-4", b"\x01actor-3", b"\x01actor-4", b"\x01actor-1"]


@given(ACTORS, st.randoms(use_true_random=False))
def test_the_order_in_which_actors_came_and_went_does_not_matter(names: list[bytes], chance: object) -> None:
    changed = Ring()
    others = actors(30, "passing")
    for each in (*names, *others):
        changed.add(each)
    shuffled = [*others]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    for each in shuffled:
        changed.remove(each)
    assert owners(changed) == owners(Ring(reversed(names)))
    assert {*changed} == {*names}


@given(ACTORS, NAMES)
def test_only_keys_of_the_actor_that_comes_or_goes_move(names: list[bytes], one: bytes) -> None:
    without, ring = Ring([each for each in names if each != one]), Ring({*names, one})
    for before, after in zip(owners(without), owners(ring), strict=True):
        assert after in (before, one)
    ring.remove(one)
    assert owners(ring) == owners(without)


@given(ACTORS, st.lists(NAMES, max_size=6))
def test_excluded_actors_are_as_good_as_gone(names: list[bytes], excluded: list[bytes]) -> None:
    assert owners(Ring(names), *excluded) == owners(Ring([each for each in names if each not in excluded]))


def test_an_actor_that_two_nodes_announce_goes_with_the_second() -> None:
    ring = Ring([b"a"])
    assert [ring.add(b"b"), ring.add(b"b"), ring.remove(b"b"), b"b" in ring] == [True, False, False, True]
    assert [ring.remove(b"b"), ring.remove(b"b"), b"b" in ring, len(ring)] == [True, False, False, 1]


def test_actors_with_the_same_points_are_told_apart_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.routing.ring.points_of", lambda actor: [1000, 7])
    for order in ([b"a", b"b", b"c"], [b"c", b"b", b"a"]):
        ring = Ring(order)
        assert {*owners(ring)} == {b"a"}
        ring.remove(b"a")
        assert {*owners(ring)} == {b"b"}
        assert {*owners(ring, b"b")} == {b"c"}


@pytest.mark.parametrize(("count", "least", "most"), [(2, 0.7, 1.3), (3, 0.65, 1.35), (10, 0.6, 1.35)])
def test_shares_are_nearly_equal(count: int, least: float, most: float) -> None:
    keys = [number_of(b"%d" % number) for number in range(1500)]
    for network in range(4):
        ring = Ring(actors(count, f"network {network}"))
        shares = Counter(map(ring.find, keys))
        for actor in ring:
            assert least <= shares[actor] * count / len(keys) <= most


@pytest.mark.slow
def test_shares_of_a_hundred_are_nearly_equal() -> None:
    ring, count = Ring(actors(100)), 20_000
    shares = Counter(ring.find(number_of(b"%d" % number)) for number in range(count))
    for actor in ring:
        assert 0.45 <= shares[actor] * 100 / count <= 1.55


def test_a_node_with_more_actors_has_more_keys_in_proportion() -> None:
    large, small = actors(24, "large"), actors(8, "small")
    ring = Ring([*large, *small])
    shares = Counter(ring.find(number_of(b"%d" % number)) in small for number in range(3000))
    assert 0.19 <= shares[True] / 3000 <= 0.31


@pytest.mark.slow
def test_a_search_looks_at_few_points_among_thousands_of_actors_that_come_and_go() -> None:
    """Work is counted, not time: the points that are looked at, and the actors that one bucket holds."""
    names = actors(20_000)
    ring = Ring(names[:10_000])
    for each in names[10_000:]:
        ring.add(each)
    for each in names[:4_000]:
        ring.remove(each)
    assert max(len(points) for points, _ in ring._buckets) < 80
    assert len(ring) / 4 <= len(ring._buckets) <= 4 * len(ring)

    class Looks(set[bytes]):
        count = 0

        def __contains__(self, actor: object) -> bool:
            self.count += 1
            return False

    looks = Looks([b"nobody"])
    ring._next(KEYS[0], looks)
    assert looks.count == 1
    assert all(ring.find(key) in ring for key in KEYS)
