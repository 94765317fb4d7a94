"""The Parquet files that one task writes of one table: a file for each day, and what the Delta log says of each.

Rows wait until they fill a row group. A row group says which flows it may have (a Bloom filter), so that whoever looks
for one flow reads few of them. A task whose rows are of many days has few files open at a time; a day that comes
again after its file was closed gets a second file. Without rows there is no file.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.lake.delta_log import DATE, refuse_symlink
from hopwire.lake.manifest import NO_DAY, StoredFile, part_name
from hopwire.lake.readable import Names, readable_batch
from hopwire.lake.settings import LakeSettings
from hopwire.places import Place, new_file, open_file

if TYPE_CHECKING:
    from hopwire.lake.store import LakeRun
    from hopwire.lake.tables import Table

__all__ = ["ParquetFileWriter", "TableLayout", "TableOutput", "leaf_paths", "stored_file", "write_rows"]

MAX_OPEN_FILES = 16
MAX_TEXT = 100  # characters of a least or largest value; a longer one is left out
LOOKED_UP = ("flow_id", "correlation_id")  # columns that have Bloom filters where a table has them
FALSE_ALARMS = 0.01  # the share of row groups that are read for nothing
STATISTICS = ("int8", "int16", "int32", "int64", "string", "date32[day]", "timestamp[us, tz=UTC]")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How rows of a table become files: their columns, and which columns repeat."""

    schema: pa.Schema  # as it is stored
    dated_by: tuple[str, ...] = ()
    names: Names | None = None  # of nodes
    dictionaries: Sequence[str] | bool = (
        True  # columns whose values repeat: in others a dictionary costs and saves nothing
    )
    searched: Sequence[str] | bool = True  # columns with least and largest values


def leaf_paths(field: pa.Field, before: str = "") -> list[str]:
    """Give the columns of Parquet that a field becomes."""
    path = f"{before}{field.name}"
    if pa.types.is_list(field.type):
        return leaf_paths(field.type.value_field.with_name("element"), f"{path}.list.")
    if pa.types.is_struct(field.type):
        return [leaf for part in field.type for leaf in leaf_paths(part, f"{path}.")]
    return [path]


class TableOutput:
    """The files of one task."""

    def __init__(self, place: Place, part: str, layout: TableLayout, settings: LakeSettings) -> None:
        self._place, self._part = place, part
        self._layout, self._settings = layout, settings
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._open: OrderedDict[str, ParquetFileWriter] = OrderedDict()  # the path of a file: its writer
        self._files: list[StoredFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, without their readable columns."""
        layout = self._layout
        if len(batch):
            self.add_stored(readable_batch(batch, layout.schema, layout.dated_by, layout.names or {}))

    def add_stored(self, rows: pa.RecordBatch) -> None:
        """Take rows as they are stored."""
        self._waiting.append(rows)
        self._size += rows.nbytes
        if self._size >= self._settings.row_group_bytes:
            self._flush()

    def close(self) -> list[StoredFile]:
        """Write the rows that wait, and give the files."""
        if self._waiting:
            self._flush()
        while self._open:
            self._finish(next(iter(self._open)))
        return self._files

    def _flush(self) -> None:
        for day, rows in _by_day(pa.Table.from_batches(self._waiting, self._layout.schema)):
            self._writer(day, len(rows)).add(rows)
        self._waiting, self._size = [], 0

    def _writer(self, day: str, row_count: int) -> ParquetFileWriter:
        """The writer for a day; the file that was not written to for longest is closed if there are too many."""
        known = [path for path in self._open if path.rpartition("/")[0] == day]
        if known:
            self._open.move_to_end(known[0])
            return self._open[known[0]]
        if len(self._open) >= MAX_OPEN_FILES:
            self._finish(next(iter(self._open)))
        count = sum(file.path.rpartition("/")[0] == day for file in self._files)
        name = f"{self._part}{f'.{count}' if count else ''}.parquet"
        path = f"{day}/{name}" if day else name
        refuse_symlink((self._place / path).parent)
        self._open[path] = ParquetFileWriter(self._place / path, self._layout, self._settings, row_count)
        return self._open[path]

    def _finish(self, path: str) -> None:
        self._files.append(self._open.pop(path).close(path))


class ParquetFileWriter:
    """Writes one file of a table, whose row groups have about so many rows."""

    def __init__(self, path: Place, layout: TableLayout, settings: LakeSettings, row_count: int) -> None:
        names = [name for name in LOOKED_UP if name in layout.schema.names]
        self._file = new_file(path, settings.file_mode)
        self._parquet = pq.ParquetWriter(
            self._file.sink,
            layout.schema,
            compression=settings.compression,
            compression_level=1 if settings.compression == "zstd" else None,
            use_dictionary=layout.dictionaries,
            write_statistics=layout.searched,
            bloom_filter_options={name: {"ndv": max(1, row_count), "fpp": FALSE_ALARMS} for name in names} or None,
            store_schema=False,
        )

    def add(self, rows: pa.Table) -> None:
        """Write a row group."""
        self._parquet.write_table(rows, row_group_size=len(rows))

    def close(self, path: str) -> StoredFile:
        """Finish the file, and give what the Delta log says of it under a path."""
        self._parquet.close()
        metadata = self._parquet.writer.metadata
        return StoredFile(path, metadata.num_rows, self._file.close(), json.dumps(_statistics(metadata)))


def write_rows(run: LakeRun, table: Table, basis: str, rows: pa.Table) -> None:
    """Write all rows of a small table, in place of the rows that the table had."""
    output = TableOutput(
        run.place(table.name), part_name(run.name, 0), table.layout(), LakeSettings(file_mode=run.file_mode)
    )
    for batch in rows.to_batches():
        output.add(batch)
    run.put(table.name, basis, table.stored_schema, output.close())


def _by_day(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Rows by the directory of their day, in the order that they have."""
    if DATE not in rows.schema.names:
        yield "", rows
        return
    days = pc.unique(rows[DATE])
    for day in sorted(days.to_pylist(), key=str):
        one = rows if len(days) == 1 else rows.filter(_is_day(rows[DATE], day))
        yield f"{DATE}={NO_DAY if day is None else day.isoformat()}", one


def _is_day(column: Any, day: date | None) -> Any:
    return pc.is_null(column) if day is None else pc.fill_null(pc.equal(column, pa.scalar(day)), False)


def stored_file(place: Place, path: str) -> StoredFile:
    """Give a file that somebody has written, with the statistics that its footer has."""
    with open_file(place / path) as file:
        metadata = pq.read_metadata(file)
        size = file.seek(0, os.SEEK_END)
    return StoredFile(path, metadata.num_rows, size, json.dumps(_statistics(metadata)))


def _statistics(metadata: Any) -> dict[str, Any]:
    """What a Delta log says of a file; a column of which a row group has no values to compare is left out."""
    least: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    schema = metadata.schema.to_arrow_schema()
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        if name == DATE or name not in schema.names or str(schema.field(name).type) not in STATISTICS:
            continue
        found = [group.column(index).statistics for group in groups]
        if not found or any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        valued = [each for each in found if each.num_values]
        if valued and all(each.has_min_max for each in valued):
            low, high = min(each.min for each in valued), max(each.max for each in valued)
            if not (isinstance(high, str) and max(len(low), len(high)) > MAX_TEXT):
                least[name], largest[name] = _plain(low), _plain(high)
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": largest, "nullCount": nulls}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return int(value) if isinstance(value, np.integer) else value
