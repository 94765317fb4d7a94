"""`bronze.sightings`: the captures as they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Ints
from hopwire.lake.tables import Column, Table, declare
from hopwire.model.sighting_batch import SCHEMA

__all__ = ["SIGHTINGS_TABLE", "frame_bytes", "rows_of_sightings"]

# fmt: off
MEANINGS = {
    "node":        "identity of the node that saw the message",
    "node_name":   "what people call the node",
    "incarnation": "which life of the node; it grows with each start",
    "sequence":    "number of the sighting within the incarnation, from 0",
    "seen_at_ns":  "when, by the clock of the node, in nanoseconds since 1970",
    "direction":   "in, out, local, dead, told, or skipped where sightings are missing",
    "peer":        "identity of the node at the other end; empty for the node's own actors",
    "frames":      "the message as it was on the wire",
    "reason":      "why a dead letter went no further, or why sightings are missing",
    "note":        "the same in words, where there is more to say; or the key of what it becomes at a border",
    "skipped":     "how many sightings are missing here",
}
# fmt: on

SIGHTINGS_TABLE = declare(
    Table(
        "bronze.sightings",
        key=("segment", "node", "incarnation", "sequence"),
        reads=(),
        columns=(
            Column("segment", pa.string(), "name of the source, as it is once the file is sealed"),
            *(Column(each.name, each.type, MEANINGS[each.name]) for each in SCHEMA),
        ),
        meaning="One captured message as one node saw it, untouched, or the place where sightings are missing.",
        dated_by=("seen_at_ns",),
    )
)


def rows_of_sightings(batch: pa.RecordBatch, segment: str) -> pa.RecordBatch:
    """Give the rows of a batch of the source `segment`."""
    named = pa.repeat(pa.scalar(segment), len(batch))
    columns = [named, *(batch.column(name) for name in SCHEMA.names)]
    return pa.RecordBatch.from_arrays(columns, schema=SIGHTINGS_TABLE.schema)


def frame_bytes(frames: pa.ListArray) -> Ints:
    """Give how many bytes the frames of each row have."""
    bounds = frames.offsets.to_numpy(zero_copy_only=False)
    sizes = pc.binary_length(frames.values).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return np.asarray(ends[bounds[1:]] - ends[bounds[:-1]], dtype=np.int64)
