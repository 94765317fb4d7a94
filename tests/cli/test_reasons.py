"""`hopwire reasons`: every code with its meaning, who sees it and what to do."""

from __future__ import annotations

import json

import pytest

from hopwire.flows.requests import NO_ANSWER
from hopwire.model.reasons import LOSS_REASONS, REASONS
from tests.cli.running import hopwire


def test_every_reason_is_listed() -> None:
    found = hopwire("reasons", columns=200)
    assert found.code == 0
    for reason in REASONS:
        assert reason.code in found.out
        assert reason.meaning in found.out


def test_json_is_the_table_itself() -> None:
    told = [json.loads(line) for line in hopwire("reasons", "--json").out.splitlines()]
    assert told == [reason._asdict() for reason in REASONS]


def test_one_reason_is_explained_wherever_it_is_found() -> None:
    shown = hopwire("reasons", "closed", columns=200).out
    both = [reason for reason in REASONS if reason.code == "closed"]
    assert len(both) == 2
    for reason in both:
        assert f"closed, {reason.found}: {reason.meaning}" in shown
        assert f"seen by: {reason.seen_by}" in shown
        assert f"what to do: {reason.remedy}" in shown


def test_why_the_lake_calls_a_request_lost_is_explained() -> None:
    assert set(LOSS_REASONS) == {"hop_lost", NO_ANSWER}
    assert f"no_answer, in the lake: {LOSS_REASONS[NO_ANSWER]}" in hopwire("reasons", "no_answer", columns=200).out


@pytest.mark.parametrize("word", ["key_reused", "expired_never", "unwitnessed", "delivered"])
def test_word_of_the_lake_is_told_from_a_reason(word: str) -> None:
    found = hopwire("reasons", word)
    assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1)
    assert (f"{word} is no reason but a word of the lake: " in found.err) == (word != "expired_never")


def test_a_reason_that_is_none_is_one_line() -> None:
    found = hopwire("reasons", "nope")
    line = "hopwire: found the reason 'nope', expected one of those that hopwire reasons lists\n"
    assert (found.code, found.out, found.err) == (2, "", line)
    near = hopwire("reasons", "no_rout")
    assert (near.code, near.err) == (2, "hopwire: found the reason 'no_rout'; did you mean 'no_route'?\n")
