"""Files of a table become one: what is slow about a compaction, and can be done by a process of its own.

    python -c "from hopwire.lake.merging import be_a_child; be_a_child()"

The rows of many files pass through memory a row group at a time, in the order in which the files have them. Only
messages are put in order within each group: two sightings of a message beside one another take a third less room.

No version of the lake names the new files, so no lock is needed. A child reads merges from its input, and writes what
became of them. It is nice to others, and ends as soon as its input does: with the follower, however that ends.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.errors import LakeError, PlaceError
from hopwire.lake.manifest import StoredFile
from hopwire.lake.parquet_output import TableLayout, TableOutput, file_name
from hopwire.lake.settings import LakeSettings
from hopwire.lake.unreadable import UNREADABLE, in_short
from hopwire.places import Place, open_file, remove_files

__all__ = ["Merge", "Merged", "TableMerge", "be_a_child", "remove_merge", "write_merge"]

ORDERED_BY = {"silver.messages": "correlation_id"}  # within a row group that is read
MINUTE = "minute"  # a table with this column is made anew minute by minute, by each step
NICE = 10  # a process with this gets a tenth of a core that others want too


@dataclass(frozen=True, slots=True)
class TableMerge:
    """Files of one table that become one."""

    name: str
    place: Place
    layout: TableLayout
    old: Sequence[StoredFile]


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged as a whole: files of one table, or parts of sources, which have files in several."""

    part: str  # the name of the new files
    tables: Sequence[TableMerge]
    old_parts: Collection[str] = ()  # of sources

    @property
    def is_by_minute(self) -> bool:
        """Whether steps make anew what is merged."""
        return any(MINUTE in each.layout.schema.names for each in self.tables)


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge whose files are written."""

    merge: Merge
    new: Mapping[str, Sequence[StoredFile]]  # by table


def write_merge(merge: Merge, settings: LakeSettings) -> Merged:
    """Write the rows of files into one for each table, which no version names yet."""
    return Merged(merge, {each.name: _written(each, merge.part, settings) for each in merge.tables})


def remove_merge(merge: Merge) -> None:
    """Remove files that were written and are in no version of the lake; if that fails, they go when they are old."""
    with suppress(OSError, PlaceError):
        remove_files(*(each.place / file_name(merge.part) for each in merge.tables))


def _written(table: TableMerge, part: str, settings: LakeSettings) -> list[StoredFile]:
    output = TableOutput(table.place, part, table.layout, settings, is_one_file=True)
    for rows in _row_groups(table):
        for batch in _ordered(table.name, rows).to_batches():
            output.add_stored(batch)
    return output.close()


def _row_groups(table: TableMerge) -> Iterator[pa.Table]:
    """The rows of files, in this thread alone: others may use the cores meanwhile."""
    schema = table.layout.schema
    for each in table.old:
        try:
            with open_file(table.place / each.path) as file:
                parquet = pq.ParquetFile(file)
                for number in range(parquet.num_row_groups):
                    yield parquet.read_row_group(number, use_threads=False).select(schema.names).cast(schema)
        except UNREADABLE as error:
            raise LakeError(f"{table.name}: {each.path} cannot be read ({in_short(error)})") from None


def _ordered(name: str, rows: pa.Table) -> pa.Table:
    if (column := ORDERED_BY.get(name)) not in rows.column_names:
        return rows
    return rows.take(pc.sort_indices(rows[column]))


# -- in the child


def be_a_child() -> None:
    """Merge what the parent says, and tell it what came of it."""
    with suppress(AttributeError, OSError):  # Windows knows of no such thing
        os.nice(NICE)
    merges, settings = pickle.load(sys.stdin.buffer)  # noqa: S301 - the parent has written it
    Thread(target=_end_with_input, daemon=True).start()
    try:
        found: object = [write_merge(each, settings) for each in merges]
    except (LakeError, PlaceError, OSError) as error:
        found = error
    sys.stdout.buffer.write(pickle.dumps(found))
    sys.stdout.buffer.flush()
    os._exit(0)  # the thread still waits


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
