"""Values in the words of a person: bytes, sizes, durations, nodes; and from the words for a node back to the node.

The trap: bytes and texts come from outside and go to a terminal. Only printable text passes, the rest is escaped or
hex. `printable` is for one value, `printable_lines` for all lines that are about to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches

import msgspec

from hopwire.model.units import NS_PER_MS, NS_PER_SECOND, NS_PER_TICK, NS_PER_US, TICKS_PER_SECOND

__all__ = [
    "cut",
    "duration",
    "moment",
    "nearest",
    "node_label",
    "nodes_called",
    "noun_for",
    "plural",
    "printable",
    "printable_lines",
    "rough_duration",
    "spellings",
    "text_or_hex",
    "time_of_day",
    "unpacked",
]

NEAR = 0.8  # how alike two names are that somebody may have mixed up
MAX_UNPACKED_BYTES = 65_536  # a larger body is not worth unpacking for a preview
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
FRACTIONS = (("s", TICKS_PER_SECOND), ("ms", NS_PER_MS // NS_PER_TICK), ("us", NS_PER_US // NS_PER_TICK))
REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Give a count with its noun: 1 byte, 2 bytes."""
    return f"{count} {noun_for(count, noun, nouns)}"


def noun_for(count: int, noun: str, nouns: str = "") -> str:
    """Give a noun as it stands behind a count: byte, bytes."""
    return noun if count == 1 else nouns or noun + "s"


def cut(text: str, length: int | None) -> str:
    """Give text in at most so many characters; a text that was longer ends in dots."""
    return text if length is None or len(text) <= length else text[: max(0, length - 3)] + "..."


def printable(text: str) -> str:
    r"""Give text with everything escaped that a terminal would obey or hide, such as `\x1b` and `\u202e`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """Give text of several lines, each of them `printable`."""
    return "\n".join(map(printable, text.split("\n")))


def text_or_hex(data: bytes) -> str:
    """Give bytes as text if they are printable UTF-8, else as hex."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    if not text.isprintable():
        return f"0x{data.hex()}"
    return text if text == text.strip() else repr(text)


def unpacked(data: bytes) -> str:
    """Give a MessagePack map or list as text, and empty text for other bytes."""
    if len(data) > MAX_UNPACKED_BYTES or not (0x80 <= data[0] <= 0x9F or 0xDC <= data[0] <= 0xDF):
        return ""
    try:
        return f"MessagePack {msgspec.msgpack.decode(data)!r}"
    except REFUSALS:
        return ""


def duration(ticks: int) -> str:
    """Give ticks of 100 ns as a duration with its units, exactly."""
    if ticks < 0:
        return "-" + duration(-ticks)
    if 0 < ticks < TICKS_PER_SECOND:
        short = (_decimal(ticks, *unit) for unit in FRACTIONS if ticks >= unit[1])
        return next(short, f"{ticks * NS_PER_TICK} ns")
    parts = []
    for name, seconds in UNITS:
        count, ticks = divmod(ticks, seconds * TICKS_PER_SECOND)
        if count:
            parts.append(f"{count} {name}")
    if ticks or not parts:
        parts.append(_decimal(ticks, *FRACTIONS[0]))
    return " ".join(parts)


def _decimal(ticks: int, name: str, ticks_per_unit: int) -> str:
    whole, rest = divmod(ticks, ticks_per_unit)
    digits = len(str(ticks_per_unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0").rstrip(".") + f" {name}"


def time_of_day(ns: int) -> str:
    """Give the time of the day in UTC, to the millisecond, of nanoseconds since 1970."""
    return f"{datetime.fromtimestamp(ns // NS_PER_SECOND, UTC):%H:%M:%S}.{ns % NS_PER_SECOND // NS_PER_MS:03d}"


def moment(ns: int) -> str:
    """Give a time for a person and for programs, to the millisecond, in UTC, of nanoseconds since 1970."""
    return f"{datetime.fromtimestamp(ns // NS_PER_SECOND, UTC):%Y-%m-%dT}{time_of_day(ns)}Z"


def rough_duration(seconds: float) -> str:
    """Give how long something lasts in one unit, for people: 0.4 s, 35 s, 12 min, 3 h."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{max(0.0, seconds):.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


# -- nodes


def node_label(node: bytes, name: str = "") -> str:
    """Give what people call a node: its name, or its identity where it has no name; in quotes if blanks surround it."""
    shown = printable(name)
    return (shown if shown == shown.strip() else repr(shown)) or text_or_hex(node)


def nodes_called(text: str, names: Mapping[bytes, str]) -> list[bytes]:
    """Give the nodes that a user may mean: the text is a name, an identity as text, or an identity as hex.

    Several nodes may have one name. `0x01ff` and `01ff` are both the node whose identity is these two bytes.
    """
    return [node for node, name in names.items() if text in (name, text_or_hex(node), node.hex(), f"0x{node.hex()}")]


def nearest(name: str, known: Iterable[str]) -> str:
    """Give the known name that is most like a name, or nothing if none is."""
    return next(iter(get_close_matches(name, list(known), 1, NEAR)), "")


def spellings(text: str) -> list[bytes]:
    """Give the byte strings that a user may mean: the text as it was typed, and the bytes of `0x...`."""
    typed = text.encode("utf-8", "surrogateescape")  # bytes that are no UTF-8 reach Python as half surrogate pairs
    try:
        return [typed, *([bytes.fromhex(text[2:])] if text.startswith("0x") else [])]
    except ValueError:
        return [typed]
