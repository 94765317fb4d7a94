from __future__ import annotations

import pytest

from hopwire.node.retries import (
    FOR_EACH,
    FOR_EACH_RECEIPT,
    FOR_EACH_SECOND,
    LONGEST_SECONDS,
    MOST_EARNED,
    SHORTEST_SECONDS,
    Retries,
)

A, B = b"A", b"B"


def test_a_receipt_of_an_unknown_node_is_late_after_the_shortest_time() -> None:
    assert Retries().late_after((A,)) == SHORTEST_SECONDS
    assert Retries().late_after(()) == SHORTEST_SECONDS


def test_late_is_what_is_later_than_the_usual_round_trip() -> None:
    retries = Retries()
    for _ in range(50):
        retries.measured(A, 0.5, 0.0)
    assert retries.late_after((A,)) == pytest.approx(0.5, rel=0.01)
    assert retries.late_after((B,)) == SHORTEST_SECONDS
    assert retries.late_after((B, A)) == retries.late_after((A,))
    retries.measured(A, 2.5, 0.0)
    assert 2.5 < retries.late_after((A,)) < 3.0
    retries.measured(A, 1000.0, 0.0)
    assert retries.late_after((A,)) == LONGEST_SECONDS
    retries.forget(A)
    assert retries.late_after((A,)) == SHORTEST_SECONDS


def test_resends_share_a_budget_of_some_for_each_first_attempt_and_some_for_each_second() -> None:
    retries = Retries()
    for _ in range(10_000):
        retries.first()
    sent = sum(retries.may_send(0.0) for _ in range(10_000))
    assert sent == pytest.approx(FOR_EACH_SECOND + 10_000 * FOR_EACH, abs=1)
    assert not retries.may_send(0.0)
    assert sum(retries.may_send(1.0) for _ in range(10_000)) == int(FOR_EACH_SECOND)
    assert sum(retries.may_send(100.0) for _ in range(10_000)) == int(FOR_EACH_SECOND)


def test_a_message_is_overtaken_if_what_was_sent_later_has_its_receipt() -> None:
    retries = Retries()
    assert not retries.is_overtaken((A,), 1.0)
    retries.measured(A, 0.01, 1.1)
    assert not retries.is_overtaken((A,), 1.0)  # too near to say which left first
    retries.measured(A, 0.01, 1.3)
    retries.measured(A, 0.01, 1.2)
    assert retries.is_overtaken((A,), 1.0)
    assert not retries.is_overtaken((A,), 1.25)
    assert not retries.is_overtaken((A, B), 1.0)
    assert not retries.is_overtaken((), 1.0)
    retries.forget(A)
    assert not retries.is_overtaken((A,), 1.0)


def test_receipts_earn_resends_of_what_is_lost_and_nothing_else() -> None:
    retries = Retries()
    for _ in range(10):
        retries.received()
    assert sum(retries.may_send(0.0) for _ in range(1000)) == FOR_EACH_SECOND
    assert sum(retries.may_send(0.0, is_lost=True) for _ in range(1000)) == 10 * FOR_EACH_RECEIPT
    for _ in range(1000):
        retries.received()
    assert sum(retries.may_send(0.0, is_lost=True) for _ in range(1000)) == MOST_EARNED
