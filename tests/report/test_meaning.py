"""Meanings: what a person reads beside the bytes."""

from __future__ import annotations

import pytest

from hopwire.model import Message
from hopwire.report import rows_from_dissection
from hopwire.report.meaning import meaning
from hopwire.security import Recipient, Stamp
from hopwire.security.schemes import stamp_bytes
from hopwire.wire import FORMATS, V3, V4, V5, V6, WireFormat, encode
from hopwire.wire.dissect import NEWER_BYTES, RESERVED, UNREAD, dissect
from hopwire.wire.schema import Type
from hopwire.wire.walk import Item

GUID = b"0d9f1c1e-6f2b-4b3c-9a54-3a1f4d6f0b11"
STAMPED = stamp_bytes(Stamp("2024-06", 1, 0, bytes(16)), "hopwire-1") + bytes(32)
BOUND = stamp_bytes(Stamp("2024-06", 1, 0, bytes(16), Recipient(b"shop", 7)), "hopwire-2") + bytes(32)


def said(name: str, value: object, fmt: WireFormat | None = V5, title: str = "", width: int = 2) -> str:
    return meaning(Item(0, 0, width, name, Type.RAW, title, value), fmt, 20)


# fmt: off
SAID = [
    ("identity",                    b"KINO.PING",           "KINO.PING"),
    ("identity",                    b"",                    "not set"),
    ("identity",                    b"\0\xff",              "0x00ff"),
    ("version",                     b"1.0",                 "1.0"),
    ("version",                     1,                      "1"),
    ("correlation_id",              GUID,                   GUID.decode()),
    ("receiver_identity",           b"\0" + GUID,           f"hub {GUID.decode()}"),
    ("callback_receiver_identity",  b"\1" + GUID,           f"actor {GUID.decode()}"),
    ("receiver_identity",           b"plain",               "neither hub nor actor: plain"),
    ("receiver_identity",           b"",                    "not set"),
    ("ttl_ticks",                   300_000_000,            "30 s"),
    ("ttl_ticks",                   0,                      "none"),
    ("ttl_ticks",                   -300_000_000,           "-30 s, below zero"),
    ("distribution",                0,                      "unicast"),
    ("distribution",                1,                      "broadcast"),
    ("distribution",                7,                      "unknown 7"),
    ("distribution",                -1,                     "unknown -1"),
    ("trace_options",               0,                      "none"),
    ("trace_options",               1,                      "routing"),
    ("trace_options",               5,                      "routing, unknown 0x4"),
    ("trace_options",               -1,                     "routing, unknown -0x2"),
    ("callback_key",                0,                      "not set"),
    ("callback_key",                -4,                     "-4"),
    ("domain",                      "orders",               "orders"),
    ("domain",                      b"\xff",                "0xff"),
    ("signature",                   b"",                    "unsigned"),
    ("signature",                   bytes(20),              "20 bytes, like SHA-1"),
    ("signature",                   bytes(5),               "5 bytes"),
    ("signature",                   STAMPED,                "hopwire-1, key 2024-06"),
    ("signature",                   BOUND,                  "hopwire-2, key 2024-06, for shop"),
    ("body_frames[0]",              b'{"a":1}',             '7 bytes: {"a":1}'),
    ("body_frames[0]",              b"\x81\xa1a\1",         "4 bytes: MessagePack {'a': 1}"),
    ("body_frames",                 b"",                    "empty"),
    ("routing.count",               0,                      "none"),
    ("routing.count",               1,                      "1 entry"),
    ("callback_points.count",       2,                      "2 entries"),
    ("body_frames.count",           2,                      "2 frames"),
    ("callback_points.offset",      15,                     "frame 5, the last of the callback points"),
    ("routing.offset",              15,                     "frame 5, the last of the routing"),
    ("body_frames.offset",          18,                     "frame 2, the first of the body"),
    ("body_frames.offset",          0,                      "0, beyond the 20 frames"),
    ("routing.offset",              0,                      "none"),
    ("routing.offset",              -1,                     "none"),
    ("routing.offset",              999,                    "999, beyond the 20 frames"),
    ("routing.stride",              2,                      "2 frames per entry"),
    ("routing.stride",              3,                      "3 frames per entry, 1 of them newer than the document"),
    ("routing[0].size",             64,                     "entry of 64 bytes"),
    ("routing[0].uri",              "tcp://a:1",            "tcp://a:1"),
    ("extensions[0]",               b"x",                   "kept as it is, 1 byte: x"),
    ("a_field_of_tomorrow",         3,                      "3"),
]
# fmt: on


@pytest.mark.parametrize(("name", "value", "text"), SAID)
def test_a_value_is_said_in_words(name: str, value: object, text: str) -> None:
    assert said(name, value) == text


@pytest.mark.parametrize(
    ("title", "value", "text"),
    [
        (RESERVED, b"\0\0", "zero"),
        (RESERVED, b"\0\1", "not zero, ignored"),
        ("RESERVED", 0, "zero"),
        (NEWER_BYTES, b"ab", "not in the document, 2 bytes: ab"),
        (UNREAD, b"", "empty"),
    ],
)
def test_what_has_no_name_is_said_by_its_title(title: str, value: object, text: str) -> None:
    assert said("", value, title=title) == text


def test_the_number_of_the_format_says_what_was_made_of_it() -> None:
    name = "wire_format_version"
    assert said(name, 5, V5, width=2) == "V5"
    assert said(name, 5, V5, width=4) == "V5, in 4 bytes as older writers had it"
    assert said(name, 4, V6) == "4, read as V6"
    assert said(name, 5, V4) == "5, V4 has 4"


def test_a_long_value_is_cut_to_what_was_asked_for() -> None:
    rows = rows_from_dissection(dissect(encode(Message(b"M", body_frames=(b"x" * 500,)), V6)), 40)
    assert max(len(row.meaning) for row in rows) == 40


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_row_of_a_message_has_a_meaning_or_is_a_separator(fmt: WireFormat) -> None:
    version: int | bytes = b"1.0" if fmt in (V3, V4) else 1
    for row in rows_from_dissection(dissect(encode(Message(b"M", version), fmt))):
        assert row.meaning or row.name == "(empty)"
