"""`bronze.sources`: which files of captures are in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec
import pyarrow as pa

from hopwire.capture.file_faults import Fault
from hopwire.capture.segment import sealed_path
from hopwire.disk import shown_name
from hopwire.lake.manifest import StoredSource
from hopwire.lake.tables import Column, Table, declare

__all__ = ["LEFT_ALONE", "SOURCES_TABLE", "rows_of_sources"]

LEFT_ALONE = "is not a capture and was left alone"

# fmt: off
COLUMNS = (
    Column("segment",      pa.string(),            "name of the source, as it is once the file is sealed"),
    Column("size_bytes",   pa.int64(),             "of the file"),
    Column("fingerprint",  pa.string(),            "hash over its size, its first and its last bytes"),
    Column("is_open",      pa.bool_(),             "whether its writer may still have been at work"),
    Column("row_count",    pa.int64(),             "rows that were read"),
    Column("skipped_rows", pa.int64(),             "rows that stand for sightings that are missing"),
    Column("skipped",      pa.int64(),             "sightings that are missing, by the account of those rows"),
    Column("faults",       pa.list_(pa.string()),  "what is wrong with the file"),
    Column("expired",      pa.int64(),             "rows of before the time that the lake is kept from"),
    Column("forgotten",    pa.int64(),             "rows that were removed because somebody asked for it"),
)
# fmt: on

SOURCES_TABLE = declare(
    Table(
        "bronze.sources",
        key=("segment",),
        reads=(),
        columns=COLUMNS,
        meaning="One file of captures, how much was read of it, and what is wrong with it.",
    )
)


def rows_of_sources(sources: Mapping[str, StoredSource], foreign: Iterable[Fault]) -> pa.Table:
    """Give the rows; a file that is not a capture, or cannot be read, has a row too."""
    others: dict[str, StoredSource] = {}
    for fault in foreign:
        name = shown_name(sealed_path(fault.path).name)
        known = others.get(name) or sources.get(name) or StoredSource(fault.size_bytes, "")
        others[name] = msgspec.structs.replace(known, faults=(*known.faults, fault.detail))
    together = {**sources, **others}
    names = sorted(together)
    rows = [together[name] for name in names]
    columns = {column: list(map(attrgetter(column), rows)) for column in SOURCES_TABLE.schema.names[1:]}
    return pa.table({"segment": names, **columns}, SOURCES_TABLE.schema)
