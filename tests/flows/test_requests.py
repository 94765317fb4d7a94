"""Hops in, requests out: one story for each outcome."""

from __future__ import annotations

from typing import Any

import pytest

from hopwire.flows.coverage import LifeSpan
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import REQUEST_SCHEMA
from tests.flows.story import BEGIN, MS, SECOND, Story, answering, asking, points, telling

A, B, C, D = b"A", b"B", b"C", b"dark"
SECOND_OF_TTL = 10_000_000  # ticks
END = 300_000  # milliseconds that a story lasts


def judged(story: Story) -> dict[str, Any]:
    (request,) = story.requests().to_pylist()
    return dict(request)


def asked(ttl_ticks: int = SECOND_OF_TTL, at: float = 0, **more: Any) -> Story:
    return Story().hop(A, B, at, at + 1, b"q", **asking(ttl_ticks=ttl_ticks, **more))


def test_answer_in_time_is_answered() -> None:
    request = judged(asked().hop(B, A, 2, 5, b"r", **answering()))
    assert (request["outcome"], request["latency_us"], request["reason"]) == ("answered", 5000, "")
    assert (request["asked_at_ns"], request["deadline_ns"]) == (BEGIN, BEGIN + 1000 * MS)
    assert (request["identity"], request["answer_identity"]) == (b"orders.place", b"orders.placed")
    assert (request["callback_receiver_node_identity"], request["callback_key"], request["hop_count"]) == (A, 1, 2)
    assert (request["last_seen_node"], request["lost_from_node"]) == (A, None)


def test_answer_may_come_over_other_actors_and_other_nodes() -> None:
    story = asked().hop(B, C, 2, 3, b"o", **asking(identity=b"onward"))
    story.hop(C, B, 4, 5, b"r", **answering()).hop(B, A, 6, 7, b"r", **answering(hops=2))
    assert (judged(story)["outcome"], judged(story)["latency_us"]) == ("answered", 7000)


def test_answer_on_the_way_is_not_at_home() -> None:
    story = asked().hop(B, C, 2, 3, b"r", **answering()).out(C, A, 4, b"r", **answering())
    assert judged(story)["outcome"] == "lost"


def test_answer_that_home_did_not_give_up_was_taken_however_late() -> None:
    request = judged(asked().hop(B, A, 2, 1001, b"r", **answering()))
    assert (request["outcome"], request["latency_us"]) == ("answered", 1_001_000)
    failure = judged(asked().hop(B, A, 2, 1001, b"e", **telling("failed", "ValueError")))
    assert (failure["outcome"], failure["reason"]) == ("failed", "ValueError")


def test_answer_after_the_deadline_is_late_where_home_may_have_given_it_up_unseen() -> None:
    def outcome(story: Story) -> str:
        return str(judged(story.hop(B, A, 2, 1001, b"r", **answering()))["outcome"])

    skipping, overheard = asked(), asked()
    skipping.skips = [LifeSpan(A, BEGIN + 1030 * MS, BEGIN + 3 * SECOND)]
    overheard.spans[0] = LifeSpan(*overheard.spans[0][:3], 1, "overheard")
    assert outcome(skipping) == "late"
    assert outcome(overheard) == "late"
    assert outcome(asked().killed(A, at=1040, back=20_000)) == "late"
    assert outcome(asked().killed(A, at=1040, back=20_000, ending="closed")) == "answered"
    dark = Story().came(B, D, 1, b"q", **asking(D, ttl_ticks=SECOND_OF_TTL)).out(B, D, 1200, b"r", **answering(D))
    assert judged(dark)["outcome"] == "late"


@pytest.mark.parametrize(("killed_at", "is_guessed"), [(1052, True), (1400, True), (1502, False)])
def test_answer_after_the_deadline_was_taken_where_home_wrote_on_and_did_not_give_it_up(
    killed_at: int, is_guessed: bool
) -> None:
    story = asked().hop(B, A, 2, 1001, b"r", **answering()).killed(A, at=killed_at, back=20_000)
    request = judged(story)
    assert (request["outcome"], request["is_outcome_guessed"]) == ("answered", is_guessed)


@pytest.mark.parametrize(("told", "outcome"), [("no_route", "failed"), ("queue_full", "expired"), ("", "expired")])
def test_word_after_the_deadline_was_taken_if_its_reason_is_what_the_asker_was_told(told: str, outcome: str) -> None:
    word = telling("undelivered", "no_route")
    story = asked().hop(B, A, 2, 1001, b"e", **word)
    if told:
        story.told(A, 1002, "NoRoute", told, **asking(ttl_ticks=SECOND_OF_TTL))
    assert judged(story.killed(A, at=1003, back=20_000))["outcome"] == outcome


