"""Numbers to Arrow and back, for every room that works on columns.

The trap: Arrow's `binary` counts bytes in 32 bits. `binary_from_rows` and `binary_from_bounds` give `large_binary` for
a column of 2 GiB or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Bools", "Ints", "binary_from_bounds", "binary_from_rows", "bools", "ints", "one_array"]

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

LARGEST_BINARY = 2**31  # bytes of a column that 32-bit offsets no longer reach


def one_array(column: Any) -> pa.Array:
    """Give a column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def ints(column: Any, null: int = 0) -> Ints:
    """Give a column of numbers; a null becomes `null`."""
    array = one_array(column)
    filled = pc.fill_null(array, null) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def bools(column: Any) -> Bools:
    """Give a column of booleans; a null becomes False."""
    filled = pc.fill_null(one_array(column), False)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def binary_from_rows(rows: np.ndarray[Any, Any]) -> pa.Array:
    """Give each row of an array as a byte string; a row is a number, a record, or a row of a matrix."""
    data = np.ascontiguousarray(rows)
    width = data.nbytes // len(data) if len(data) else 0
    return binary_from_bounds(np.arange(len(data) + 1, dtype=np.int64) * width, data)


def binary_from_bounds(bounds: np.ndarray[Any, Any], data: Any) -> pa.Array:
    """Give stretches of a buffer as byte strings: string n reaches from bound n to bound n + 1."""
    is_large = len(bounds) and int(bounds[-1]) >= LARGEST_BINARY
    kind, width = (pa.large_binary(), np.int64) if is_large else (pa.binary(), np.int32)
    starts = np.ascontiguousarray(bounds, dtype=width)
    return pa.Array.from_buffers(kind, len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(data)])
