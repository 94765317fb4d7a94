"""Flows and requests of any size: their first rows are judged, all are counted, however the rows come."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.flows.findings import Known
from hopwire.flows.oversized import _together, flow_runs, flows_of, judged_requests, requests_of
from hopwire.flows.rules import Rules
from hopwire.flows.steps import judge_sightings
from tests.flows.story import Story, answering, asking

A, B, C = b"A", b"B", b"C"
SMALL = Rules(max_flow_rows=20)


def long_story(steps: int = 40) -> Story:
    """A flow of many steps and two questions, and a short flow."""
    story = Story(seconds=600)
    story.hop(A, B, 0, 1, b"q1", **asking(key=1)).hop(B, A, 2, 3, b"r1", **answering(key=1))
    for number in range(steps):
        story.hop(B, C, 10 + number, 10.5 + number, b"m%03d" % number, **asking(key=2, identity=b"note"))
    story.hop(C, A, 5_000, 5_001, b"r2", **answering(key=2))
    return story.hop(A, B, 0, 1, b"other", correlation_id=b"short")


def judged(story: Story, rules: Rules) -> tuple[pa.Table, pa.Table, pa.Table]:
    found = judge_sightings(
        story.sightings.append_column("flow_id", story.sightings["correlation_id"]), story.coverage, rules
    )
    return found.hops, found.requests, flows_of(found.hops, found.requests, Known(story.coverage, rules))


def test_flow_has_the_tree_of_its_first_rows_and_totals_of_all() -> None:
    _, _, flows = judged(long_story(), SMALL)
    _, _, whole = judged(long_story(), Rules())
    long, short = sorted(flows.to_pylist(), key=lambda row: -row["hop_count"])
    (full,) = (row for row in whole.to_pylist() if row["flow_id"] == b"flow")
    assert (long["is_oversized"], len(long["steps"]), len(full["steps"])) == (True, 20, 43)
    for name in ("hop_count", "message_count", "size_bytes", "outcome", "duration_us", "request_count", "nodes"):
        assert long[name] == full[name], name
    assert (short["is_oversized"], len(short["steps"])) == (False, 1)


def test_request_is_judged_by_its_first_hops_and_by_replies_that_came_later() -> None:
    _, found, _ = judged(long_story(), SMALL)
    _, whole, _ = judged(long_story(), Rules())
    rows, full = ({row["callback_key"]: row for row in each.to_pylist()} for each in (found, whole))
    assert {key: (row["outcome"], row["is_oversized"], row["hop_count"]) for key, row in rows.items()} == {
        1: ("answered", False, 2),
        2: ("answered", True, 41),
    }
    assert rows[1] == full[1]
    assert rows[2] == full[2] | {"is_oversized": True}


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_batches_give_the_rows_of_a_table(batch_rows: int) -> None:
    story = long_story()
    hops, requests, flows = judged(story, SMALL)
    asked = hops.sort_by([(name, "ascending") for name in ("flow_id", "callback_key", "left_at_ns")])
    batches = asked.filter(pa.array(bool(each) for each in asked["home_receiver"].to_pylist())).to_batches(batch_rows)
    found = pa.concat_tables(judged_requests(batches, story.coverage, SMALL))
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, requests.to_pylist()))
    rows = _together(hops, requests)
    by_flow = pa.concat_tables(
        rows.filter(pa.array(each == flow for each in rows["flow_id"].to_pylist())) for flow in (b"flow", b"short")
    ).combine_chunks()
    runs = flow_runs(by_flow.to_batches(batch_rows), Known(story.coverage, SMALL))
    assert sorted(map(repr, (row for run in runs for row in run.flows.to_pylist()))) == sorted(
        map(repr, flows.to_pylist())
    )


def test_small_flows_are_judged_as_always() -> None:
    story = long_story(5)
    hops, requests, flows = judged(story, Rules())
    assert requests_of(hops, story.coverage, Rules(max_flow_rows=8)) == requests
    assert flows_of(hops, requests, Known(story.coverage, Rules(max_flow_rows=10))).to_pylist() == flows.to_pylist()
