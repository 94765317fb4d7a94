"""Ids and keys that a node draws for many questions at a time."""

from __future__ import annotations

from hopwire.node.node import _new_ids, _new_keys

MANY = 1000  # more than are drawn at a time


def test_ids_count_behind_chance_and_are_as_long_as_the_text_of_a_guid() -> None:
    new_id, new_other_id = _new_ids(), _new_ids()
    found = [new_id() for _ in range(MANY)]
    assert [int(each[24:], 16) for each in found] == list(range(MANY))
    assert {each[:24] for each in found} == {found[0][:24]} != {new_other_id()[:24]}
    assert {len(each) for each in found} == {36}


def test_keys_are_positive_numbers_of_63_bits() -> None:
    new_key = _new_keys()
    found = [new_key() for _ in range(MANY)]
    assert len(set(found)) == MANY
    assert all(0 < each < 2**63 for each in found)
    assert max(found) >= 2**62
