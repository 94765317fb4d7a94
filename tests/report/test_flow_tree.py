"""A flow in words: the tree, the place where it was lost, the findings."""

from __future__ import annotations

from typing import Any

import pytest

from hopwire.flows.schemas import FATES
from hopwire.report.flow_tree import FATES as MARKS
from hopwire.report.flow_tree import (
    Glyphs,
    finding_line,
    flow_to_json,
    is_bad_step,
    lines_of_flow,
    outcome_words,
    remark_of_step,
    request_line,
    witnesses_of,
)
from tests.flows.story import Story, answering, asking, telling

A, B, C = b"A", b"B", b"C"
NAMES = {A: "alpha", B: "beta"}


def flow_of(story: Story) -> dict[str, Any]:
    (flow,) = story.flows().to_pylist()
    return dict(flow)


def lost_answer() -> Story:
    story = Story().hop(A, B, 0, 1.5, b"q", **asking()).hop(B, C, 2, 3, b"o", **asking(identity=b"onward"))
    return story.out(C, A, 4, b"r", **answering())


def test_every_fate_has_its_words() -> None:
    assert list(MARKS) == list(FATES)


def test_bad_news_are_the_same_in_words_and_in_columns() -> None:
    step: dict[str, Any] = {"from_node": A, "to_node": B, "is_reply": False}
    step |= dict.fromkeys(("told", "dead_reason", "outcome_reason"), "")
    for fate in (*FATES, "a fate of tomorrow"):
        for repeat in (None, "", "replayed", "retransmitted"):
            for kind in (None, "", "received", "ended", "failed"):
                said = remark_of_step({**step, "fate": fate, "repeat": repeat, "outcome_kind": kind}, {})
                assert is_bad_step(fate, repeat, kind) == said.is_bad, (fate, repeat, kind)


def test_steps_are_a_tree_with_names_and_latencies() -> None:
    lines = list(lines_of_flow(flow_of(lost_answer()), NAMES))
    assert [(line.indent + line.contract, line.way, line.took) for line in lines] == [
        ("orders.place v1", "alpha -> beta", "1.5 ms"),
        ("└─ onward v1", "beta -> C", "1 ms"),
        ("   └─ orders.placed v1", "C -> alpha", ""),
    ]
    assert [line.at_us for line in lines] == [0, 2000, 4000]


def test_version_of_an_old_format_is_shown_too() -> None:
    story = Story().hop(A, B, 0, 1, b"q", wire_format=4, version=None, version_raw=b"1.0")
    assert [line.contract for line in lines_of_flow(flow_of(story), NAMES)] == ["orders.place v1.0"]


def test_place_where_it_was_lost_is_marked() -> None:
    *_, last = lines_of_flow(flow_of(lost_answer()), NAMES)
    assert last.remark == ("LOST: left C, never came to alpha", True)
    (request,) = lost_answer().requests().to_pylist()
    assert request_line(request, NAMES) == ("orders.place from alpha: LOST between C and alpha", True)


@pytest.mark.parametrize(
    ("outcome", "fate", "words"),
    [
        ("delivered", "arrived", "delivered"),
        ("delivered", "unwitnessed", "delivered, as far as anybody saw"),
        ("delivered", "in_flight", "delivered, as far as anybody saw"),
        ("answered", "unwitnessed", "answered"),
    ],
)
def test_message_that_nobody_saw_arrive_is_not_simply_delivered(outcome: str, fate: str, words: str) -> None:
    assert outcome_words({"outcome": outcome, "steps": [{"fate": "arrived"}, {"fate": fate}]}) == words


def test_branches_are_drawn_side_by_side() -> None:
    story = Story().hop(A, B, 0, 1, b"q").hop(B, C, 2, 3, b"m").hop(C, A, 4, 5, b"n").hop(B, A, 6, 7, b"o")
    indents = [line.indent for line in lines_of_flow(flow_of(story), NAMES)]
    assert indents == ["", "├─ ", "│  └─ ", "└─ "]
    plain = Glyphs("+- ", "`- ", "|  ", "   ")
    assert [line.indent for line in lines_of_flow(flow_of(story), NAMES, glyphs=plain)] == ["", "+- ", "|  `- ", "`- "]


