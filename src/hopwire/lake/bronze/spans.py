"""`bronze.spans`: which numbers of the sightings of each node are in which source.

The table is small: the driver keeps all of it, in one file. The table shows which numbers are missing, which numbers
are there twice (`flows/spans.py`), and who captured when (`silver.clocks`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import pyarrow as pa

from hopwire.flows.schemas import ENDINGS
from hopwire.flows.spans import Gap, SourceSpan
from hopwire.lake.tables import Column, Table, declare

__all__ = ["SPANS", "SPANS_TABLE", "rows_from_spans", "spans_from_rows"]

SPANS = 2  # raise SPANS when spans would come out otherwise than before: then all sources are read again
GAP = pa.struct([("first", pa.int64()), ("last", pa.int64()), ("first_ns", pa.int64()), ("last_ns", pa.int64())])
# fmt: off
COLUMNS = (
    Column("segment",          pa.string(),    "name of the source, as it is once the file is sealed"),
    Column("node",             pa.binary(),    "identity of the node"),
    Column("incarnation",      pa.int64(),     "which life of the node; it grows with each start"),
    Column("node_name",        pa.string(),    "what people call the node"),
    Column("first_sequence",   pa.int64(),     "the first number"),
    Column("last_sequence",    pa.int64(),     "the last number, of a sighting or of one that was skipped"),
    Column("first_seen_at_ns", pa.int64(),     "the first sighting, by the clock of the node"),
    Column("last_seen_at_ns",  pa.int64(),     "the last sighting, by the clock of the node"),
    Column("sighting_count",   pa.int64(),     "sightings"),
    Column("skipped",          pa.int64(),     "numbers that the node says it skipped"),
    Column("missing",          pa.int64(),     "numbers between the first and the last that nobody accounts for"),
    Column("is_numbered",      pa.bool_(),     "whether the numbers are those of the node; else they prove nothing"),
    Column("gaps",             pa.list_(GAP),  "where numbers are missing, and when; gaps of one second are one gap"),
    Column("ending",           pa.string(),    "how the source ends: " + ", ".join(ENDINGS)),
)
# fmt: on

SPANS_TABLE = declare(
    Table(
        "bronze.spans",
        key=("segment", "node", "incarnation"),
        reads=(),
        columns=COLUMNS,
        meaning="One incarnation of a node in one source: from which number to which, when, and what is missing.",
    )
)


def rows_from_spans(spans: Iterable[SourceSpan]) -> pa.Table:
    """Give spans as rows."""
    known = list(spans)
    columns = {name: [getattr(span, name) for span in known] for name in SPANS_TABLE.schema.names}
    columns["gaps"] = [[asdict(gap) for gap in gaps] if gaps else [] for gaps in columns["gaps"]]
    return pa.table(columns, schema=SPANS_TABLE.schema)


def spans_from_rows(rows: pa.Table) -> list[SourceSpan]:
    """Give rows as spans, whose fields are the columns in their order."""
    columns = {name: rows[name].to_pylist() for name in SPANS_TABLE.schema.names}
    columns["gaps"] = [tuple(Gap(**gap) for gap in gaps) if gaps else () for gaps in columns["gaps"]]
    return [SourceSpan(*values) for values in zip(*columns.values(), strict=True)]
