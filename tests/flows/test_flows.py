"""Flows: outcome, totals and steps, whole and in parts; and its tree."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hopwire.columnar import binary_from_rows
from hopwire.flows.findings import Known
from hopwire.flows.flows import added, grow, judge_flows, totals_of
from hopwire.flows.hop_columns import HopColumns
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import FLOW_SCHEMA, OUTCOMES
from tests.flows.reference import cause_of, grown, has_circle
from tests.flows.story import BEGIN, MS, Story, answering, asking, telling

A, B, C, D = b"A", b"B", b"C", b"dark"


def test_flow_has_its_steps_in_the_order_of_time_and_its_totals() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, C, 2, 3, b"o", **asking(identity=b"onward"))
    (flow,) = story.hop(C, A, 4, 6, b"r", **answering()).flows().to_pylist()
    assert [(step["parent"], step["identity"], step["depth"]) for step in flow["steps"]] == [
        (-1, b"orders.place", 0),
        (0, b"onward", 1),
        (1, b"orders.placed", 2),
    ]
    assert (flow["outcome"], flow["duration_us"], flow["depth"]) == ("answered", 6000, 3)
    assert (flow["hop_count"], flow["message_count"], flow["size_bytes"]) == (3, 3, 300)
    assert (flow["nodes"], flow["identity"]) == ([A, B, C], b"orders.place")
    assert flow["contracts"] == [b"onward", b"orders.place", b"orders.placed"]
    assert (flow["critical_path"], flow["critical_path_us"]) == ([0, 1, 2], 6000)
    assert (flow["started_at_ns"], flow["is_oversized"]) == (BEGIN, False)


def test_message_that_crosses_twice_counts_once() -> None:
    (flow,) = Story().hop(A, B, 0, 1, b"m").hop(B, C, 2, 3, b"m").flows().to_pylist()
    assert (flow["hop_count"], flow["message_count"]) == (2, 1)


def test_outcome_is_the_worst_of_the_requests() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(A, 1)).hop(B, A, 2, 3, b"r", **answering(A, 1))
    assert story.flows()["outcome"].to_pylist() == ["answered"]
    story.hop(A, B, 4, 5, b"q2", **asking(A, 2)).hop(B, A, 6, 7, b"e", **telling("failed", key=2))
    assert story.flows()["outcome"].to_pylist() == ["failed"]
    story.out(A, B, 8, b"q3", **asking(A, 3))
    assert story.flows()["outcome"].to_pylist() == ["lost"]
    assert list(OUTCOMES) == ["lost", "expired", "late", "failed", "open", "answered"]


def test_flow_without_requests_is_judged_by_its_hops() -> None:
    assert Story().hop(A, B, 0, 1, b"m").flows()["outcome"].to_pylist() == ["delivered"]
    assert Story().out(A, B, 0, b"m").flows()["outcome"].to_pylist() == ["lost"]
    assert Story().dead(A, 0, b"m", "no_route").flows()["outcome"].to_pylist() == ["lost"]
    assert Story().out(A, B, 299_000, b"m").flows()["outcome"].to_pylist() == ["open"]


@pytest.mark.parametrize("reason", ["duplicate", "nobody_waits", "unexpected_answer"])
def test_flow_without_requests_is_delivered_in_spite_of_a_harmless_dead_letter(reason: str) -> None:
    story = Story().hop(A, B, 0, 1, b"m").hop(A, B, 2, 3, b"m").dead(B, 3, b"m", reason)
    (flow,) = story.flows().to_pylist()
    assert (flow["outcome"], flow["lost_count"], flow["dead_count"]) == ("delivered", 0, 1)
    assert story.dead(B, 4, b"n", "handler_failed").flows()["outcome"].to_pylist() == ["lost"]


def test_flow_without_requests_is_expired_if_the_time_of_a_message_was_over_and_nothing_was_lost() -> None:
    story = Story().hop(A, B, 0, 1, b"m").dead(B, 2, b"m", "expired").out(A, B, 299_000, b"n")
    assert story.flows()["outcome"].to_pylist() == ["expired"]
    assert story.out(A, B, 5, b"o").flows()["outcome"].to_pylist() == ["lost"]


def test_replay_does_not_make_a_flow_longer() -> None:
    (flow,) = Story().hop(A, B, 0, 1, b"m").came(B, A, 9000, b"m").flows().to_pylist()
    assert flow["duration_us"] == 1000


def test_flow_of_somebody_else_alone_has_a_time() -> None:
    (flow,) = Story().came(B, A, 5, b"m").flows().to_pylist()
    assert (flow["started_at_ns"], flow["ended_at_ns"]) == (BEGIN + 5 * MS, BEGIN + 5 * MS)


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_totals_of_parts_add_up(parts: int) -> None:
    story = Story()
    for number in range(40):
        flow = {"correlation_id": b"flow %d" % (number % 3)}
        story.hop(A, B, number, number + 1, b"m%d" % number, **flow, **asking(A, number))
        if number % 4:
            story.hop(B, C, number + 1, number + 2, b"m%d" % number, **flow)
    hops, requests = story.hops(), story.requests()
    whole = totals_of(hops, requests)
    size = -(-len(hops) // parts)
    pieces = [totals_of(hops.slice(begin, size), requests.slice(0, 0)) for begin in range(0, len(hops), size)]
    together = added(pa.concat_tables([*pieces, totals_of(hops.slice(0, 0), requests)]))
    assert together.sort_by("flow_id").to_pylist() == whole.sort_by("flow_id").to_pylist()


def test_oversized_flow_has_some_steps_and_all_totals() -> None:
    story = Story()
    for number in range(20):
        story.hop(A, B, number, number + 1, b"m%02d" % number)
    hops, requests = story.hops().sort_by("left_at_ns"), story.requests()
    some, totals = hops.slice(0, 5), totals_of(hops, requests)
    (flow,) = judge_flows(some, requests, Known(story.coverage, Rules()), totals).to_pylist()
    assert (len(flow["steps"]), flow["hop_count"], flow["message_count"], flow["is_oversized"]) == (5, 20, 20, True)
    assert flow["duration_us"] == 20_000


def test_nothing_gives_no_flows() -> None:
    assert Story().flows().schema == FLOW_SCHEMA
    assert len(Story().flows()) == 0


# -- the tree

NODES = (A, B, C, D)


def tree(story: Story) -> dict[bytes, tuple[bytes | None, int, bool]]:
    """Parent, depth and whether critical, by the name of the message; each has one hop."""
    hops = story.hops()
    found = grow(HopColumns(hops))
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
    found = grow(HopColumns(hops))
    rows = hops.to_pylist()
    onward = next(i for i, hop in enumerate(rows) if hop["from_node"] == B)
    assert rows[found.parent[onward]]["message_key"] == b"m"


def test_node_without_capture_does_not_tear_the_tree() -> None:
    story = Story().out(A, D, 0, b"q").came(C, D, 5, b"o").hop(C, A, 6, 7, b"r")
    assert tree(story) == {b"q": (None, 0, True), b"o": (b"q", 1, True), b"r": (b"o", 2, True)}


def test_dead_letter_hangs_where_its_message_arrived() -> None:
    hops = Story().hop(A, B, 0, 1, b"m").dead(B, 2, b"m", "no_route").hops()
    found = grow(HopColumns(hops))
    rows = hops.to_pylist()
    dead = next(i for i, hop in enumerate(rows) if hop["fate"] == "dead")
    assert rows[found.parent[dead]]["to_node"] == B


def test_what_came_again_is_not_the_end_of_a_flow() -> None:
    story = Story().hop(A, B, 0, 1, b"q").hop(B, A, 2, 3, b"r").came(B, A, 9000, b"q")
    hops = story.hops()
    found = grow(HopColumns(hops))
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
    nothing = {
        "flow_id": [b"f", b"f"],
        "home_node": [b"", b""],
        "home_receiver": [b"", b""],
        "callback_key": [0, 0],
        "repeat": ["", ""],
        "becomes": [b"", b""],
        "fate": ["arrived", "arrived"],
    }
    nodes = {"message_key": [b"0", b"1"], "from_node": [A, B], "to_node": [B, A]}
    times = {"left_at_ns": [10, 9], "arrived_at_ns": [5, 6], "left_sequence": [0, 0], "arrived_sequence": [0, 0]}
    found = grow(HopColumns(pa.table({**nothing, **nodes, **times})))
    assert found.parent.tolist() == [1, -1]
    assert found.depth.tolist() == [1, 0]


@pytest.mark.slow
def test_chain_of_a_million_is_a_matter_of_seconds() -> None:
    size = 1_000_000
    number = np.arange(size, dtype=np.int64)
    nodes = pa.array([A, B])
    times = {"left_at_ns": 2 * number, "arrived_at_ns": 2 * number + 1}
    numbers = {"left_sequence": number, "arrived_sequence": number}
    words = {
        "flow_id": b"f",
        "home_node": b"",
        "home_receiver": b"",
        "callback_key": 0,
        "repeat": "",
        "becomes": b"",
        "fate": "arrived",
    }
    names = {
        "message_key": binary_from_rows(number),
        "from_node": nodes.take(pa.array(number % 2)),
        "to_node": nodes.take(pa.array((number + 1) % 2)),
        **{name: pa.repeat(value, size) for name, value in words.items()},
    }
    found = grow(HopColumns(pa.table({**names, **times, **numbers})))
    assert found.depth.max() == size - 1
    assert found.is_critical.all()


STEP = st.tuples(
    st.integers(0, 2),  # flow
    st.integers(0, 8),  # message
    st.permutations(range(len(NODES))).map(lambda nodes: nodes[:2]),
    st.integers(0, 60),  # when it left
    st.integers(0, 20),  # how long it took; 0 is that it never came
    st.sampled_from(("both", "both", "both", "out", "in", "dead", "local", "told")),
    st.integers(0, 2),  # number of the request; 0 is none
)


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@given(st.lists(STEP, min_size=1, max_size=25))
def test_columns_come_to_the_same_as_loops(steps: list[tuple[int, int, list[int], int, int, str, int]]) -> None:
    story = Story(A, B, C)
    for flow, key, (source, target), at, travel, seen, request in steps:
        more = {"correlation_id": b"flow %d" % flow, **(asking(A, request) if request else {})}
        name = b"%d/%d" % (flow, key)
        if seen in ("both", "out"):
            story.out(NODES[source], NODES[target], at, name, **more)
        if (seen == "both" and travel) or seen == "in":
            story.came(NODES[target], NODES[source], at + max(travel, 1), name, **more)
        if seen == "dead":
            story.dead(NODES[source], at, name, "expired", **more)
        if seen == "local":
            story.local(NODES[source], at, name, **more)
        if seen == "told":
            story.told(NODES[source], at, "Timeout", **more)
    hops = story.hops()
    assume(len(hops))
    found = grow(HopColumns(hops))
    rows = hops.to_pylist()
    causes = [cause_of(number, rows) for number in range(len(rows))]
    assume(not has_circle([cause.parent for cause in causes]))
    assert [tuple(each) for each in zip(*(part.tolist() for part in found), strict=True)] == grown(rows, causes)


def test_answer_belongs_to_its_question_though_another_came_later() -> None:
    story = Story().hop(A, B, 0, 1, b"one", **asking(A, 1)).hop(A, B, 2, 3, b"two", **asking(A, 2))
    story.hop(B, A, 4, 5, b"answer", **answering(A, 1))
    assert tree(story)[b"answer"][0] == b"one"


def test_parent_that_may_be_another_is_marked_as_a_guess() -> None:
    story = Story().hop(A, B, 0, 1, b"one", **asking(A, 1)).hop(A, B, 2, 3, b"two", **asking(A, 2))
    story.hop(B, C, 4, 5, b"what of it", **asking(B, 7)).hop(B, A, 8, 9, b"answer", **answering(A, 1))
    (flow,) = story.flows().to_pylist()
    guessed = {step["message_key"]: step["is_parent_guessed"] for step in flow["steps"]}
    assert guessed == {b"one": False, b"two": False, b"what of it": True, b"answer": False}


def test_what_was_told_hangs_below_its_question_and_is_no_hop() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).told(A, 2000, "Timeout", "timed_out: no", **asking())
    (flow,) = story.flows().to_pylist()
    assert [(step["fate"], step["parent"], step["told"]) for step in flow["steps"]] == [
        ("arrived", -1, ""),
        ("told", 0, "Timeout"),
    ]
    assert (flow["hop_count"], flow["message_count"], flow["duration_us"]) == (1, 1, 2_000_000)


def test_steps_within_a_node_are_steps_of_the_flow() -> None:
    story = Story().hop(A, B, 0, 1, b"q").local(B, 2, b"on").hop(B, C, 3, 4, b"further")
    assert tree(story) == {b"q": (None, 0, True), b"on": (b"q", 1, True), b"further": (b"on", 2, True)}


def test_message_that_became_another_at_a_border_is_the_parent_of_the_other() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(A, 1)).hop(A, B, 0.2, 1.2, b"other", **asking(A, 2))
    story.hop(B, C, 2, 2.1, b"q", dead_note=(b"p" * 16).hex(), **asking(A, 1))
    story.hop(B, C, 2.3, 2.4, b"other", dead_note=(b"n" * 16).hex(), **asking(A, 2))
    story.hop(C, D, 3, 4, b"p" * 16, **asking(C, 7)).hop(C, D, 3, 4, b"n" * 16, **asking(C, 8))
    (flow,) = story.flows().to_pylist()
    steps = flow["steps"]
    above = {step["message_key"]: steps[step["parent"]]["message_key"] for step in steps if step["from_node"] == C}
    assert above == {b"p" * 16: b"q", b"n" * 16: b"other"}
    assert not any(step["is_parent_guessed"] for step in steps)
