"""`gold.security`: what is wrong with signatures and domains, by minute and sender.

A message has a finding in three cases:
- The verdict on its signature is neither valid nor unsigned.
- The message is signed and came again.
- The message is unsigned, and its identity wants a signature: another message of that identity has a valid signature.
  Example: `orders.create` came 100 times with a valid signature and once unsigned; the one message has a finding.

The captures do not say which identities may go unsigned: the settings of the nodes do. Nobody without a key can make an
identity look signed. So an identity of which no valid signature was ever seen has no finding `unsigned`, whatever its
domain says. V3 has no place for a signature: an unsigned message in V3 has the finding too, and nodes refuse it.

The trap: a sender can invent as many identities as there are messages. So names are counted before they are collected,
and only the first few names of each group are collected.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hopwire.flows.schemas import NO_CROSSINGS
from hopwire.lake.gold.links import MINUTE, minute_of
from hopwire.lake.tables import Column, table

__all__ = ["security"]

MAX_NAMED = 20  # identities and receivers of one finding
FINDING = ("minute", "sender", "finding")

# fmt: off
COLUMNS = (
    Column("minute",        MINUTE,                "of the arrival, or of the departure where nobody saw an arrival"),
    Column("sender",        pa.binary(),           "the node that messages came from"),
    Column("finding",       pa.string(),           "a verdict: invalid, no_key, not_in_domain; unsigned, where other "
                                                   "messages of the identity are valid; replayed, where a message "
                                                   "came before"),
    Column("message_count", pa.int64(),            "crossings from node to node with this finding"),
    Column("identities",    pa.list_(pa.binary()), f"of the messages; at most {MAX_NAMED} of them"),
    Column("receivers",     pa.list_(pa.binary()), f"the nodes that messages went to; at most {MAX_NAMED} of them"),
)
# fmt: on


@table("gold.security", key=FINDING, reads=("silver.hops",), columns=COLUMNS, dated_by=("minute",))
def security(hops: DataFrame) -> DataFrame:
    """One kind of finding on signatures or domains, per minute and sender."""
    is_named = F.row_number().over(Window.partitionBy(*FINDING, "role").orderBy("name")) <= MAX_NAMED
    named = _names(_findings(hops)).withColumn("is_named", is_named)
    return (
        named.groupBy(*FINDING)
        .agg(
            F.sum(F.when(F.col("role") == "identity", F.col("count"))).alias("message_count"),
            _collected("identity").alias("identities"),
            _collected("receiver").alias("receivers"),
        )
        .select([column.name for column in COLUMNS])
    )


def _findings(hops: DataFrame) -> DataFrame:
    """Crossings, once for each finding."""
    verdict, is_replayed = F.col("verdict"), F.col("repeat") == "replayed"
    odd = hops.where(~F.col("fate").isin(*NO_CROSSINGS) & ((verdict != "valid") | is_replayed))
    signed = hops.where(verdict == "valid").select("identity", F.lit(True).alias("wants_signature")).distinct()
    is_doubtful = F.when(verdict == "unsigned", F.col("wants_signature")).otherwise(verdict != "valid")
    findings = F.array(F.when(is_replayed, "replayed"), F.when(is_doubtful, verdict))
    return odd.join(signed, "identity", how="left").select(
        minute_of(F.coalesce("arrived_at_ns", "left_at_ns")).alias("minute"),
        F.col("from_node").alias("sender"),
        F.explode(F.array_compact(findings)).alias("finding"),
        "identity",
        "to_node",
    )


def _names(findings: DataFrame) -> DataFrame:
    """Each name of a finding once: its role, and how many crossings have it."""
    roles = {"identity": "identity", "receiver": "to_node"}
    pairs = [F.struct(F.lit(role).alias("role"), F.col(column).alias("name")) for role, column in roles.items()]
    names = findings.select(*FINDING, F.inline(F.array(*pairs)))
    return names.groupBy(*FINDING, "role", "name").agg(F.count("*").alias("count"))


def _collected(role: str) -> Expression:
    return F.sort_array(F.collect_list(F.when(F.col("is_named") & (F.col("role") == role), F.col("name"))))
