"""`silver.clocks`: the nodes that capture, and how wrong their clocks are.

The small table bronze.spans says who captured when. Messages tell how wrong the clocks are: the workers find the
quickest crossings of each pair of nodes in each window of time (`flows/crossings.py`), and the driver folds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import pieces
from hopwire.flows.clocks import clocks_from_crossings, rows_from_clocks
from hopwire.flows.coverage import Coverage, coverage_from_rows
from hopwire.flows.crossings import Crossing, quickest_crossings
from hopwire.flows.crossings import quickest as all_quickest
from hopwire.flows.schemas import CLOCKS
from hopwire.flows.spans import placed
from hopwire.lake.bronze.spans import spans_from_rows
from hopwire.lake.inheritance import Inherited
from hopwire.lake.tables import table

__all__ = ["clocks", "coverage_of"]

SEEN = (
    "message_key", "attempt", "message_id", "correlation_id", "callback_key",
    "node", "peer", "direction", "incarnation", "seen_at_ns",
)  # fmt: skip
PAIR = ("from_node", "to_node", "from_incarnation", "to_incarnation", "window")
CROSSING = (
    "from_node binary, to_node binary, quickest_ns long, messages long, left_at_ns long, "
    "from_incarnation long, to_incarnation long, window long"
)
MAX_ROWS = 100_000  # of one message: a message that was seen more often tells nothing of clocks


@table("silver.clocks", key=("node",), reads=("bronze.spans", "silver.messages"), columns=CLOCKS)
def clocks(spans: DataFrame, messages: DataFrame, notes: dict[str, Any] | None = None) -> DataFrame:
    """One node that captures: from when to when, how much, and how far its clock is ahead of the reference."""
    known = placed(spans_from_rows(spans.toArrow()))
    found = quickest(messages).toArrow().select(list(Crossing._fields)).to_pylist()
    inherited = (notes or {}).get("inherited", Inherited())
    crossings = all_quickest([*(Crossing(**row) for row in found), *inherited.later])
    if notes is not None:
        notes["crossings"] = crossings
    nodes = {each.span.node for each in known}
    rows = rows_from_clocks(known, clocks_from_crossings(nodes, crossings, inherited.fold))
    return spans.sparkSession.createDataFrame(rows).select(rows.column_names)


def coverage_of(clocks: DataFrame) -> Coverage:
    """Give who captured when, and how wrong each clock is: the table is small, a row for each node."""
    return coverage_from_rows(clocks.toArrow())


def quickest(messages: DataFrame) -> DataFrame:
    """Give the quickest crossing of each pair of lives in each window."""
    together = messages.select(*SEEN).repartition("message_key").sortWithinPartitions("message_key")
    crossings = together.mapInArrow(_crossings, CROSSING)
    return crossings.groupBy(*PAIR).agg(
        F.min("quickest_ns").alias("quickest_ns"),
        F.sum("messages").alias("messages"),
        F.min_by("left_at_ns", F.struct("quickest_ns", "left_at_ns")).alias("left_at_ns"),
    )


def _crossings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for piece in pieces(batches, ["message_key"], MAX_ROWS):
        found = quickest_crossings(piece.rows)
        columns = list(zip(*found, strict=True)) or [()] * len(Crossing._fields)
        types = [pa.binary() if name.endswith("node") else pa.int64() for name in Crossing._fields]
        arrays = [pa.array(column, each) for column, each in zip(columns, types, strict=True)]
        yield pa.record_batch(arrays, names=list(Crossing._fields))
