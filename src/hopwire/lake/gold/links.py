"""`gold.links`: how much goes from node to node, how fast, and what is lost on the way."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.schemas import NO_CROSSINGS
from hopwire.lake.tables import Column, table
from hopwire.model.units import NS_PER_MINUTE, NS_PER_SECOND

__all__ = ["MINUTE", "links", "minute_of"]

MINUTE = pa.timestamp("us", tz="UTC")

QUANTILES = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
ACCURACY = 1000  # of the quantiles: an error of one in a thousand ranks

# fmt: off
COLUMNS = (
    Column("from_node",       pa.binary(), "the node that messages left"),
    Column("to_node",         pa.binary(), "the node that messages went to"),
    Column("identity",        pa.binary(), "the message contract's identity"),
    Column("minute",          MINUTE,      "of the departure, or of the arrival where nobody saw a departure"),
    Column("hop_count",       pa.int64(),  "crossings, whatever became of them"),
    Column("size_bytes",      pa.int64(),  "of all frames of all crossings"),
    Column("arrived_count",   pa.int64(),  "of which seen to leave and to arrive"),
    Column("lost_count",      pa.int64(),  "of which lost"),
    Column("duplicate_count", pa.int64(),  "of which delivered more often than sent"),
    Column("p50_us",          pa.int64(),  "latency of crossings that arrived: half are not slower"),
    Column("p95_us",          pa.int64(),  "19 of 20 are not slower"),
    Column("p99_us",          pa.int64(),  "99 of 100 are not slower"),
)
# fmt: on
KEY = ("from_node", "to_node", "identity", "minute")


@table("gold.links", key=KEY, reads=("silver.hops",), columns=COLUMNS, dated_by=("minute",))
def links(hops: DataFrame) -> DataFrame:
    """One message identity from one node to another in one minute: count, bytes, latency, losses."""
    crossings = hops.where(~F.col("fate").isin(*NO_CROSSINGS))
    minute = minute_of(F.coalesce("left_at_ns", "arrived_at_ns")).alias("minute")
    counts = {
        f"{fate}_count": F.count(F.when(F.col("fate") == fate, True)) for fate in ("arrived", "lost", "duplicate")
    }
    latency = F.when(F.col("fate") == "arrived", F.col("latency_us"))
    quantiles = F.percentile_approx(latency, list(QUANTILES.values()), ACCURACY)  # one sketch for all of them
    return (
        crossings.groupBy("from_node", "to_node", "identity", minute)
        .agg(
            F.count("*").alias("hop_count"),
            F.sum("size_bytes").alias("size_bytes"),
            *(count.alias(name) for name, count in counts.items()),
            quantiles.alias("quantiles"),
        )
        .withColumns({name: F.col("quantiles")[number] for number, name in enumerate(QUANTILES)})
        .select([column.name for column in COLUMNS])
    )


def minute_of(time_ns: Expression) -> Expression:
    """Give the minute in which a time in nanoseconds since 1970 lies."""
    begin_ns = time_ns - F.pmod(time_ns, F.lit(NS_PER_MINUTE))  # exact; a quotient of such numbers is not
    return F.timestamp_seconds(begin_ns / F.lit(NS_PER_SECOND))
