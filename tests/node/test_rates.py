from __future__ import annotations

from hopwire.node.rates import MOST_KEPT, Rate


def test_so_many_in_a_second_for_each_key_and_then_no_more() -> None:
    rate = Rate(2)
    assert [rate.is_due(b"a", 0.1) for _ in range(4)] == [True, True, False, False]
    assert rate.is_due(b"b", 0.2)
    assert not rate.is_due(b"a", 1.0)
    assert rate.is_due(b"a", 1.2)
    rate.forget(b"a")
    assert rate.is_due(b"a", 1.2)


def test_very_many_keys_are_not_kept() -> None:
    rate = Rate(1)
    for number in range(MOST_KEPT + 10):
        rate.is_due(b"%d" % number, 0.0)
    assert len(rate._counts) == MOST_KEPT
