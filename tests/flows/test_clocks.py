"""Clocks: how far each is ahead of the reference, and how that changes."""

from __future__ import annotations

from itertools import pairwise

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.flows.clocks import Clock, ClockFold, clocks_from_crossings, rows_from_clocks
from hopwire.flows.crossings import Crossing, quickest_crossings
from hopwire.flows.spans import Gap, SourceSpan, placed
from tests.flows.story import BEGIN, MS, SECOND
from tests.flows.talk import Talk, always, drifting, set_ahead

A, B, C, D = b"A", b"B", b"C", b"D"
HOUR = 3600 * SECOND


def both(a: bytes, b: bytes, ahead_ns: int, travel_ns: int) -> list[Crossing]:
    """The quickest crossings between two nodes; the clock of b is ahead."""
    return [Crossing(a, b, travel_ns + ahead_ns), Crossing(b, a, travel_ns - ahead_ns)]


def test_clock_that_is_ahead_is_found() -> None:
    clocks = clocks_from_crossings([A, B], both(A, B, 2 * SECOND, MS))
    assert clocks == [
        Clock(A, A, 0, True, b"", 0, 2),
        Clock(B, A, 2 * SECOND, True, A, MS, 2),
    ]


def test_fold_keeps_its_clocks_in_one_order_whatever_the_hashes_are() -> None:
    """Only one order of many is right by chance: this cannot pass by accident with forty clocks."""
    nodes = [b"%02d" % number for number in range(40)]
    fold = ClockFold(nodes)
    for window in (0, 10):
        fold.add(
            Crossing(one, other, MS, left_at_ns=window * 10 * SECOND, window=window)
            for one, other in pairwise(nodes)
            for one, other in ((one, other), (other, one))
        )
    lives = [life for life, _ in fold.parts().now]
    assert lives == sorted(lives)


def test_one_direction_alone_corrects_nothing_and_says_so() -> None:
    clocks = clocks_from_crossings([A, B], both(A, B, 2 * SECOND, MS)[:1])
    assert [(clock.offset_ns, clock.is_corrected, clock.reference_node) for clock in clocks] == [
        (0, False, A),
        (0, False, B),
    ]


def test_surest_pairs_are_followed() -> None:
    crossings = both(A, B, 10, 5) + both(B, C, 20, 5) + both(A, C, 999, 1000)
    offsets = {clock.node: clock.offset_ns for clock in clocks_from_crossings([A, B, C], crossings)}
    assert offsets[C] - offsets[A] == 30


def test_islands_have_references_of_their_own() -> None:
    clocks = clocks_from_crossings([A, B, C, D], both(A, B, 10, 5) + both(C, D, 20, 5))
    assert [clock.reference_node for clock in clocks] == [A, A, C, C]


def test_nodes_that_do_not_capture_are_left_out() -> None:
    assert clocks_from_crossings([A], both(A, B, 10, 5)) == [Clock(A, A)]


@given(st.lists(st.integers(-2 * SECOND, 2 * SECOND), min_size=2, max_size=8), st.integers(1, 10 * MS))
def test_true_offsets_are_found_however_nodes_are_joined(offsets: list[int], travel_ns: int) -> None:
    nodes = [b"%d" % number for number in range(len(offsets))]
    crossings = []
    for number in range(1, len(nodes)):
        other = number // 2
        crossings += both(nodes[other], nodes[number], offsets[number] - offsets[other], travel_ns)
    clocks = {clock.node: clock for clock in clocks_from_crossings(nodes, crossings)}
    for node, offset in zip(nodes, offsets, strict=True):
        true = offset - offsets[nodes.index(clocks[node].reference_node)]
        assert abs(clocks[node].offset_ns - true) <= (clocks[node].error_ns or 0) + len(nodes)


@given(st.integers(-2 * SECOND, 2 * SECOND), st.integers(0, 10 * MS), st.integers(0, 10 * MS))
def test_no_crossing_of_a_pair_is_negative_after_the_correction(offset: int, there_ns: int, back_ns: int) -> None:
    crossings = [Crossing(A, B, there_ns + offset), Crossing(B, A, back_ns - offset)]
    a, b = clocks_from_crossings([A, B], crossings)
    ahead = b.offset_ns - a.offset_ns
    assert there_ns + offset - ahead >= -1
    assert back_ns - offset + ahead >= -1


def test_clocks_that_may_be_right_are_left_alone() -> None:
    clocks = clocks_from_crossings([A, B], [Crossing(A, B, 5 * MS), Crossing(B, A, MS)])
    assert [clock.offset_ns for clock in clocks] == [0, 0]


# -- clocks that change

DAY_S = 24 * 3600
TO_AND_FRO = ((A, B), (B, A))


