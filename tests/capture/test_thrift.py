from __future__ import annotations

import pytest

from hopwire.capture.thrift import CompactReader


def read(text: str) -> object:
    return CompactReader(bytes.fromhex(text)).struct()


def test_numbers_structs_and_lists_of_structs_are_given() -> None:
    assert read("1504 00") == {1: 2}
    assert read("1501 00") == {1: -1}
    assert read("1c 2504 00 00") == {1: {2: 2}}
    assert read("192c 1502 00 1504 00 00") == {1: [{1: 1}, {1: 2}]}
    assert read("05 1e 04 00") == {15: 2}  # an id of its own


def test_other_values_are_passed_over() -> None:
    assert read("11 12 1802ffff 13ff 170102030405060708 1504 00") == {6: 2}
    assert read("1928 01ff 02ffff 1504 00") == {1: [], 2: 2}
    assert read("1921 0101 1504 00") == {1: [], 2: 2}


# fmt: off
AMBIGUOUS = {
    "a field that stands twice":         "1504 0502 02 00",
    "the same with another kind":        "1504 0602 02 00",
    "an id that is no i16":              "05 8680 08 02 00",
    "an id below zero":                  "05 01 02 00",
    "a number that is too large for it": "15 ffff ffff 1f 00",
    "a kind that Parquet has not":       "1b 00 00",
    "too deep":                          "1c" * 20,
}
# fmt: on


@pytest.mark.parametrize("text", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_what_two_readers_could_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        read(text)


@pytest.mark.parametrize("text", ["", "15", "1504", "1804ff", "19fc ffffffff0f", "1917"])
def test_what_ends_too_early_is_told_from_what_makes_no_sense(text: str) -> None:
    with pytest.raises(IndexError):
        read(text)
