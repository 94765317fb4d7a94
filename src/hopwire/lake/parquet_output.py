"""The Parquet files that one task writes of one table, and what the Delta log says of each.

Rows wait until they fill a row group. A row group says which flows it may have (a Bloom filter), so that whoever looks
for one flow reads few of them. Without rows there is no file.

A file has one day, or neighbouring days that are small: days share a file until they have 8 MiB together. So a step has
one file, whatever days its rows are of, and who asks for a day of a large lake opens files of about that day. A task
has few files open at a time; days that come again after their file was closed get a second file.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.lake.delta_log import DATE, refuse_symlink
from hopwire.lake.manifest import StoredFile, part_name
from hopwire.lake.readable import Names, readable_batch
from hopwire.lake.settings import LakeSettings
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, new_file, open_file

if TYPE_CHECKING:
    from hopwire.lake.store import LakeRun
    from hopwire.lake.tables import Table

__all__ = ["ParquetFileWriter", "TableLayout", "TableOutput", "file_name", "leaf_paths", "stored_file", "write_rows"]

MAX_OPEN_FILES = 16
SHARED_BYTES = 8 * MEBIBYTE  # of values, before compression
MAX_TEXT = 100  # characters of a least or largest value; a longer one is left out
LOOKED_UP = ("flow_id", "correlation_id")  # columns that have Bloom filters where a table has them
LIGHT = "lz4"  # the compression that saves time
RANDOM = ("message_key", "message")  # a hash, and the same as hex: to compress them takes time, and saves a tenth
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


def file_name(part: str, number: int = 0) -> str:
    """Give the name of a file of a part."""
    return f"{part}{f'.{number}' if number else ''}.parquet"


def leaf_paths(field: pa.Field, before: str = "") -> list[str]:
    """Give the columns of Parquet that a field becomes."""
    path = f"{before}{field.name}"
    if pa.types.is_list(field.type):
        return leaf_paths(field.type.value_field.with_name("element"), f"{path}.list.")
    if pa.types.is_struct(field.type):
        return [leaf for part in field.type for leaf in leaf_paths(part, f"{path}.")]
    return [path]


class TableOutput:
    """The files of one task; `begun` files of this part are there already."""

    def __init__(
        self,
        place: Place,
        part: str,
        layout: TableLayout,
        settings: LakeSettings,
        *,
        is_one_file: bool = False,
        begun: int = 0,
    ) -> None:
        self._place, self._part, self._is_one_file = place, part, is_one_file
        self._layout, self._settings = layout, settings
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._open: OrderedDict[date | None, _OpenFile] = OrderedDict()  # by the first day
        self._files: list[StoredFile] = []
        self._begun = begun

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
        for first, rows in self._shared(pa.Table.from_batches(self._waiting, self._layout.schema)):
            self._writer(first, len(rows)).add(rows)
        self._waiting, self._size = [], 0

    def _shared(self, rows: pa.Table) -> Iterator[tuple[date | None, pa.Table]]:
        """Rows that share a file, with the first of their days; rows without a time have a file of their own."""
        if DATE not in rows.schema.names or self._is_one_file:
            yield None, rows
            return
        days = rows[DATE].combine_chunks()
        counted = pc.value_counts(days)
        counts = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
        for some in _shares(counts, SHARED_BYTES * len(rows) // max(rows.nbytes, 1)):
            is_all = len(some) == len(counts)
            yield some[0], rows if is_all else rows.filter(pc.is_in(days, pa.array(some, pa.date32())))

    def _writer(self, first: date | None, row_count: int) -> ParquetFileWriter:
        """The writer for days; the file that was not written to for longest is closed if there are too many."""
        if first in self._open:
            self._open.move_to_end(first)
            return self._open[first].writer
        if len(self._open) >= MAX_OPEN_FILES:
            self._finish(next(iter(self._open)))
        path = file_name(self._part, self._begun)
        self._begun += 1
        refuse_symlink(self._place)
        writer = ParquetFileWriter(self._place / path, self._layout, self._settings, row_count)
        self._open[first] = _OpenFile(path, writer)
        return writer

    def _finish(self, first: date | None) -> None:
        done = self._open.pop(first)
        self._files.append(done.writer.close(done.path))


class _OpenFile(NamedTuple):
    path: str  # from the directory of the table
    writer: ParquetFileWriter


class ParquetFileWriter:
    """Writes one file of a table, whose row groups have about so many rows."""

    def __init__(self, path: Place, layout: TableLayout, settings: LakeSettings, row_count: int) -> None:
        names = [name for name in LOOKED_UP if name in layout.schema.names]
        self._file = new_file(path, settings.file_mode)
        self._parquet = pq.ParquetWriter(
            self._file.sink,
            layout.schema,
            compression=_codecs(layout.schema, settings.compression),
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


def _codecs(schema: pa.Schema, chosen: str) -> dict[str, str] | str:
    """How each column is compressed: who wants small files has all columns compressed."""
    if chosen != LIGHT:
        return chosen
    paths = [path for field in schema for path in leaf_paths(field)]
    return {path: "none" if path.rpartition(".")[2] in RANDOM else chosen for path in paths}


def write_rows(run: LakeRun, table: Table, basis: str, rows: pa.Table) -> None:
    """Write all rows of a small table, in place of the rows that the table had."""
    output = TableOutput(
        run.place(table.name), part_name(run.name, 0), table.layout(), LakeSettings(file_mode=run.file_mode)
    )
    for batch in rows.to_batches():
        output.add(batch)
    run.put(table.name, basis, table.stored_schema, output.close())


def _shares(counts: Mapping[date | None, int], enough: int) -> Iterator[list[date | None]]:
    """Neighbouring days that share a file: as few as have enough rows; what is left over has a file, too."""
    if None in counts:
        yield [None]
    some: list[date | None] = []
    count = 0
    for day in sorted(day for day in counts if day is not None):
        some.append(day)
        count += counts[day]
        if count >= enough:
            yield some
            some, count = [], 0
    if some:
        yield some


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
        if name not in schema.names or str(schema.field(name).type) not in STATISTICS:
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
    if isinstance(value, date):
        return value.isoformat()
    return int(value) if isinstance(value, np.integer) else value
