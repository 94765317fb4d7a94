"""Flows: outcome, totals and steps, whole and in parts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.flows.findings import Known
from hopwire.flows.flows import added, judge_flows, totals_of
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import FLOW_SCHEMA, OUTCOMES
from tests.flows.story import BEGIN, MS, Story, answering, asking, telling

A, B, C = b"A", b"B", b"C"


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
