"""Values in the words of a person: bytes, sizes, durations.

The trap: these bytes come from outside and go to a terminal. Only printable text passes; the rest is escaped or hex.
So does what is text already: `printable` is for one value, `printable_lines` for what is about to be written.
"""

from __future__ import annotations

import msgspec

from hopwire.model.units import NS_PER_TICK, TICKS_PER_SECOND

__all__ = ["cut", "duration", "plural", "printable", "printable_lines", "text_or_hex", "unpacked"]

MAX_UNPACKED_BYTES = 65_536  # a larger body is not worth unpacking for a preview
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))
FRACTIONS = (("s", TICKS_PER_SECOND), ("ms", TICKS_PER_SECOND // 1_000), ("us", TICKS_PER_SECOND // 1_000_000))
REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Give a count with its noun: 1 byte, 2 bytes."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def cut(text: str, length: int | None) -> str:
    """Give text in at most so many characters, with dots where it was longer."""
    return text if length is None or len(text) <= length else text[: max(0, length - 3)] + "..."


def printable(text: str) -> str:
    r"""Give text with everything escaped that a terminal would obey or hide, such as `\x1b` and `\u202e`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """Give text of several lines in the same way; only the ends of lines stay what they are."""
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
    """Give a MessagePack map or list as text, and nothing for other bytes."""
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
