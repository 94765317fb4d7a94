"""`gold.contracts`: what is said in the network, by whom, and in which formats."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.lake.tables import Column, table

__all__ = ["contracts"]

# fmt: off
COLUMNS = (
    Column("identity",         pa.binary(),           "the message contract's identity"),
    Column("version",          pa.int32(),            "its version in V5 and V6"),
    Column("version_raw",      pa.binary(),           "its version in V3 and V4"),
    Column("partition",        pa.binary(),           "its partition"),
    Column("sighting_count",   pa.int64(),            "sightings, of leaving and of arriving alike"),
    Column("first_seen_at_ns", pa.int64(),            "the first sighting, by the clock of its node"),
    Column("last_seen_at_ns",  pa.int64(),            "the last sighting, by the clock of its node"),
    Column("senders",          pa.list_(pa.string()), "nodes that sent such messages"),
    Column("receivers",        pa.list_(pa.string()), "nodes at which such messages arrived"),
    Column("dead_count",       pa.int64(),            "dead letters"),
    Column("wire_formats",     pa.list_(pa.int8()),   "wire formats in use"),
    Column("min_size_bytes",   pa.int64(),            "of all frames, the smallest"),
    Column("mean_size_bytes",  pa.float64(),          "of all frames, on average"),
    Column("max_size_bytes",   pa.int64(),            "of all frames, the largest"),
)
# fmt: on
KEY = ("identity", "version", "version_raw", "partition")


@table("gold.contracts", key=KEY, reads=("silver.messages",), columns=COLUMNS)
def contracts(messages: DataFrame) -> DataFrame:
    """One message contract in one partition: who says it, who hears it, when, how large, in which formats.

    Sightings are first counted by columns of few values. Sets are slow, and then few rows are left to put into sets.
    """
    said = messages.where(F.col("direction") != "told")  # what an asker was told is no message
    parts = said.groupBy(*KEY, "node", "node_name", "direction", "wire_format").agg(
        F.count("*").alias("count"),
        F.min("seen_at_ns").alias("first"),
        F.max("seen_at_ns").alias("last"),
        F.sum("size_bytes").alias("size"),
        F.min("size_bytes").alias("least"),
        F.max("size_bytes").alias("most"),
    )
    name = F.when(F.col("node_name") != "", F.col("node_name")).otherwise(F.lower(F.hex("node")))
    is_out, is_in, is_dead = (F.col("direction") == each for each in ("out", "in", "dead"))
    return (
        parts.groupBy(*KEY)
        .agg(
            F.sum("count").alias("sighting_count"),
            F.min("first").alias("first_seen_at_ns"),
            F.max("last").alias("last_seen_at_ns"),
            F.sort_array(F.collect_set(F.when(is_out, name))).alias("senders"),
            F.sort_array(F.collect_set(F.when(is_in, name))).alias("receivers"),
            F.sum(F.when(is_dead, F.col("count")).otherwise(0)).alias("dead_count"),
            F.sort_array(F.collect_set("wire_format")).alias("wire_formats"),
            F.min("least").alias("min_size_bytes"),
            (F.sum("size") / F.sum("count")).alias("mean_size_bytes"),
            F.max("most").alias("max_size_bytes"),
        )
        .select([column.name for column in COLUMNS])
    )
