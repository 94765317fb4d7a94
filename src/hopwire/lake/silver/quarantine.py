"""`silver.quarantine`: every sighting that is not a message, kept whole so that a better decoder can try again."""

from __future__ import annotations

import pyarrow as pa

from hopwire.lake.silver.messages import DECODER, REASONS, SEEN
from hopwire.lake.tables import Column, Table, declare

__all__ = ["QUARANTINE_TABLE", "rows_of_quarantine"]

# fmt: off
MEANINGS = {
    "reason":       "why the sighting is not a message: a code of docs/reasons.md",
    "reason_frame": "the frame that is wrong, from 0; null where no place can be named",
    "reason_byte":  "the byte within that frame, from 0; null where no place can be named",
}
COLUMNS = (
    *SEEN,
    *(Column(name, kind, MEANINGS[name]) for name, kind in REASONS.items()),
    Column("frames",  pa.list_(pa.binary()), "the message as it was on the wire"),
    Column("decoder", pa.int32(),            "the version of the decoder that said so"),
)
# fmt: on

QUARANTINE_TABLE = declare(
    Table(
        "silver.quarantine",
        key=("segment", "node", "incarnation", "sequence"),
        reads=("bronze.sightings",),
        columns=COLUMNS,
        meaning="One sighting that is not a message: why, where, and its raw frames.",
        dated_by=("seen_at_ns",),
    )
)


def rows_of_quarantine(seen: pa.RecordBatch, frames: pa.Array, reasons: pa.RecordBatch) -> pa.RecordBatch:
    """Give the rows of sightings that are not messages; `seen` has the columns SEEN."""
    columns = {name: rows.column(name) for rows in (seen, reasons) for name in rows.schema.names}
    columns["frames"] = frames
    columns["decoder"] = pa.repeat(pa.scalar(DECODER, pa.int32()), len(seen))
    schema = QUARANTINE_TABLE.schema
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
