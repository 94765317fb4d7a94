"""Crossings: which of them count, and what line fits between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.crossings import (
    WINDOW_NS,
    ClockBounds,
    ClockLine,
    Crossing,
    CrossingColumns,
    fit,
    quickest,
    quickest_crossings,
)
from tests.flows.story import BEGIN, MS, SECOND, Story

A, B = b"A", b"B"
NO_FLOW = b"00000000-0000-0000-0000-000000000000"


def test_only_crossings_count_that_cannot_be_mistaken() -> None:
    story = Story().hop(A, B, 0, 4, b"slow").hop(A, B, 10, 13, b"quick").hop(B, A, 20, 22, b"back")
    story.hop(A, B, 30, 31, b"twice").came(B, A, 31, b"twice").out(A, B, 40, b"lost")
    story.hop(A, B, 50, 50.5, b"m").hop(A, B, 60, 60.5, b"m")
    story.hop(A, B, 70, 70.1, b"beat", correlation_id=NO_FLOW)
    window = BEGIN // WINDOW_NS
    assert sorted(quickest_crossings(story.sightings)) == [
        Crossing(A, B, 3 * MS, 2, BEGIN + 10 * MS, 1, 1, window),
        Crossing(B, A, 2 * MS, 1, BEGIN + 20 * MS, 1, 1, window),
    ]


def test_what_comes_in_a_later_window_does_not_change_a_window() -> None:
    story = Story().hop(A, B, 0, 3, b"m")
    before = quickest_crossings(story.sightings)
    story.came(B, A, 20_000, b"m").out(A, B, 40_000, b"m")
    assert quickest_crossings(story.sightings) == before != []


def test_windows_and_incarnations_are_told_apart() -> None:
    story = Story().hop(A, B, 0, 1, b"m1").hop(A, B, 70_000, 70_003, b"m2").hop(A, B, 71_000, 71_002, b"m3")
    story.out(A, B, 72_000, b"m4").came(B, A, 72_009, b"m4", incarnation=2)
    found = sorted(quickest_crossings(story.sightings), key=lambda each: each.left_at_ns)
    assert [(each.quickest_ns, each.messages, each.to_incarnation) for each in found] == [
        (MS, 1, 1),
        (2 * MS, 2, 1),
        (9 * MS, 1, 2),
    ]
    assert found[0].window + 7 == found[1].window == found[2].window


def test_window_of_a_crossing_is_the_later_one_of_its_two_times() -> None:
    story = Story().hop(A, B, 9_999, 10_001, b"there").hop(B, A, 19_999, 20_001, b"back")
    first = BEGIN // WINDOW_NS
    assert sorted(each.window - first for each in quickest_crossings(story.sightings)) == [1, 2]


def test_quickest_of_parts_are_the_quickest_of_all() -> None:
    parts = [
        Story().hop(A, B, 0, 4, b"slow").hop(A, B, 10, 12, b"quick").hop(A, b"C", 20, 21, b"elsewhere"),
        Story().hop(b"C", A, 30, 31, b"back").hop(A, B, 40, 43, b"m").hop(A, B, 70_000, 70_001, b"later"),
        Story(),
    ]
    found = [CrossingColumns.of(part.sightings).quickest() for part in parts]
    whole = CrossingColumns.joined([CrossingColumns.of(part.sightings) for part in parts])
    assert len(whole) == 6
    assert sorted(CrossingColumns.joined(found).quickest().all()) == sorted(whole.quickest().all())
    assert sorted(whole.quickest().all()) == sorted(quickest(each for part in found for each in part.all()))
    assert (2 * MS, 3) in {(each.quickest_ns, each.messages) for each in whole.quickest().all()}
    assert CrossingColumns.joined([]).quickest().all() == []


# -- lines


def bounds(*rows: tuple[int, int, bool]) -> ClockBounds:
    """Bounds as seconds, how far in microseconds, and whether the clock is ahead by this much at most."""
    at, ahead, is_upper = (np.array(column) for column in zip(*rows, strict=True))
    return ClockBounds(at * SECOND, ahead * 1000, is_upper.astype(np.bool_), at * SECOND // WINDOW_NS)


def test_one_offset_is_in_the_middle_of_its_bounds() -> None:
    found = fit(bounds((0, 12, True), (1, 10, True), (2, 4, False)))
    assert found is not None
    assert (found.line.offset_ns, found.line.drift, found.error_ns) == (7_000, 0.0, 3_000)


def test_clock_that_may_be_right_is_left_alone() -> None:
    found = fit(bounds((0, 5, True), (2, -1, False)))
    assert found is not None
    assert found.line.offset_ns == 0


@given(st.integers(-400, 400), st.integers(-(10**6), 10**6), st.integers(1, 1000))
def test_even_drift_is_a_line(ppm: int, offset_us: int, travel_us: int) -> None:
    rows = [(at, offset_us + ppm * at + travel_us * (1 if is_upper else -1), is_upper)
            for at in range(0, 600, 10) for is_upper in (True, False)]  # fmt: skip
    found = fit(bounds(*rows))
    assert found is not None
    assert found.since_window == 0
    for at in (0, 300, 590):
        assert abs(found.line.at(at * SECOND) - 1000 * (offset_us + ppm * at)) <= 1000 * travel_us + 1000


def test_clock_that_was_set_is_fitted_by_what_came_since() -> None:
    before = [(at, 1 if is_upper else -1, is_upper) for at in range(0, 100, 10) for is_upper in (True, False)]
    since = [(at, 30_000_001 if is_upper else 29_999_999, is_upper) for at in (100, 110) for is_upper in (True, False)]
    found = fit(bounds(*before, *since))
    assert found is not None
    assert (found.line.offset_ns, found.since_window) == (30 * SECOND, 10)


def test_window_that_contradicts_itself_is_left_out() -> None:
    good = [(0, 3, True), (1, 1, False), (20, 3, True), (21, 1, False)]
    found = fit(bounds(*good, (10, -900_000, True), (11, 2, False)))
    assert found is not None
    assert (found.line.offset_ns, found.since_window) == (2_000, 0)


@pytest.mark.parametrize("is_upper", [True, False])
def test_one_side_alone_tells_nothing(is_upper: bool) -> None:
    assert fit(bounds((0, 3, is_upper), (20, 1, is_upper))) is None


def test_lines_add_up() -> None:
    line = ClockLine(0, 100, 0.001).plus(ClockLine(1000, 7, 0.002))
    assert (line.at(1000), line.at(2000)) == (108, 111)
