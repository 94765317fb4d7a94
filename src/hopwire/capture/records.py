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
| 3.0 | records, with the directions `local` and `told` among them |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Ints, bools
from hopwire.errors import CaptureError
from hopwire.model.sighting import Direction, Sighting
from hopwire.model.sighting_batch import SCHEMA, VERSION_KEY, array_of, arrays_from_rows
from hopwire.wire.train import pack_train

__all__ = ["RECORDS", "TRAIN", "Origin", "Row", "batch_from_rows", "check_schema", "coupled", "records_from_sightings"]

VERSION = (3, 0)
WITH_TRAINS = 2  # from this version on, a file has records
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


def coupled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch of sightings as records; messages that one node sent to another in one moment are a train."""
    records = records_from_sightings(batch)
    starts, sizes = _trains(batch)
    alone = batch.column("frames")
    frames = {}
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        messages = alone.slice(start, size).to_pylist()
        frames[start] = [messages[0][0], pack_train(messages)]
    if not frames:
        return records
    places = np.arange(len(batch))
    places[list(frames)] = len(batch) + np.arange(len(frames))
    lists = pa.concat_arrays([alone, pa.array(frames.values(), alone.type)])
    made = {"frames": lists.take(pa.array(places[starts])), TRAIN: pa.array(np.where(sizes > 1, sizes, 0))}
    first = records.take(pa.array(starts))
    return pa.RecordBatch.from_arrays([made.get(name, first.column(name)) for name in RECORDS.names], schema=RECORDS)


def _trains(batch: pa.RecordBatch) -> tuple[Ints, Ints]:
    """Give where sightings begin that belong together, and how many these are."""
    is_same = np.isin(batch.column("direction").to_numpy(zero_copy_only=False), (Direction.IN, Direction.OUT))[1:]
    for name in ("node", "incarnation", "seen_at_ns", "direction", "peer"):
        column = batch.column(name)
        is_same &= bools(pc.equal(column.slice(1), column.slice(0, len(column) - 1)))
    starts = np.flatnonzero(np.append(True, ~is_same))
    return starts, np.diff(np.append(starts, len(batch)))


def check_schema(found: pa.Schema) -> pa.Schema:
    """Give the columns to read from a file: of records, or of sightings; refuse what is none or newer."""
    version = _version(found)
    if version[0] > VERSION[0]:
        raise CaptureError(f"is a capture of version {_dotted(version)}, expected {VERSION[0]} or older")
    expected = RECORDS if version[0] >= WITH_TRAINS else SCHEMA
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