def test_handler_that_failed_has_lost_nothing_while_its_word_may_still_come() -> None:
    story = asked().dead(B, 1, b"q", "handler_failed", **asking(ttl_ticks=SECOND_OF_TTL))
    story.out(B, A, 2, b"e", **telling("failed", "ValueError"))
    assert judged(story)["outcome"] == "lost"  # the word got lost
    story.spans[0] = story.spans[0]._replace(last_ns=BEGIN + MS)
    assert judged(story)["outcome"] == "open"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (telling("failed", "ValueError"), "ValueError"),
        (telling("undelivered", "no_route"), "no_route"),
        (answering(identity=b"KINO.EXCEPTION", outcome_kind="failed", outcome_reason="Broken"), "Broken"),
    ],
)
def test_exception_or_outcome_in_time_is_failed(fields: dict[str, Any], reason: str) -> None:
    request = judged(asked().hop(B, A, 2, 3, b"e", **fields))
    assert (request["outcome"], request["reason"]) == ("failed", reason)


def test_outcome_or_dead_letter_or_late_arrival_is_expired() -> None:
    assert judged(asked().hop(B, A, 2, 3, b"e", **telling("undelivered", "expired")))["outcome"] == "expired"
    assert judged(asked().dead(B, 1200, b"q", "expired", **asking()))["outcome"] == "expired"
    late = Story().hop(A, B, 0, 1500, b"q", **asking(ttl_ticks=SECOND_OF_TTL))
    assert judged(late)["outcome"] == "expired"


def test_lost_hop_is_lost_and_says_where() -> None:
    request = judged(asked().hop(B, C, 2, 3, b"o", **asking(identity=b"onward")).out(C, A, 4, b"r", **answering()))
    assert (request["outcome"], request["reason"]) == ("lost", "hop_lost")
    assert (request["lost_from_node"], request["lost_to_node"], request["last_seen_node"]) == (C, A, C)
    assert request["is_callback_unreached"]


def test_dead_letter_is_lost_and_says_where() -> None:
    request = judged(asked().dead(B, 2, b"q", "bad_signature", **asking()))
    assert (request["outcome"], request["reason"]) == ("lost", "bad_signature")
    assert (request["lost_from_node"], request["lost_to_node"]) == (B, None)


def test_request_that_found_no_way_at_home_is_lost_there() -> None:
    request = judged(Story().dead(A, 2, b"q", "no_route", **asking()))
    assert (request["outcome"], request["reason"], request["lost_from_node"]) == ("lost", "no_route", A)


def test_silence_is_lost_and_says_where_it_was_last_seen() -> None:
    request = judged(asked())
    assert (request["outcome"], request["reason"], request["lost_from_node"]) == ("lost", "no_answer", B)
    assert request["is_unhandled"]


def test_silence_behind_a_hop_that_nobody_saw_arrive_names_that_hop() -> None:
    story = asked().out(B, C, 10_100, b"o", **asking(identity=b"onward")).killed(C, at=10_000, back=20_000)
    request = judged(story)
    assert (request["outcome"], request["reason"]) == ("lost", "no_answer")
    assert (request["lost_from_node"], request["lost_to_node"]) == (B, C)


def test_silence_near_the_end_is_open() -> None:
    assert judged(asked(at=END - 6_000))["outcome"] == "open"
    assert judged(asked(at=END - 6_001))["outcome"] == "lost"
    assert judged(asked(0, at=END - 60_000))["outcome"] == "open"
    assert judged(asked(0, at=END - 60_001))["outcome"] == "lost"


def test_receipt_answers_only_who_awaits_nothing_else() -> None:
    receipt = telling("received")
    waiting = Story().hop(A, B, 0, 1, b"q", **asking(A, 1, b"hopwire.receipt")).hop(B, A, 2, 3, b"e", **receipt)
    assert (judged(waiting)["outcome"], judged(waiting)["awaits"]) == ("answered", "receipt")
    more = Story().hop(A, B, 0, 1, b"q", **asking(A, 1, b"x", b"hopwire.receipt")).hop(B, A, 2, 3, b"e", **receipt)
    assert judged(more)["outcome"] == "lost"


def test_receipt_of_the_original_is_removed_on_the_way_and_answers() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(A, 1, b"KINO.RCPTCONFIRM", b"KINO.EXCEPTION"))
    story.hop(B, C, 2, 3, b"q", **asking(A, 1, b"KINO.EXCEPTION", hops=2))
    story.hop(B, A, 2, 4, b"e", **answering(identity=b"KINO.RCPTCONFIRM"))
    assert (judged(story)["outcome"], judged(story)["awaits"]) == ("answered", "receipt")


def test_who_awaits_nothing_asks_nothing() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(A, 1, b"KINO.EXCEPTION"))
    assert len(story.requests()) == 0
    assert len(Story().hop(A, B, 0, 1, b"m").requests()) == 0
    assert Story().requests().schema == REQUEST_SCHEMA


def test_refused_answer_is_none() -> None:
    refused = asked().hop(B, A, 2, 3, b"r", **answering()).dead(A, 4, b"r", "bad_signature", **answering())
    assert (judged(refused)["outcome"], judged(refused)["reason"]) == ("lost", "bad_signature")
    assert judged(asked().hop(B, A, 2, 3, b"r", verdict="invalid", **answering()))["outcome"] == "lost"


