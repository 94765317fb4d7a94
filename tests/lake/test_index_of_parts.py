"""The index of a flow that comes in parts says what the index of the whole flow says, or looks further ahead."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.flows.closing import horizon_columns
from hopwire.flows.findings import Known
from hopwire.flows.oversized import _together
from hopwire.flows.rules import Rules
from hopwire.lake.gold.flows import judge_of
from hopwire.lake.silver.closed_flows import CLOSED_TABLE, index_rows, most_off_ns
from tests.flows.story import Story, answering, asking

A, B, C = b"A", b"B", b"C"


@pytest.mark.parametrize("max_flow_rows", [4, 11, 12])  # hops are cut; the first request is; the second
def test_flow_in_parts_is_found_by_the_same_times_and_nodes(max_flow_rows: int) -> None:
    story = Story(seconds=900)
    for number in range(9):
        story.hop(A, B, number, number + 0.5, b"m%d" % number)
    story.hop(A, C, 20, 21, b"q", **asking(key=1)).hop(C, A, 30, 31, b"r", **answering(key=1))
    story.out(A, B, 40, b"lost", **asking(key=2, ttl_ticks=10**8))
    hops, requests = story.hops().sort_by("left_at_ns"), story.requests()
    rules = Rules(max_flow_rows=max_flow_rows)
    assert (len(hops), len(requests)) == (12, 2)
    (whole,) = index_rows(hops, horizon_columns(hops, requests, rules), most_off_ns(story.coverage)).to_pylist()
    rows = _together(hops, requests.sort_by("asked_at_ns"))
    judged = judge_of(Known(story.coverage, rules), with_index=True)(rows.combine_chunks().to_batches(2))
    (found,) = (row for batch in judged if batch.schema == CLOSED_TABLE.schema for row in batch.to_pylist())
    times = (found.pop("horizon_ns"), whole.pop("horizon_ns"))
    assert 0 <= times[0] - times[1] <= rules.patience_ns
    assert found == whole


def test_flow_of_requests_alone_has_the_time_of_the_last() -> None:
    story = Story(seconds=900).out(A, B, 40, b"lost", **asking(ttl_ticks=10**8))
    rules, requests = Rules(), story.requests()
    rows = _together(story.hops(), pa.concat_tables([requests, requests]))
    judged = judge_of(Known(story.coverage, Rules(max_flow_rows=1)), with_index=True)(rows.to_batches())
    (found,) = (row for batch in judged if batch.schema == CLOSED_TABLE.schema for row in batch.to_pylist())
    (known,) = horizon_columns(story.hops(), requests, rules).until_ns.tolist()
    assert found["horizon_ns"] >= known
    assert (found["sighting_count"], found["nodes"]) == (1, [A, B])
