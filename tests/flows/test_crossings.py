"""Crossings: which are compared, and what two clocks that are compared tell."""

from __future__ import annotations

from hopwire.flows.coverage import LifeSpan
from hopwire.flows.crossings import Crossing, compared, contradicted, window_width
from tests.flows.quickest import quickest_crossings
from tests.flows.story import BEGIN, MS, SECOND, Story

A, B = b"A", b"B"
MINUTE = 60 * SECOND
ONE, OTHER = (A, 0), (B, 0)


def test_only_crossings_count_that_cannot_be_mistaken() -> None:
    story = Story().hop(A, B, 0, 4, b"slow").hop(A, B, 10, 13, b"quick").hop(B, A, 20, 22, b"back")
    story.hop(A, B, 30, 31, b"twice").came(B, A, 31, b"twice").out(A, B, 40, b"lost")
    story.hop(A, B, 50, 50.5, b"m").hop(A, B, 60, 60.5, b"m")
    window = BEGIN // MINUTE
    assert sorted(quickest_crossings(story.sightings, MINUTE)) == [
        Crossing(A, B, 3 * MS, 2, BEGIN + 10 * MS, 1, 1, window),
        Crossing(B, A, 2 * MS, 1, BEGIN + 20 * MS, 1, 1, window),
    ]


def test_windows_and_incarnations_are_told_apart() -> None:
    story = Story().hop(A, B, 0, 1, b"m1").hop(A, B, 70_000, 70_003, b"m2").hop(A, B, 71_000, 71_002, b"m3")
    story.out(A, B, 72_000, b"m4").came(B, A, 72_009, b"m4", incarnation=2)
    found = sorted(quickest_crossings(story.sightings, MINUTE), key=lambda each: each.left_at_ns)
    assert [(each.quickest_ns, each.messages, each.to_incarnation) for each in found] == [
        (MS, 1, 1),
        (2 * MS, 2, 1),
        (9 * MS, 1, 2),
    ]
    assert found[0].window + 1 == found[1].window == found[2].window


def test_both_directions_are_in_the_windows_of_one_clock() -> None:
    story = Story()
    story.offsets = {B: 1_000_000 * SECOND}
    story.hop(A, B, 0, 1, b"there").hop(B, A, 2, 3, b"back")
    there, back = quickest_crossings(story.sightings, MINUTE)
    assert there.window == back.window


def test_windows_are_as_many_as_the_longest_incarnation_allows() -> None:
    assert window_width([]) == MINUTE
    assert window_width([LifeSpan(A, 0, 100 * MINUTE, 1)]) == MINUTE
    assert window_width([LifeSpan(A, 0, 400 * MINUTE, 1), LifeSpan(B, 0, MINUTE, 1)]) == 2 * MINUTE


def test_there_and_back_in_less_than_no_time_is_a_contradiction() -> None:
    there, back = Crossing(A, B, -5), Crossing(B, A, 4)
    assert contradicted([there]) == set()
    assert contradicted([there, back]) == {A, B}
    assert contradicted([there, Crossing(B, A, 5)]) == set()
    assert contradicted([Crossing(A, B, 9, window=1), Crossing(A, B, -5, window=2), back]) == {A, B}


def test_clocks_that_differ_by_the_same_are_steady() -> None:
    pair = compared(ONE, OTHER, [Crossing(A, B, 12), Crossing(A, B, 10, 3, window=1)], [Crossing(B, A, -4)])
    assert pair is not None
    assert (pair.ahead_ns, pair.error_ns, pair.messages, pair.moments) == (7, 3, 5, ())


def crossing(source: bytes, target: bytes, at: int, took: int, window: int) -> Crossing:
    return Crossing(source, target, took, 1, at, 1, 1, window)


def test_drift_is_exact_at_the_middle_of_two_crossings() -> None:
    def ahead(at: int) -> int:
        return at // 10_000

    there = [crossing(A, B, at, MS + ahead(at + MS), window) for window, at in enumerate((0, 100 * SECOND))]
    back = [
        crossing(B, A, at + ahead(at), MS - ahead(at), window) for window, at in enumerate((40 * SECOND, 150 * SECOND))
    ]
    pair = compared(ONE, OTHER, there, back)
    assert pair is not None
    assert len(pair.moments) == pair.windows == 2
    for moment in pair.moments:
        assert abs(moment.ahead_ns - ahead(moment.a_ns)) < 1000
        assert moment.b_ns - moment.a_ns == moment.ahead_ns
    turned = pair.seen_from(OTHER)
    assert (turned.a, turned.ahead_ns) == (OTHER, -pair.ahead_ns)
    assert [(each.a_ns, each.ahead_ns) for each in turned.moments] == [(m.b_ns, -m.ahead_ns) for m in pair.moments]
    assert turned.seen_from(ONE) == pair


def test_window_that_contradicts_itself_is_doubtful() -> None:
    there = [crossing(A, B, 0, MS, 0), crossing(A, B, 60 * SECOND, MS, 1)]
    back = [crossing(B, A, SECOND, MS, 0), crossing(B, A, 70 * SECOND, -9 * SECOND, 1)]
    pair = compared(ONE, OTHER, there, back)
    assert pair is not None
    assert (pair.ahead_ns, pair.error_ns, pair.doubts) == (0, MS, ((60 * SECOND, 61 * SECOND),))
    assert compared(ONE, OTHER, there[1:], back[1:]) is None
