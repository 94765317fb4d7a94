"""Sightings as batches of Arrow: the schema that follows from `Sighting`, and rows to batches and back.

A stream of such batches is a capture of version 1; what nodes write today is in `capture/records.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa

from hopwire.model.sighting import Sighting

__all__ = ["SCHEMA", "VERSION_KEY", "array_of", "arrays_from_rows", "batch_from_sightings", "sightings_from_batch"]

VERSION_KEY = b"hopwire.capture"
MOST_BYTES = 2**31 - 1  # that 32-bit offsets reach

ARROW_TYPES = {bytes: pa.binary(), str: pa.string(), int: pa.int64(), Sequence[bytes]: pa.list_(pa.binary())}
SCHEMA: pa.Schema = pa.schema(
    [pa.field(name, ARROW_TYPES[kind]) for name, kind in get_type_hints(Sighting).items()],
    metadata={VERSION_KEY: "1.0"},
)


def batch_from_sightings(sightings: Sequence[Sighting]) -> pa.RecordBatch:
    """Give sightings as a batch."""
    return pa.RecordBatch.from_arrays(arrays_from_rows(sightings, SCHEMA), schema=SCHEMA)


def arrays_from_rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> list[Any]:
    """Give the columns of rows, each in its type.

    Bytes are joined, and not appended one by one as `pa.array` does, which also loads pandas where it is installed.
    """
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return [array_of(values, column.type) for column, values in zip(schema, columns, strict=True)]


def array_of(values: Sequence[Any], kind: Any) -> pa.Array:
    """Give a column of one of the types that sightings have."""
    return _BUILDERS[kind](values)


def _int_array(values: Sequence[int]) -> pa.Array:
    data = np.fromiter(values, np.int64, len(values))
    return pa.Array.from_buffers(pa.int64(), len(data), [None, pa.py_buffer(data)])


def _offsets(sizes: Iterable[int], count: int) -> np.ndarray[Any, Any]:
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=ends[1:])
    if ends[-1] > MOST_BYTES:
        raise OverflowError(f"found {ends[-1]} bytes in one column, the limit is {MOST_BYTES}")
    return ends.astype(np.int32)


def _binary_array(values: Sequence[bytes], kind: Any = None) -> pa.Array:
    buffers = [None, pa.py_buffer(_offsets(map(len, values), len(values))), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind or pa.binary(), len(values), buffers)


def _text_array(values: Sequence[str]) -> pa.Array:
    return _binary_array([value.encode() for value in values], pa.string())


def _frames_array(values: Sequence[Sequence[bytes]]) -> pa.Array:
    frames = _binary_array([frame for row in values for frame in row])
    buffers = [None, pa.py_buffer(_offsets(map(len, values), len(values)))]
    return pa.Array.from_buffers(pa.list_(pa.binary()), len(values), buffers, children=[frames])


_BUILDERS: dict[Any, Callable[[Any], Any]] = {
    pa.int64(): _int_array,
    pa.binary(): _binary_array,
    pa.string(): _text_array,
    pa.list_(pa.binary()): _frames_array,
}


def sightings_from_batch(batch: pa.RecordBatch) -> list[Sighting]:
    """Give the rows of a batch."""
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in Sighting._fields]
    return [Sighting(*row) for row in zip(*columns, strict=True)]
