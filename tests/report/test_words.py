"""Values in words: durations to the tick, text only where it is harmless."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.report.words import (
    cut,
    duration,
    node_label,
    nodes_called,
    noun_for,
    plural,
    spellings,
    text_or_hex,
    unpacked,
)

# fmt: off
DURATIONS = [
    (0,                         "0 s"),
    (1,                         "100 ns"),
    (9,                         "900 ns"),
    (10,                        "1 us"),
    (15,                        "1.5 us"),
    (2_500_000,                 "250 ms"),
    (9_999_999,                 "999.9999 ms"),
    (10_000_000,                "1 s"),
    (15_000_000,                "1.5 s"),
    (599_999_999,               "59.9999999 s"),
    (300_000_000,               "30 s"),
    (900_000_000,               "1 min 30 s"),
    (36_000_000_000,            "1 h"),
    (864_000_000_000,           "1 d"),
    (-300_000_000,              "-30 s"),
    (2**63 - 1,                 "10675199 d 2 h 48 min 5.4775807 s"),
    (-(2**63),                  "-10675199 d 2 h 48 min 5.4775808 s"),
]
# fmt: on


@pytest.mark.parametrize(("ticks", "text"), DURATIONS)
def test_a_duration_is_exact_and_has_its_units(ticks: int, text: str) -> None:
    assert duration(ticks) == text


# fmt: off
TEXTS = [
    (b"",                       ""),
    (b"MSG",                    "MSG"),
    ("розділ-№1".encode(),      "розділ-№1"),
    (b"\xff\xfe",               "0xfffe"),
    (b"a\x1b[31m",              "0x611b5b33316d"),
    (b"a\nb",                   "0x610a62"),
    ("a\u202eb".encode(),       "0x61e280ae62"),
    (b" a ",                    "' a '"),
]
# fmt: on


@pytest.mark.parametrize(("data", "text"), TEXTS)
def test_bytes_are_text_only_where_that_is_printable(data: bytes, text: str) -> None:
    assert text_or_hex(data) == text


@given(st.binary())
def test_no_bytes_make_text_that_moves_the_cursor(data: bytes) -> None:
    assert text_or_hex(data).isprintable()
    assert unpacked(data or b"\0").isprintable()


def test_a_messagepack_map_is_unpacked_and_other_bytes_are_not() -> None:
    assert unpacked(msgspec.msgpack.encode({"name": "Ada"})) == "MessagePack {'name': 'Ada'}"
    assert unpacked(msgspec.msgpack.encode([1, 2])) == "MessagePack [1, 2]"
    assert unpacked(msgspec.msgpack.encode(7)) == ""
    assert unpacked(b"\x91" * 60_000) == ""
    assert unpacked(b"\x80" + bytes(70_000)) == ""


def test_long_text_is_cut_and_says_so() -> None:
    assert cut("abcdefgh", 6) == "abc..."
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", None) == "abcdef"
    assert cut("abcdef", 1) == "..."


def test_nouns_follow_their_count() -> None:
    assert [plural(count, "byte") for count in (0, 1, 2)] == ["0 bytes", "1 byte", "2 bytes"]
    assert plural(2, "entry", "entries") == "2 entries"
    assert [noun_for(count, "byte") for count in (0, 1, 2)] == ["bytes", "byte", "bytes"]


# -- nodes

NODES = {b"\x01\xff": "alpha", b"beta": "", b"b2": "alpha"}


def test_a_node_is_called_by_its_name_or_its_identity() -> None:
    assert [node_label(node, name) for node, name in NODES.items()] == ["alpha", "beta", "alpha"]
    assert node_label(b"\x01\xff") == "0x01ff"
    assert node_label(b"x", "\x1b[2J") == "\\x1b[2J"
    assert node_label(b"x", "till ") == "'till '"  # a table would hide the blank


# fmt: off
CALLED = [
    ("alpha",    [b"\x01\xff", b"b2"]),
    ("beta",     [b"beta"]),
    ("0x01ff",   [b"\x01\xff"]),
    ("01ff",     [b"\x01\xff"]),
    ("62657461", [b"beta"]),
    ("b2",       [b"b2"]),
    ("nobody",   []),
]
# fmt: on


@pytest.mark.parametrize(("text", "nodes"), CALLED)
def test_nodes_are_found_by_name_and_by_identity(text: str, nodes: list[bytes]) -> None:
    assert nodes_called(text, NODES) == nodes


def test_a_text_may_stand_for_itself_and_for_its_hex() -> None:
    assert spellings("x") == [b"x"]
    assert spellings("0xff01") == [b"0xff01", b"\xff\x01"]
    assert spellings("0xzz") == [b"0xzz"]
    assert spellings("\udcff") == [b"\xff"], "bytes that are no UTF-8, as the shell gives them"
