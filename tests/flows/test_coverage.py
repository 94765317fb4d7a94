"""Coverage: who was looking, and when not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.closing import changed_since
from hopwire.flows.coverage import Coverage, LifeSpan, Offset, offsets_at
from hopwire.flows.rules import Rules

NODES = [b"A", b"B", b"C"]
SPAN = st.tuples(st.sampled_from(NODES), st.integers(0, 100), st.integers(0, 30)).map(
    lambda parts: LifeSpan(parts[0], parts[1], parts[1] + parts[2])
)


def test_nodes_are_covered_from_their_first_to_their_last_incarnation_by_corrected_clocks() -> None:
    coverage = Coverage([LifeSpan(b"A", 10, 20), LifeSpan(b"A", 40, 50), LifeSpan(b"B", 5, 9)], offsets_ns={b"A": 3})
    assert coverage.nodes == {b"A": (7, 47), b"B": (5, 9)}
    assert coverage.end_ns == 47
    of = coverage.of(pa.array(NODES))
    assert of.captures.tolist() == [True, True, False]
    assert of.end.tolist()[:2] == [47, 9]


def test_clocks_are_alike_if_corrected_to_the_same_node() -> None:
    of = Coverage(clocks={b"A": b"A", b"B": b"A"}).of(pa.array([b"A", b"B", b"C", b"D"]))
    one, other = np.array([0, 0, 2, 2]), np.array([1, 2, 3, 2])
    assert of.has_one_clock(one, other, np.zeros(4, dtype=np.int64)).tolist() == [True, False, False, True]


def test_clocks_are_alike_from_the_time_on_when_they_could_be_compared() -> None:
    references = {b"B": [(1, -100, b"B"), (1, 50, b"A")]}
    coverage = Coverage(clocks={b"A": b"A", b"B": b"A"}, references=references, offsets_ns={b"B": 10})
    of = coverage.of(pa.array([b"A", b"B"]))
    at = np.array([0, 39, 40, 99])
    assert of.has_one_clock(np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64), at).tolist() == [0, 0, 1, 1]


def test_a_new_life_with_another_reference_leaves_the_life_before_as_it_was() -> None:
    references = {b"B": [(1, -100, b"A"), (2, -100, b"B")]}
    spans = [LifeSpan(b"B", 0, 50, 1), LifeSpan(b"B", 60, 90, 2)]
    of = Coverage(spans, clocks={b"A": b"A", b"B": b"B"}, references=references).of(pa.array([b"A", b"B"]))
    at = np.array([-5, 59, 60, 99])
    assert of.has_one_clock(np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64), at).tolist() == [1, 1, 0, 0]


def test_node_goes_on_if_it_is_seen_before_its_silence_is_too_long() -> None:
    spans = [LifeSpan(b"A", 0, 10), LifeSpan(b"A", 100, 200)]
    of = Coverage(spans).of(pa.array(NODES))
    at = np.array([9, 10, 89, 90, 99, 199, 200])
    rules = Rules(silence_ns=10)
    assert of.goes_on(np.zeros(7, dtype=np.int64), at, rules).tolist() == [True, False, False, True, True, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("most_counts", [0, 2**16], ids=["searched", "counted"])
@given(
    spans=st.lists(SPAN, max_size=12),
    asked=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 130), st.integers(0, 9))),
)
def test_stretches_are_found_as_a_loop_would(
    most_counts: int, spans: list[LifeSpan], asked: list[tuple[int, int, int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hopwire.flows.coverage.MOST_COUNTS", most_counts)
        of = Coverage(spans=spans, skips=spans).of(pa.array(NODES))
    node, begin, size = (np.array([each[i] for each in asked], dtype=np.int64) for i in range(3))
    end = begin + size
    rows = list(zip(node.tolist(), begin.tolist(), end.tolist(), strict=True))
    assert of.skips_within(node, begin, end).tolist() == [
        any(span.node == NODES[n] and span.first_ns <= last and span.last_ns >= first for span in spans)
        for n, first, last in rows
    ]
    assert of.ended_within(node, begin, end).tolist() == [
        any(span.node == NODES[n] and first <= span.last_ns <= last for span in spans) for n, first, last in rows
    ]


def test_message_can_pass_unseen_while_a_killed_node_had_not_written_what_it_saw() -> None:
    of = Coverage([LifeSpan(b"B", 0, 100, 1), LifeSpan(b"B", 200, 300, 2)]).of(pa.array(NODES))
    begin = np.array([99, 100, 102, 103])  # B was killed, and its last written sighting is at 100
    nobody, killed = np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64)  # A does not capture
    rules = Rules(unwritten_ns=2)
    assert of.can_pass_unseen(nobody, killed, begin, begin + 50, rules).tolist() == [True, True, True, False]


def test_clock_that_changes_is_corrected_by_incarnation_and_time() -> None:
    changes = {b"A": {1: [Offset(0, 0, 0.1)], 3: [Offset(0, 50)]}}
    coverage = Coverage(offsets_ns={b"A": 7, b"B": 5}, changes=changes)
    of = coverage.of(pa.array(NODES))
    node, incarnation = np.array([0, 0, 0, 0, 0, 1, 2]), np.array([1, 1, 2, 3, 0, 1, 1])
    at = np.array([0, 50, 100, 50, 50, 50, 50])
    assert of.offset_at(node, incarnation, at).tolist() == [0, 5, 10, 50, 5, 5, 0]
    assert of.corrected(node, incarnation, at).tolist() == [0, 45, 90, 0, 45, 45, 50]
    spans = [LifeSpan(b"A", 0, 100, 1), LifeSpan(b"A", 60, 200, 3), LifeSpan(b"B", 0, 10)]
    assert (replace(coverage, spans=spans).most_ahead_ns, Coverage().most_ahead_ns) == (50, 0)
    assert coverage.corrected(spans) == [LifeSpan(b"A", 0, 90, 1), LifeSpan(b"A", 10, 150, 3), LifeSpan(b"B", -5, 5)]


def test_doubts_are_corrected_times_too() -> None:
    of = Coverage(doubts=[LifeSpan(b"A", 10, 20)], offsets_ns={b"A": 5}).of(pa.array(NODES))
    times = np.array([4, 5, 15, 16, 10])
    assert of.is_doubtful(np.array([0, 0, 0, 0, 1]), times).tolist() == [False, True, True, False, False]


def test_rows_without_a_node_prove_nothing() -> None:
    of = Coverage([LifeSpan(b"", 10, 20), LifeSpan(b"A", 10, 20)]).of(pa.array([b"", b"A"]))
    assert of.captures.tolist() == [False, True]


def at(known: list[Offset], *times: int) -> list[int]:
    found: list[int] = offsets_at(known, np.array(times)).tolist()
    return found


def test_one_moment_is_for_all_times() -> None:
    assert at([Offset(50, 7)], -(2**62), 0, 50, 2**62) == [7, 7, 7, 7]


def test_each_line_counts_from_its_moment_on() -> None:
    known = [Offset(100, 0, 0.1, 100), Offset(200, 10), Offset(300, -10, -0.5, 310)]
    assert at(known, 0, 100, 150, 199, 200, 299, 300, 330) == [-10, 0, 5, 10, 10, 10, -5, -20]


def test_nanoseconds_of_today_are_not_rounded() -> None:
    begin = 1_700_000_000_000_000_001
    assert at([Offset(0, begin, 1.0, begin)], begin + 1, begin + 999) == [begin + 1, begin + 999]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(-100, 100)), min_size=1, max_size=9), st.integers(-10, 10**6)
)
def test_offsets_are_those_of_a_loop(pairs: list[tuple[int, int]], time: int) -> None:
    known = sorted(Offset(*pair, drift=0.001) for pair in dict(pairs).items())
    line = ([each for each in known if each.since_ns <= time] or known[:1])[-1]
    assert abs(at(known, time)[0] - (line.offset_ns + 0.001 * time)) <= 0.5


S = 10**9


def doubts_of(*lives: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Incarnation, begin and end of what is doubtful of lives: begin, end and incarnation in seconds."""
    spans = [LifeSpan(b"A", first * S, last * S, incarnation * S) for first, last, incarnation in lives]
    return sorted(
        (each.incarnation // S, each.first_ns // S, each.last_ns // S) for each in Coverage(spans).stretches[2]
    )


def test_clock_of_a_life_that_saw_something_before_it_began_was_set_back() -> None:
    assert doubts_of((5000, 9000, 4999)) == []
    assert doubts_of((1400, 9000, 5000)) == [(5000, 1400, 5060)]


def test_clock_of_lives_that_overlap_was_set_back_in_both() -> None:
    assert doubts_of((100, 200, 99), (201, 300, 200)) == []
    assert doubts_of((100, 900, 99), (400, 2000, 399), (2001, 2002, 2000)) == [(99, 340, 960), (399, 340, 960)]


def test_lives_of_different_nodes_may_overlap() -> None:
    lives = [LifeSpan(b"A", 100 * S, 900 * S, 1), LifeSpan(b"B", 400 * S, 2000 * S, 2)]
    assert Coverage(lives).stretches[2] == []


def test_clock_that_goes_back_by_less_than_a_second_is_no_doubt() -> None:
    lives = [LifeSpan(b"A", 100 * S, 200 * S, 99 * S), LifeSpan(b"A", 200 * S - S // 2, 300 * S, 200 * S)]
    assert Coverage(lives).stretches[2] == []


def test_doubts_about_a_life_that_overlaps_another_open_what_was_closed() -> None:
    before = Coverage([LifeSpan(b"A", 100 * S, 900 * S, 99 * S)])
    after = Coverage([*before.spans, LifeSpan(b"A", 400 * S, 2000 * S, 399 * S)])
    assert changed_since(before, after) == {b"A": 340 * S}