@pytest.mark.parametrize("arrived", [3, 1200])
def test_answer_that_nobody_waited_for_any_more_is_late(arrived: float) -> None:
    story = asked().hop(B, A, 2, arrived, b"r", **answering())
    story.dead(A, arrived, b"r", "nobody_waits", **answering())
    assert (judged(story)["outcome"], judged(story)["latency_us"]) == ("late", arrived * 1000)


@pytest.mark.parametrize("reason", ["nobody_waits", "closed", "some_new_reason"])
def test_failure_that_home_gave_up_is_none(reason: str) -> None:
    told = telling("failed", "ValueError")
    story = asked().hop(B, A, 2, 3, b"e", **told).dead(A, 3, b"e", reason, **told)
    assert judged(story)["outcome"] == "lost"


def test_second_copy_that_nobody_waits_for_takes_nothing_from_the_first() -> None:
    story = asked().hop(B, A, 2, 3, b"r", **answering()).came(A, B, 5, b"r", **answering())
    story.dead(A, 5, b"r", "nobody_waits", **answering())
    assert (judged(story)["outcome"], judged(story)["latency_us"]) == ("answered", 3000)


def test_answer_that_died_on_its_own_node_is_expired_and_was_not_sent() -> None:
    request = judged(asked().dead(B, 1200, b"r", "expired", **answering()))
    assert (request["outcome"], request["is_callback_unreached"]) == ("expired", False)


def test_answer_to_a_node_that_was_killed_then_is_not_lost() -> None:
    story = asked().out(B, A, 10_100, b"r", **answering()).killed(A, at=10_000, back=20_000)
    assert judged(story)["outcome"] == "late"  # by its time to live: nobody knows more
    assert judged(asked(0).out(B, A, 10_100, b"r", **answering()).killed(A, 10_000, 20_000))["outcome"] == "answered"


def test_answer_of_somebody_else_is_none() -> None:
    assert judged(asked().came(A, C, 3, b"r", **answering()))["outcome"] == "lost"


def test_node_without_capture_answers_and_asks() -> None:
    answers = Story().out(A, D, 0, b"q", **asking()).came(A, D, 5, b"r", **answering())
    assert (judged(answers)["outcome"], judged(answers)["latency_us"]) == ("answered", 5000)
    asks = Story().came(B, D, 1, b"q", **asking(D)).out(B, D, 3, b"r", **answering(D))
    assert (judged(asks)["outcome"], judged(asks)["latency_us"]) == ("answered", 2000)


def test_old_formats_have_neither_key_nor_node_and_the_home_is_who_asked() -> None:
    old = {"callback_key": 0, "callback_receiver_node_identity": b"", "version": None, "version_raw": b"1.0"}
    point = [{"identity": b"orders.placed", "version": None, "version_raw": b"1.0", "partition": b""}]
    story = Story().hop(A, B, 0, 1, b"q", **{**asking(), **old, "callback_points": point})
    story.hop(B, C, 2, 3, b"o", **{**asking(identity=b"onward"), **old, "callback_points": point})
    story.hop(C, A, 4, 5, b"r", **{**answering(), **old, "callback_points": point, "receiver_node_identity": b""})
    request = judged(story)
    assert (request["outcome"], request["home_node"], request["callback_receiver_node_identity"]) == (
        "answered",
        A,
        b"",
    )


def test_lost_attempt_that_is_sent_again_is_answered() -> None:
    story = Story().out(A, B, 0, b"q", **asking()).hop(A, C, 100, 101, b"q", attempt=1, **asking())
    request = judged(story.hop(C, A, 102, 103, b"r", **answering()))
    assert (request["outcome"], request["attempts"], request["is_reused"]) == ("answered", 2, False)


def test_reused_key_is_judged_by_the_first_question() -> None:
    story = asked().hop(B, A, 2, 3, b"r", **answering()).hop(A, C, 10, 11, b"q2", **asking())
    assert (judged(story)["outcome"], judged(story)["is_reused"]) == ("answered", True)
    assert judged(story)["message_key"] == b"q"


def test_what_is_said_onward_at_home_is_not_another_question() -> None:
    story = asked().hop(B, A, 2, 3, b"o", **asking(identity=b"onward")).hop(A, C, 4, 5, b"q3", **asking())
    assert not judged(story)["is_reused"]


def test_damaged_copy_of_a_question_is_not_another_question() -> None:
    story = Story().out(A, B, 0, b"q", **asking()).came(B, A, 1, b"damaged", **asking())
    assert (judged(story)["outcome"], judged(story)["is_reused"]) == ("lost", False)


def test_different_keys_are_different_requests() -> None:
    story = asked().hop(B, A, 2, 3, b"r", **answering()).hop(A, B, 10, 11, b"q2", **asking(A, 2))
    outcomes = {request["callback_key"]: request["outcome"] for request in story.requests().to_pylist()}
    assert outcomes == {1: "answered", 2: "lost"}


