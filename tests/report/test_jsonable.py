"""Every kind of value as JSON; a message there and back for every vector, and a line for everything that is wrong."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hopwire.errors import SettingsError
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.report import message_from_json, message_to_json
from hopwire.report.jsonable import jsonable
from hopwire.report.words import text_or_hex
from hopwire.wire import FORMATS, V3, V6, WireFormat, encode
from hopwire.wire.samples import sample_message


class Pair(NamedTuple):
    """A named tuple with a tuple in it."""

    left: bytes
    right: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """A dataclass with a named tuple in it."""

    pair: Pair
    names: dict[str, bytes]


VECTORS = Path(__file__).parents[1] / "vectors"


def test_values_become_objects_lists_and_text_however_deep() -> None:
    value = [Holder(Pair(b"\xff", (1, 2)), {"a": b"A"}), RoutingEntry("tcp://a", b"B"), None, True, 1.5]
    rest = [None, True, 1.5]
    exact = {"pair": {"left": "ff", "right": [1, 2]}, "names": {"a": "41"}}
    assert jsonable(value) == [exact, {"uri": "tcp://a", "identity": "42"}, *rest]
    readable = {"pair": {"left": "0xff", "right": [1, 2]}, "names": {"a": "A"}}
    assert jsonable(value, text_or_hex) == [readable, {"uri": "tcp://a", "identity": "B"}, *rest]


@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_the_fields_of_every_vector_make_its_frames(number: int) -> None:
    for vector in map(json.loads, (VECTORS / f"v{number}.jsonl").read_text("utf-8").splitlines()):
        message, fmt = message_from_json(vector["fields"])
        assert fmt.number == number
        for frame, expected in zip(encode(message, fmt), vector["frames"], strict=True):
            if isinstance(expected, dict):
                assert {"len": len(frame), "sha256": sha256(frame).hexdigest()} == expected
            else:
                assert frame.hex() == expected


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_messages_come_back_from_json(fmt: WireFormat) -> None:
    for seed in range(50):
        message = sample_message(fmt, random.Random(seed))
        assert message_from_json(json.loads(json.dumps(message_to_json(message, fmt)))) == (message, fmt)


def test_keys_are_those_the_format_carries() -> None:
    assert "domain" not in message_to_json(Message(b"M", b"1.0"), V3)
    assert set(message_to_json(Message(b"M"), V6)) == {"wire_format_version", *Message.__struct_fields__}


def test_null_is_empty_and_what_is_left_out_has_its_default() -> None:
    assert message_from_json({"identity": "4d"}) == (Message(b"M"), V6)
    everything: dict[str, Any] = dict.fromkeys(Message.__struct_fields__)
    assert message_from_json({**everything, "wire_format_version": 6}) == (Message(b"", 0), V6)
    assert message_from_json({**everything, "wire_format_version": 3}) == (Message(b"", b""), V3)
    entries = {"routing": [{"uri": None, "identity": None}], "callback_points": [{"identity": None, "version": 2}]}
    message, _ = message_from_json({"identity": "4d", **entries})
    assert message.routing == (RoutingEntry(""),)
    assert message.callback_points == (CallbackPoint(b"", 2),)


def test_a_body_may_stand_alone_or_follow_the_rule() -> None:
    assert message_from_json({"identity": "", "body": "0102"})[0].body_frames == (b"\1\2",)
    assert message_from_json({"identity": "", "body_frames": ["01", None]})[0].body_frames == (b"\1", b"")
    body = message_from_json({"identity": "", "body": {"rule": "(i*31+7)&255", "len": 1000}})[0].body
    assert body == bytes((i * 31 + 7) & 255 for i in range(1000))


RULE = {"rule": "(i*31+7)&255", "len": 3}


# fmt: off
WRONG: list[tuple[Any, str]] = [
    ([],                                          "message: found list, expected an object"),
    (None,                                        "message: found NoneType, expected an object"),
    ({},                                          "identity is missing"),
    ({"identity": "zz"},                          "identity: found 'zz', expected hex"),
    ({"identity": "abc"},                         "identity: found 'abc', expected hex"),
    ({"identity": 7},                             "identity: found int, expected text"),
    ({"hops": "1"},                               "hops: found str, expected a number"),
    ({"hops": True},                              "hops: found bool, expected a number"),
    ({"hops": 1.5},                               "hops: found float, expected a number"),
    ({"domain": 1},                               "domain: found int, expected text"),
    ({"version": []},                             "version: found list, expected a number"),
    ({"routing": {}},                             "routing: found dict, expected a list"),
    ({"routing": ["x"]},                          "routing[0]: found str, expected an object"),
    ({"routing": [{"identity": ""}]},             "routing[0].uri is missing"),
    ({"routing": [{"uri": "", "x": 1}]},          "routing[0].'x' is not a key, expected one of uri, identity"),
    ({"callback_points": [{"identity": "0"}]},    "callback_points[0].identity: found '0', expected hex"),
    ({"body_frames": "00"},                       "body_frames: found str, expected a list"),
    ({"body_frames": [1]},                        "body_frames[0]: found int, expected text"),
    ({"body": "00", "body_frames": []},           "body: there are body_frames too, expected one of them"),
    ({"body": {"rule": "i", "len": 1}},
     "body_frames[0]: found an object, expected hex or {'rule': '(i*31+7)&255', 'len': ...}"),
    ({"body": {**RULE, "sha256": ""}},            "body_frames[0]: the sha256 is not that of 3 bytes by the rule"),
    ({"wire_format_version": 7},                  "wire_format_version: found 7, expected one of 3, 4, 5, 6"),
    ({"wire_format_version": True},               "wire_format_version: found True, expected one of 3, 4, 5, 6"),
]
# fmt: on


@pytest.mark.parametrize(("given", "line"), WRONG)
def test_what_is_wrong_is_named_in_one_line(given: Any, line: str) -> None:
    full = {"identity": "4d", **given} if isinstance(given, dict) and given else given
    with pytest.raises(SettingsError) as caught:
        message_from_json(full)
    assert str(caught.value) == line


def test_an_unknown_key_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError, match=r"^'hop' is not a key, expected one of identity, version, .*extensions$"):
        message_from_json({"identity": "", "hop": 1})


def test_a_rule_cannot_ask_for_more_than_a_message_may_have() -> None:
    with pytest.raises(SettingsError):
        message_from_json({"identity": "", "body": {**RULE, "len": 2**40}})


def test_times_and_days_are_text() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 5, UTC)
    assert jsonable({"at": at, "days": [at.date()]}) == {"at": "2026-01-31T12:00:00.000005Z", "days": ["2026-01-31"]}
