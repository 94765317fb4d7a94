"""What a format can carry: the reason why a message cannot be written, and what transcoding changes.

The writers in `codec.py` and `batch/encoding.py` only notice that a message does not fit its format. This module says
which field is to blame. The fields without a place in a format, and the ranges of its numbers, follow from its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message, Version
from hopwire.wire.schema import ENTRY_TYPES, Entry, Field, Packed, Run, Type, WireFormat

__all__ = ["VERSIONS", "check", "transcode"]

VERSIONS: Mapping[bytes, int] = {b"1.0": 1}

TUPLES = ("body_frames", "extensions", "routing", "callback_points")
EMPTY_MESSAGE = Message(b"")


def check(message: Message, fmt: WireFormat) -> None:
    """Raise a WireError that names the first field which the format cannot carry as the field is."""
    if not isinstance(message, Message):
        raise WireError("bad_value", f"found {type(message).__name__}, expected a Message")
    for name in TUPLES:
        _check_tuple(name, getattr(message, name))
    for name in fmt.not_carried:
        if getattr(message, name) != getattr(EMPTY_MESSAGE, name):
            raise WireError("cannot_carry", f"{fmt} has no place for it", field=name)
    _check_bodies(message, fmt)
    for name, row, value in _values(message, fmt):
        _check_value(fmt, name, row.type, value)
    placed = fmt.placed({name: len(getattr(message, name)) for name in TUPLES})
    for field in fmt.fields:
        if field.name.endswith((".count", ".offset")):
            _check_value(fmt, field.name, field.type, placed[field.name])


def _check_tuple(name: str, values: object) -> None:
    if not isinstance(values, tuple | list):
        raise WireError("bad_value", f"found {type(values).__name__}, expected a tuple", field=name)
    wanted = ENTRY_TYPES.get(name, bytes)
    for number, value in enumerate(values):
        if type(value) is not wanted:
            detail = f"found {type(value).__name__}, expected {wanted.__name__}"
            raise WireError("bad_value", detail, field=f"{name}[{number}]")


def _check_bodies(message: Message, fmt: WireFormat) -> None:
    count = len(message.body_frames)
    if count < 1:
        raise WireError("bad_value", "a message has at least one body frame", field="body_frames")
    if count > 1 and not fmt.has_body_run:
        raise WireError("cannot_carry", f"{fmt} has one body frame, found {count}", field="body_frames")


def _values(message: Message, fmt: WireFormat) -> Iterator[tuple[str, Field | Entry, Any]]:
    for row in fmt.rows:
        if isinstance(row, Run | Packed):
            if row.name in ENTRY_TYPES:
                for number, entry in enumerate(getattr(message, row.name)):
                    for part in row.entry:
                        yield f"{row.name}[{number}].{part.name}", part, getattr(entry, part.name)
        elif row.name in fmt.carried and row.name != "body_frames":
            yield row.name, row, getattr(message, row.name)


def _check_value(fmt: WireFormat, name: str, kind: Type, value: Any) -> None:
    if kind.is_number:
        _check_number(fmt, name, kind, value)
    elif kind is Type.TEXT:
        if not isinstance(value, str):
            raise WireError("bad_value", f"found {type(value).__name__}, expected str", field=name)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WireError("invalid_utf8", f"found {value[error.start : error.end]!r}", field=name) from None
    elif name.endswith("version") and isinstance(value, int):
        raise WireError("cannot_carry", f"{fmt} has raw bytes for a version, found the number {value}", field=name)
    elif type(value) is not bytes:
        raise WireError("bad_value", f"found {type(value).__name__}, expected bytes", field=name)


def _check_number(fmt: WireFormat, name: str, kind: Type, value: Any) -> None:
    if name.endswith("version") and isinstance(value, bytes):
        raise WireError("cannot_carry", f"{fmt} has a number for a version, found the bytes {value!r}", field=name)
    if not isinstance(value, int):
        raise WireError("bad_value", f"found {type(value).__name__}, expected int", field=name)
    low, high = kind.bounds
    if not low <= value <= high:
        raise WireError("overflow", f"found {value}, {fmt} takes {low} to {high}", field=name)


def transcode(message: Message, to: WireFormat, versions: Mapping[bytes, int] = VERSIONS) -> Message:
    """Give the message as format `to` can carry it, without loss, or raise a WireError that says what would be lost.

    Only versions are changed: raw bytes to a number by the mapping `versions`, and back.
    """
    if not isinstance(message, Message):
        raise WireError("bad_value", f"found {type(message).__name__}, expected a Message")
    for name in TUPLES:
        _check_tuple(name, getattr(message, name))
    points = tuple(
        CallbackPoint(p.identity, _version(f"callback_points[{number}].version", p.version, to, versions), p.partition)
        for number, p in enumerate(message.callback_points)
    )
    version = _version("version", message.version, to, versions)
    changed = message.replace(version=version, callback_points=points)
    check(changed, to)
    return changed


def _version(name: str, version: Version, to: WireFormat, versions: Mapping[bytes, int]) -> Version:
    if to.version_type.is_number:
        if isinstance(version, bytes):
            if version not in versions:
                detail = f"{to} has a number for a version, no mapping for {version!r}"
                raise WireError("cannot_carry", detail, field=name)
            return versions[version]
    elif isinstance(version, int):
        spellings = [raw for raw, number in versions.items() if number == version]
        if len(spellings) != 1:
            detail = f"{to} has raw bytes for a version, {len(spellings)} mappings for {version}"
            raise WireError("cannot_carry", detail, field=name)
        return spellings[0]
    return version
