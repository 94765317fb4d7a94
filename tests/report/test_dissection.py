"""Dissections as rows and as JSON."""

from __future__ import annotations

import json

from hopwire.model import Message
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report import dissection_to_json, error_to_json, rows_from_dissection
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
