"""Rows on their way from tasks to tasks, through files of the run: each writer has a file, each reader a part of it.

    write_parts(path, rows, part_of_row, part_count, file_mode)     # by each task of one job
    read_part(paths, number, columns)                               # by each task of the next job

A file is Arrow's, with one batch for each part, also where a part has no rows. So a reader finds its batch by number,
and reads only the columns that the reader wants. Python workers on both sides read and write Arrow: the rows never
become rows of the JVM, and are sorted by a number instead of by their names.

A file on a disk of this machine is not compressed, and is mapped into memory: a batch of some hundred rows is there
without a copy. A file in a store at a URL is compressed, and only its batch is fetched.

A task that is killed is tried again, perhaps while its first attempt still writes. So each attempt writes under a name
of its own, and gives the file its name when the file is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from mmap import ACCESS_READ, mmap
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from hopwire.columnar import Ints, ints, one_array
from hopwire.flows.groups import order_by
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, RemotePath, new_file, open_file

__all__ = ["parts_by", "read_part", "write_parts"]

PRIMES = (1, 40_503, 2_654_435_761, 97_531, 1_299_709)  # so that equal values of two columns do not cancel out
BUFFER_BYTES = MEBIBYTE  # a part has a hundred small buffers, and each would be a call of the system
PLAIN, COMPRESSED = pa.ipc.IpcWriteOptions(), pa.ipc.IpcWriteOptions(compression="lz4")


def parts_by(count: int, *columns: Any) -> Ints:
    """Give the part of each row: rows that are equal in all columns have the same part, in every task."""
    mixed = np.zeros(len(columns[0]), dtype=np.int64)
    for prime, column in zip(PRIMES, columns, strict=False):
        mixed ^= _hashes(column) * prime
    return (mixed & (2**62 - 1)) % count


def _hashes(column: Any) -> Ints:
    if isinstance(column, np.ndarray):
        return column.astype(np.int64)
    coded = one_array(column).dictionary_encode()
    found = [0 if value is None else crc32(value) for value in coded.dictionary.to_pylist()]
    return np.array([*found, 0], dtype=np.int64)[ints(coded.indices, -1)]


def write_parts(path: Place, rows: pa.Table, part: Ints, count: int, file_mode: int) -> None:
    """Write rows, each into its part; a second attempt at the same task puts the same rows in place of the first."""
    order = order_by(part)
    bounds = np.searchsorted(part[order], np.arange(count + 1))
    sorted_rows = rows.take(pa.array(order)).combine_chunks()
    file = new_file(path, file_mode, is_replaced=True)
    options, no_rows = COMPRESSED if isinstance(path, RemotePath) else PLAIN, _no_rows(rows.schema)
    sink = pa.BufferedOutputStream(file.sink, BUFFER_BYTES)
    with pa.ipc.new_file(sink, rows.schema, options=options) as writer:
        for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            batches = sorted_rows.slice(begin, end - begin).to_batches()
            writer.write_batch(batches[0] if batches else no_rows)
    sink.detach()
    file.close(is_kept=False)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)


def read_part(paths: Iterable[Place], number: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one part of all files."""
    return pa.Table.from_batches([_batch(path, number, columns) for path in paths]).combine_chunks()


def _batch(path: Place, number: int, columns: Sequence[str] | None) -> pa.RecordBatch:
    with open_file(path) as file:
        if not isinstance(path, RemotePath):
            batch = pa.ipc.open_file(pa.py_buffer(mmap(file.fileno(), 0, access=ACCESS_READ))).get_batch(number)
            return batch if columns is None else batch.select(list(columns))
        reader = pa.ipc.open_file(file)
        if columns is None:
            return reader.get_batch(number)
        wanted = [reader.schema.get_field_index(name) for name in columns]
        some = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=sorted(wanted)))
        return some.get_batch(number).select(list(columns))
