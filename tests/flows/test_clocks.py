"""Clocks: how far each is ahead of the reference, found from the quickest crossings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.clocks import Clock, Crossing, clocks_from_crossings, quickest_crossings
from tests.flows.story import MS, SECOND, Story

A, B, C, D = b"A", b"B", b"C", b"D"


def both(a: bytes, b: bytes, ahead_ns: int, travel_ns: int) -> list[Crossing]:
    """The quickest crossings between two nodes; the clock of b is ahead."""
    return [Crossing(a, b, travel_ns + ahead_ns), Crossing(b, a, travel_ns - ahead_ns)]


def test_clock_that_is_ahead_is_found() -> None:
    clocks = clocks_from_crossings([A, B], both(A, B, 2 * SECOND, MS))
    assert clocks == [
        Clock(A, A, 0, True, b"", 0, 0),
        Clock(B, A, 2 * SECOND, True, A, MS, 2),
    ]


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


def test_only_crossings_count_that_cannot_be_mistaken() -> None:
    story = Story().hop(A, B, 0, 4, b"slow").hop(A, B, 10, 13, b"quick").hop(B, A, 20, 22, b"back")
    story.hop(A, B, 30, 31, b"twice").came(B, A, 31, b"twice").out(A, B, 40, b"lost")
    story.hop(A, B, 50, 50.5, b"m").hop(A, B, 60, 60.5, b"m")
    assert sorted(quickest_crossings(story.sightings)) == [
        Crossing(A, B, 3 * MS, 2),
        Crossing(B, A, 2 * MS, 1),
    ]
