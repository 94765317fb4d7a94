"""Bytes as a hex dump, with a caret below the one that matters.

The trap: a marked byte may stand just behind the last one, where something is missing: it has its caret too.
"""

from __future__ import annotations

__all__ = ["hexdump"]

NEARBY_LINES = 2  # above and below the marked one


def hexdump(data: bytes, mark: int | None = None, width: int = 16) -> list[str]:
    """Give the lines of a hex dump, `width` bytes each; with a mark, only the lines around it and a line of carets."""
    starts = list(range(0, len(data), width))
    if mark is None:
        return [_line(data, start, width) for start in starts]
    marked = mark // width * width
    if marked not in starts:
        starts.append(marked)
    here = starts.index(marked)
    first = max(0, here - NEARBY_LINES)
    lines = [_line(data, start, width) for start in starts[first : here + NEARBY_LINES + 1]]
    lines.insert(here - first + 1, _caret_line(mark - marked))
    if first:
        lines.insert(0, "...")
    if here + NEARBY_LINES + 1 < len(starts):
        lines.append("...")
    return lines


def _line(data: bytes, start: int, width: int) -> str:
    part = data[start : start + width]
    hexes = " ".join(f"{byte:02x}" for byte in part)
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
    return f"{start:6d}  {hexes:{3 * width - 1}}  {text}".rstrip()


def _caret_line(column: int) -> str:
    return " " * (6 + 2 + 3 * column) + "^^"
