"""What is in a segment, in short: how many rows, of which nodes, from when to when.

A sealed segment has it beside it as JSON, the index, so that a reader knows which files to leave alone without opening
them. The index is only a convenience: one that is missing, damaged or does not fit the size of its segment is ignored.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.disk import read_regular
from hopwire.model.units import MEBIBYTE

__all__ = ["INDEX_SUFFIX", "SegmentIndex", "Summary", "read_index"]

INDEX_SUFFIX = ".json"
INDEX_VERSION = 1
MAX_INDEX_BYTES = 16 * MEBIBYTE  # has one line for each node


class Summary(msgspec.Struct, frozen=True):
    """The rows of a segment, summed up; times are 0 where there are no rows."""

    row_count: int = 0
    skipped: int = 0  # sightings that are missing, by the account of the rows
    first_seen_at_ns: int = 0
    last_seen_at_ns: int = 0
    nodes: dict[str, str] = {}  # identity in hex: name

    def plus(self, batch: pa.RecordBatch) -> Summary:
        """Give the summary with a batch added."""
        if not batch.num_rows:
            return self
        times = pc.min_max(batch.column("seen_at_ns")).as_py()
        return Summary(
            self.row_count + batch.num_rows,
            self.skipped + (pc.sum(batch.column("skipped")).as_py() or 0),
            min(times["min"], self.first_seen_at_ns) if self.row_count else times["min"],
            max(times["max"], self.last_seen_at_ns) if self.row_count else times["max"],
            {**self.nodes, **_nodes(batch)},
        )

    def overlaps(self, since_ns: int | None, until_ns: int | None) -> bool:
        """Tell whether rows may lie within the times."""
        is_early = since_ns is not None and self.last_seen_at_ns < since_ns
        is_late = until_ns is not None and self.first_seen_at_ns >= until_ns
        return not (is_early or is_late)

    def has_any(self, nodes: frozenset[bytes] | None) -> bool:
        """Tell whether rows may be of one of the nodes."""
        return nodes is None or any(node.hex() in self.nodes for node in nodes)


def _nodes(batch: pa.RecordBatch) -> dict[str, str]:
    rows = batch.select(["node", "node_name"])
    if len(rows.column("node").unique()) == 1:
        rows = rows.slice(0, 1)  # as it is with a writer for each node
    return {node.hex(): name for node, name in zip(*(column.to_pylist() for column in rows), strict=True)}


class SegmentIndex(msgspec.Struct, frozen=True):
    """What stands beside a sealed segment."""

    version: int
    size_bytes: int
    summary: Summary

    @classmethod
    def of(cls, size_bytes: int, summary: Summary) -> SegmentIndex:
        """Give the index of a segment."""
        return cls(INDEX_VERSION, size_bytes, summary)

    def to_json(self) -> bytes:
        """Give it as it is written."""
        return msgspec.json.encode(self) + b"\n"


def read_index(path: Path, size_bytes: int) -> SegmentIndex | None:
    """Read the index of a segment of that size, or give nothing if there is none that fits."""
    try:
        index = msgspec.json.decode(read_regular(path, MAX_INDEX_BYTES), type=SegmentIndex)
        for node in index.summary.nodes:
            bytes.fromhex(node)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None
    return index if index.version == INDEX_VERSION and index.size_bytes == size_bytes else None
