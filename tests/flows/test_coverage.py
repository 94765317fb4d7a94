"""Coverage: who was looking, and when not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.coverage import Coverage, Span

NODES = [b"A", b"B", b"C"]
SPAN = st.tuples(st.sampled_from(NODES), st.integers(0, 100), st.integers(0, 30)).map(
    lambda parts: Span(parts[0], parts[1], parts[1] + parts[2])
)


def test_nodes_are_covered_from_their_first_to_their_last_incarnation_by_corrected_clocks() -> None:
    coverage = Coverage([Span(b"A", 10, 20), Span(b"A", 40, 50), Span(b"B", 5, 9)], offsets_ns={b"A": 3})
    assert coverage.nodes == {b"A": (7, 47), b"B": (5, 9)}
    assert coverage.end_ns == 47
    of = coverage.of(pa.array(NODES))
    assert of.captures.tolist() == [True, True, False]
    assert of.end.tolist()[:2] == [47, 9]


def test_clocks_are_alike_if_corrected_to_the_same_node() -> None:
    clock = Coverage(clocks={b"A": b"A", b"B": b"A"}).of(pa.array([b"A", b"B", b"C", b"D"])).clock.tolist()
    assert clock[0] == clock[1]
    assert len(set(clock)) == 3


@given(st.lists(SPAN, max_size=12), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 130), st.integers(0, 9))))
def test_stretches_are_found_as_a_loop_would(spans: list[Span], asked: list[tuple[int, int, int]]) -> None:
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
