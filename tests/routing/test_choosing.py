"""Choosing by key: every node with the same routes gives the same answer, and what moved is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.model.choice import Choice, Choose, number_of
from hopwire.routing import Tables
from hopwire.routing.choosing import TOLD_ACTORS
from tests.routing.network import BYE, GREET, HERE, NODES, ONE, PART, TWO, actor, tables_of

KEYS = [Choice(Choose.KEY, number_of(b"key %d" % number)) for number in range(60)]
FLOWS = [Choice(Choose.STICKY, each.number) for each in KEYS]
HOMES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=1, max_size=20, unique=True)


def owners(tables: Tables, choices: list[Choice] = KEYS) -> list[bytes]:
    return [tables.choose(GREET, each) for each in choices]


@pytest.mark.slow
@given(HOMES, st.data())
def test_every_node_with_the_same_routes_gives_the_same_answer(homes: list[tuple[int, int]], data: Any) -> None:
    """Each node has its own actors here and all others elsewhere, and hears of them in an order of its own."""
    found = []
    for here in range(5):
        tables = Tables()
        is_early = data.draw(st.booleans())
        for place, (node, name) in enumerate(data.draw(st.permutations(homes))):
            if node == here:
                tables.local.register(actor(name), [GREET, BYE])
            else:
                tables.remote.register(NODES[node], actor(name), [GREET, PART])
            if is_early and not place:
                owners(tables)  # the ring is there from now on, and changes with the routes
        found.append(owners(tables))
    assert found[1:] == found[:-1]


@given(HOMES, st.integers(0, 4))
def test_rings_that_changed_equal_rings_that_are_made_afresh(homes: list[tuple[int, int]], lost: int) -> None:
    tables, fresh = Tables(), Tables()
    for node, name in homes:
        tables.remote.register(NODES[node], actor(name), [GREET])
        owners(tables)
        if node != lost:
            fresh.remote.register(NODES[node], actor(name), [GREET])
    tables.remote.unregister_node(NODES[lost].identity)
    assert owners(tables) == owners(fresh)
    if not any(node != lost for node, _ in homes):
        assert GREET not in tables.rings


def test_a_contract_that_nobody_handles_has_no_ring() -> None:
    tables = Tables()
    assert tables.choose(GREET, KEYS[0]) == b""
    assert not tables.rings


def test_partitions_and_contracts_have_rings_of_their_own() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    tables.local.register(actor(3), [PART])
    assert {tables.choose(PART, each) for each in KEYS} == {actor(3)}
    assert {*owners(tables)} == {actor(1), actor(2)}


def test_actors_that_only_one_node_knows_have_keys_only_where_there_are_no_others() -> None:
    tables = tables_of([], [])
    tables.local.register(actor(1), [GREET], is_local_only=True)
    assert {*owners(tables)} == {actor(1)}
    tables.remote.register(ONE, actor(2), [GREET])
    assert {*owners(tables)} == {actor(2)}
    tables.local.register(actor(1), [GREET])
    assert {*owners(tables)} == {actor(1), actor(2)}
    tables.local.register(actor(1), [GREET], is_local_only=True)
    assert {*owners(tables)} == {actor(2)}
    tables.remote.unregister_node(ONE.identity)
    assert {*owners(tables)} == {actor(1)}


def test_a_sticky_caller_keeps_its_actor_when_others_come_and_not_when_it_goes() -> None:
    tables = tables_of([actor(1), actor(2)], [])
    before = owners(tables, FLOWS)
    for name in range(3, 12):
        tables.remote.register(ONE, actor(name), [GREET])
    assert owners(tables, FLOWS) == before
    assert owners(tables, KEYS) != before
    tables.local.unregister(actor(1))
    after = owners(tables, FLOWS)
    assert all(now == then for now, then in zip(after, before, strict=True) if then == actor(2))
    assert actor(1) not in after
    tables.local.register(actor(1), [GREET])
    assert owners(tables, FLOWS) == after


def test_sticky_callers_are_forgotten_when_there_are_too_many_and_then_have_the_actor_of_their_key() -> None:
    tables = Tables(most_kept=10)
    tables.local.register(actor(1), [GREET])
    owners(tables, FLOWS)
    assert len(tables.rings._kept) == 10
    tables.local.register(actor(2), [GREET])
    assert owners(tables, FLOWS[:-10]) == owners(tables, KEYS[:-10])


def test_a_trial_remembers_nothing() -> None:
    tables = tables_of([actor(1)], [])
    assert tables.choose(GREET, FLOWS[0], is_trial=True) == actor(1)
    assert not tables.rings._kept


def test_what_moved_is_told_once_with_its_share() -> None:
    tables = tables_of([actor(1), actor(2), actor(3)], [])
    owners(tables)
    assert tables.rings.take_changes() == []
    tables.remote.register(ONE, actor(4), [GREET, BYE])
    (moved,) = tables.rings.take_changes()
    assert (moved.contract, moved.came, moved.went, moved.actors, moved.share) == (GREET, 1, 0, (actor(4),), 0.25)
    assert tables.rings.take_changes() == []
    tables.local.unregister(actor(1))
    tables.local.unregister(actor(2))
    (moved,) = tables.rings.take_changes()
    assert (moved.came, moved.went, moved.share) == (0, 2, 0.5)


def test_what_is_told_of_a_thousand_actors_is_short_and_true() -> None:
    tables = tables_of([], [(TWO, actor(f"two {number}")) for number in range(20)])
    before = owners(tables)
    for number in range(60):
        tables.remote.register(ONE, actor(f"one {number}"), [GREET])
    (moved,) = tables.rings.take_changes()
    assert (moved.came, len(moved.actors), moved.share) == (60, TOLD_ACTORS, 0.75)
    kept = sum(now == then for now, then in zip(owners(tables), before, strict=True))
    assert 0.05 <= kept / len(before) <= 0.5
    assert HERE not in moved.actors
