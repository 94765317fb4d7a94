"""Turns: everyone gets as many as it weighs, and nobody moves but the one who was picked."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.routing.turns import CandidateIndex, Candidates, Turns
from tests.routing.network import GREET

NAMES = [b"a", b"b", b"c", b"d", b"e"]


def turns_of(*candidates: bytes) -> Turns:
    turns = Turns()
    for candidate in candidates:
        turns.add(candidate)
    return turns


def picks(turns: Turns, count: int, *excluded: bytes) -> bytes:
    return b"".join(turns.pick(excluded) for _ in range(count))


def candidates_of(local: int, weights: list[int]) -> Candidates:
    return index_of(local, weights)[GREET]


def index_of(local: int, weights: list[int]) -> CandidateIndex:
    index = CandidateIndex()
    for number in range(local):
        index.add_local(GREET, b"l%d" % number)
    for number, weight in enumerate(weights):
        for _ in range(weight):
            index.add_remote(GREET, b"n%d" % number)
    return index


def test_candidates_take_turns_in_the_order_they_came() -> None:
    assert picks(turns_of(b"a", b"b", b"c"), 7) == b"abcabca"


def test_nobody_is_picked_from_nobody() -> None:
    assert turns_of().pick() == b""
    assert turns_of(b"a").pick({b"a"}) == b""


def test_one_that_was_added_twice_has_two_turns_in_each_round() -> None:
    turns = turns_of(b"a", b"b", b"a")
    assert (len(turns), turns.total) == (2, 3)
    assert picks(turns, 6) == b"aabaab"


def test_removing_is_exact_and_can_be_repeated() -> None:
    turns = turns_of(b"a", b"b", b"c")
    turns.remove(b"b")
    turns.remove(b"b")
    turns.remove(b"never there")
    assert (list(turns), turns.total) == ([b"a", b"c"], 2)


def test_adding_and_removing_keep_the_order_of_the_others() -> None:
    turns = turns_of(b"a", b"b", b"c", b"d")
    assert picks(turns, 1) == b"a"
    turns.add(b"e")
    turns.remove(b"c")
    assert picks(turns, 8) == b"bdaebdae"


def test_a_candidate_that_leaves_in_the_middle_of_its_turns_is_not_picked_again() -> None:
    turns = turns_of(b"a", b"a", b"a", b"b")
    assert picks(turns, 1) == b"a"
    for _ in range(3):
        turns.remove(b"a")
    assert picks(turns, 2) == b"bb"


def test_a_candidate_that_loses_weight_in_the_middle_of_its_turns_has_fewer_left() -> None:
    turns = turns_of(b"a", b"a", b"a", b"b")
    assert picks(turns, 1) == b"a"
    turns.remove(b"a")
    turns.remove(b"a")
    assert picks(turns, 4) == b"abab"


def test_an_excluded_candidate_keeps_its_turn() -> None:
    turns = turns_of(b"a", b"b", b"c")
    assert turns.pick({b"a"}) == b"b"
    assert picks(turns, 3) == b"acb"


def test_a_retry_that_excludes_what_it_tried_asks_everyone_once() -> None:
    turns = turns_of(*NAMES, *NAMES)
    tried: list[bytes] = []
    while found := turns.pick(tried):
        tried.append(found)
    assert sorted(tried) == NAMES


def test_a_pick_looks_at_one_candidate_and_at_the_excluded_in_front_however_many_there_are() -> None:
    class Excluded(set[bytes]):
        looks = 0

        def __contains__(self, candidate: object) -> bool:
            self.looks += 1
            return super().__contains__(candidate)

    turns = turns_of(*(b"%d" % number for number in range(100_000)))
    for number in range(0, 1_000, 100):
        turns.remove(b"%d" % number)
    excluded = Excluded([b"1", b"2", b"3"])
    found = [turns.pick(excluded) for _ in range(5)]
    assert found == [b"4", b"5", b"6", b"7", b"8"]
    assert excluded.looks == 5 * 4


@settings(deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 20), st.integers(0, 60))
def test_over_any_stretch_each_candidate_gets_its_share_give_or_take_one_round(
    weights: list[int], before: int, count: int
) -> None:
    turns = turns_of(*(name for name, weight in zip(NAMES, weights, strict=False) for _ in range(weight)))
    picks(turns, before)
    shares = Counter(turns.pick() for _ in range(count))
    for name, weight in zip(NAMES, weights, strict=False):
        assert abs(shares[name] - weight * count / sum(weights)) <= weight


@settings(deadline=None)
@given(st.integers(0, 5), st.lists(st.integers(1, 4), max_size=4), st.integers(0, 30), st.integers(0, 80))
def test_every_actor_weighs_the_same_here_and_elsewhere(
    local: int, weights: list[int], before: int, count: int
) -> None:
    total = local + sum(weights)
    if not total:
        return
    candidates = candidates_of(local, weights)

    def pick() -> bytes:
        return candidates.remote.pick() if candidates.is_remote_turn() else candidates.local.pick()

    for _ in range(before):
        pick()
    shares = Counter(pick() for _ in range(count))
    for number in range(local):
        assert abs(shares[b"l%d" % number] - count / total) <= 1
    for number, weight in enumerate(weights):
        assert abs(shares[b"n%d" % number] - weight * count / total) <= weight
    assert abs(sum(shares[b"n%d" % number] for number in range(len(weights))) - count * sum(weights) / total) <= 1


def test_the_sides_alternate_and_the_local_one_begins() -> None:
    candidates = candidates_of(local=1, weights=[1])
    assert [candidates.is_remote_turn() for _ in range(4)] == [False, True, False, True]


def test_a_side_that_shrinks_owes_no_turns() -> None:
    candidates = candidates_of(local=1, weights=[100])
    for _ in range(60):
        candidates.is_remote_turn()
    for _ in range(99):
        candidates.remote.remove(b"n0")
    assert sum(candidates.is_remote_turn() for _ in range(10)) in (5, 6)


def test_an_index_forgets_a_contract_that_nobody_handles() -> None:
    index = CandidateIndex()
    index.add_local(GREET, b"a")
    index.add_remote(GREET, b"n")
    index.remove_local(GREET, b"a")
    assert len(index[GREET]) == 1
    index.remove_remote(GREET, b"n")
    assert index == {}


def test_sides_that_are_empty_are_not_shared_once_they_are_filled() -> None:
    index = CandidateIndex()
    index.add_local(GREET, b"a")
    index.add_remote((b"other", 1, b""), b"n")
    assert (len(index[GREET].remote), len(index[b"other", 1, b""].local)) == (0, 0)


# a node that announces more actors than it can have


@settings(deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 2000))
def test_a_node_has_no_more_turns_than_the_limit_however_many_actors_it_announces(
    most: int, weights: list[int], claimed: int
) -> None:
    index = CandidateIndex(most)
    for number, weight in enumerate(weights):
        for _ in range(weight):
            index.add_remote(GREET, b"n%d" % number)
    for _ in range(claimed):
        index.add_remote(GREET, b"liar")
    turns, honest = index[GREET].remote, sum(min(weight, most) for weight in weights)
    shares = Counter(turns.pick() for _ in range(turns.total))
    assert turns.total == honest + min(claimed, most)
    assert shares == {b"liar": min(claimed, most)} | {b"n%d" % n: min(w, most) for n, w in enumerate(weights)}
    assert shares[b"liar"] <= most
    for _ in range(claimed):
        index.remove_remote(GREET, b"liar")
    assert (b"liar" in turns, turns.total) == (False, honest)


def test_a_liar_does_not_draw_most_questions_from_as_many_honest_actors_as_the_limit() -> None:
    candidates = candidates_of(local=16, weights=[4, 4, 4, 4, 999])
    shares = Counter((candidates.is_remote_turn() and candidates.remote.pick()) or b"here" for _ in range(640))
    assert shares[b"n4"] == 320


# by load


def light(index: CandidateIndex, loads: dict[bytes, float], count: int, grows: bool = True) -> Counter[bytes]:
    """Pick, and let whoever is picked have one thing more to do."""
    picked: Counter[bytes] = Counter()
    candidates = index[GREET]
    for _ in range(count):
        found = candidates.remote.pick() if candidates.is_remote_turn() else candidates.local.pick()
        picked[found] += 1
        loads[found] = loads.get(found, 0) + grows
    return picked


def light_index(loads: dict[bytes, float], local: int, weights: list[int]) -> CandidateIndex:
    index = CandidateIndex(load=lambda _, candidate: loads.get(candidate, 0))
    for number in range(local):
        index.add_local(GREET, b"l%d" % number)
    index.choose_by_load(GREET)
    for number, weight in enumerate(weights):
        for _ in range(weight):
            index.add_remote(GREET, b"n%d" % number)
    index.choose_by_load(GREET)
    return index


@settings(deadline=None)
@given(st.integers(0, 4), st.lists(st.integers(1, 4), max_size=4), st.integers(0, 100))
def test_where_all_have_the_same_to_do_actors_take_turns(local: int, weights: list[int], count: int) -> None:
    if not local + len(weights):
        return
    loads: dict[bytes, float] = {}
    assert light(light_index(loads, local, weights), loads, count, grows=False).total() == count
    fair = candidates_of(local, weights)
    same = light_index(loads, local, weights)[GREET]
    for _ in range(count):
        turns = [each.remote.pick() if each.is_remote_turn() else each.local.pick() for each in (fair, same)]
        assert turns[0] == turns[1]


@settings(deadline=None)
@given(st.integers(1, 4), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(20, 60))
def test_whoever_has_more_to_do_gets_less(local: int, weights: list[int], ahead: int) -> None:
    loads: dict[bytes, float] = {b"l0": ahead}
    picked = light(light_index(loads, local, weights), loads, 20)
    assert picked[b"l0"] == 0


def test_loads_end_up_level_for_each_actor() -> None:
    loads: dict[bytes, float] = {}
    light(light_index(loads, 2, [1, 2, 5]), loads, 1000)
    assert [loads[b"l0"], loads[b"l1"], loads[b"n0"], loads[b"n1"] / 2, loads[b"n2"] / 5] == [
        pytest.approx(100, abs=10) for _ in range(5)
    ]


def test_load_spares_the_excluded_and_asks_everyone_once() -> None:
    loads: dict[bytes, float] = {b"n0": 3}
    turns, tried = light_index(loads, 0, [2, 1, 1])[GREET].remote, list[bytes]()
    while found := turns.pick(tried):
        tried.append(found)
    assert sorted(tried) == [b"n0", b"n1", b"n2"]


def test_a_look_at_candidates_by_load_takes_no_turn_and_asks_the_same_loads() -> None:
    loads: dict[bytes, float] = {}
    candidates = light_index(loads, 2, [1])[GREET]
    first = candidates.still().local.pick()
    assert candidates.still().local.pick() == first
    loads[first] = 5
    second = candidates.still().local.pick()
    assert second != first
    assert candidates.local.pick() == second


@given(
    st.integers(0, 4),
    st.lists(st.integers(1, 3), max_size=3),
    st.booleans(),
    st.lists(st.tuples(st.sets(st.sampled_from([b"l0", b"l1", b"n0", b"n1"])), st.integers(0, 3)), max_size=30),
)
def test_a_look_sees_what_comes_next_and_changes_nothing(
    local: int, weights: list[int], is_light: bool, steps: list[tuple[set[bytes], int]]
) -> None:
    loads: dict[bytes, float] = {}
    seen, left_alone = (
        (light_index(loads, local, weights) if is_light else index_of(local, weights)) for _ in range(2)
    )
    for exclude, load in steps:
        for _ in range(2):
            look = seen[GREET].still()
            found = look.is_remote_turn(), look.local.pick(exclude), look.remote.pick(exclude)
            assert (len(look), [*look.local], [*look.remote]) == (
                len(left_alone[GREET]),
                [*left_alone[GREET].local],
                [*left_alone[GREET].remote],
            )
        for each in (seen[GREET], left_alone[GREET]):
            assert (each.is_remote_turn(), each.local.pick(exclude), each.remote.pick(exclude)) == found
        loads[found[1] or found[2]] = load


def test_a_look_at_very_many_looks_at_few() -> None:
    candidates = candidates_of(1000, [2] * 1000)
    visited = 0

    class Watched(OrderedDict[bytes, int]):
        def __iter__(self) -> Iterator[bytes]:
            nonlocal visited
            for each in super().__iter__():
                visited += 1
                yield each

    for side in (candidates.local, candidates.remote):
        side._order = Watched(side._order)
    look = candidates.still()
    assert (look.local.pick(), look.remote.pick({b"n0", b"n1"})) == (b"l0", b"n2")
    assert visited == 4
