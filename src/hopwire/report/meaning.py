"""What the bytes of one item mean to a person.

The table MEANINGS goes by the last part of an item's name, without a number: `routing[2].uri` is a `uri`. An item whose
name is not in the table is shown by its type: numbers as they are, bytes as text if they are printable UTF-8, else as
hex.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from hopwire.errors import WireError
from hopwire.model import Distribution, TraceOptions
from hopwire.model.names import ACTOR, HUB
from hopwire.model.units import NS_PER_SECOND
from hopwire.report.words import cut, duration, plural, printable, text_or_hex, unpacked
from hopwire.security import read_signature
from hopwire.security.schemes import DEFAULT_SCHEME
from hopwire.wire.dissect import IN_FRONT, NEWER_BYTES, NEWER_FRAME, RESERVED, UNREAD
from hopwire.wire.extension import MAGIC, read_extension
from hopwire.wire.schema import WireFormat
from hopwire.wire.walk import Item

__all__ = ["OWN_EXTENSION", "meaning"]

MAC_NAMES = {16: "MD5", 20: "SHA-1", 32: "SHA-256", 64: "SHA-512"}
RECEIVERS = {HUB: "hub", ACTOR: "actor"}
BLOCKS = {"callback_points": "callback points", "body_frames": "body"}
NOT_SET = "not set"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OWN_EXTENSION = "hopwire's own"  # such an extension is small, and is never cut


@dataclass(frozen=True, slots=True)
class _ItemValue:
    """The value of one item, and what is needed to explain it."""

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
    words = MEANINGS.get(key, _plain)(_ItemValue(item.value, item, fmt, frame_count))
    return words if words.startswith(OWN_EXTENSION) else cut(words, length)


def _plain(found: _ItemValue) -> str:
    if isinstance(found.value, int):
        return str(found.value)
    data = found.value.encode() if isinstance(found.value, str) else found.value
    return text_or_hex(data) if data else NOT_SET


def _receiver(found: _ItemValue) -> str:
    if not found.value:
        return NOT_SET
    kind = RECEIVERS.get(found.value[:1])
    return f"{kind} {text_or_hex(found.value[1:])}" if kind else f"neither hub nor actor: {text_or_hex(found.value)}"


def _content(found: _ItemValue) -> str:
    if not found.value:
        return "empty"
    return f"{plural(len(found.value), 'byte')}: {unpacked(found.value) or text_or_hex(found.value)}"


def _signature(found: _ItemValue) -> str:
    if not found.value:
        return "unsigned"
    parts = read_signature(found.value, DEFAULT_SCHEME)
    if parts is not None and parts.stamp is not None:
        key_id, node = parts.stamp.key_id, parts.stamp.recipient.node
        return f"{parts.scheme}, key {text_or_hex(key_id.encode())}" + (f", for {text_or_hex(node)}" if node else "")
    name = MAC_NAMES.get(len(found.value))
    return plural(len(found.value), "byte") + (f", like {name}" if name else "")


def _ttl(found: _ItemValue) -> str:
    if found.value == 0:
        return "none"
    return duration(found.value) + (", below zero" if found.value < 0 else "")


def _distribution(found: _ItemValue) -> str:
    names = {each.value: each.name.lower() for each in Distribution}
    return names.get(found.value, f"unknown {found.value}")


def _trace_options(found: _ItemValue) -> str:
    rest = found.value
    names = []
    for option in TraceOptions:
        if option.value & rest:
            names.append(str(option.name).lower())
            rest &= ~option.value
    return ", ".join(names + ([f"unknown {rest:#x}"] if rest else [])) or "none"


def _number_of_format(found: _ItemValue) -> str:
    fmt = found.fmt
    assert fmt is not None
    if found.value not in [int.from_bytes(number, "little") for number in fmt.numbers]:
        return f"{found.value}, {fmt} has {fmt.number}"
    if found.value != fmt.number:
        return f"{found.value}, read as {fmt}"
    width = found.item.stop - found.item.start
    return f"{fmt}" + (f", in {width} bytes as older writers had it" if width != len(fmt.numbers[0]) else "")


def _callback_key(found: _ItemValue) -> str:
    return str(found.value) if found.value else NOT_SET


def _count(found: _ItemValue) -> str:
    if found.value == 0:
        return "none"
    return plural(found.value, "frame") if found.block == "body_frames" else plural(found.value, "entry", "entries")


def _offset(found: _ItemValue) -> str:
    if found.value in (0, -1) and found.block != "body_frames":
        return "none"
    if not 1 <= found.value <= found.frame_count:
        return f"{found.value}, beyond the {plural(found.frame_count, 'frame')}"
    which = "first" if found.block == "body_frames" else "last"
    return f"frame {found.frame_count - found.value}, the {which} of the {BLOCKS.get(found.block, found.block)}"


def _stride(found: _ItemValue) -> str:
    runs = found.fmt.runs if found.fmt else ()
    known = next((len(run.entry) for run in runs if run.name == found.block), found.value)
    newer = f", {found.value - known} of them newer than the document" if found.value > known else ""
    return f"{plural(found.value, 'frame')} per entry{newer}"


def _size(found: _ItemValue) -> str:
    return f"entry of {plural(found.value, 'byte')}"


def _reserved(found: _ItemValue) -> str:
    is_zero = not any(found.value) if isinstance(found.value, bytes) else found.value == 0
    return "zero" if is_zero else "not zero, ignored"


def _extension(found: _ItemValue) -> str:
    if not found.value.startswith(MAGIC):
        return f"kept as it is, {_content(found)}"
    try:
        values = msgspec.structs.asdict(read_extension(found.value))
    except WireError as error:
        return f"{OWN_EXTENSION}, and cannot be read: {printable(error.detail)}"
    shown = [f"{name} {_extension_value(name, value)}" for name, value in values.items() if value]
    return f"{OWN_EXTENSION}: {', '.join(shown) or 'nothing is set'}"


def _extension_value(name: str, value: Any) -> str:
    if name == "sent_at_ns":
        seconds, rest_ns = divmod(value, NS_PER_SECOND)
        with suppress(OverflowError):
            return f"{value} ({EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d} UTC)"
    if isinstance(value, bytes):
        return text_or_hex(value)
    return printable(value) if isinstance(value, str) else str(value).lower()


def _separator(found: _ItemValue) -> str:
    return ""


def _after(words: str) -> Callable[[_ItemValue], str]:
    return lambda found: f"{words}, {_content(found)}"


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
    "extensions":                 _extension,
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
