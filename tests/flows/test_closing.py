"""When a flow is final, and what opens a flow again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopwire.flows.closing import Frontier, Horizon, changed_since, horizons
from hopwire.flows.coverage import Coverage, LifeSpan, Offset
from hopwire.flows.rules import Rules
from tests.flows.story import BEGIN, SECOND, Story, answering, asking

A, B, C = b"A", b"B", b"C"
RULES = Rules()
TTL = 20 * 10**7


def seconds(story: Story) -> dict[bytes, float]:
    """The horizons of the flows of a story, in seconds from its begin."""
    found = horizons(story.hops(), story.requests(), RULES)
    return {flow: (horizon.until_ns - BEGIN) / SECOND for flow, horizon in found.items()}


def test_flow_looks_as_far_as_what_was_not_written_and_patience_if_something_is_missing() -> None:
    story = Story().hop(A, B, 9_000, 10_000, b"m")
    assert seconds(story) == {b"flow": 12.0}
    assert seconds(story.out(A, C, 9_500, b"n")) == {b"flow": 17.0}


def test_request_that_was_answered_waits_for_nothing() -> None:
    story = Story().hop(A, B, 10_000, 10_001, b"q", ttl_ticks=TTL, **asking())
    assert seconds(story) == {b"flow": 10.0 + 20 + 5 + 7}
    story.hop(B, A, 10_500, 11_000, b"a", **answering())
    assert seconds(story) == {b"flow": 13.0}


def test_message_to_a_node_that_is_silent_waits_until_its_silence_is_too_long() -> None:
    story = Story(A, B, seconds=12).out(A, B, 10_000, b"m")
    assert seconds(story) == {b"flow": 10.0 + 5 + 600 + 7}


def test_beats_wait_for_the_end_of_their_minute() -> None:
    story = Story().hop(A, B, 30_000, 30_001, b"m", correlation_id=b"")
    (until,) = seconds(story).values()
    assert (until * SECOND + BEGIN) % (60 * SECOND) == 7 * SECOND


def test_horizon_names_the_nodes_that_the_verdict_looks_at() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(C))
    (horizon,) = horizons(story.hops(), story.requests(), RULES).values()
    assert horizon.nodes == {A, B, C}


def test_nothing_has_no_horizon() -> None:
    assert horizons(Story().hops(), Story().requests(), RULES) == {}


@pytest.mark.parametrize(
    ("last", "booting", "is_final"),
    [
        ({A: 200, B: 101}, (), True),
        ({A: 200, B: 100}, (), False),  # B was not seen after the horizon
        ({A: 701, B: 100}, (), True),  # B is silent for too long
        ({A: 700, B: 100}, (), False),
        ({A: 101}, (), True),  # B does not capture
        ({A: 200, B: 200}, (B,), False),
        ({A: 100, B: 100}, (), False),
    ],
)
def test_flow_is_final_when_all_that_it_touches_were_seen_after_its_horizon(
    last: dict[bytes, int], booting: tuple[bytes, ...], is_final: bool
) -> None:
    coverage = Coverage([LifeSpan(node, 0, at) for node, at in last.items()])
    frontier = Frontier.of(coverage, booting, Rules(silence_ns=600))
    assert frontier.is_final(Horizon(100, frozenset({A, B}))) == is_final


BEFORE = Coverage([LifeSpan(A, 0, 100, 1), LifeSpan(B, 0, 100, 1)], clocks={A: A, B: A}, offsets_ns={A: 0, B: 10})


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (BEFORE, {}),
        (replace(BEFORE, spans=[LifeSpan(A, 0, 200, 1), BEFORE.spans[1]]), {A: 100}),  # goes on
        (replace(BEFORE, spans=[*BEFORE.spans, LifeSpan(A, 150, 200, 2)]), {A: 150}),  # a new life
        (replace(BEFORE, spans=[*BEFORE.spans, LifeSpan(C, 50, 60, 1)]), {C: 50}),
        (replace(BEFORE, spans=[LifeSpan(A, 0, 100, 1, "closed"), BEFORE.spans[1]]), {A: 100}),
        (replace(BEFORE, skips=[LifeSpan(B, 50, 70, 1)]), {B: 40}),
        (replace(BEFORE, offsets_ns={A: 0, B: 12}), {B: -12}),
        (replace(BEFORE, changes={B: {1: [Offset(0, 10), Offset(60, 30)]}}), {B: 30}),
        (replace(BEFORE, references={A: [(1, -9, A)], B: [(1, -9, A), (1, 70, B)]}), {B: 60}),
    ],
)
def test_what_captures_say_otherwise_of_a_node_begins_at_a_time(after: Coverage, expected: dict[bytes, int]) -> None:
    assert changed_since(BEFORE, after) == expected
