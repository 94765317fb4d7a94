"""Parquet of raw frames: `frames` is a list of byte strings, and all other columns of a sighting may be missing.

| missing column | is taken for |
|---|---|
| `node`, `node_name`, `peer`, `reason`, `note` | empty |
| `incarnation` | a number made from the name of the file, so that rows of two files are never taken for the same |
| `sequence` | the number of the row within the file, from 0 |
| `seen_at_ns`, `skipped` | 0 |
| `direction` | `in` |

A null is taken for the same as a missing column. Lists and byte strings may be large ones, numbers and texts may have
any width. Other columns are ignored.

A small file may become very large: pages are compressed, and a value that stands once in a dictionary may stand for a
million rows. So `parquet_pages.py` looks at the sizes in the footer and in the heads of pages before anything is
unpacked. A column with a dictionary is read as a dictionary and measured, and only then laid out, piece by piece.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.file_faults import Fault, FaultKind
from hopwire.capture.parquet_footer import RowGroup, read_footer
from hopwire.capture.parquet_pages import check_ratio, unpacked_sizes
from hopwire.errors import CaptureError
from hopwire.model.limits import Limits
from hopwire.model.sighting import Direction
from hopwire.model.sighting_batch import SCHEMA
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, open_file

__all__ = ["MAGIC", "read_table"]

MAGIC = b"PAR1"
BATCH_ROWS = 1024  # as in a segment
OFFSET_BYTES = 4  # of each value in a list
PIECE_BYTES = 16 * MEBIBYTE  # of rows that are laid out at a time, unless a single row is larger
MAX_ROW_BYTES = Limits().max_bytes
INCARNATION_BYTES = 6  # fits into a number with room for the sign


def read_table(
    path: Place, on_fault: Callable[[Fault], None], begin: int = 0, end: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a Parquet file as a capture has them, and tell `on_fault` what is wrong with the file.

    With `begin` and `end` only the rows of row groups `begin` up to, not including, `end`.
    """
    import pyarrow.parquet as pq  # slow to import, and few need it

    with open_file(path) as opened:
        size = opened.seek(0, os.SEEK_END)
        try:
            metadata = pq.read_metadata(opened)
            _check(metadata.schema.to_arrow_schema())
            groups = read_footer(opened)
            total = 0
            for group in range(begin, len(groups) if end is None else end):
                for piece, row, piece_bytes in _pieces_of(opened, metadata, groups, group):
                    check_ratio("the file", total + piece_bytes, size)  # before a row is laid out, which may be large
                    batch = pa.RecordBatch.from_arrays(list(_columns(path, piece, row)), schema=SCHEMA)
                    total += batch.nbytes
                    check_ratio("the file", total, size)
                    yield batch
        except CaptureError as error:
            on_fault(Fault(path, FaultKind.UNSUITABLE, str(error), size))
        except (pa.ArrowException, ValueError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            on_fault(Fault(path, FaultKind.FOREIGN, f"is not Parquet that can be read: {_first_line(error)}", size))


def _first_line(error: Exception) -> str:
    return f"{str(error).splitlines()[0]:.120}" if str(error) else type(error).__name__


def _check(found: pa.Schema) -> None:
    """Refuse a file that has no frames, or has a column of a sighting in another type."""
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


def _pieces_of(
    opened: BinaryIO, metadata: Any, groups: Sequence[RowGroup], group: int
) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """Give the rows of one row group as they are in the file, the first number of each piece, and its size."""
    import pyarrow.parquet as pq

    unpacked = unpacked_sizes(opened, metadata.schema, groups[group], group, SCHEMA.names)
    file = pq.ParquetFile(opened, metadata=metadata, read_dictionary=sorted(unpacked.coded))
    present = [name for name in SCHEMA.names if name in file.schema_arrow.names]
    row = sum(each.row_count for each in groups[:group])
    usual = PIECE_BYTES * groups[group].row_count // max(unpacked.size_bytes, 1)
    for batch in file.iter_batches(min(max(usual, 1), BATCH_ROWS), row_groups=[group], columns=present):
        batch.validate(full=True)
        for piece, piece_bytes in _pieces(batch, row):
            yield piece, row, piece_bytes
            row += piece.num_rows


def _pieces(batch: pa.RecordBatch, row: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut a batch into pieces, each of a bounded size when laid out, and give that size."""
    ends = np.cumsum(sum(_sizes(column) for column in batch.columns))
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        if ends[start] - before > MAX_ROW_BYTES:
            found = f"row {row + start} has {ends[start] - before:,} bytes"
            raise CaptureError(f"{found}, expected at most {MAX_ROW_BYTES:,}")
        count = max(int(np.searchsorted(ends, before + PIECE_BYTES, side="right")) - start, 1)
        yield batch.slice(start, count), int(ends[start + count - 1]) - before
        start += count


def _sizes(column: Any) -> Any:
    """How many bytes each row of a column has when laid out."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        sums = np.concatenate([[0], np.cumsum(_sizes(column.flatten()), dtype=np.int64)])
        ends = np.cumsum(counts)
        return sums[ends] - sums[ends - counts] + OFFSET_BYTES * counts
    if pa.types.is_dictionary(kind):
        lengths = np.append(_sizes(column.dictionary), 0)  # the last is for nulls
        return lengths[pc.fill_null(column.indices, len(lengths) - 1).to_numpy(zero_copy_only=False)]
    if pa.types.is_integer(kind) or pa.types.is_fixed_size_binary(kind):
        return np.full(len(column), kind.bit_width // 8, dtype=np.int64)
    return pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _columns(path: Place, batch: pa.RecordBatch, row: int) -> Iterator[Any]:
    """Give every column of a sighting; a column that is missing is made as the table above says."""
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
            found = _plain(batch.column(column.name)).cast(column.type)
            yield found if not found.null_count else pc.coalesce(found, default)
        elif isinstance(default, pa.Array):
            yield default
        else:
            yield pa.repeat(pa.scalar(default, column.type), batch.num_rows)


def _plain(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


EMPTY: dict[pa.DataType, Any] = {pa.binary(): b"", pa.string(): "", pa.int64(): 0}


def _frames(found: Any, expected: pa.DataType) -> Any:
    lengths = pc.fill_null(pc.list_value_length(found), 0).cast(pa.int32())
    values = _plain(found.flatten()).cast(expected.value_type)
    if values.null_count:
        values = pc.fill_null(values, b"")
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), values, type=expected)