def test_deep_chain_is_not_indented_further_and_is_cut() -> None:
    story = Story()
    for number in range(100):
        there, back = (A, B) if number % 2 else (B, A)
        story.hop(there, back, 2 * number, 2 * number + 1, b"m%03d" % number)
    lines = list(lines_of_flow(flow_of(story), NAMES, max_indent=4))
    assert len(lines) == 100
    assert max(len(line.indent) for line in lines) == 12
    assert len(list(lines_of_flow(flow_of(story), NAMES, limit=7))) == 7


def test_marks_say_what_became_of_a_step() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).dead(B, 2, b"q", "no_route", **asking())
    story.hop(B, A, 3, 4, b"e", **telling("undelivered", "no_route"))
    marks = [line.remark for line in lines_of_flow(flow_of(story), NAMES)]
    assert marks == [("", False), ("DEAD: no_route", True), ("undelivered: no_route", True)]
    assert [line.way for line in lines_of_flow(flow_of(story), NAMES)][1] == "at beta"


def test_requests_say_where_and_why() -> None:
    def line(story: Story) -> str:
        (request,) = story.requests().to_pylist()
        return request_line(request, NAMES).text

    asked = Story().hop(A, B, 0, 1, b"q", **asking())
    assert line(asked) == "orders.place from alpha: LOST at beta: it was last seen there, and no answer came"
    dead = Story().hop(A, B, 0, 1, b"q", **asking()).dead(B, 2, b"q", "bad_signature", **asking())
    assert line(dead) == "orders.place from alpha: LOST at beta: bad_signature"
    failed = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, A, 2, 3, b"e", **telling("failed", "ValueError"))
    assert line(failed) == "orders.place from alpha: failed: ValueError after 3 ms"


def test_finding_has_its_meaning() -> None:
    lost, finding = flow_of(lost_answer())["findings"]
    assert lost["kind"] == "hop_lost"
    assert finding_line(finding, NAMES) == "callback_unreached at alpha: an answer left its node, and none came home"


def test_json_has_text_for_bytes() -> None:
    found = flow_to_json({"flow_id": b"\xff", "nodes": [A, C], "steps": [{"identity": b"x", "parent": -1}]}, NAMES)
    assert found == {
        "flow_id": "0xff",
        "nodes": ["A", "C"],
        "steps": [{"identity": "x", "parent": -1}],
        "node_names": ["alpha", ""],
    }


def test_a_fate_or_finding_of_a_newer_hopwire_is_shown_by_its_word() -> None:
    flow = flow_of(lost_answer())
    flow["steps"][0] |= {"fate": "{teleported}"}
    first, *_ = lines_of_flow(flow, NAMES)
    assert first.remark == ("{teleported}: a fate that this hopwire does not know", True)
    finding = {**flow["findings"][1], "kind": "too_quiet"}
    assert finding_line(finding, NAMES) == "too_quiet at alpha: a finding that this hopwire does not know"


def test_what_an_asker_was_told_is_a_step_and_a_part_of_its_request() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=10_000_000))
    story.told(A, 1000, "Timeout", "timed_out: no answer", **asking(ttl_ticks=10_000_000))
    _, told = lines_of_flow(flow_of(story), NAMES)
    assert (told.way, told.remark) == ("at alpha", ("alpha was told Timeout", True))
    (request,) = story.requests().to_pylist()
    assert request_line(request, NAMES).text.endswith("; its asker was told Timeout (timed_out)")
    otherwise = story.hop(B, A, 5, 6, b"r", **answering()).requests().to_pylist()[0]
    assert request_line(otherwise, NAMES).text.endswith("(timed_out), which its messages contradict")


