from __future__ import annotations

import pytest

from hopwire.node.retries import FOR_EACH, FOR_EACH_SECOND, LONGEST_SECONDS, SHORTEST_SECONDS, Retries

A, B = b"A", b"B"


def test_a_receipt_of_an_unknown_node_is_late_after_the_shortest_time() -> None:
    assert Retries().late_after((A,)) == SHORTEST_SECONDS
    assert Retries().late_after(()) == SHORTEST_SECONDS


def test_late_is_what_is_later_than_the_usual_round_trip() -> None:
    retries = Retries()
    for _ in range(50):
        retries.measured(A, 0.5)
    assert retries.late_after((A,)) == pytest.approx(0.5, rel=0.01)
    assert retries.late_after((B,)) == SHORTEST_SECONDS
    assert retries.late_after((B, A)) == retries.late_after((A,))
    retries.measured(A, 2.5)
    assert 2.5 < retries.late_after((A,)) < 3.0
    retries.measured(A, 1000.0)
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