def test_time_to_live_without_end_does_not_overflow() -> None:
    assert judged(asked(2**63 - 1))["outcome"] == "open"
    assert judged(asked(-5).hop(B, A, 2, 3, b"r", **answering()))["outcome"] == "answered"


def test_patience_is_a_rule() -> None:
    story = asked(at=END - 3_000)
    (request,) = story.requests(Rules(patience_ns=1000 * MS)).to_pylist()
    assert request["outcome"] == "lost"


def test_replayed_copy_of_an_answer_that_is_refused_takes_nothing_away() -> None:
    signed = {"signature": b"mac", "verdict": "valid"}
    story = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, A, 2, 3, b"r", **answering(), **signed)
    story.came(A, B, 9000, b"r", **answering(), **signed)
    story.dead(A, 9001, b"r", "bad_signature", **answering(), **signed)
    (request,) = story.requests().to_pylist()
    assert (request["outcome"], request["latency_us"]) == ("answered", 3000)


def test_first_question_is_judged_though_it_was_not_seen_to_leave() -> None:
    story = Story().dead(A, 0, b"q1", "no_route", **asking()).hop(A, B, 10_000, 10_001, b"q2", **asking())
    (request,) = story.requests().to_pylist()
    assert (request["message_key"], request["reason"], request["is_reused"]) == (b"q1", "no_route", True)


def test_attempts_are_those_of_the_question() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).out(B, C, 2, b"o", **asking(identity=b"onward"))
    story.hop(B, C, 500, 501, b"o", attempt=1, **asking(identity=b"onward"))
    (request,) = story.requests().to_pylist()
    assert request["attempts"] == 1


def test_answer_that_nobody_could_see_is_not_called_lost() -> None:
    def outcome(*blind: bytes) -> str:
        story = Story().hop(A, B, 0, 1, b"q", ttl_ticks=10_000_000, **asking())
        story.skips = [LifeSpan(node, BEGIN + SECOND, BEGIN + 2 * SECOND) for node in blind]
        (request,) = story.requests().to_pylist()
        return str(request["outcome"])

    assert (outcome(), outcome(A), outcome(B), outcome(A, B)) == ("lost", "lost", "lost", "open")


