"""The judge of requests as the workers run it: a request of more hops than fit is judged all the same."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.flows.oversized import TOGETHER
from hopwire.flows.rules import Rules
from hopwire.lake.gold.requests import _judge
from tests.flows.story import Story, answering, asking

A, B, C = b"A", b"B", b"C"


def judged(story: Story, max_flow_rows: int, batch_rows: int = 50) -> list[dict[str, object]]:
    order = [(name, "ascending") for name in TOGETHER]
    hops = story.hops().sort_by([*order, ("left_at_ns", "ascending")])
    judge = _judge(story.coverage, Rules(max_flow_rows=max_flow_rows))
    return pa.Table.from_batches(judge(hops.to_batches(batch_rows))).to_pylist()  # type: ignore[no-any-return]


def chatter(count: int, answer_at: float | None) -> Story:
    """A question, much that is said onward with its key, and maybe an answer."""
    story = Story(seconds=3000).hop(A, B, 0, 1, b"q", ttl_ticks=0, **asking())
    for number in range(count):
        story.hop(B, C, 2 + number, 2.5 + number, b"n%d" % number, **asking(identity=b"note"))
    if answer_at is not None:
        story.hop(B, A, answer_at, answer_at + 1, b"r", **answering())
    return story


@pytest.mark.parametrize(("answer_at", "outcome"), [(400, "answered"), (None, "lost")])
def test_answer_beyond_the_limit_counts(answer_at: float | None, outcome: str) -> None:
    (row,) = judged(chatter(300, answer_at), max_flow_rows=100)
    hops = 301 + (answer_at is not None)
    assert (row["outcome"], row["hop_count"], row["is_oversized"]) == (outcome, hops, True)
    (whole,) = judged(chatter(300, answer_at), max_flow_rows=1000)
    assert (whole["outcome"], whole["hop_count"], whole["is_oversized"]) == (outcome, hops, False)
    assert (row["latency_us"], row["asked_at_ns"]) == (whole["latency_us"], whole["asked_at_ns"])
