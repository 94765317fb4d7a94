"""The tables of the wire formats in Lua, for a dissector of Wireshark.

The dissector itself is `cli/wireshark.lua`: a walk over these tables, the same walk as in `wire/walk.py`. So a new row
in `wire/formats.py` is a new field in Wireshark without a line of Lua.

The trap: a filter of Wireshark has one type. The version of a message is bytes in V3 and V4 and a number in V5 and V6,
so the bytes are called `version_raw`, as in the tables of the lake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from hopwire.model.limits import Limits
from hopwire.wire import extension, train, walk
from hopwire.wire.formats import FORMATS
from hopwire.wire.schema import Entry, Field, FromEnd, Packed, Type, WireFormat, Word

__all__ = ["lua_tables"]

NUMBER, BYTES, TEXT, FLAG = "number", "bytes", "text", "flag"  # what a filter compares with
KINDS = {bytes: BYTES, str: TEXT, bool: FLAG, int: NUMBER}
OF_OTHER_FORMATS = "_raw"  # ends the name of a filter whose type is not that of its name in the latest format
QUOTED = '"\\'  # what a text of Lua cannot hold as it is


def lua_tables() -> str:
    """Give every table that the dissector walks, as the beginning of a program in Lua."""
    limits = Limits()
    tables = {
        "FILTERS": _filters(),
        "FORMATS": [_format(fmt) for fmt in FORMATS],
        "RETIRED": {number.hex(): name for number, name in walk.RETIRED_NUMBERS.items()},
        "WHOLE_FRAME_NUMBERS": dict.fromkeys(sorted(number.hex() for number in walk.WHOLE_FRAME_NUMBERS), True),
        "EXTENSION": {
            "magic": extension.MAGIC.hex(),
            "max_bytes": extension.MAX_EXTENSION_BYTES,
            "fields": _extension(),
        },
        "TRAIN": {
            "magic": train.MAGIC.hex(),
            "dated": train.DATED.hex(),
            "max_bytes": train.MAX_TRAIN_BYTES,
            "max_messages": train.MAX_TRAIN_MESSAGES,
            "fewest_frames": train.SMALLEST,
        },
        "LIMITS": {name: getattr(limits, name) for name in ("max_frames", "max_bytes", "max_entries")},
    }
    return "".join(f"local {name} = {_lua(table)}\n" for name, table in tables.items())


# -- the formats


def _format(fmt: WireFormat) -> dict[str, Any]:
    place = fmt.number_field.frame
    return {
        "name": fmt.name,
        "number": fmt.number,
        "numbers": [number.hex() for number in fmt.numbers],
        "number_at": place.k if isinstance(place, FromEnd) else 1,
        "claims_from": fmt.tail if fmt is FORMATS[0] else 1,
        "tail": fmt.tail,
        "fewest_frames": fmt.fewest_frames,
        "retired_tails": dict.fromkeys(fmt.retired_tails, True),
        "has_retired_tails": bool(fmt.retired_tails),
        "has_meta_frame": fmt.has_meta_frame,
        "words": [] if fmt.has_meta_frame else [_word(fmt, word) for word in fmt.tail_words],
        "items": [_packed(item) if isinstance(item, Packed) else _word(fmt, item) for item in fmt.meta_items],
        "runs": [{"name": run.name, "entry": [_value(entry) for entry in run.entry]} for run in fmt.runs],
    }


def _word(fmt: WireFormat, word: Word) -> dict[str, Any]:
    first = word[0]
    lanes = [{**_value(field), "at": field.lane_byte} for field in word] if first.bit is not None else []
    place = {"k": first.frame.k} if isinstance(first.frame, FromEnd) else {}
    return {**_value(first), **place, "widths": walk.widths(fmt, first), "lanes": lanes}


def _packed(block: Packed) -> dict[str, Any]:
    entry = [_value(each) for each in block.entry]
    smallest = walk.LENGTH_BYTES + sum(each.type.width or walk.LENGTH_BYTES for each in block.entry)
    return {"block": block.name, "entry": entry, "smallest": smallest}


def _value(field: Field | Entry) -> dict[str, Any]:
    is_signed = field.type.is_number and field.type.bounds[0] < 0
    return {
        "name": field.name,
        "kind": _kind(field.type),
        "width": field.type.width if field.type.is_number else None,
        "is_signed": is_signed,
        "may_be_empty": field.type is Type.I32_OR_EMPTY,
    }


def _kind(kind: Type) -> str:
    return NUMBER if kind.is_number else TEXT if kind is Type.TEXT else BYTES


# -- filters


def _filters() -> list[dict[str, str]]:
    """Give the names that one can filter by: each once, the latest format first."""
    found: dict[str, dict[str, str]] = {}
    for fmt in reversed(FORMATS):
        for name, value in _values(fmt):
            kind, title = _kind(value.type), value.title
            if name in found and found[name]["kind"] != kind:
                name += OF_OTHER_FORMATS
            found.setdefault(name, {"name": name, "kind": kind, "title": title})
    for each in _extension():
        name = f"extension.{each['name']}"
        found[name] = {"name": name, "kind": each["kind"], "title": f"{each['name']} of hopwire's own extension"}
    return list(found.values())


def _values(fmt: WireFormat) -> list[tuple[str, Field | Entry]]:
    values: list[tuple[str, Field | Entry]] = []
    for row in fmt.rows:
        if isinstance(row, Field):
            if row.name and row.type is not Type.META:
                values.append((row.name, row))
            continue
        if isinstance(row, Packed):
            values.append((f"{row.name}.size", Entry("size", Type.I32, row.title)))
        is_body = row.name == "body_frames"
        values += [(row.name if is_body else f"{row.name}.{entry.name}", entry) for entry in row.entry]
    return values


def _extension() -> list[dict[str, str]]:
    fields = msgspec.structs.fields(extension.Extension)
    return [{"key": each.encode_name, "name": each.name, "kind": KINDS[_plain(each.type)]} for each in fields]


def _plain(kind: Any) -> Any:
    return next(iter(get_args(kind)), kind)


# -- Lua


def _lua(value: Any) -> str:
    """Give a value as Lua writes it; names that are not set are left out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return (
            '"'
            + "".join(each if each.isprintable() and each not in QUOTED else f"\\{ord(each):03d}" for each in value)
            + '"'
        )
    if isinstance(value, Mapping):
        pairs = [(key, each) for key, each in value.items() if each is not None]
        return "{" + ", ".join(f"[{_lua(key)}] = {_lua(each)}" for key, each in pairs) + "}"
    assert isinstance(value, Sequence)
    lines = ",\n  ".join(_lua(each) for each in value)
    return "{" + (f"\n  {lines},\n" if value and not isinstance(value[0], int) else lines) + "}"
