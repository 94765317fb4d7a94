"""The footer of a Parquet file: where the pages of each column lie.

Arrow reads the footer too. But a footer whose parts contradict each other ends the whole process as soon as Arrow is
asked for its row groups or columns; only to read rows is safe. So what must be known before rows are read is read
here, and nothing else of the footer.

A column is known by its place in the schema, as Arrow knows it. The name that stands beside its pages is not believed:
it may be another.
"""

from __future__ import annotations

import os
from typing import BinaryIO, NamedTuple

from hopwire.capture.thrift import CompactReader, Struct, Value
from hopwire.errors import CaptureError
from hopwire.model.units import MEBIBYTE

__all__ = ["ColumnChunk", "RowGroup", "read_footer"]

END_BYTES = 8  # the length of the footer, and PAR1
MAX_FOOTER_BYTES = 16 * MEBIBYTE  # a thousand row groups of a capture have one

# ids of fields: of the footer, of a row group, of a column, of what is said of its pages
ROW_GROUPS = 4
COLUMNS, ROW_COUNT = 1, 3
PAGES = 3
SIZE, DATA_AT, DICTIONARY_AT = 7, 9, 11


class ColumnChunk(NamedTuple):
    """The pages of one column in one row group."""

    begin: int
    size_bytes: int


class RowGroup(NamedTuple):
    """Some rows of a file; its columns are in the order of the schema."""

    columns: tuple[ColumnChunk, ...]
    row_count: int

    @property
    def size_bytes(self) -> int:
        """How many bytes the pages have, compressed as they are."""
        return sum(column.size_bytes for column in self.columns)


def read_footer(file: BinaryIO) -> list[RowGroup]:
    """Give the row groups of a file; a CaptureError if the footer makes no sense."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - END_BYTES, 0))
    length = int.from_bytes(file.read(END_BYTES)[:4], "little")
    if length > min(size - END_BYTES, MAX_FOOTER_BYTES):
        raise CaptureError(f"has a footer of {length:,} bytes, expected at most {MAX_FOOTER_BYTES:,}")
    file.seek(size - END_BYTES - length)
    try:
        footer = CompactReader(file.read(length)).struct()
        return [_row_group(each) for each in _structs(footer.get(ROW_GROUPS))]
    except (IndexError, ValueError):
        raise CaptureError("has a footer that makes no sense") from None


def _row_group(found: Struct) -> RowGroup:
    columns = [_struct(each.get(PAGES)) for each in _structs(found.get(COLUMNS))]
    return RowGroup(tuple(_chunk(each) for each in columns), _count(found.get(ROW_COUNT)))


def _chunk(found: Struct) -> ColumnChunk:
    data_at, dictionary_at = _count(found.get(DATA_AT)), _count(found.get(DICTIONARY_AT, 0))
    return ColumnChunk(min(data_at, dictionary_at) if dictionary_at else data_at, _count(found.get(SIZE)))


def _structs(found: Value | None) -> list[Struct]:
    if not isinstance(found, list):
        raise ValueError
    return found


def _struct(found: Value | None) -> Struct:
    if not isinstance(found, dict):
        raise ValueError
    return found


def _count(found: Value | None) -> int:
    if not isinstance(found, int) or found < 0:
        raise ValueError
    return found
