"""Whole clusters on a clock of their own, in trouble: the scenarios of `benchmarks/cluster.py`, on few nodes."""

from __future__ import annotations

import pytest

from benchmarks import cluster
from hopwire.cluster.member_events import Tempo
from hopwire.model.units import NS_PER_SECOND


@pytest.mark.slow
def test_cost_of_a_node_does_not_grow_with_the_cluster() -> None:
    for size in (10, 50):
        _, most, _, links = cluster.at_rest(size, seconds=10)
        assert most <= 20
        assert links <= 16


@pytest.mark.parametrize("size", [2, 3, 10, 25])
def test_killed_process_is_known_within_a_second(size: int) -> None:
    found = cluster.killed(size)
    assert found.is_right
    assert found.seconds < 1
    assert not found.false_deaths


@pytest.mark.slow
def test_machine_that_falls_silent_is_known_within_ten_seconds() -> None:
    found = cluster.killed(50, is_told=False)
    assert found.is_right
    assert found.seconds < 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slow_nodes_are_not_dead(seed: int) -> None:
    assert cluster.slow_nodes(30, seed, seconds=40).is_right


@pytest.mark.slow
def test_many_deaths_at_once() -> None:
    found = cluster.many_killed(50)
    assert found.is_right
    assert not found.false_deaths


@pytest.mark.parametrize(("size", "is_told", "most"), [(6, True, 1), (40, True, 3), (40, False, 30)])
def test_last_one_that_is_left_knows_that_it_is_alone(size: int, is_told: bool, most: float) -> None:
    found = cluster.left_alone(size, is_told=is_told)
    assert found.is_right
    assert found.seconds < most


@pytest.mark.slow
def test_many_join_at_once() -> None:
    found = cluster.joins(5, 60, 1)
    assert found.is_right
    assert not found.false_deaths


def test_routes_reach_everybody() -> None:
    assert all(found.is_right for found in cluster.routes(15, 50))


def test_many_routes_reach_a_newcomer_while_they_change() -> None:
    found = cluster.churning(4000)
    assert found.is_right
    assert found.seconds < 1


@pytest.mark.slow
def test_links_that_are_cut_in_one_direction_kill_nobody() -> None:
    assert cluster.one_way(30).is_right


def test_lost_words_are_repaired() -> None:
    found = cluster.lossy(20)
    assert found.is_right
    assert not found.false_deaths


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_halves_join_again_by_themselves(seed: int) -> None:
    assert cluster.halves(20, 60, seed).is_right


@pytest.mark.slow
def test_halves_join_again_after_a_day() -> None:
    assert cluster.halves(6, 25 * 3600, tempo=Tempo(120 * NS_PER_SECOND)).is_right


@pytest.mark.slow
def test_node_that_flaps_harms_nobody_else() -> None:
    assert cluster.flapping(20).is_right


@pytest.mark.parametrize("is_moved", [False, True])
def test_restart_is_known_at_once(is_moved: bool) -> None:
    assert cluster.restarted(20, is_moved=is_moved).seconds < 1


@pytest.mark.slow
def test_every_process_may_restart_one_after_another() -> None:
    assert cluster.rolling(20).is_right


def test_clone_is_warned_of() -> None:
    assert cluster.cloned(20).is_right


@pytest.mark.slow
def test_liar_kills_nobody() -> None:
    assert cluster.lying(20, seconds=30).is_right


def test_start_in_the_future_is_not_believed() -> None:
    assert cluster.future(10).is_right


@pytest.mark.slow
@pytest.mark.parametrize("is_moved", [False, True])
def test_restarted_process_with_a_new_key_has_its_name_again_within_a_second(is_moved: bool) -> None:
    found = cluster.restarted(30, is_moved=is_moved, is_sealed=True)
    assert found.is_right
    assert found.seconds < 1
    assert not found.false_deaths


@pytest.mark.slow
def test_all_restart_with_new_keys_one_after_the_other() -> None:
    assert cluster.rolling(20, is_sealed=True).is_right


@pytest.mark.slow
def test_who_signs_keeps_its_name_from_a_clone() -> None:
    assert cluster.claimed(30).is_right


@pytest.mark.slow
def test_machines_that_slept_accuse_nobody() -> None:
    found = cluster.woken(20)
    assert found.is_right
    assert not found.false_deaths


@pytest.mark.slow
def test_who_was_forgotten_comes_back() -> None:
    assert cluster.returned(10).is_right
