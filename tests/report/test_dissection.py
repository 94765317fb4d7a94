"""Dissections as rows, as JSON and as hex dumps, whose caret stands below the byte also when that byte is missing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.model import Message
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report import dissection_to_json, error_to_json, hexdump, rows_from_dissection
from hopwire.wire import V5, V6, WireError, encode
from hopwire.wire.dissect import dissect


def test_a_row_has_place_name_type_bytes_and_meaning() -> None:
    row = next(row for row in rows_from_dissection(dissect(encode(Message(b"MSG"), V5))) if row.name == "identity")
    assert (row.frame, row.position, row.start, row.stop) == (14, "n-6", 0, 3)
    assert (row.type, row.hex, row.meaning) == ("raw", "4d5347", "MSG")


def test_nameless_rows_stand_in_brackets() -> None:
    names = [row.name for row in rows_from_dissection(dissect(encode(Message(b"MSG"), V6)))]
    assert names[:2] == ["socket_identity", "(empty)"]
    assert names.count("(reserved)") == 6


def test_json_holds_frames_fields_and_items() -> None:
    frames = encode(Message(b"MSG"), V6)
    value = json.loads(json.dumps(dissection_to_json(dissect(frames))))
    assert value["format"] == "V6"
    assert value["frames"] == [frame.hex() for frame in frames]
    assert value["fields"]["identity"] == "4d5347"
    assert value["error"] is None
    assert "".join(item["hex"] for item in value["items"]) == "".join(value["frames"])


def test_json_of_a_bad_message_has_its_error_and_what_was_found() -> None:
    frames = encode(Message(b"MSG"), V6)
    frames[-1] = frames[-1][:10]
    value = dissection_to_json(dissect(frames))
    assert value["fields"] is None
    assert value["error"]["reason"] == "truncated"
    assert value["error"]["byte"] == 8
    assert [item["name"] for item in value["items"]][-2:] == ["version", "(not read)"]


def test_every_reason_can_be_told() -> None:
    for reason in WIRE_REASONS:
        assert error_to_json(WireError(reason))["meaning"] == WIRE_REASONS[reason]


# -- the hex dump


def test_a_dump_has_offsets_bytes_and_text() -> None:
    assert hexdump(b"hopwire\0\xff" + bytes(8)) == [
        "     0  68 6f 70 77 69 72 65 00 ff 00 00 00 00 00 00 00  hopwire.........",
        "    16  00                                               .",
    ]
    assert hexdump(b"") == []


def test_a_mark_shows_the_lines_around_it_and_dots_for_the_rest() -> None:
    assert hexdump(bytes(range(32)), 17, width=4) == [
        "...",
        "     8  08 09 0a 0b  ....",
        "    12  0c 0d 0e 0f  ....",
        "    16  10 11 12 13  ....",
        "           ^^",
        "    20  14 15 16 17  ....",
        "    24  18 19 1a 1b  ....",
        "...",
    ]


@pytest.mark.parametrize(("size", "lines"), [(0, ["     0", "        ^^"]), (3, None), (4, None)])
def test_a_byte_that_is_missing_at_the_end_has_its_caret(size: int, lines: list[str] | None) -> None:
    found = hexdump(bytes(size), size, width=4)
    assert found[-1].endswith("^^")
    assert found[-1].index("^^") == 8 + 3 * (size % 4)
    assert lines is None or found == lines


@given(st.binary(min_size=1, max_size=200), st.data(), st.sampled_from([4, 8, 16]))
def test_the_caret_stands_below_the_byte(data: bytes, draw: st.DataObject, width: int) -> None:
    mark = draw.draw(st.integers(0, len(data) - 1))
    lines = hexdump(data, mark, width)
    caret = next(index for index, line in enumerate(lines) if line.endswith("^^"))
    column = lines[caret].index("^^")
    above = lines[caret - 1]
    assert int(above[:6]) + (column - 8) // 3 == mark
    assert above[column : column + 2] == f"{data[mark]:02x}"
