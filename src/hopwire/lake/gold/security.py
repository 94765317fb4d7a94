"""`gold.security`: what is wrong with signatures and domains, by minute and sender."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.lake.minutes import MINUTE, minute_of
from hopwire.lake.table import Column, table

__all__ = ["security"]

MAX_IDENTITIES = 20  # that are named; an attacker can invent as many as there are messages

# fmt: off
COLUMNS = (
    Column("minute",        MINUTE,                "when it arrived, or left where nobody saw it arrive"),
    Column("sender",        pa.binary(),           "the node it came from"),
    Column("finding",       pa.string(),           "a verdict that is not valid; or replayed: it came before"),
    Column("message_count", pa.int64(),            "crossings from node to node with this finding"),
    Column("identities",    pa.list_(pa.binary()), f"of the messages; at most {MAX_IDENTITIES} of them"),
    Column("receivers",     pa.list_(pa.binary()), "the nodes it went to"),
)
# fmt: on


@table("gold.security", key=("minute", "sender", "finding"), reads=("silver.hops",), columns=COLUMNS)
def security(hops: DataFrame) -> DataFrame:
    """One kind of finding on signatures or domains, per minute and sender."""
    is_replayed, is_doubtful = F.col("repeat") == "replayed", F.col("verdict") != "valid"
    crossings = hops.where(F.col("fate") != "dead").withColumn(
        "finding",
        F.explode(
            F.filter(
                F.array(F.when(is_replayed, F.lit("replayed")), F.when(is_doubtful, F.col("verdict"))),
                lambda each: each.isNotNull(),
            )
        ),
    )
    minute = minute_of(F.coalesce("arrived_at_ns", "left_at_ns")).alias("minute")
    return (
        crossings.groupBy(minute, F.col("from_node").alias("sender"), "finding")
        .agg(
            F.count("*").alias("message_count"),
            F.slice(F.sort_array(F.collect_set("identity")), 1, MAX_IDENTITIES).alias("identities"),
            F.sort_array(F.collect_set("to_node")).alias("receivers"),
        )
        .select([column.name for column in COLUMNS])
    )
