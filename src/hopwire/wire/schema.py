"""What a wire format is made of: four kinds of rows, and what they mean.

| row                             | meaning                                                                         |
|---------------------------------|---------------------------------------------------------------------------------|
| `Field(n - k, bit, name, type)` | frame n-k of n, or, with a first bit, one 16-bit lane of the 64-bit word in it  |
| `Field(__, bit, name, type)`    | the next item in the meta frame, or one lane of the 64-bit word that comes next |
| `Run(name, entry)`              | frames found by `<name>.offset`, `<name>.count`, `<name>.stride`, from the end  |
| `Packed(name, entry)`           | `<name>.count` entries inside the meta frame, each behind its size              |

A frame number without `n` counts from the front. A name without a dot is a field of the message, `name.offset` and the
like describe a block, and a nameless row is reserved: written as zeros, ignored on read.

Everything here is description. The readers and writers (`walk.py`, `compile.py`, `batch/`) and the documentation are
derived from it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from hopwire.model import CallbackPoint, Message, RoutingEntry

__all__ = ["ENTRY_TYPES", "Entry", "Field", "FromEnd", "Packed", "Run", "Type", "WireFormat", "__", "n"]

WORD_BYTES = 8
ENTRY_TYPES: dict[str, Any] = {"routing": RoutingEntry, "callback_points": CallbackPoint}  # by block


class Type(Enum):
    """How the bytes of one value are to be read: a name, a struct code, a width in bytes, and words for the reader."""

    RAW = ("raw", "", None, "bytes as they are")
    TEXT = ("text", "", None, "UTF-8")
    EMPTY = ("empty", "", 0, "no bytes")
    U16 = ("u16", "H", 2, "16-bit number")
    I32 = ("i32", "i", 4, "32-bit number")
    I64 = ("i64", "q", 8, "64-bit number")
    I32_OR_EMPTY = ("i32?", "i", 4, "32-bit number, no bytes when 0")
    META = ("meta", "", None, "the meta frame")

    def __init__(self, word: str, code: str, width: int | None, meaning: str) -> None:
        self.word = word
        self.code = code
        self.width = width
        self.meaning = meaning

    @property
    def is_number(self) -> bool:
        """Whether values of this type are numbers."""
        return bool(self.code)

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest number of this type."""
        bits = 8 * struct.calcsize(self.code)
        return (0, 2**bits - 1) if self.code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@dataclass(frozen=True, slots=True)
class FromEnd:
    """The frame n-k of a message of n frames; `n - 3` in a table."""

    k: int = 0

    def __sub__(self, k: int) -> FromEnd:
        return FromEnd(self.k + k)

    def __str__(self) -> str:
        return f"n-{self.k}" if self.k else "n"


n = FromEnd()
__ = None


@dataclass(frozen=True, slots=True)
class Field:
    """One value: where it stands, what it is called, how it is read, and the document's words for it."""

    frame: FromEnd | int | None
    bit: int | None
    name: str
    type: Type
    title: str
    is_selector: bool = False

    @property
    def lane_byte(self) -> int:
        """Where the value starts within its word."""
        return ((self.bit or 1) - 1) // 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of each entry in a block, in the order of the wire."""

    name: str
    type: Type
    title: str


@dataclass(frozen=True, slots=True)
class Run:
    """A block of whole frames, `len(entry)` or more for each entry."""

    name: str
    entry: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Packed:
    """A block of entries within the meta frame, each with its size in front."""

    name: str
    entry: tuple[Entry, ...]
    title: str


Row = Field | Run | Packed
Word = tuple[Field, ...]


@dataclass(frozen=True)
class WireFormat:
    """One generation of the wire format: its number, what else is accepted on read, and its table."""

    name: str
    number: int
    numbers: tuple[bytes, ...]  # every spelling of the number that is taken for this format; the first is written
    rows: tuple[Row, ...]
    retired_tails: tuple[int, ...] = ()  # tail sizes that short-lived layouts with the same number had

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All single values, in the order of the table."""
        return tuple(row for row in self.rows if isinstance(row, Field))

    @cached_property
    def tail(self) -> int:
        """How many frames at the end have a fixed place."""
        return max(field.frame.k for field in self.fields if isinstance(field.frame, FromEnd))

    @cached_property
    def tail_words(self) -> tuple[Word, ...]:
        """The fixed frames at the end, top to bottom, each as the values it holds."""
        frames: dict[int, list[Field]] = {}
        for field in self.fields:
            if isinstance(field.frame, FromEnd):
                frames.setdefault(field.frame.k, []).append(field)
        return tuple(tuple(frames[k]) for k in sorted(frames, reverse=True))

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The blocks of frames, top to bottom."""
        return tuple(row for row in self.rows if isinstance(row, Run))

    def placed(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """Give counts, offsets and strides of all blocks as a writer sets them, from the number of entries of each.

        Blocks stand upon one another: the extensions on the tail, then the blocks from bottom to top, the body on top.
        A count is a number, or an array of numbers with one for each message.
        """
        placed: dict[str, Any] = {}
        below = self.tail + counts["extensions"]  # none, where the format cannot carry extensions
        for row in reversed([row for row in self.rows if not isinstance(row, Field)]):
            count = counts[row.name]
            placed[f"{row.name}.count"] = count
            placed[f"{row.name}.stride"] = len(row.entry) + 0 * count
            if isinstance(row, Run):
                size = count * len(row.entry)
                is_body = row.name == "body_frames"
                placed[f"{row.name}.offset"] = below + size if is_body else (below + 1) * (count > 0)
                below = below + size
        return placed

    @cached_property
    def has_body_run(self) -> bool:
        """Whether there is room for several body frames."""
        return any(run.name == "body_frames" for run in self.runs)

    @cached_property
    def fewest_frames(self) -> int:
        """How many frames a message has at least: the tail, and a body where it stands above."""
        return self.tail + self.has_body_run

    @cached_property
    def meta_items(self) -> tuple[Word | Packed, ...]:
        """What stands in the meta frame, first to last: single values, words of lanes, blocks of entries."""
        items: list[Word | Packed] = []
        for row in self.rows:
            if isinstance(row, Packed):
                items.append(row)
            elif isinstance(row, Field) and row.frame is None:
                if row.bit is None or row.bit == 1:
                    items.append((row,))
                else:
                    lanes = items[-1]
                    assert isinstance(lanes, tuple)
                    items[-1] = (*lanes, row)
        return tuple(items)

    @cached_property
    def has_meta_frame(self) -> bool:
        """Whether the header is one frame."""
        return bool(self.meta_items)

    @cached_property
    def number_field(self) -> Field:
        """Where the number of the format stands."""
        return next(field for field in self.fields if field.name == "wire_format_version")

    @cached_property
    def version_type(self) -> Type:
        """How a message's version is written: raw bytes or a number."""
        return next(field.type for field in self.fields if field.name == "version")

    @cached_property
    def carried(self) -> frozenset[str]:
        """The fields of a message that this format has a place for."""
        names = {row.name for row in self.rows} | ({"extensions"} if self.has_meta_frame else set())
        return frozenset(names & set(Message.__struct_fields__))

    @cached_property
    def not_carried(self) -> tuple[str, ...]:
        """The fields of a message that this format has no place for."""
        return tuple(name for name in Message.__struct_fields__ if name not in self.carried)
