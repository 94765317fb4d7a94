"""`hopwire encode`: JSON in, frames out, nothing lost."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from hopwire.model import Message
from hopwire.report import message_to_json
from hopwire.wire import FORMATS, V3, V4, V6, WireFormat, encode
from hopwire.wire.samples import sample_message
from tests.cli.running import hopwire


def line(frames: list[bytes]) -> str:
    return " ".join(frame.hex() or "-" for frame in frames) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_fields_become_frames_and_come_back(fmt: WireFormat) -> None:
    messages = [sample_message(fmt, random.Random(seed)) for seed in range(5)]
    fields = "\n".join(json.dumps(message_to_json(message, fmt)) for message in messages)
    found = hopwire("encode", given=fields)
    assert (found.code, found.out) == (0, "".join(line(encode(message, fmt)) for message in messages))
    again = hopwire("decode", "--json", given=found.out)
    assert "\n".join(json.dumps(json.loads(text)["fields"]) for text in again.out.splitlines()) == fields


def test_one_object_may_stand_on_many_lines_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "message.json"
    file.write_text(json.dumps({"identity": "4d5347"}, indent=2), "utf-8")
    assert hopwire("encode", "--file", str(file)).out == line(encode(Message(b"MSG")))


def test_json_names_the_format() -> None:
    found = hopwire("encode", "--json", given='{"identity": "4d5347"}')
    frames = [frame.hex() for frame in encode(Message(b"MSG"), V6)]
    assert json.loads(found.out) == {"format": "V6", "frames": frames}


def test_another_format_is_written_where_nothing_is_lost() -> None:
    fields = json.dumps(message_to_json(Message(b"MSG", b"1.0", hops=2), V3))
    found = hopwire("encode", "--to", "V6", given=fields)
    assert found.out == line(encode(Message(b"MSG", 1, hops=2), V6))


def test_another_format_is_refused_where_something_is_lost() -> None:
    fields = json.dumps(message_to_json(Message(b"MSG", 1, domain="orders"), V6))
    found = hopwire("encode", "--to", "v3", given=fields)
    assert (found.code, found.out) == (1, "")
    assert found.err == "hopwire: stdin, line 1: cannot_carry at domain: V3 has no place for it\n"
    odd = json.dumps(message_to_json(Message(b"MSG", b"2.7"), V4))
    assert "no mapping for b'2.7'" in hopwire("encode", "--to", "V5", given=odd).err


# fmt: off
NO_MESSAGES = [
    ("00 01",                           "stdin, line 1: expected JSON"),
    ('{"identity": 1}',                 "stdin, line 1: identity: found int, expected text"),
    ('{"identity": ""}\n{"hops": 1}',   "stdin, line 2: identity is missing"),
    ('["00"]',                          "stdin, line 1: message: found list, expected an object"),
    ('{"fields": null}',                "stdin, line 1: message: found NoneType, expected an object"),
    ('{"fields": null, "error": {"reason": "bad_count"}}',
     "stdin, line 1: is a bad message (bad_count), which has no fields"),
    ("",                                "stdin: is empty"),
]
# fmt: on


@pytest.mark.parametrize(("text", "line"), NO_MESSAGES)
def test_what_is_no_message_is_named_in_one_line(text: str, line: str) -> None:
    found = hopwire("encode", given=text)
    assert (found.code, found.err) == (2, f"hopwire: {line}\n")


def test_a_number_that_does_not_fit_is_refused() -> None:
    found = hopwire("encode", given='{"identity": "", "hops": 70000}')
    assert (found.code, found.err.startswith("hopwire: stdin, line 1: overflow at hops")) == (1, True)


def test_a_text_that_is_none_is_refused() -> None:
    found = hopwire("encode", given='{"identity": "", "domain": "\\ud800"}')
    assert (found.code, found.err.startswith("hopwire: stdin, line 1: invalid_utf8 at domain")) == (1, True)
