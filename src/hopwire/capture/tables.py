"""Parquet of raw frames: `frames` is a list of byte strings, everything else of a sighting may be missing.

| missing column | is taken for |
|---|---|
| `node`, `node_name`, `peer`, `reason`, `note` | empty |
| `incarnation` | a number that is made from the name of the file: so rows of two files are never taken for the same |
| `sequence` | the number of the row within the file, from 0 |
| `seen_at_ns`, `skipped` | 0 |
| `direction` | `in` |

So is a null. Lists and byte strings may be large ones, numbers and texts of any width. Other columns are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.faults import Fault, FaultKind
from hopwire.capture.record import SCHEMA, Direction
from hopwire.errors import CaptureError

__all__ = ["MAGIC", "read_table"]

MAGIC = b"PAR1"
BATCH_ROWS = 1024  # as in a segment
INCARNATION_BYTES = 6  # fits into a number with room for the sign


def read_table(
    path: Path, on_fault: Callable[[Fault], None], begin: int = 0, end: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a Parquet file as a capture has them, and report what is wrong with it.

    With `begin` and `end` only those of the row groups from the one number up to the other.
    """
    import pyarrow.parquet as pq  # slow to import, and few need it

    size = path.stat().st_size
    try:
        with pq.ParquetFile(path) as file:
            _check(file.schema_arrow)
            yield from _batches(path, file, begin, file.num_row_groups if end is None else end)
    except CaptureError as error:
        on_fault(Fault(path, FaultKind.UNSUITABLE, str(error), size))
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        on_fault(Fault(path, FaultKind.FOREIGN, f"is not Parquet that can be read: {_first_line(error)}", size))


def _first_line(error: Exception) -> str:
    return f"{str(error).splitlines()[0]:.120}" if str(error) else type(error).__name__


def _check(found: pa.Schema) -> None:
    """Refuse what has no frames, or has a column of a sighting as something else."""
    if found.names.count("frames") != 1:
        raise CaptureError("has no column frames: expected a list of byte strings")
    for column in found:
        if column.name in SCHEMA.names and not _is_alike(column.type, SCHEMA.field(column.name).type):
            raise CaptureError(f"has column {column.name} as {column.type}, expected {SCHEMA.field(column.name).type}")


def _is_alike(found: pa.DataType, expected: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_list(expected):
        return (kinds.is_list(found) or kinds.is_large_list(found)) and _is_alike(found.value_type, expected.value_type)
    if kinds.is_binary(expected):
        return bool(kinds.is_binary(found) or kinds.is_large_binary(found) or kinds.is_fixed_size_binary(found))
    if kinds.is_string(expected):
        found = found.value_type if kinds.is_dictionary(found) else found
        return bool(kinds.is_string(found) or kinds.is_large_string(found))
    return bool(kinds.is_integer(found))


def _batches(path: Path, file: Any, begin: int, end: int) -> Iterator[pa.RecordBatch]:
    present = [name for name in SCHEMA.names if name in file.schema_arrow.names]
    row = sum(file.metadata.row_group(number).num_rows for number in range(begin))
    for batch in file.iter_batches(BATCH_ROWS, row_groups=range(begin, end), columns=present):
        batch.validate(full=True)
        yield pa.RecordBatch.from_arrays(list(_columns(path, batch, row)), schema=SCHEMA)
        row += batch.num_rows


def _columns(path: Path, batch: pa.RecordBatch, row: int) -> Iterator[Any]:
    """Give every column of a sighting, those that are not there by the table above."""
    defaults: dict[str, Any] = {
        "incarnation": int.from_bytes(blake2b(os.fsencode(path.name), digest_size=INCARNATION_BYTES).digest(), "big"),
        "sequence": pa.array(range(row, row + batch.num_rows), pa.int64()),
        "direction": str(Direction.IN),
    }
    for column in SCHEMA:
        default = defaults.get(column.name, EMPTY.get(column.type))
        if pa.types.is_list(column.type):
            yield _frames(batch.column(column.name), column.type)
        elif column.name in batch.schema.names:
            found = batch.column(column.name).cast(column.type)
            yield found if not found.null_count else pc.coalesce(found, default)
        elif isinstance(default, pa.Array):
            yield default
        else:
            yield pa.repeat(pa.scalar(default, column.type), batch.num_rows)


EMPTY: dict[pa.DataType, Any] = {pa.binary(): b"", pa.string(): "", pa.int64(): 0}


def _frames(found: Any, expected: pa.DataType) -> Any:
    lengths = pc.fill_null(pc.list_value_length(found), 0).cast(pa.int32())
    values = found.flatten().cast(expected.value_type)
    if values.null_count:
        values = pc.fill_null(values, b"")
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), values, type=expected)
