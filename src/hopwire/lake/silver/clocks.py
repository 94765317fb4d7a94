"""`silver.clocks`: the nodes that capture, and how wrong their clocks are.

The small table bronze.spans says who captured when. Messages tell how wrong the clocks are: Spark finds the quickest
crossings of each pair of nodes in each window of time (`flows/crossings.py`). The crossings of all windows may be too
many for the driver. Then the driver first looks at one crossing for each pair of nodes. That is enough, unless the
crossings of a pair contradict themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.clocks import clocks_from_crossings, rows_from_clocks
from hopwire.flows.coverage import Coverage, LifeSpan, coverage_from_rows
from hopwire.flows.crossings import Crossing, contradicted, window_width
from hopwire.flows.schemas import CLOCKS
from hopwire.flows.spans import lives_of, placed
from hopwire.lake.bronze.spans import spans_from_rows
from hopwire.lake.tables import table

__all__ = ["clocks", "coverage_of"]

MAX_CROSSINGS = 400_000  # the driver looks at so many crossings, unless there are more pairs of nodes
PAIR = ("source", "target")
LIVES = ("source_life", "target_life")


@table("silver.clocks", key=("node",), reads=("bronze.spans", "silver.messages"), columns=CLOCKS)
def clocks(spans: DataFrame, messages: DataFrame) -> DataFrame:
    """One node that captures: from when to when, how much, and how far its clock is ahead of the reference."""
    found = spans.select("*", F.xxhash64("node").alias("number")).toArrow()
    nodes = dict(zip(found["number"].to_pylist(), found["node"].to_pylist(), strict=True))
    known = placed(spans_from_rows(found.drop_columns(["number"])))
    lives = lives_of(known)
    width = window_width(lives)
    windows = _windows(messages, width)
    crossings = _read(windows, nodes) if _most(lives, width) <= MAX_CROSSINGS else _read_few(windows, nodes)
    rows = rows_from_clocks(known, clocks_from_crossings(nodes.values(), crossings))
    return spans.sparkSession.createDataFrame(rows).select(rows.column_names)


def coverage_of(clocks: DataFrame) -> Coverage:
    """Give who captured when, and how wrong each clock is: the table is small, a row for each node."""
    return coverage_from_rows(clocks.toArrow())


def _windows(messages: DataFrame, width_ns: int) -> DataFrame:
    """The quickest crossing of each pair of nodes in each window, among messages that left once and arrived once.

    Messages and nodes are grouped by hashes, which are small. Two messages of one hash look like one message that
    crosses twice, and do not count.
    """
    is_in = F.col("direction") == "in"
    node, peer = F.xxhash64("node"), F.xxhash64("peer")
    seen = messages.where(F.col("direction").isin("in", "out")).select(
        F.xxhash64("message_key", "attempt").alias("message"),
        F.when(is_in, peer).otherwise(node).alias("source"),
        F.when(is_in, node).otherwise(peer).alias("target"),
        F.when(is_in, F.col("seen_at_ns")).alias("came"),
        F.when(~is_in, F.col("seen_at_ns")).alias("left"),
        F.when(is_in, F.col("incarnation")).alias("target_life"),
        F.when(~is_in, F.col("incarnation")).alias("source_life"),
    )
    once = (F.col("departures") == 1) & (F.col("arrivals") == 1)
    matched = seen.groupBy("message", *PAIR).agg(
        F.count("left").alias("departures"),
        F.count("came").alias("arrivals"),
        *(F.max(name).alias(name) for name in ("came", "left", *LIVES)),
    )
    at = F.when(F.col("source") < F.col("target"), F.col("left")).otherwise(F.col("came"))  # one clock, both directions
    crossings = matched.where(once).select(
        *PAIR,
        *LIVES,
        F.floor(at / F.lit(width_ns)).alias("window"),
        (F.col("came") - F.col("left")).alias("took"),
        "left",
        F.lit(1).alias("messages"),
    )
    return _quickest(crossings, *PAIR, *LIVES, "window")


def _quickest(crossings: DataFrame, *keys: str) -> DataFrame:
    return crossings.groupBy(*keys).agg(
        F.min("took").alias("took"), F.min_by("left", "took").alias("left"), F.sum("messages").alias("messages")
    )


def _most(lives: Collection[LifeSpan], width_ns: int) -> int:
    """How many crossings there are at most: one for each pair of incarnations and each window."""
    longest = max((life.last_ns - life.first_ns for life in lives), default=0)
    return len(lives) ** 2 * (longest // width_ns + 2)


def _read_few(windows: DataFrame, nodes: Mapping[int, bytes]) -> list[Crossing]:
    """The crossings of pairs of nodes; if these contradict themselves, those of windows, made longer until they fit."""
    windows = windows.persist()
    try:
        pairs = _read(_quickest(windows, *PAIR), nodes)
        if not contradicted(pairs):
            return pairs
        factor = -(-windows.count() // MAX_CROSSINGS)
        longer = windows.withColumn("window", F.floor(F.col("window") / factor))
        return _read(_quickest(longer, *PAIR, *LIVES, "window"), nodes)
    finally:
        windows.unpersist()


def _read(crossings: DataFrame, nodes: Mapping[int, bytes]) -> list[Crossing]:
    rows = crossings.toArrow().to_pylist()
    return [
        Crossing(
            nodes[row["source"]],
            nodes[row["target"]],
            row["took"],
            row["messages"],
            row["left"],
            row.get("source_life", 0),
            row.get("target_life", 0),
            row.get("window", 0),
        )
        for row in rows
        if row["source"] in nodes and row["target"] in nodes
    ]