def test_answer_that_nobody_saw_come_is_said_to_be_likely() -> None:
    story = Story(A).out(A, B, 0, b"q", **asking()).came(A, B, 5, b"r", **answering())
    assert request_line(story.requests().to_pylist()[0], NAMES).text.endswith("answered after 5 ms")
    unseen = Story(B).came(B, A, 0, b"q", **asking()).out(B, A, 5, b"r", **answering())
    assert request_line(unseen.requests().to_pylist()[0], NAMES).text.endswith(
        "answered after 5 ms, most likely: nobody saw that it was taken"
    )


def test_request_that_was_lost_with_its_node_says_so() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=10_000_000)).killed(B, 500, 9000, "closed")
    (request,) = story.requests().to_pylist()
    assert request_line(request, {B: "beta"}).text == (
        "orders.place from A: LOST at beta: it arrived there, and beta ended before it could answer"
    )


def blind(detail: str) -> dict[str, Any]:
    return {"kind": "missing_capture", "node": B, "detail": detail, "message_key": b"q"}


def test_what_a_node_did_instead_of_looking_is_said_in_the_same_words_everywhere() -> None:
    step: dict[str, Any] = {"from_node": A, "to_node": B, "is_reply": False, "repeat": "", "outcome_kind": ""}
    step |= dict.fromkeys(("told", "dead_reason", "outcome_reason"), "")
    finding = blind("ended with sightings unwritten")
    known = witnesses_of({"findings": [finding]})
    words = "beta ended with sightings unwritten"
    assert remark_of_step({**step, "fate": "unwitnessed"}, NAMES, known).text == words
    assert remark_of_step({**step, "fate": "unwitnessed"}, NAMES).text == "beta wrote nothing down then"
    unsent = {**step, "fate": "unsent", "from_node": B, "to_node": A}
    assert remark_of_step(unsent, NAMES, known).text == "nobody saw beta send it: it ended with sightings unwritten"
    assert "(ended with sightings unwritten)" in finding_line(finding, NAMES)
    (request,) = Story().hop(A, B, 0, 1, b"q", **asking()).requests().to_pylist()
    request |= {"outcome": "lost", "lost_from_node": A, "lost_to_node": B, "reason": "no_answer"}
    assert f"LOST at beta or on the way there from alpha: {words}" in request_line(request, NAMES, known).text
    assert "LOST between alpha and beta" in request_line({**request, "reason": "hop_lost"}, NAMES, known).text


def test_an_open_request_says_until_when_and_which_capture_ends_before() -> None:
    second = 10**9
    (request,) = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=10_000_000)).requests().to_pylist()
    request |= {"outcome": "open", "open_until_ns": 16 * second}

    def line(end_s: float, **changes: Any) -> str:
        ends = witnesses_of({"findings": []}, {A: int(end_s * second)})
        return request_line({**request, **changes}, NAMES, ends).text.partition(": ")[2]

    ending = "an answer may still come, and the capture of alpha ends at 00:00:12.500"
    assert line(12.5) == f"open until 00:00:16.000: {ending}"
    assert line(12.5, open_until_ns=None) == "open"
    assert line(17) == "open: an answer may have come that nobody wrote down"
    assert line(17, home_node=C) == "open: C captured nothing, and nobody else saw an answer"
    assert request_line(request, NAMES).text.endswith(": open")


def test_a_step_near_the_end_says_which_capture_ends_when() -> None:
    flow = flow_of(lost_answer())
    step = {**flow["steps"][0], "fate": "in_flight", "left_at_ns": 10 * 10**9}
    for end_s, words in ((9, "the capture of beta ends at 00:00:09.000, before it could arrive"),
                         (700, "the capture of beta ends before it could arrive")):  # fmt: skip
        known = witnesses_of({"findings": []}, {B: end_s * 10**9})
        assert remark_of_step(step, NAMES, known) == (words, False)
