"""The records of a capture's files: what is written at a time, which is one sighting or a whole train.

A node writes down what the wire carried. So a record has the columns of a sighting, and `train`:

| `train` | the record is |
|---|---|
| 0 | one sighting, or the place where sightings are missing |
| n, 1 or more | n sightings: `frames` are a sender and a train of n messages, `sequence` is the number of the first |

Whoever reads a file gets sightings (`expansion.py`). Example: a record with sequence 10 and `train` 3 gives the
sightings 10, 11 and 12, all with the time and the peer of the record.

A file carries a version. A change that an old reader cannot understand raises the first number of the version, and old
readers refuse the file. A new column at the end raises the second number, and old readers ignore the column.

| version | a file has |
|---|---|
| 1.0 | sightings: the columns without `train` |
| 2.0 | records |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import pyarrow as pa

from hopwire.errors import CaptureError
from hopwire.model.sighting import Sighting
from hopwire.model.sighting_batch import SCHEMA, VERSION_KEY, array_of, arrays_from_rows

__all__ = ["RECORDS", "TRAIN", "Origin", "Row", "batch_from_rows", "check_schema", "records_from_sightings"]

VERSION = (2, 0)
TRAIN = "train"
RECORDS: pa.Schema = SCHEMA.append(pa.field(TRAIN, pa.int64())).with_metadata(
    {VERSION_KEY: ".".join(map(str, VERSION))}
)

Row: TypeAlias = tuple[int, int, str, bytes, Sequence[bytes], str, str, int, int]  # a record from `sequence` on


@dataclass(frozen=True, slots=True)
class Origin:
    """The values that all records of one node in one incarnation share."""

    node: bytes
    node_name: str
    incarnation: int


ORIGIN_NAMES = tuple(field.name for field in fields(Origin))


def batch_from_rows(origin: Origin, rows: Sequence[Row]) -> pa.RecordBatch:
    """Give records of one origin as a batch, from rows without the columns of the origin."""
    same = [array_of([getattr(origin, name)] * len(rows), RECORDS.field(name).type) for name in ORIGIN_NAMES]
    rest = pa.schema([RECORDS.field(name) for name in (*Sighting._fields[len(same) :], TRAIN)])
    return pa.RecordBatch.from_arrays(same + arrays_from_rows(rows, rest), schema=RECORDS)


def records_from_sightings(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch of sightings as records, one for each."""
    none: Any = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, none], schema=RECORDS)


def check_schema(found: pa.Schema) -> pa.Schema:
    """Give the columns to read from a file: of records, or of sightings; refuse what is none or newer."""
    version = _version(found)
    if version[0] > VERSION[0]:
        raise CaptureError(f"is a capture of version {_dotted(version)}, expected {VERSION[0]} or older")
    expected = RECORDS if version[0] >= VERSION[0] else SCHEMA
    for column in expected:
        index = found.get_field_index(column.name)
        if index < 0:
            raise CaptureError(f"has no column {column.name}, which a capture has")
        if found.field(index).type != column.type:
            raise CaptureError(f"has column {column.name} as {found.field(index).type}, expected {column.type}")
    return expected


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