@pytest.mark.slow
def test_clock_that_drifts_for_a_day_leaves_latencies_as_they_are() -> None:
    talk = Talk({A: always(0), B: drifting(20)}).say(*TO_AND_FRO, seconds=DAY_S, every=20)
    found = talk.latencies_us
    assert len(found) == 2 * DAY_S // 20
    assert found.min() + 1 >= 0
    assert found.max() <= 2500, "no clock is more wrong than the crossings prove"
    later = found[30:]
    assert later.min() >= 990, "five minutes tell the drift"
    assert later.max() <= 1010
    assert talk.coverage.doubts == []


def test_drifts_add_up_along_the_tree() -> None:
    talk = Talk({A: drifting(-30), B: always(0), C: drifting(50), D: always(3 * SECOND)})
    ways = (*TO_AND_FRO, (B, C), (C, B), (C, D), (D, C), (A, D))
    found = talk.say(*ways, seconds=DAY_S // 4, every=30).latencies_after(5 * 60)
    assert found.min() >= 900
    assert found.max() <= 1100


@pytest.mark.parametrize("jump", [30 * SECOND, -30 * SECOND])
def test_restart_with_another_time_is_a_clock_of_its_own(jump: int) -> None:
    talk = Talk({A: always(0), B: set_ahead(jump, 300 * SECOND)}, {B: (300 * SECOND,)})
    talk.say(*TO_AND_FRO, seconds=600, every=1)
    assert set(talk.latencies_us.tolist()) == {1000}
    assert talk.coverage.doubts == []
    first, second = (span for span in talk.coverage.stretches[0] if span.node == B)
    assert first.last_ns - BEGIN < 301 * SECOND
    assert second.first_ns - BEGIN > 300 * SECOND, "lives are corrected by their own clocks"


def test_incarnation_that_nobody_can_tell_of_has_the_clock_of_the_one_before() -> None:
    talk = Talk({A: always(0), B: set_ahead(30 * SECOND, 300 * SECOND)}, {B: (300 * SECOND, 500 * SECOND)})
    talk.say((A, B), seconds=600, every=1).say((B, A), seconds=500, every=1)
    assert set(talk.latencies_us.tolist()) == {1000}


def test_incarnations_have_one_clock_until_that_cannot_be() -> None:
    talk = Talk({A: always(0), B: always(2 * SECOND)}, {B: (300 * SECOND,)})
    talk.say((A, B), seconds=600, every=1).say((B, A), seconds=300, every=1)
    assert not talk.coverage.changes
    assert talk.coverage.offsets_ns == {A: 0, B: 2 * SECOND}


@pytest.mark.parametrize(("set_back", "is_refuted"), [(200_000_000, False), (30 * SECOND, True)])
def test_one_direction_refutes_the_clock_of_the_life_before_beyond_any_drift(set_back: int, is_refuted: bool) -> None:
    ahead, restarts = {A: always(0), B: set_ahead(-set_back, 300 * SECOND)}, {B: (300 * SECOND,)}
    talk = Talk(ahead, restarts).say((A, B), seconds=600, every=1).say((B, A), seconds=300, every=1)
    later = talk.hops.filter(pc.greater(talk.hops["left_at_ns"], BEGIN + 301 * SECOND))
    assert set(later["is_corrected"].to_pylist()) == {not is_refuted}
    assert Talk(ahead, restarts).say(*TO_AND_FRO, seconds=600, every=1).coverage.changes, "both directions refute it"


@pytest.mark.slow
def test_clock_that_is_set_while_the_node_runs_is_doubtful_about_then_and_right_elsewhere() -> None:
    since = 7 * HOUR + 100 * SECOND
    talk = Talk({A: always(0), B: set_ahead(40 * SECOND, since)}).say(*TO_AND_FRO, seconds=DAY_S, every=30)
    doubts = talk.coverage.doubts
    assert {doubt.node for doubt in doubts} == {B}
    first, last = min(doubt.first_ns for doubt in doubts), max(doubt.last_ns for doubt in doubts)
    assert BEGIN + since - HOUR < first < BEGIN + since < last < BEGIN + since + HOUR
    hops = talk.hops.to_pylist()
    assert {hop["latency_us"] for hop in hops if hop["is_corrected"]} == {1000}
    assert 5_000 < sum(hop["is_corrected"] for hop in hops) < len(hops)


def test_one_impossible_crossing_does_not_bend_a_clock() -> None:
    talk = Talk({A: always(0), B: always(2 * SECOND)}).say(*TO_AND_FRO, seconds=3600, every=5)
    talk.story.out(A, B, 1_500_000, b"odd").came(B, A, 1_200_000, b"odd")
    assert talk.coverage.offsets_ns == {A: 0, B: 2 * SECOND}
    assert not talk.coverage.changes
    assert len(talk.coverage.doubts) == 1


def test_pair_that_contradicts_itself_always_is_not_corrected() -> None:
    crossings = [Crossing(A, B, -SECOND), Crossing(B, A, -SECOND)]
    assert [clock.is_corrected for clock in clocks_from_crossings([A, B], crossings)] == [False, False]


@pytest.mark.slow
def test_pair_that_was_compared_for_long_is_surer_than_one_that_was_compared_for_a_moment() -> None:
    talk = Talk({A: always(0), B: drifting(100), C: drifting(-100)})
    talk.say(*TO_AND_FRO, (B, C), (C, B), seconds=DAY_S // 4, every=30).say((A, C), (C, A), seconds=120, every=30)
    found = talk.latencies_after(5 * 60)
    assert found.min() >= 900
    assert found.max() <= 1100


@pytest.mark.slow
def test_coverage_of_rows_is_that_of_the_clocks() -> None:
    coverage = Talk({A: always(0), B: drifting(20)}).say(*TO_AND_FRO, seconds=DAY_S, every=20).coverage
    assert set(coverage.changes) == {B}
    assert 1 < len(coverage.changes[B][1]) < 10, "a line is one version, for as long as it fits"
    assert coverage.most_ahead_ns == pytest.approx(20 * DAY_S * SECOND // 1_000_000, rel=0.01)
    b = next(span for span in coverage.stretches[0] if span.node == B)
    assert abs(b.last_ns - BEGIN - (DAY_S - 20) * SECOND) < SECOND


@pytest.mark.slow
def test_clock_that_drifts_does_not_move_its_neighbours() -> None:
    talk = Talk({A: drifting(80), B: always(0), C: always(SECOND), D: always(0)})
    talk.say(*TO_AND_FRO, (A, C), (C, A), (B, C), (C, B), (A, D), (D, A), (B, D), seconds=3600, every=5)
    assert set(talk.coverage.changes) == {A}
    found = [hop["latency_us"] for hop in talk.hops.to_pylist() if A not in (hop["from_node"], hop["to_node"])]
    assert set(found) <= set(range(990, 1011))


def test_clocks_that_come_to_know_each_other_are_alike_from_then_on() -> None:
    talk = Talk({A: always(0), B: always(3 * SECOND)})
    talk.say((A, B), seconds=600, every=2).say((B, A), seconds=900, every=300)
    assert set(talk.latencies_us.tolist()) == {1000}
    late = Talk({A: always(0), B: always(3 * SECOND), C: always(0), D: always(0)})
    late.say((A, C), (C, A), (B, D), (D, B), seconds=600, every=2).story.hop(A, B, 500_000, 500_001, b"x")
    late.say((A, B), seconds=600, every=100)
    assert late.coverage.clocks[A] != late.coverage.clocks[B]


@pytest.mark.slow
@given(st.lists(st.integers(0, 200), max_size=4), st.integers(0, 3))
@settings(max_examples=settings().max_examples // 3)
def test_clocks_are_the_same_however_the_windows_come(cuts: list[int], seed: int) -> None:
    ahead = [always(0), drifting(60), set_ahead(5 * SECOND, 700 * SECOND), set_ahead(-7 * SECOND, 400 * SECOND)]
    talk = Talk({A: ahead[seed], B: ahead[(seed + 1) % 4], C: ahead[(seed + 2) % 4]}, {B: (700 * SECOND,)})
    talk.say(*TO_AND_FRO, (B, C), (C, B), (C, A), seconds=1500, every=7)
    crossings = quickest_crossings(talk.story.sightings)
    first = min(each.window for each in crossings)
    fold = ClockFold(talk.ahead)
    for begin, end in pairwise([0, *sorted(cuts), 10**6]):
        fold = fold.copy()
        fold.add(each for each in crossings if begin <= each.window - first < end)
    assert fold.clocks() == clocks_from_crossings(talk.ahead, crossings)


# -- rows


def test_rows_say_what_the_sources_have_and_what_they_lack() -> None:
    spans = [
        SourceSpan("s1", A, 1, "anna", 0, 9, 100, 200, 8, skipped=2, gaps=(Gap(3, 4, 120, 130),)),
        SourceSpan("s3", A, 1, "anna", 15, 19, 500, 600, 5),
        SourceSpan("s4", A, 2, "ann", 0, 4, 700, 800, 5),
        SourceSpan("t", B, 1, "bert", 0, 4, 100, 800, 5),
    ]
    rows = rows_from_clocks(placed(spans), clocks_from_crossings([A, B], both(A, B, 10, 5))).to_pylist()
    assert [row["node_name"] for row in rows] == ["ann", "bert"]
    anna = rows[0]
    assert (anna["sighting_count"], anna["skipped"], anna["missing"]) == (18, 2, 5)
    assert (anna["first_seen_at_ns"], anna["last_seen_at_ns"]) == (100, 800)
    assert [tuple(life.values()) for life in anna["lives"]] == [(1, 100, 600, "open"), (2, 700, 800, "open")]
    assert [tuple(skip.values()) for skip in anna["skips"]] == [(1, 120, 130), (1, 200, 500)]
    assert (rows[1]["offset_ns"], rows[1]["offsets"], rows[1]["doubts"]) == (10, [], [])
