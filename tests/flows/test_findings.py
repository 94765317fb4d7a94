"""What is odd about a flow, and what is not: one story for each kind, and for each quirk of the original."""

from __future__ import annotations

from typing import Any

import pytest

from hopwire.flows.coverage import LifeSpan
from hopwire.flows.findings import FINDERS, KINDS
from tests.flows.story import BEGIN, SECOND, Story, answering, asking, telling

A, B, C, D = b"A", b"B", b"C", b"dark"
SECOND_OF_TTL = 10_000_000  # ticks
ANSWERED = {(b"orders.place", 1, None)}


def test_every_kind_has_a_meaning_and_a_finder() -> None:
    assert list(KINDS) == list(FINDERS)


def test_ordinary_request_has_nothing_odd() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=SECOND_OF_TTL)).hop(B, A, 2, 3, b"r", **answering())
    assert story.findings() == []


def test_message_that_comes_back_is_a_loop_once() -> None:
    story = Story()
    for number in range(4):
        story.hop(A, B, 4 * number, 4 * number + 1, b"m", hops=2 * number + 1)
        story.hop(B, A, 4 * number + 2, 4 * number + 3, b"m", hops=2 * number + 2)
    assert story.findings() == [("hop_loop", A)]


def test_hop_limit_is_a_loop() -> None:
    assert Story().dead(B, 0, b"m", "hop_limit").findings() == [("hop_loop", B)]
    assert Story().hop(A, B, 0, 1, b"m", hops=17).findings() == [("hop_loop", B)]


def test_message_sent_on_is_no_loop() -> None:
    assert Story().hop(A, B, 0, 1, b"m").hop(B, C, 2, 3, b"m", hops=2).findings() == []


def test_trace_that_does_not_end_with_the_sender_disagrees() -> None:
    story = Story().hop(A, B, 0, 1, b"m", trace_options=1, route_count=1, route_node=C)
    assert story.findings() == [("route_disagrees", A)]


def test_message_that_is_handled_after_its_time() -> None:
    late = asking(ttl_ticks=SECOND_OF_TTL)
    assert Story().hop(A, B, 0, 1500, b"q", **late).hop(B, A, 1501, 1502, b"r", **answering()).findings() == [
        ("handled_after_ttl", B)
    ]
    assert Story().hop(A, B, 0, 1500, b"q", **late).findings() == []
    refused = Story().hop(A, B, 0, 1500, b"q", **late).dead(B, 1501, b"q", "expired", **late)
    assert refused.hop(B, A, 1501, 1502, b"e", **telling("undelivered", "expired")).findings() == []


def test_reply_to_nobody() -> None:
    assert Story().hop(B, A, 2, 3, b"r", **answering()).findings() == [("reply_to_nobody", A)]
    assert Story().hop(B, A, 2, 3, b"r", **telling("failed")).findings() == [("reply_to_nobody", A)]


def test_reply_to_a_question_of_before_the_capture_is_not_odd() -> None:
    story = Story(B)
    story.spans.append(LifeSpan(A, BEGIN + SECOND, BEGIN + 300 * SECOND))
    assert story.hop(B, A, 500, 1500, b"r", **answering()).findings() == []


def test_version_that_nobody_handles_while_others_are_answered() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(version=9))
    assert story.findings(answered=ANSWERED) == [("unknown_version", B)]
    assert story.findings() == []
    assert Story().hop(A, B, 0, 1, b"q", **asking()).findings(answered=ANSWERED) == []
    told = Story().hop(A, B, 0, 1, b"q", **asking(version=9)).dead(B, 2, b"q", "no_route", **asking(version=9))
    told.hop(B, A, 3, 4, b"e", **telling("undelivered", "no_route"))
    assert told.findings(answered=ANSWERED) == [("unknown_version", B)]


def test_version_that_the_receiver_does_not_handle() -> None:
    story = Story().hop(A, B, 0, 1, b"m").dead(B, 2, b"m", "receiver_does_not_handle")
    assert story.findings() == [("unknown_version", B)]


def test_callback_that_is_not_reached() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).out(B, A, 2, b"r", **answering())
    assert story.findings() == [("hop_lost", B), ("callback_unreached", A)]


def test_duplicate_and_replay() -> None:
    signed = {"signature": b"mac", "verdict": "valid"}
    assert Story().hop(A, B, 0, 1, b"m").came(B, A, 100, b"m").findings() == [("duplicate", B)]
    assert Story().hop(A, B, 0, 1, b"m", **signed).came(B, A, 6000, b"m", **signed).findings() == [("replayed", B)]
    assert Story().hop(A, B, 0, 1, b"m", **signed).came(B, C, 6000, b"m", **signed).findings() == [("replayed", B)]


