"""Trees: what caused what, compared with a plain implementation, and in stories."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hopwire.flows.trees import Steps, grow, read_steps
from tests.flows.reference import grown, has_circle, parent_of
from tests.flows.story import Story

A, B, C, D = b"A", b"B", b"C", b"dark"
NODES = (A, B, C, D)


def tree(story: Story) -> dict[bytes, tuple[bytes | None, int, bool]]:
    """Parent, depth and whether critical, by the name of the message; each has one hop."""
    hops = story.hops()
    found = grow(read_steps(hops))
    keys = [*hops["message_key"].to_pylist(), None]
    return {
        keys[number]: (keys[found.parent[number]], int(found.depth[number]), bool(found.is_critical[number]))
        for number in range(len(hops))
    }


def test_step_follows_from_what_arrived_last() -> None:
    story = Story().hop(A, B, 0, 1, b"q").hop(B, C, 2, 3, b"o").hop(C, A, 4, 5, b"r")
    assert tree(story) == {b"q": (None, 0, True), b"o": (b"q", 1, True), b"r": (b"o", 2, True)}


def test_fan_out_has_one_parent_and_the_slowest_branch_is_critical() -> None:
    story = Story().hop(A, B, 0, 1, b"q").hop(B, C, 2, 30, b"slow").hop(B, A, 3, 4, b"quick")
    assert tree(story) == {b"q": (None, 0, True), b"slow": (b"q", 1, True), b"quick": (b"q", 1, False)}


def test_message_that_is_sent_on_follows_from_itself() -> None:
    story = Story().hop(A, B, 0, 10, b"m").hop(A, B, 1, 11, b"other").out(B, C, 12, b"m").came(C, B, 13, b"m")
    hops = story.hops()
    found = grow(read_steps(hops))
    rows = hops.to_pylist()
    onward = next(i for i, hop in enumerate(rows) if hop["from_node"] == B)
    assert rows[found.parent[onward]]["message_key"] == b"m"


def test_node_without_capture_does_not_tear_the_tree() -> None:
    story = Story().out(A, D, 0, b"q").came(C, D, 5, b"o").hop(C, A, 6, 7, b"r")
    assert tree(story) == {b"q": (None, 0, True), b"o": (b"q", 1, True), b"r": (b"o", 2, True)}


def test_dead_letter_hangs_where_its_message_arrived() -> None:
    hops = Story().hop(A, B, 0, 1, b"m").dead(B, 2, b"m", "no_route").hops()
    found = grow(read_steps(hops))
    rows = hops.to_pylist()
    dead = next(i for i, hop in enumerate(rows) if hop["fate"] == "dead")
    assert rows[found.parent[dead]]["to_node"] == B


def test_what_came_again_is_not_the_end_of_a_flow() -> None:
    story = Story().hop(A, B, 0, 1, b"q").hop(B, A, 2, 3, b"r").came(B, A, 9000, b"q")
    hops = story.hops()
    found = grow(read_steps(hops))
    critical = {
        (hop["message_key"], hop["fate"])
        for hop, is_critical in zip(hops.to_pylist(), found.is_critical, strict=True)
        if is_critical
    }
    assert critical == {(b"q", "arrived"), (b"r", "arrived")}


def test_flows_are_apart() -> None:
    story = Story().hop(A, B, 0, 1, b"q", correlation_id=b"one").hop(B, A, 2, 3, b"r", correlation_id=b"two")
    assert tree(story) == {b"q": (None, 0, True), b"r": (None, 0, True)}


def test_circle_is_cut_where_it_goes_back_in_time() -> None:
    nodes = pa.array([A, B])
    zero = np.zeros(2, dtype=np.int64)
    steps = Steps(
        flow=zero,
        key=np.arange(2),
        source=np.array([0, 1]),
        target=np.array([1, 0]),
        left=np.array([10, 9]),
        came=np.array([5, 6]),
        left_sequence=zero,
        came_sequence=zero,
        is_dead=np.zeros(2, dtype=np.bool_),
        is_again=np.zeros(2, dtype=np.bool_),
        nodes=nodes,
        flows=pa.array([b"f"]),
    )
    found = grow(steps)
    assert found.parent.tolist() == [1, -1]
    assert found.depth.tolist() == [1, 0]


@pytest.mark.slow
def test_chain_of_a_million_is_a_matter_of_seconds() -> None:
    size = 1_000_000
    number = np.arange(size, dtype=np.int64)
    steps = Steps(
        flow=np.zeros(size, dtype=np.int64),
        key=number,
        source=number % 2,
        target=(number + 1) % 2,
        left=2 * number,
        came=2 * number + 1,
        left_sequence=number,
        came_sequence=number,
        is_dead=np.zeros(size, dtype=np.bool_),
        is_again=np.zeros(size, dtype=np.bool_),
        nodes=pa.array([A, B]),
        flows=pa.array([b"f"]),
    )
    found = grow(steps)
    assert found.depth.max() == size - 1
    assert found.is_critical.all()


STEP = st.tuples(
    st.integers(0, 2),  # flow
    st.integers(0, 8),  # message
    st.permutations(range(len(NODES))).map(lambda nodes: nodes[:2]),
    st.integers(0, 60),  # when it left
    st.integers(0, 20),  # how long it took; 0 is that it never came
    st.sampled_from(("both", "both", "both", "out", "in", "dead")),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(STEP, min_size=1, max_size=25))
def test_columns_come_to_the_same_as_loops(steps: list[tuple[int, int, list[int], int, int, str]]) -> None:
    story = Story(A, B, C)
    for flow, key, (source, target), at, travel, seen in steps:
        more = {"correlation_id": b"flow %d" % flow}
        name = b"%d/%d" % (flow, key)
        if seen in ("both", "out"):
            story.out(NODES[source], NODES[target], at, name, **more)
        if (seen == "both" and travel) or seen == "in":
            story.came(NODES[target], NODES[source], at + max(travel, 1), name, **more)
        if seen == "dead":
            story.dead(NODES[source], at, name, "expired", **more)
    hops = story.hops()
    assume(len(hops))
    found = grow(read_steps(hops))
    rows = hops.to_pylist()
    parents = [parent_of(number, rows) for number in range(len(rows))]
    assume(not has_circle(parents))
    assert [tuple(each) for each in zip(*(part.tolist() for part in found), strict=True)] == grown(rows, parents)
