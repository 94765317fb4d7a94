"""The capture record: one message as one node saw it, or the place where sightings are missing.

`Sighting` is the only declaration; the Arrow schema and the columns of `bronze.sightings` follow from it.

- A node numbers its sightings from 0, anew in each incarnation. Every number is in the capture: on the row of its
  message, or within a row of direction `skipped`. Example: a row of direction `skipped` with sequence 10 and `skipped`
  3 stands for the numbers 10, 11 and 12. So the capture itself proves whether it is complete.
- No column is ever null. A value that does not apply is empty or 0.
- The schema carries a version. A change that an old reader cannot understand raises the first number of the version,
  and old readers refuse the file. A new column at the end raises the second number, and old readers ignore the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, get_type_hints

import pyarrow as pa

from hopwire.errors import CaptureError

__all__ = [
    "SCHEMA",
    "VERSION_KEY",
    "Direction",
    "Origin",
    "Row",
    "Sighting",
    "batch_from_rows",
    "batch_from_sightings",
    "check_schema",
    "sightings_from_batch",
]

VERSION = (1, 0)
VERSION_KEY = b"hopwire.capture"


class Direction(StrEnum):
    """What happened to the message at the node."""

    IN = "in"
    OUT = "out"
    DEAD = "dead"
    SKIPPED = "skipped"


# fmt: off
class Sighting(NamedTuple):
    """One row of a capture."""

    node: bytes                # identity of the node that saw the message
    node_name: str             # what people call the node
    incarnation: int           # which start of the node this is; grows with each start
    sequence: int              # number of the sighting within the incarnation, from 0
    seen_at_ns: int            # when, by the clock of the node, in nanoseconds since 1970
    direction: str             # a Direction
    peer: bytes                # identity of the node at the other end; empty for the node's own actors
    frames: Sequence[bytes]    # the message as it was on the wire
    reason: str = ""           # why a dead letter went no further, or why sightings are missing
    note: str = ""             # the reason in words, where there is more to say
    skipped: int = 0           # how many sightings are missing here
# fmt: on


Row: TypeAlias = tuple[int, int, str, bytes, Sequence[bytes], str, str, int]  # a Sighting from `sequence` on


@dataclass(frozen=True, slots=True)
class Origin:
    """The values that all sightings of one node in one incarnation share."""

    node: bytes
    node_name: str
    incarnation: int


ORIGIN_NAMES = tuple(field.name for field in fields(Origin))
ARROW_TYPES = {bytes: pa.binary(), str: pa.string(), int: pa.int64(), Sequence[bytes]: pa.list_(pa.binary())}
SCHEMA: pa.Schema = pa.schema(
    [pa.field(name, ARROW_TYPES[kind]) for name, kind in get_type_hints(Sighting).items()],
    metadata={VERSION_KEY: ".".join(map(str, VERSION))},
)


def batch_from_sightings(sightings: Sequence[Sighting]) -> pa.RecordBatch:
    """Give sightings as a batch."""
    return pa.RecordBatch.from_arrays(_arrays(sightings, Sighting._fields), schema=SCHEMA)


def batch_from_rows(origin: Origin, rows: Sequence[Row]) -> pa.RecordBatch:
    """Give sightings of one origin as a batch, from rows without the columns of the origin."""
    same = [pa.repeat(pa.scalar(getattr(origin, name), SCHEMA.field(name).type), len(rows)) for name in ORIGIN_NAMES]
    return pa.RecordBatch.from_arrays(same + _arrays(rows, Sighting._fields[len(same) :]), schema=SCHEMA)


def _arrays(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[Any]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return [pa.array(values, SCHEMA.field(name).type) for name, values in zip(names, columns, strict=True)]


def sightings_from_batch(batch: pa.RecordBatch) -> list[Sighting]:
    """Give the rows of a batch."""
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in Sighting._fields]
    return [Sighting(*row) for row in zip(*columns, strict=True)]


def check_schema(found: pa.Schema) -> None:
    """Refuse a schema that is not the schema of a capture, or is newer than this reader."""
    version = _version(found)
    if version[0] > VERSION[0]:
        raise CaptureError(f"is a capture of version {_dotted(version)}, expected {VERSION[0]} or older")
    for column in SCHEMA:
        index = found.get_field_index(column.name)
        if index < 0:
            raise CaptureError(f"has no column {column.name}, which a capture has")
        if found.field(index).type != column.type:
            raise CaptureError(f"has column {column.name} as {found.field(index).type}, expected {column.type}")


def _version(found: pa.Schema) -> tuple[int, ...]:
    text = (found.metadata or {}).get(VERSION_KEY)
    if text is None:
        raise CaptureError("is an Arrow stream, but not a capture")
    try:
        return tuple(int(part) for part in text.decode().split("."))
    except ValueError:
        raise CaptureError(f"has the version {text!r:.40}, expected one such as {_dotted(VERSION)}") from None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