@pytest.mark.parametrize(("killed", "skipping"), [(A, B), (B, A)])
def test_answer_is_not_called_lost_if_one_end_was_killed_and_the_other_skipped_sightings(
    killed: bytes, skipping: bytes
) -> None:
    story = Story().hop(A, B, 0, 1, b"q", ttl_ticks=10_000_000, **asking()).killed(killed, 100, 5000)
    assert judged(story)["outcome"] == "lost"
    story.skips = [LifeSpan(skipping, BEGIN + SECOND // 10, BEGIN + 2 * SECOND)]
    assert judged(story)["outcome"] == "open"


def test_answer_is_called_lost_if_its_ends_were_blind_at_times_too_far_apart() -> None:
    story = Story().hop(A, B, 0, 1, b"q", ttl_ticks=20 * SECOND_OF_TTL, **asking()).killed(B, 100, 5000)
    story.skips = [LifeSpan(A, BEGIN + 6 * SECOND, BEGIN + 8 * SECOND)]
    assert judged(story)["outcome"] == "open"  # B may have sent its answer until 2.1 s, and it takes 5 s at most
    story.skips = [LifeSpan(A, BEGIN + 8 * SECOND, BEGIN + 9 * SECOND)]
    assert judged(story)["outcome"] == "lost"


def test_answer_does_not_leave_before_its_question() -> None:
    story = Story().hop(A, B, 0, 1, b"q", ttl_ticks=SECOND_OF_TTL, **asking())
    story.skips = [
        LifeSpan(B, BEGIN - 4 * SECOND, BEGIN - 2 * SECOND),
        LifeSpan(A, BEGIN + SECOND // 10, BEGIN + SECOND),
    ]
    assert judged(story)["outcome"] == "lost"


def test_dead_letter_of_a_copy_does_not_make_its_node_blind() -> None:
    story = Story().hop(A, B, 0, 1, b"q", ttl_ticks=SECOND_OF_TTL, **asking())
    story.dead(B, 2, b"q", "duplicate", ttl_ticks=SECOND_OF_TTL, **asking())
    story.skips = [LifeSpan(A, BEGIN + SECOND // 10, BEGIN + SECOND)]
    assert judged(story)["outcome"] == "lost"


def test_what_home_would_have_answered_itself_is_not_called_lost() -> None:
    story = Story().hop(A, B, 0, 1, b"q", ttl_ticks=SECOND_OF_TTL, **asking())
    story.hop(B, A, 2, 3, b"on", ttl_ticks=SECOND_OF_TTL, **asking(identity=b"onward"))
    assert judged(story)["outcome"] == "open"


def streamed(*numbers: int, ttl_ticks: int = SECOND_OF_TTL) -> Story:
    """A question that awaits a stream, and equal parts that come home, each with an id of its own."""
    wanted = asking(A, 1, b"orders.placed", b"hopwire.stream", ttl_ticks=ttl_ticks)
    story = Story().hop(A, B, 0, 1, b"q", **wanted)
    for number in numbers:
        story.hop(B, A, number, number + 1, b"part %d" % number, **answering(message_id=b"part %d" % number))
    return story


def test_stream_is_answered_by_its_end() -> None:
    request = judged(streamed(2, 3, 4).hop(B, A, 5, 6, b"e", **telling("ended")))
    assert (request["outcome"], request["awaits"], request["latency_us"]) == ("answered", "stream", 6000)
    empty = judged(streamed().hop(B, A, 5, 6, b"e", **telling("ended")))
    assert (empty["outcome"], empty["latency_us"]) == ("answered", 6000)


def test_stream_that_breaks_off_is_not_answered_by_its_parts() -> None:
    failed = judged(streamed(2, 3).hop(B, A, 5, 6, b"e", **telling("failed", "ValueError")))
    assert (failed["outcome"], failed["reason"]) == ("failed", "ValueError")
    silent = judged(streamed(2, 3))
    assert (silent["outcome"], silent["reason"]) == ("lost", "no_answer")
    assert not silent["is_callback_unreached"]


def test_stream_of_which_home_has_enough_is_answered_then() -> None:
    word = asking(identity=b"hopwire.enough", callback_points=[], receiver_identity=b"\0hopwire.feeds")
    story = streamed(2, 3).hop(A, B, 4, 5, b"w", **word)
    story.dead(A, 7, b"part 6", "nobody_waits", **answering(message_id=b"part 6"))
    request = judged(story)
    assert (request["outcome"], request["latency_us"]) == ("answered", 4000)
    by_another = judged(streamed(2, 3).hop(C, B, 4, 5, b"w", **word))
    assert by_another["outcome"] == "lost"


def test_parts_of_a_stream_are_not_odd() -> None:
    story = streamed(2, 3, 4).hop(B, A, 5, 6, b"e", **telling("ended"))
    (flow,) = story.flows().to_pylist()
    assert (flow["outcome"], flow["findings"]) == ("answered", [])


# -- what askers were told

TTL = 10_000_000  # a second


def test_request_has_what_its_asker_was_told_beside_its_outcome() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL))
    story.told(A, 1010, "Timeout", "timed_out: no answer to orders.place v1 in 1 s", **asking(ttl_ticks=TTL))
    (row,) = story.requests().to_pylist()
    assert (row["outcome"], row["told"], row["told_reason"]) == ("lost", "Timeout", "timed_out")
    assert row["told_at_ns"] == BEGIN + 1010 * MS
    assert not row["is_told_otherwise"]
    assert (row["hop_count"], row["last_seen_node"]) == (1, B)  # what was told is no message


CONTRADICTIONS = (
    #  told             what came home                   contradicts
    ("Timeout",         answering(),                     True),
    ("Cancelled",       answering(),                     True),
    ("answered",        answering(),                     False),
    ("HandlerFailed",   telling("failed", "ValueError"), False),
    ("Unreachable",     telling("undelivered", "closed"), False),
    ("Timeout",         telling("failed", "ValueError"), True),
    ("answered",        telling("failed", "ValueError"), False),
)  # fmt: skip


@pytest.mark.parametrize(("word", "reply", "is_contradicted"), CONTRADICTIONS)
def test_outcome_and_what_was_told_may_contradict(word: str, reply: dict[str, Any], is_contradicted: bool) -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, A, 2, 3, b"r", **reply).told(A, 9, word, **asking())
    assert story.requests()["is_told_otherwise"].to_pylist() == [is_contradicted]


@pytest.mark.parametrize(("word", "outcome"), [("NoRoute", "lost"), ("HandlerFailed", "failed")])
def test_request_of_which_only_its_end_was_seen_is_what_its_asker_was_told(word: str, outcome: str) -> None:
    told = f"{word.lower()}: words"
    (row,) = Story().told(A, 10, word, told, **asking(ttl_ticks=TTL)).requests().to_pylist()
    assert (row["outcome"], row["told"], row["attempts"], row["hop_count"]) == (outcome, word, 0, 0)


def test_request_that_was_given_up_is_lost_though_an_answer_could_have_come_unseen() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).killed(B, 100, 9000)
    story.skips.append(LifeSpan(A, BEGIN + 200 * MS, BEGIN + 400 * MS))
    assert story.requests()["outcome"].to_pylist() == ["open"]
    story.told(A, 1010, "Timeout", "timed_out: no answer", **asking(ttl_ticks=TTL))
    assert story.requests()["outcome"].to_pylist() == ["lost"]


def test_request_is_open_until_the_patience_of_the_lake_is_over() -> None:
    def until(rules: Rules, **more: Any) -> int | None:
        (row,) = Story(seconds=1).hop(A, B, 0, 1, b"q", **asking(**more)).requests(rules).to_pylist()
        assert row["outcome"] == "open"
        return None if row["open_until_ns"] is None else row["open_until_ns"] - BEGIN

    hasty = Rules(patience_ns=2 * SECOND, patience_without_ttl_ns=9 * SECOND)
    assert [until(rules, ttl_ticks=TTL) for rules in (Rules(), hasty)] == [6 * SECOND, 3 * SECOND]
    assert [until(rules) for rules in (Rules(), hasty)] == [60 * SECOND, 9 * SECOND]
    (row,) = Story().hop(A, B, 0, 1, b"q", **asking()).requests().to_pylist()
    assert (row["outcome"], row["open_until_ns"]) == ("lost", None)


def two_copies(came_to_b: float = 100) -> Story:
    """A asks B, then C; C writes nothing, A is killed, and what B answers comes nowhere."""
    question = asking(ttl_ticks=TTL)
    story = Story().hop(A, B, 0, came_to_b, b"q", **question).out(A, C, 300, b"q", attempt=1, **question)
    story.skips.append(LifeSpan(C, BEGIN - 500 * MS, BEGIN + 900 * MS))
    return story.dead(B, 1500, b"r", "unreachable", **answering()).killed(A, 310, 9000)


@pytest.mark.parametrize("came_to_b", [100, 1400])  # after the deadline it would be expired
def test_request_is_open_where_the_holder_of_another_copy_may_have_answered_unseen(came_to_b: float) -> None:
    assert two_copies(came_to_b).requests()["outcome"].to_pylist() == ["open"]


@pytest.mark.parametrize("word", ["receipt", "duplicate"])
def test_holder_that_only_said_that_it_has_the_question_may_have_answered_unseen(word: str) -> None:
    question = asking(ttl_ticks=TTL)
    story = Story().hop(A, B, 0, 1400, b"q", **question).hop(A, C, 300, 301, b"q", attempt=1, **question)
    story.skips.append(LifeSpan(C, BEGIN + 320 * MS, BEGIN + 900 * MS))
    story.killed(A, 330, 9000)
    assert story.requests()["outcome"].to_pylist() == ["open"]
    if word == "receipt":
        story.hop(C, A, 302, 303, b"c", **telling("received"))
    else:
        story.dead(C, 302, b"q", "duplicate", **question)
    assert story.requests()["outcome"].to_pylist() == ["open"]


def test_request_is_lost_if_the_holder_of_another_copy_would_have_been_seen_to_answer() -> None:
    story = two_copies()
    story.skips.clear()
    assert story.came(C, A, 301, b"q", attempt=1, **asking(ttl_ticks=TTL)).requests()["outcome"].to_pylist() == ["lost"]
    assert two_copies().dead(C, 302, b"q", "no_route", **asking()).requests()["outcome"].to_pylist() == ["lost"]
    story = two_copies().told(A, 305, "Timeout", "timed_out: no answer", **asking(ttl_ticks=TTL))
    assert story.requests()["outcome"].to_pylist() == ["lost"]


def test_reply_that_nobody_saw_come_was_not_taken_by_an_asker_that_gave_up() -> None:
    asked, reply = asking(ttl_ticks=TTL), telling("received")
    asked["callback_points"] = points(b"hopwire.receipt")
    story = Story().hop(A, B, 0, 1, b"q", **asked).out(B, A, 50, b"r", **reply).killed(A, 60, 9000)
    (row,) = story.requests().to_pylist()
    assert (row["outcome"], row["is_outcome_guessed"]) == ("answered", True)
    (row,) = story.told(A, 40, "Unreachable", "node_lost: B is gone", **asked).requests().to_pylist()
    assert (row["outcome"], row["told"], row["is_told_otherwise"]) == ("late", "Unreachable", False)


def test_answer_that_home_was_seen_to_take_is_no_guess() -> None:
    (row,) = Story().hop(A, B, 0, 1, b"q", **asking()).hop(B, A, 2, 3, b"r", **answering()).requests().to_pylist()
    assert (row["outcome"], row["is_outcome_guessed"]) == ("answered", False)


@pytest.mark.parametrize("named", [b"", A])
def test_reply_of_an_old_format_belongs_to_its_question_whether_it_names_a_node_or_not(named: bytes) -> None:
    old = {"wire_format": 4, "callback_key": 0, "callback_receiver_node_identity": b""}
    story = Story().hop(A, B, 0, 1, b"q", **asking() | old)
    story.hop(B, A, 2, 3, b"r", **answering() | old | {"receiver_node_identity": named})
    assert story.requests()["outcome"].to_pylist() == ["answered"]


def test_who_insists_goes_on_when_a_question_was_not_delivered() -> None:
    insisted = asking(A, 1, b"orders.placed", b"hopwire.receipt", message_id=b"id", ttl_ticks=TTL)
    story = Story().hop(A, B, 0, 1, b"q", **insisted).hop(B, A, 2, 3, b"u", **telling("undelivered", "queue_full"))
    (row,) = story.requests().to_pylist()
    assert (row["outcome"], row["is_insisted"]) == ("lost", True)
    for_good = Story().hop(A, B, 0, 1, b"q", **insisted).hop(B, A, 2, 3, b"u", **telling("undelivered", "cannot_sign"))
    assert for_good.requests()["outcome"].to_pylist() == ["failed"]


# -- what stays within a node


def test_question_that_stays_within_its_node_is_answered_there() -> None:
    story = Story().local(A, 0, b"q", **asking()).local(A, 5, b"r", **answering())
    (row,) = story.requests().to_pylist()
    assert (row["outcome"], row["latency_us"], row["home_node"]) == ("answered", 5000, A)


def test_question_that_stays_within_its_node_and_has_no_answer_is_lost() -> None:
    story = Story().local(A, 0, b"q", **asking(ttl_ticks=TTL))
    assert story.requests()["outcome"].to_pylist() == ["lost"]
    unseen = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, A, 2, 3, b"on", **asking(ttl_ticks=TTL))
    assert unseen.requests()["outcome"].to_pylist() == ["open"]  # home does not write down what it says to itself


