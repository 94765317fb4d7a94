"""What the bytes of one item mean to a person.

The table MEANINGS goes by name: the last part of it, without a number (`routing[2].uri` is a `uri`). A name that is not
in the table is shown by its type: a number as it is, bytes as text where they are printable UTF-8, else as hex.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hopwire.model import Distribution, TraceOptions
from hopwire.report.words import cut, duration, plural, text_or_hex, unpacked
from hopwire.security import read_signature
from hopwire.wire.dissect import IN_FRONT, NEWER_BYTES, NEWER_FRAME, RESERVED, UNREAD
from hopwire.wire.schema import WireFormat
from hopwire.wire.walk import Item

__all__ = ["meaning"]

MAC_NAMES = {16: "MD5", 20: "SHA-1", 32: "SHA-256", 64: "SHA-512"}
RECEIVERS = {0: "hub", 1: "actor"}
BLOCKS = {"callback_points": "callback points", "body_frames": "body"}
NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class _ItemValue:
    """One value and what is needed to explain it."""

    value: Any
    item: Item
    fmt: WireFormat | None
    frame_count: int

    @property
    def block(self) -> str:
        return self.item.name.partition(".")[0]


def meaning(item: Item, fmt: WireFormat | None, frame_count: int, length: int | None = None) -> str:
    """Say what an item of a message with so many frames means, in at most `length` characters."""
    key = item.name.rpartition(".")[2].partition("[")[0] or item.title.lower()
    return cut(MEANINGS.get(key, _plain)(_ItemValue(item.value, item, fmt, frame_count)), length)


def _plain(seen: _ItemValue) -> str:
    if isinstance(seen.value, int):
        return str(seen.value)
    data = seen.value.encode() if isinstance(seen.value, str) else seen.value
    return text_or_hex(data) if data else NOT_SET


def _receiver(seen: _ItemValue) -> str:
    if not seen.value:
        return NOT_SET
    kind = RECEIVERS.get(seen.value[0])
    return f"{kind} {text_or_hex(seen.value[1:])}" if kind else f"neither hub nor actor: {text_or_hex(seen.value)}"


def _content(seen: _ItemValue) -> str:
    if not seen.value:
        return "empty"
    return f"{plural(len(seen.value), 'byte')}: {unpacked(seen.value) or text_or_hex(seen.value)}"


def _signature(seen: _ItemValue) -> str:
    if not seen.value:
        return "unsigned"
    parts = read_signature(seen.value, "hopwire-1")
    if parts is not None and parts.stamp is not None:
        return f"hopwire-1, key {text_or_hex(parts.stamp.key_id.encode())}"
    name = MAC_NAMES.get(len(seen.value))
    return plural(len(seen.value), "byte") + (f", like {name}" if name else "")


def _ttl(seen: _ItemValue) -> str:
    if seen.value == 0:
        return "none"
    return duration(seen.value) + (", below zero" if seen.value < 0 else "")


def _distribution(seen: _ItemValue) -> str:
    names = {each.value: each.name.lower() for each in Distribution}
    return names.get(seen.value, f"unknown {seen.value}")


def _trace_options(seen: _ItemValue) -> str:
    rest = seen.value
    names = []
    for option in TraceOptions:
        if option.value & rest:
            names.append(str(option.name).lower())
            rest &= ~option.value
    return ", ".join(names + ([f"unknown {rest:#x}"] if rest else [])) or "none"


def _number_of_format(seen: _ItemValue) -> str:
    fmt = seen.fmt
    assert fmt is not None
    if seen.value not in [int.from_bytes(number, "little") for number in fmt.numbers]:
        return f"{seen.value}, {fmt} has {fmt.number}"
    if seen.value != fmt.number:
        return f"{seen.value}, read as {fmt}"
    width = seen.item.stop - seen.item.start
    return f"{fmt}" + (f", in {width} bytes as older writers had it" if width != len(fmt.numbers[0]) else "")


def _callback_key(seen: _ItemValue) -> str:
    return str(seen.value) if seen.value else NOT_SET


def _count(seen: _ItemValue) -> str:
    if seen.value == 0:
        return "none"
    return plural(seen.value, "frame") if seen.block == "body_frames" else plural(seen.value, "entry", "entries")


def _offset(seen: _ItemValue) -> str:
    if seen.value in (0, -1) and seen.block != "body_frames":
        return "none"
    if not 1 <= seen.value <= seen.frame_count:
        return f"{seen.value}, beyond the {plural(seen.frame_count, 'frame')}"
    which = "first" if seen.block == "body_frames" else "last"
    return f"frame {seen.frame_count - seen.value}, the {which} of the {BLOCKS.get(seen.block, seen.block)}"


def _stride(seen: _ItemValue) -> str:
    known = next((len(run.entry) for run in (seen.fmt.runs if seen.fmt else ()) if run.name == seen.block), seen.value)
    newer = f", {seen.value - known} of them newer than the document" if seen.value > known else ""
    return f"{plural(seen.value, 'frame')} per entry{newer}"


def _size(seen: _ItemValue) -> str:
    return f"entry of {plural(seen.value, 'byte')}"


def _reserved(seen: _ItemValue) -> str:
    is_zero = not any(seen.value) if isinstance(seen.value, bytes) else seen.value == 0
    return "zero" if is_zero else "not zero, ignored"


def _separator(seen: _ItemValue) -> str:
    return ""


def _after(words: str) -> Callable[[_ItemValue], str]:
    return lambda seen: f"{words}, {_content(seen)}"


# fmt: off
MEANINGS: dict[str, Callable[[_ItemValue], str]] = {
    "wire_format_version":        _number_of_format,
    "receiver_identity":          _receiver,
    "callback_receiver_identity": _receiver,
    "callback_key":               _callback_key,
    "distribution":               _distribution,
    "trace_options":              _trace_options,
    "ttl_ticks":                  _ttl,
    "signature":                  _signature,
    "body_frames":                _content,
    "extensions":                 _after("kept as it is"),
    "count":                      _count,
    "offset":                     _offset,
    "stride":                     _stride,
    "size":                       _size,
    "[0]":                        _separator,
    RESERVED:                     _reserved,
    IN_FRONT:                     _after("not part of the message"),
    NEWER_FRAME:                  _after("not in the document"),
    NEWER_BYTES:                  _after("not in the document"),
    UNREAD:                       _content,
}
# fmt: on
