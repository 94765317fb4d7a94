"""A flow as spans: what caused what, what is unknown, and clocks that disagree."""

from __future__ import annotations

from typing import Any

from hopwire.report.flow_spans import ExportedFlow, Span, service_attributes, spans_of_flow
from tests.flows.story import MS, Story, answering, asking

NAMES = {b"A": "alpha", b"B": "beta"}


def told(story: Story, **changes: Any) -> list[Span]:
    (flow,) = story.flows().to_pylist()
    flow["steps"] = [{**step, **changes} for step in flow["steps"]]
    return spans_of_flow(ExportedFlow(flow, story.requests().to_pylist()), NAMES)


def way(spans: list[Span]) -> list[tuple[str, str, str]]:
    """Kind, name and parent of each span."""
    by_id = {span.span_id: span.name for span in spans}
    return [(span.kind, span.name, by_id.get(span.parent_id, "")) for span in spans]


def question() -> Story:
    story = Story(b"A", b"B").hop(b"A", b"B", 0, 1, b"q", **asking())
    return story.hop(b"B", b"A", 5, 6, b"r", **answering())


def test_a_question_is_a_client_and_a_server_and_the_answer_belongs_to_the_server() -> None:
    spans = told(question())
    assert way(spans) == [
        ("INTERNAL", "flow orders.place", ""),
        ("CLIENT", "ask orders.place", "flow orders.place"),
        ("PRODUCER", "send orders.place", "ask orders.place"),
        ("SERVER", "receive orders.place", "send orders.place"),
        ("PRODUCER", "send orders.placed", "receive orders.place"),
        ("CONSUMER", "receive orders.placed", "send orders.placed"),
    ]
    whole, asked, sent, received, *_ = spans
    assert (sent.node, sent.peer, received.node) == (b"A", b"B", b"B")
    assert (received.end_ns - received.start_ns, asked.end_ns - asked.start_ns) == (4 * MS, 6 * MS)
    assert (whole.start_ns, whole.end_ns) == (asked.start_ns, asked.end_ns)
    assert not any(span.error for span in spans)


def test_a_message_that_is_passed_on_is_a_chain_and_only_its_end_is_the_server() -> None:
    story = Story(b"A", b"B", b"C").hop(b"A", b"B", 0, 1, b"q", **asking())
    story.hop(b"B", b"C", 2, 3, b"q", **asking(hops=2))
    assert way(told(story))[2:] == [
        ("PRODUCER", "send orders.place", "ask orders.place"),
        ("CONSUMER", "receive orders.place", "send orders.place"),
        ("PRODUCER", "send orders.place", "receive orders.place"),
        ("SERVER", "receive orders.place", "send orders.place"),
    ]


def test_what_is_lost_has_no_length_and_is_an_error() -> None:
    story = Story(b"A", b"B").out(b"A", b"B", 0, b"m")
    _, sent = told(story)
    assert (sent.error, sent.end_ns - sent.start_ns) == ("lost from alpha to beta", 0)
    assert sent.attributes["hopwire.unknown"] == "arrived_at_ns"
    assert [(event.at_ns, event.name) for event in sent.events] == [(sent.start_ns, "lost")]


def test_a_dead_letter_says_why() -> None:
    story = Story(b"A", b"B").hop(b"A", b"B", 0, 1, b"m").dead(b"B", 2, b"m", "no_route")
    dead = told(story)[-1]
    assert (dead.kind, dead.name, dead.error) == ("INTERNAL", "dead letter orders.place", "dead at beta: no_route")
    assert "hopwire.unknown" not in dead.attributes


def test_no_span_ends_before_it_begins_and_clocks_that_disagree_are_told() -> None:
    story = Story(b"A", b"B").hop(b"A", b"B", 5, 6, b"m")
    (flow,) = story.flows().to_pylist()
    (step,) = flow["steps"]
    step.update(left_at_ns=step["arrived_at_ns"] + 3000, is_corrected=False)
    whole, sent, received = spans_of_flow(ExportedFlow(flow, []), NAMES)
    assert all(span.start_ns <= span.end_ns for span in (whole, sent, received))
    assert (sent.attributes["hopwire.negative_us"], sent.attributes["hopwire.is_corrected"]) == (-3, False)


def test_times_that_nobody_has_do_no_harm() -> None:
    spans = told(question(), left_at_ns=None, arrived_at_ns=None)
    assert all(0 <= span.start_ns <= span.end_ns for span in spans)
    assert spans[2].attributes["hopwire.unknown"] == "left_at_ns, arrived_at_ns"
    assert all(span.start_ns == 0 for span in told(question(), left_at_ns=-5, arrived_at_ns=-4)[2:])


def test_another_attempt_is_linked_to_the_first() -> None:
    story = Story(b"A", b"B").out(b"A", b"B", 0, b"m")
    story.hop(b"A", b"B", 100, 101, b"m", attempt=1)
    _, first, again, _ = told(story)
    assert (first.links, again.links) == ([], [first.span_id])


def test_a_parent_that_is_not_there_is_the_whole() -> None:
    spans = told(question(), parent=77)
    ids = {span.span_id for span in spans}
    assert all(span.parent_id in ids for span in spans[1:])


def test_the_clock_of_a_node_is_told() -> None:
    clock = {"is_corrected": True, "offset_ns": 5, "error_ns": None}
    assert service_attributes(b"A", clock) == {
        "hopwire.node": "A",
        "hopwire.clock.is_known": True,
        "hopwire.clock.is_corrected": True,
        "hopwire.clock.offset_ns": 5,
    }
    assert service_attributes(b"A", None) == {"hopwire.node": "A", "hopwire.clock.is_known": False}
