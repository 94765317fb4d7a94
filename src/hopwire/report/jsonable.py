"""Values as JSON, and a message back from JSON.

`jsonable` is the one walk from values to what `json.dumps` takes: structs, dataclasses and named tuples become objects
with the names of their fields as keys, other tuples become lists, byte strings, times and days become text.

A message has the same keys as its fields, and its byte strings are hex:

    {"wire_format_version": 6, "identity": "4d5347", "version": 1, "body_frames": ["01"], "routing": [{"uri": ...}]}

A version is a number (V5, V6) or hex (V3, V4). On the way back `null` is the empty value. A key that is left out has
its default, and an unknown key is refused. Instead of `body_frames` there may be one `body`: hex, or the rule by which
test vectors describe large bodies: `{"rule": "(i*31+7)&255", "len": 1048576}`.

The type of each value is not written down here: it follows from `model/message.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from hashlib import sha256
from typing import Any

import msgspec

from hopwire.errors import SettingsError
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.model.limits import Limits
from hopwire.wire import FORMATS, V6, WireFormat

__all__ = ["bytes_from_rule", "jsonable", "message_from_json", "message_to_json"]

RULE = "(i*31+7)&255"
RULE_PERIOD = bytes((i * 31 + 7) & 255 for i in range(256))
MAX_RULE_BYTES = Limits().max_bytes
BY_NUMBER = {fmt.number: fmt for fmt in FORMATS}
ENTRIES: dict[str, type[msgspec.Struct]] = {"callback_points": CallbackPoint, "routing": RoutingEntry}
EMPTY: dict[type, msgspec.Struct] = {
    Message: Message(b""),
    CallbackPoint: CallbackPoint(b""),
    RoutingEntry: RoutingEntry(""),
}
NOTES: dict[type, tuple[str, ...]] = {RoutingEntry: ("uri_original",)}  # keys for the reader of a vector, ignored here
WORDS = {int: "a number", str: "text", list: "a list", Mapping: "an object"}


def jsonable(value: Any, spell: Callable[[bytes], str] = bytes.hex) -> Any:
    """Give a value as lists, dictionaries, text and numbers; `spell` makes text of byte strings."""
    if isinstance(value, bytes):
        return spell(value)
    if isinstance(value, Mapping):
        return {name: jsonable(each, spell) for name, each in value.items()}
    if names := _field_names(value):
        return {name: jsonable(getattr(value, name), spell) for name in names}
    if isinstance(value, list | tuple):
        return [jsonable(each, spell) for each in value]
    if isinstance(value, date):  # a time is one too
        return value.isoformat().replace("+00:00", "Z")
    return value


def _field_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(value):
        return tuple(field.name for field in fields(value))
    return getattr(value, "_fields", ()) if isinstance(value, tuple) else ()


# -- a message


def message_to_json(message: Message, fmt: WireFormat) -> dict[str, Any]:
    """Give the fields that the format carries, as JSON has them."""
    carried = (name for name in Message.__struct_fields__ if name in fmt.carried)
    return {"wire_format_version": fmt.number, **{name: jsonable(getattr(message, name)) for name in carried}}


def message_from_json(given: object) -> tuple[Message, WireFormat]:
    """Give the message that a JSON object describes, and its format: V6 where the object names none."""
    fields = dict(_expect(given, Mapping, "message"))
    number = fields.pop("wire_format_version", V6.number)
    if type(number) is not int or number not in BY_NUMBER:
        known = ", ".join(map(str, BY_NUMBER))
        raise SettingsError(f"wire_format_version: found {number!r:.40}, expected one of {known}")
    if "body" in fields:
        if "body_frames" in fields:
            raise SettingsError("body: there are body_frames too, expected one of them")
        fields["body_frames"] = [fields.pop("body")]
    message = _struct(Message, fields, "", BY_NUMBER[number])
    assert isinstance(message, Message)
    return message, BY_NUMBER[number]


def _struct(kind: type[msgspec.Struct], given: Mapping[str, Any], where: str, fmt: WireFormat) -> msgspec.Struct:
    for name in given:
        if name not in (*kind.__struct_fields__, *NOTES.get(kind, ())):
            known = ", ".join(kind.__struct_fields__)
            raise SettingsError(f"{where}{name!r:.80} is not a key, expected one of {known}")
    required = kind.__struct_fields__[0]
    if required not in given:
        raise SettingsError(f"{where}{required} is missing")
    names = [name for name in kind.__struct_fields__ if name in given]
    return kind(**{name: _value(kind, name, given[name], f"{where}{name}", fmt) for name in names})


def _value(kind: type[msgspec.Struct], name: str, given: Any, where: str, fmt: WireFormat) -> Any:
    if name == "version":
        return _version(given, where, fmt)
    empty = getattr(EMPTY[kind], name)
    if given is None:
        return empty
    if name in ENTRIES:
        return tuple(
            _struct(ENTRIES[name], _expect(entry, Mapping, f"{where}[{number}]"), f"{where}[{number}].", fmt)
            for number, entry in enumerate(_expect(given, list, where))
        )
    if isinstance(empty, tuple):
        frames = enumerate(_expect(given, list, where))
        return tuple(_bytes(frame, f"{where}[{number}]") for number, frame in frames)
    return _bytes(given, where) if isinstance(empty, bytes) else _expect(given, type(empty), where)


def _version(given: Any, where: str, fmt: WireFormat) -> int | bytes:
    if given is None:
        return 0 if fmt.version_type.is_number else b""
    return _bytes(given, where) if isinstance(given, str) else int(_expect(given, int, where))


def _expect(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise SettingsError(f"{where}: found {type(value).__name__}, expected {WORDS[kind]}")
    return value


def _bytes(value: Any, where: str) -> bytes:
    if value is None:
        return b""
    if isinstance(value, Mapping):
        return bytes_from_rule(value, where)
    try:
        return bytes.fromhex(_expect(value, str, where))
    except ValueError:
        raise SettingsError(f"{where}: found {value!r:.40}, expected hex") from None


def bytes_from_rule(given: Mapping[str, Any], where: str) -> bytes:
    """Make the bytes that a rule of the test vectors describes; a `sha256` beside the rule must be theirs."""
    size = given.get("len")
    if given.get("rule") != RULE or type(size) is not int or not 0 <= size <= MAX_RULE_BYTES:
        raise SettingsError(f"{where}: found an object, expected hex or {{'rule': '{RULE}', 'len': ...}}")
    data = (RULE_PERIOD * (size // len(RULE_PERIOD) + 1))[:size]
    if "sha256" in given and given["sha256"] != sha256(data).hexdigest():
        raise SettingsError(f"{where}: the sha256 is not that of {size} bytes by the rule")
    return data
