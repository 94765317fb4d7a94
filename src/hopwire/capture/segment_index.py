"""The index of a segment: how many rows the segment has, of which nodes, from when to when.

The index is a JSON file beside a sealed segment. A reader sees from the index which segments it need not open. The
index is only a convenience: an index that is missing, damaged, or does not fit the size of its segment is ignored.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.records import TRAIN
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, read_file

__all__ = ["INDEX_SUFFIX", "SegmentIndex", "Summary", "read_index"]

INDEX_SUFFIX = ".json"
INDEX_VERSION = 1
MAX_INDEX_BYTES = 16 * MEBIBYTE  # an index has one entry for each node


class Summary(msgspec.Struct, frozen=True):
    """The rows of a segment, summed up; times are 0 where there are no rows."""

    row_count: int = 0
    skipped: int = 0  # sightings that are missing, as counted by the rows of direction `skipped`
    first_seen_at_ns: int = 0
    last_seen_at_ns: int = 0
    nodes: dict[str, str] = {}  # identity in hex: name

    def plus(self, batch: pa.RecordBatch) -> Summary:
        """Give the summary with a batch added, of sightings or of records; a train counts as its sightings."""
        if not batch.num_rows:
            return self
        times, skipped = pc.min_max(batch.column("seen_at_ns")).as_py(), pc.sum(batch.column("skipped")).as_py() or 0
        return self.joined(Summary(_sighting_count(batch), skipped, times["min"], times["max"], _nodes(batch)))

    def joined(self, other: Summary) -> Summary:
        """Give the summary of the rows of both."""
        if not (self.row_count and other.row_count):
            return self if self.row_count else other
        return Summary(
            self.row_count + other.row_count,
            self.skipped + other.skipped,
            min(self.first_seen_at_ns, other.first_seen_at_ns),
            max(self.last_seen_at_ns, other.last_seen_at_ns),
            {**self.nodes, **other.nodes},
        )

    def overlaps(self, since_ns: int | None, until_ns: int | None) -> bool:
        """Tell whether rows may lie within the times."""
        is_early = since_ns is not None and self.last_seen_at_ns < since_ns
        is_late = until_ns is not None and self.first_seen_at_ns >= until_ns
        return not (is_early or is_late)

    def has_any(self, nodes: frozenset[bytes] | None) -> bool:
        """Tell whether rows may be of one of the nodes."""
        return nodes is None or any(node.hex() in self.nodes for node in nodes)


def _sighting_count(batch: pa.RecordBatch) -> int:
    trains = batch.column(TRAIN) if TRAIN in batch.schema.names else None
    if trains is None or not batch.num_rows:
        return int(batch.num_rows)
    counts = np.frombuffer(trains.buffers()[1], np.int64, len(trains), trains.offset * np.dtype(np.int64).itemsize)
    return int(np.maximum(counts, 1).sum())  # `to_numpy` would load pandas, while a node is at work


def _nodes(batch: pa.RecordBatch) -> dict[str, str]:
    rows = batch.select(["node", "node_name"])
    if len(rows.column("node").unique()) == 1:
        rows = rows.slice(0, 1)  # most segments are of one node
    return {node.hex(): name for node, name in zip(*(column.to_pylist() for column in rows), strict=True)}


class SegmentIndex(msgspec.Struct, frozen=True):
    """The index file of a sealed segment."""

    version: int
    size_bytes: int
    summary: Summary

    @classmethod
    def of(cls, size_bytes: int, summary: Summary) -> SegmentIndex:
        """Give the index of a segment."""
        return cls(INDEX_VERSION, size_bytes, summary)

    def to_json(self) -> bytes:
        """Give the content of the file."""
        return msgspec.json.encode(self) + b"\n"


_READ = msgspec.json.Decoder(SegmentIndex).decode  # made before threads read (0208)


def read_index(path: Place, size_bytes: int) -> SegmentIndex | None:
    """Read the index of a segment of that size; None if there is no index that fits."""
    try:
        index = _READ(read_file(path, MAX_INDEX_BYTES))
        for node in index.summary.nodes:
            bytes.fromhex(node)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return index if index.version == INDEX_VERSION and index.size_bytes == size_bytes else None