# -- where a request was lost


def test_request_is_lost_at_the_node_that_had_it_and_ended() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, C, 200, 201, b"note", **asking())
    story.killed(B, 500, 9000, "closed")
    (row,) = story.requests().to_pylist()
    assert (row["outcome"], row["lost_from_node"], row["is_holder_gone"]) == ("lost", B, True)


def test_request_that_was_sent_to_another_node_is_not_lost_at_the_first() -> None:
    first, second = asking(message_id=b"q"), asking(message_id=b"q", attempt=1)
    story = Story().hop(A, B, 0, 1, b"q", **first).hop(A, C, 600, 601, b"q", **second).killed(B, 500, 9000, "closed")
    (row,) = story.requests().to_pylist()
    assert (row["outcome"], row["lost_from_node"], row["is_holder_gone"]) == ("lost", C, False)


# -- where home may have given a reply up unseen


def insisting(**more: Any) -> dict[str, Any]:
    """The fields of a question that is sent until it is answered."""
    return asking(A, 1, b"orders.placed", b"hopwire.receipt", message_id=b"q", ttl_ticks=TTL, **more)


def test_answer_is_late_where_a_word_that_ends_the_promise_came_home_before_it() -> None:
    def outcome(word_at: float) -> str:
        story = Story().hop(A, B, 0, 1, b"q", **insisting()).out(B, A, 50, b"r", **answering())
        story.out(B, A, word_at, b"e", **telling("undelivered", "expired"))
        return str(judged(story.killed(A, 40, 9000))["outcome"])

    assert (outcome(45), outcome(55)) == ("late", "answered")


