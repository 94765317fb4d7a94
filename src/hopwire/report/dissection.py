"""A dissection as rows and as a hex dump for a reader, and as JSON for a program.

A row is one item: its place, its name, its type, its bytes and their meaning. An item that has no name in the tables of
the formats has a name in brackets: `(empty)`, `(reserved)`, `(not read)`.

The trap: the byte that a dump marks may be missing. Then it stands behind the last byte, and has its caret too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hopwire.errors import WireError
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report.jsonable import jsonable, message_to_json
from hopwire.report.meaning import meaning
from hopwire.wire.dissect import Dissection
from hopwire.wire.schema import Type
from hopwire.wire.walk import Item

__all__ = ["Row", "dissection_to_json", "error_to_json", "hexdump", "position", "rows_from_dissection"]

NEARBY_LINES = 2  # of a dump, above and below the line with the marked byte


@dataclass(frozen=True, slots=True)
class Row:
    """One item for a reader; its bytes are `frames[frame][start:stop]`."""

    frame: int
    position: str  # the frame as the documents count it: n-3
    start: int
    stop: int
    name: str
    type: str
    hex: str
    meaning: str


def rows_from_dissection(dissection: Dissection, preview: int | None = None) -> list[Row]:
    """Give one row for each item, in the order of the wire; no meaning is longer than `preview` characters."""
    return [_row(dissection, item, preview) for item in dissection.items]


def _row(dissection: Dissection, item: Item, preview: int | None) -> Row:
    return Row(
        item.frame,
        position(dissection, item.frame),
        item.start,
        item.stop,
        item.name or f"({'empty' if item.type is Type.EMPTY else item.title.lower()})",
        item.type.word,
        dissection.frames[item.frame][item.start : item.stop].hex(),
        meaning(item, dissection.fmt, len(dissection.frames), preview),
    )


def position(dissection: Dissection, frame: int) -> str:
    """Name a frame as the documents do, which count from the end: n-1 is the last frame."""
    return f"n-{len(dissection.frames) - frame}"


# -- the hex dump


def hexdump(data: bytes, mark: int | None = None, width: int = 16) -> list[str]:
    """Give the lines of a hex dump, `width` bytes each; with a mark, only the lines around the marked byte."""
    starts = list(range(0, len(data), width))
    if mark is None:
        return [_dump_line(data, start, width) for start in starts]
    marked = mark // width * width
    if marked not in starts:
        starts.append(marked)
    here = starts.index(marked)
    first = max(0, here - NEARBY_LINES)
    lines = [_dump_line(data, start, width) for start in starts[first : here + NEARBY_LINES + 1]]
    lines.insert(here - first + 1, " " * (6 + 2 + 3 * (mark - marked)) + "^^")
    if first:
        lines.insert(0, "...")
    if here + NEARBY_LINES + 1 < len(starts):
        lines.append("...")
    return lines


def _dump_line(data: bytes, start: int, width: int) -> str:
    part = data[start : start + width]
    hexes = " ".join(f"{byte:02x}" for byte in part)
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
    return f"{start:6d}  {hexes:{3 * width - 1}}  {text}".rstrip()


# -- JSON


def dissection_to_json(dissection: Dissection) -> dict[str, Any]:
    """Give a dissection as JSON: format, frames, fields of the message, items, error."""
    message, fmt = dissection.message, dissection.fmt
    return {
        "format": fmt.name if fmt else None,
        "frames": jsonable(dissection.frames),
        "fields": message_to_json(message, fmt) if message and fmt else None,
        "items": jsonable(rows_from_dissection(dissection)),
        "error": error_to_json(dissection.error) if dissection.error else None,
    }


def error_to_json(error: WireError) -> dict[str, Any]:
    """Give the facts of an error, with the meaning of its reason."""
    return {
        "reason": error.reason,
        "meaning": WIRE_REASONS[error.reason],
        "detail": error.detail,
        "frame": error.frame,
        "byte": error.byte,
        "field": error.field,
    }
