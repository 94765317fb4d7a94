"""`gold.clocks`: the nodes that capture, and how wrong their clocks are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from hopwire.flows.clocks import CLOCKS, Crossing, clocks_from_crossings
from hopwire.flows.columns import schema_from_columns
from hopwire.flows.rules import NS_PER_SECOND
from hopwire.lake.table import table

__all__ = ["clocks"]


@table("gold.clocks", key=("node",), reads=("bronze.sightings", "silver.messages"), columns=CLOCKS)
def clocks(sightings: DataFrame, messages: DataFrame) -> DataFrame:
    """One node that captures: from when to when, how much, and how far its clock is ahead of the reference."""
    lives = _lives(sightings).collect()
    names = {row.number: bytes(row.node) for row in lives}
    skips = _skips(sightings).collect() if any(row.skipped for row in lives) else []
    crossings = [
        Crossing(names[source], names[target], took, count)
        for source, target, took, count in _crossings(messages).collect()
        if source in names and target in names
    ]
    nodes = _nodes(lives)
    missing = _stretches(skips)
    rows = [
        nodes[clock.node] | asdict(clock) | {"skips": missing[clock.node]}
        for clock in clocks_from_crossings(nodes, crossings)
    ]
    schema = schema_from_columns(CLOCKS)
    return sightings.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=schema)).select(schema.names)


def _lives(sightings: DataFrame) -> DataFrame:
    """The incarnations of all nodes; a node is a number too, for what is quick.

    Names are among the keys at first: to find the largest text in a group, Spark would sort all sightings.
    """
    named = sightings.groupBy("node", "incarnation", "node_name").agg(
        F.min("seen_at_ns").alias("first"),
        F.max("seen_at_ns").alias("last"),
        F.count(F.when(F.col("direction") != "skipped", True)).alias("sighting_count"),
        F.sum("skipped").alias("skipped"),
    )
    return named.groupBy("node", "incarnation").agg(
        F.first(F.xxhash64("node")).alias("number"),
        F.max("node_name").alias("node_name"),
        F.min("first").alias("first"),
        F.max("last").alias("last"),
        F.sum("sighting_count").alias("sighting_count"),
        F.sum("skipped").alias("skipped"),
    )


def _nodes(lives: Iterable[Row]) -> dict[bytes, dict[str, Any]]:
    """The nodes of incarnations; the name is that of the last."""
    found: dict[bytes, dict[str, Any]] = {}
    stretches = _stretches(lives)
    for row in sorted(lives, key=lambda row: row.incarnation):
        node = bytes(row.node)
        known = found.get(node, {"sighting_count": 0, "skipped": 0})
        found[node] = {
            "node_name": row.node_name,
            "first_seen_at_ns": min(each["first_ns"] for each in stretches[node]),
            "last_seen_at_ns": max(each["last_ns"] for each in stretches[node]),
            "sighting_count": known["sighting_count"] + row.sighting_count,
            "skipped": known["skipped"] + row.skipped,
            "lives": stretches[node],
        }
    return found


def _skips(sightings: DataFrame) -> DataFrame:
    """Stretches in which sightings are missing: from the row that says so to the next sighting, one for each second."""
    skips = sightings.where(F.col("direction") == "skipped").select(
        "node",
        "incarnation",
        (F.col("sequence") + F.col("skipped")).alias("sequence"),
        F.col("seen_at_ns").alias("first"),
    )
    others = sightings.select("node", "incarnation", "sequence", "seen_at_ns")
    with_next = skips.join(others, ["node", "incarnation", "sequence"], how="left")
    last = F.greatest(F.coalesce("seen_at_ns", "first"), "first")
    second = F.floor(F.col("first") / F.lit(NS_PER_SECOND)).alias("second")
    return with_next.groupBy("node", second).agg(F.min("first").alias("first"), F.max(last).alias("last"))


def _stretches(spans: Iterable[Row]) -> dict[bytes, list[dict[str, int]]]:
    found: dict[bytes, list[dict[str, int]]] = defaultdict(list)
    for node, first, last in sorted((bytes(row.node), row.first, row.last) for row in spans):
        found[node].append({"first_ns": first, "last_ns": last})
    return found


def _crossings(messages: DataFrame) -> DataFrame:
    """The quickest crossing of each pair of nodes, among messages that left once and arrived once.

    Messages and nodes are grouped by hashes, which are small: two messages of one hash are one that crosses twice, and
    do not count.
    """
    is_in = F.col("direction") == "in"
    node, peer = F.xxhash64("node"), F.xxhash64("peer")
    seen = messages.where(F.col("direction").isin("in", "out")).select(
        F.xxhash64("message_key", "attempt").alias("message"),
        F.when(is_in, peer).otherwise(node).alias("source"),
        F.when(is_in, node).otherwise(peer).alias("target"),
        F.when(is_in, F.col("seen_at_ns")).alias("came"),
        F.when(~is_in, F.col("seen_at_ns")).alias("left"),
    )
    once = (F.col("departures") == 1) & (F.col("arrivals") == 1)
    matched = (
        seen.groupBy("message", "source", "target")
        .agg(
            F.count("left").alias("departures"),
            F.count("came").alias("arrivals"),
            (F.max("came") - F.max("left")).alias("took"),
        )
        .where(once)
    )
    return matched.groupBy("source", "target").agg(F.min("took"), F.count("*"))