def test_answer_that_home_was_seen_to_take_is_answered_whatever_came_before_it() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, A, 2, 3, b"e", **telling("failed", "Odd"))
    assert judged(story.hop(B, A, 4, 5, b"r", **answering()))["outcome"] == "answered"


@pytest.mark.parametrize("word", ["Expired", "HandlerFailed", "Unreachable"])
def test_any_error_that_the_asker_was_told_refutes_an_answer_that_may_have_been_given_up_unseen(word: str) -> None:
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, A, 2, 30, b"r", **answering())
    story.killed(A, 40, 9000)
    assert judged(story)["outcome"] == "answered"
    story.told(A, 20, word, "words", **asking(ttl_ticks=TTL))
    assert (judged(story)["outcome"], judged(story)["is_told_otherwise"]) == ("late", False)


@pytest.mark.parametrize(("word", "outcome"), [(None, "expired"), ("HandlerFailed", "failed"), ("Timeout", "expired")])
def test_word_after_the_deadline_was_taken_if_the_asker_was_told_so(word: str | None, outcome: str) -> None:
    failure = telling("failed", "ValueError")
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, A, 2, 1010, b"e", **failure)
    story.killed(A, 1020, 9000)
    if word:
        story.told(A, 1011, word, "words", **asking(ttl_ticks=TTL))
    assert judged(story)["outcome"] == outcome


def test_failure_in_time_was_not_taken_by_an_asker_that_gave_up_where_home_may_have_written_nothing() -> None:
    failure = telling("failed", "ValueError")
    story = Story().hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, A, 2, 900, b"e", **failure)
    assert judged(story.killed(A, 1300, 9000))["outcome"] == "failed"
    story.told(A, 100, "Cancelled", "cancelled", **asking(ttl_ticks=TTL))
    assert judged(story)["outcome"] != "failed"


@pytest.mark.parametrize(("attempts", "outcome"), [(1, "failed"), (2, "lost")])
def test_who_insists_and_asked_once_fails_by_an_answer_that_nobody_takes(attempts: int, outcome: str) -> None:
    story = Story()
    for number in range(attempts):
        story.hop(A, B, number, number + 0.5, b"q", attempt=number, **insisting())
    story.dead(B, 3, b"o", "no_route", **asking(identity=b"orders.odd", ttl_ticks=TTL))
    story.hop(B, A, 4, 5, b"e", **telling("undelivered", "no_route"))
    assert judged(story)["outcome"] == outcome


