"""A dissection as rows for a reader, and as JSON for a program.

A row is one item: where it stands, its name, its type, its bytes and what they mean. Rows without a name in the tables
have one in brackets: `(empty)`, `(reserved)`, `(not read)`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hopwire.errors import WireError
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report.jsonable import message_to_json
from hopwire.report.meaning import meaning
from hopwire.wire.dissect import Dissection
from hopwire.wire.schema import Type
from hopwire.wire.walk import Item

__all__ = ["Row", "dissection_to_json", "error_to_json", "position", "rows_from_dissection"]


@dataclass(frozen=True, slots=True)
class Row:
    """One item for a reader; the bytes are `frames[frame][start:stop]`."""

    frame: int
    position: str  # the frame as the documents count it: n-3
    start: int
    stop: int
    name: str
    type: str
    hex: str
    meaning: str


def rows_from_dissection(dissection: Dissection, preview: int | None = None) -> list[Row]:
    """Give one row for each item, in the order of the wire; `preview` cuts long meanings to that many characters."""
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
    """Name a frame as the documents do, counted from the end."""
    return f"n-{len(dissection.frames) - frame}"


def dissection_to_json(dissection: Dissection) -> dict[str, Any]:
    """Give everything a dissection holds: frames, message, items, error."""
    message, fmt = dissection.message, dissection.fmt
    return {
        "format": fmt.name if fmt else None,
        "frames": [frame.hex() for frame in dissection.frames],
        "fields": message_to_json(message, fmt) if message and fmt else None,
        "items": [asdict(row) for row in rows_from_dissection(dissection)],
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
