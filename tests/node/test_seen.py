from __future__ import annotations

from hopwire.model import Message
from hopwire.node.seen import ANSWER_BYTES, SeenMessages


def answer(size_bytes: int) -> Message:
    return Message(b"answer", 1, body_frames=(bytes(size_bytes),))


def test_the_oldest_ids_are_forgotten_with_their_answers() -> None:
    seen = SeenMessages(100)
    for number in range(1000):
        assert seen.is_new(b"%d" % number)
        seen.answered(b"%d" % number, answer(1))
    assert len(seen) == 100
    assert [number for number in range(1000) if seen.answer_to(b"%d" % number)] == list(range(900, 1000))
    assert not seen.is_new(b"900")
    assert seen.is_new(b"899")


def test_answers_have_so_many_bytes_together_and_ids_stay() -> None:
    seen, size_bytes = SeenMessages(1000), ANSWER_BYTES // 10
    for number in range(100):
        seen.is_new(b"%d" % number)
        seen.answered(b"%d" % number, answer(size_bytes))
    kept = [number for number in range(100) if seen.answer_to(b"%d" % number)]
    assert kept == list(range(91, 100))  # nine, and what stands beside their bodies
    assert len(seen) == 100


def test_an_answer_that_is_too_large_is_not_kept_and_pushes_out_no_other() -> None:
    seen = SeenMessages(10)
    seen.answered(b"small", answer(1))
    seen.answered(b"large", answer(ANSWER_BYTES))
    assert (seen.answer_to(b"large"), seen.answer_to(b"small")) == (None, answer(1))


def test_the_first_answer_stays_and_an_id_that_was_not_taken_is_new_again() -> None:
    seen = SeenMessages(10)
    seen.answered(b"x", answer(1))
    seen.answered(b"x", answer(2))
    assert seen.answer_to(b"x") == answer(1)
    assert [seen.is_new(b"y"), seen.is_new(b"y")] == [True, False]
    seen.forget(b"y")
    assert seen.is_new(b"y")


def test_answers_count_with_all_that_stands_beside_their_bodies() -> None:
    seen, flow = SeenMessages(1000), bytes(ANSWER_BYTES // 10)
    for number in range(100):
        seen.is_new(b"%d" % number)
        seen.answered(b"%d" % number, answer(1).replace(correlation_id=flow))
    assert [number for number in range(100) if seen.answer_to(b"%d" % number)] == list(range(91, 100))


def test_very_long_ids_are_known_again_and_cost_no_more_than_others() -> None:
    seen, told = SeenMessages(1000), answer(1)
    long, other = b"x" * 4000 + b"1", b"x" * 4000 + b"2"
    assert [seen.is_new(long), seen.is_new(long), seen.is_new(other)] == [True, False, True]
    assert sum(map(len, seen._ids)) < 100
    seen.answered(long, told)
    assert (seen.answer_to(long), seen.answer_to(other)) == (told, None)
    seen.forget(other)
    assert seen.is_new(other)