def test_who_insists_fails_by_an_answer_that_nobody_takes_if_told_so() -> None:
    story = Story().hop(A, B, 0, 1, b"q", **insisting())
    story.hop(B, A, 4, 5, b"e", **telling("undelivered", "no_route"))
    assert judged(story)["outcome"] == "lost"
    story.told(A, 6, "UnexpectedAnswer", "unexpected_answer: words", **insisting())
    assert judged(story)["outcome"] == "failed"


def test_copy_of_an_answer_that_nobody_waited_for_was_not_taken_either() -> None:
    story = (
        asked().hop(B, A, 2, 3, b"r", **answering(message_id=b"r")).came(A, B, 3.5, b"r", **answering(message_id=b"r"))
    )
    story.dead(A, 3, b"r", "nobody_waits", **answering(message_id=b"r"))
    story.dead(A, 3.5, b"r", "duplicate", **answering(message_id=b"r"))
    assert judged(story)["outcome"] == "late"


def test_handler_that_fails_loses_nothing_for_who_awaits_a_receipt() -> None:
    question = asking(A, 1, b"hopwire.receipt", ttl_ticks=TTL)
    story = Story(seconds=1).hop(A, B, 0, 1, b"q", **question).dead(B, 2, b"q", "handler_failed", **question)
    assert judged(story)["outcome"] == "open"


def test_answer_of_another_kind_that_home_does_not_take_loses_nothing() -> None:
    odd = answering(identity=b"orders.odd", callback_points=points(b"orders.placed", b"orders.odd"))
    story = Story(seconds=1).hop(A, B, 0, 1, b"q", **asking(ttl_ticks=TTL)).hop(B, A, 2, 3, b"x", **odd)
    assert judged(story.dead(A, 3, b"x", "unexpected_answer", **odd))["outcome"] == "open"


@pytest.mark.parametrize("told", [None, "Timeout", "Cancelled"])
def test_word_of_a_handler_at_home_that_nobody_waited_for_is_no_failure(told: str | None) -> None:
    story = Story(seconds=9).dead(A, 4, b"q", "handler_failed", **asking(ttl_ticks=TTL))
    assert judged(story)["outcome"] == "failed"
    if told:
        story.told(A, 3, told, "words", **asking(ttl_ticks=TTL))
    else:
        story.dead(A, 4, b"e", "nobody_waits", **telling("failed", "ValueError"))
    assert judged(story)["outcome"] != "failed"


def test_second_word_of_handlers_at_home_does_not_undo_the_first() -> None:
    story = Story(seconds=9).dead(A, 4, b"q", "handler_failed", **asking(ttl_ticks=TTL))
    story.dead(A, 5, b"e", "nobody_waits", **telling("failed", "ValueError"))
    story.told(A, 4, "HandlerFailed", "ValueError: words", **asking(ttl_ticks=TTL))
    assert judged(story)["outcome"] == "failed"


@pytest.mark.parametrize("told", ["HandlerFailed", "UnexpectedAnswer"])
def test_word_that_only_the_asker_heard_is_a_failure(told: str) -> None:
    row = judged(Story(seconds=9).told(A, 3, told, "no_answer: words", **asking(ttl_ticks=TTL)))
    assert (row["outcome"], row["reason"], row["answer_identity"]) == ("failed", "no_answer", None)
    assert not row["is_told_otherwise"]


def test_receipt_within_a_node_was_given_if_the_message_ended_later() -> None:
    question = asking(A, 1, b"hopwire.receipt", ttl_ticks=TTL)
    failed = judged(Story(seconds=9).dead(A, 4, b"q", "handler_failed", **question))
    assert (failed["outcome"], failed["is_outcome_guessed"], failed["latency_us"]) == ("answered", True, None)
    story = Story(seconds=9).dead(A, 1001, b"q", "expired", **question)
    assert judged(story)["outcome"] == "expired"
    story.dead(A, 1002, b"e", "nobody_waits", **telling("undelivered", "expired"))
    assert judged(story)["outcome"] == "answered"
    story.told(A, 1000, "Timeout", "timed_out: words", **question)
    assert judged(story)["outcome"] == "expired"


def test_answer_that_home_made_itself_and_nobody_took_says_nothing_of_the_answer_of_another_node() -> None:
    story = Story(seconds=9).hop(A, B, 0, 1, b"q", **insisting()).hop(B, A, 2, 3, b"r", **answering())
    assert judged(story)["outcome"] == "answered"
    assert judged(story.dead(A, 4, b"r", "nobody_waits", **answering(hops=0)))["outcome"] == "answered"
    assert judged(story.dead(A, 4, b"r", "nobody_waits", **answering()))["outcome"] == "late"


def test_stream_within_a_node_was_read_if_its_time_ended_later_and_nothing_was_told() -> None:
    question = asking(A, 1, b"orders.placed", b"hopwire.stream", ttl_ticks=TTL)
    story = Story(seconds=9).dead(A, 1001, b"q", "expired", **question)
    assert (judged(story)["awaits"], judged(story)["outcome"]) == ("stream", "answered")
    assert judged(story.told(A, 1000, "Timeout", "timed_out: words", **question))["outcome"] == "expired"