def test_retransmission_and_foreign_sender() -> None:
    resent = Story().out(A, B, 0, b"m").hop(A, C, 100, 101, b"m", attempt=1)
    assert resent.findings() == [("hop_lost", A), ("retransmitted", A)]
    details = [finding["detail"] for finding in resent.flows()["findings"].to_pylist()[0]]
    assert details == ["to B", "attempt 1"]
    assert Story().came(B, A, 1, b"m").findings() == [("foreign_sender", B)]


def test_missing_capture_is_said_once_for_each_node() -> None:
    story = Story().out(A, D, 0, b"m").came(A, D, 5, b"n").out(A, D, 6, b"o")
    assert story.findings() == [("missing_capture", D)]
    skipping = Story().out(A, B, 0, b"m")
    skipping.skips = [LifeSpan(B, BEGIN, BEGIN + SECOND)]
    (finding,) = skipping.flows()["findings"].to_pylist()[0]
    assert (finding["kind"], finding["node"], finding["detail"]) == ("missing_capture", B, "skipped sightings")


def test_node_that_was_killed_with_sightings_unwritten_is_named() -> None:
    story = Story().out(A, B, 10_000, b"m").killed(B, at=9_900, back=20_000)
    (finding,) = story.flows()["findings"].to_pylist()[0]
    named = finding["kind"], finding["node"], finding["detail"]
    assert named == ("missing_capture", B, "ended with sightings unwritten")


def test_node_that_had_just_begun_to_capture_skipped_nothing() -> None:
    story = Story(B).came(B, A, 1_000, b"m")
    story.spans.append(LifeSpan(A, BEGIN, BEGIN + 300 * SECOND))
    (finding,) = story.flows()["findings"].to_pylist()[0]
    named = finding["kind"], finding["node"], finding["detail"]
    assert named == ("missing_capture", A, "had just begun to capture")


def test_answer_that_died_where_it_was_made_did_not_leave() -> None:
    asked = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=10_000_000))
    assert asked.dead(B, 1200, b"r", "expired", **answering()).findings() == []


def test_reused_key() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, A, 2, 3, b"r", **answering())
    story.hop(A, C, 10, 11, b"q2", **asking()).hop(C, A, 12, 13, b"r2", **answering())
    assert story.findings() == [("key_reused", A)]


@pytest.mark.parametrize("trace", [0, 1])
def test_broadcast_of_the_original_inflates_hops_and_routing_and_is_not_odd(trace: int) -> None:
    story = Story(A, B, C, b"E")
    for number, peer in enumerate((B, C, b"E"), start=1):
        more: dict[str, Any] = {"hops": number, "route_count": number, "route_node": A, "trace_options": trace}
        story.hop(A, peer, number, number + 1, b"m", distribution=1, **more)
    assert story.findings() == []


def test_reply_of_the_original_copies_the_routing_and_restarts_the_hops_and_is_not_odd() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(trace_options=1, route_count=1, route_node=A))
    story.hop(B, A, 2, 3, b"r", **answering(trace_options=1, route_count=2, route_node=B, hops=1))
    assert story.findings() == []


def test_receipt_that_the_original_removes_is_not_odd() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(A, 1, b"orders.placed", b"KINO.RCPTCONFIRM", b"KINO.EXCEPTION"))
    story.hop(B, A, 2, 3, b"e", **answering(identity=b"KINO.RCPTCONFIRM"))
    story.hop(B, C, 2, 3, b"q", **asking(A, 1, b"orders.placed", b"KINO.EXCEPTION", hops=2))
    story.hop(C, A, 4, 5, b"r", **answering())
    assert story.findings() == []
    assert story.requests()["outcome"].to_pylist() == ["answered"]


def test_lost_hop_is_a_finding_though_its_flow_is_answered() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).out(B, C, 2, b"mail").hop(B, A, 3, 4, b"r", **answering())
    assert story.flows()["outcome"].to_pylist() == ["answered"]
    assert story.findings() == [("hop_lost", B)]


def test_asker_that_was_told_otherwise_than_messages_tell_is_a_finding() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, A, 3, 4, b"r", **answering())
    story.told(A, 1000, "Timeout", "timed_out: no answer to orders.place v1 in 1 s", **asking())
    assert story.findings() == [("told_otherwise", A)]
    (finding,) = story.flows()["findings"].to_pylist()[0]
    assert finding["detail"] == "told Timeout, the messages say answered"


def test_findings_of_a_kind_come_in_the_order_of_time_however_hops_come() -> None:
    stories = [Story(seconds=9), Story(seconds=9)]
    nodes = [(b"A", b"X", 0), (b"A", b"Z", 1), (b"A", b"Y", 2)]
    for story, ways in zip(stories, (nodes, nodes[::-1]), strict=True):
        for one, other, at in ways:
            story.out(one, other, at, b"beat")
    found = [[each["node"] for each in story.flows().to_pylist()[0]["findings"]] for story in stories]
    assert found == [[b"X", b"Z", b"Y"]] * 2
