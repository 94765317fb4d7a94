"""Offsets: straight lines between moments."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.offsets import Mark, Offset, offsets_at, offsets_from_marks

SECOND = 1_000_000_000


def at(known: list[Offset], *times: int) -> list[int]:
    found: list[int] = offsets_at(known, np.array(times)).tolist()
    return found


def test_one_moment_is_for_all_times() -> None:
    assert at([Offset(50, 7)], -(2**62), 0, 50, 2**62) == [7, 7, 7, 7]


def test_between_moments_there_are_lines_and_outside_it_stays() -> None:
    known = [Offset(100, 0), Offset(200, 10), Offset(300, -10)]
    assert at(known, 0, 100, 150, 200, 225, 250, 300, 999) == [0, 0, 5, 10, 5, 0, -10, -10]


def test_nanoseconds_of_today_are_not_rounded() -> None:
    begin = 1_700_000_000_000_000_001
    assert at([Offset(begin, 0), Offset(begin + 1000, 1000)], begin + 1, begin + 999) == [1, 999]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(-100, 100)), min_size=1, max_size=9), st.integers(-10, 10**6)
)
def test_offsets_are_those_of_a_loop(pairs: list[tuple[int, int]], time: int) -> None:
    known = sorted(Offset(*pair) for pair in dict(pairs).items())
    before = [each for each in known if each.at_ns <= time] or known[:1]
    after = [each for each in known if each.at_ns > time] or known[-1:]
    one, other = before[-1], after[0]
    share = (time - one.at_ns) / (other.at_ns - one.at_ns) if one.at_ns < time and one.at_ns < other.at_ns else 0
    assert abs(at(known, time)[0] - (one.offset_ns + (other.offset_ns - one.offset_ns) * share)) <= 0.5


def test_marks_of_a_drift_are_a_line_that_goes_on_at_both_ends() -> None:
    marks = [Mark(number * 100 * SECOND, number * 1000, 5) for number in (2, 1, 3)]
    offsets, doubts = offsets_from_marks(marks)
    assert doubts == ()
    assert at(list(offsets), 0, 50 * SECOND, 250 * SECOND, 400 * SECOND, 900 * SECOND) == [0, 500, 2500, 4000, 4000]


def test_clock_that_was_set_changes_half_way_and_is_doubtful_there() -> None:
    marks = [Mark(0, 0, 5), Mark(100 * SECOND, 30 * SECOND, 5), Mark(200 * SECOND, 30 * SECOND, 5)]
    offsets, doubts = offsets_from_marks(marks)
    assert doubts == ((0, 100 * SECOND),)
    assert at(list(offsets), 0, 50 * SECOND, 51 * SECOND, 200 * SECOND) == [0, 0, 30 * SECOND, 30 * SECOND]


def test_what_may_be_an_error_is_no_drift() -> None:
    assert offsets_from_marks([Mark(0, 0, 500), Mark(10, 900, 500)])[1] == ()
    assert offsets_from_marks([Mark(0, 0, 500), Mark(10, 1001, 500)])[1] == ((0, 10),)


def test_one_mark_is_one_moment() -> None:
    assert offsets_from_marks([Mark(5, 7, 1)]) == ((Offset(5, 7),), ())


def test_line_does_not_go_on_beyond_what_a_column_holds() -> None:
    marks = [Mark(0, 0, 5), Mark(2**62 + 1, 5, 5)]
    assert offsets_from_marks(marks)[0] == (Offset(-(2**62) - 1, -5), Offset(0, 0), Offset(2**62 + 1, 5))
