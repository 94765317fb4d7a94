"""`gold.security`: what is wrong with signatures and domains, by minute and sender.

A finding is a verdict that is neither valid nor unsigned, or that a signed message came again. That a message is
unsigned is a finding only where the lake shows that its identity wants a signature: another message of that identity
has a valid one. Who may go unsigned stands in the settings of the nodes, not in the captures; and nobody without a key
can make an identity look signed. So an identity of which nothing valid was ever seen has no finding, whatever its
domain would have said. In V3, which has no place for a signature, such a message has the finding too: nodes refuse it.

The trap: whoever sends can invent as many identities as there are messages. So names are counted before they are
collected, and only the first few of each group are.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hopwire.lake.gold.links import MINUTE, minute_of
from hopwire.lake.tables import Column, table

__all__ = ["security"]

MAX_NAMED = 20  # identities and receivers of one finding
FINDING = ("minute", "sender", "finding")

# fmt: off
COLUMNS = (
    Column("minute",        MINUTE,                "when it arrived, or left where nobody saw it arrive"),
    Column("sender",        pa.binary(),           "the node it came from"),
    Column("finding",       pa.string(),           "a verdict: invalid, no_key, not_in_domain; unsigned, where others "
                                                   "of its identity are valid; or replayed: it came before"),
    Column("message_count", pa.int64(),            "crossings from node to node with this finding"),
    Column("identities",    pa.list_(pa.binary()), f"of the messages; at most {MAX_NAMED} of them"),
    Column("receivers",     pa.list_(pa.binary()), f"the nodes it went to; at most {MAX_NAMED} of them"),
)
# fmt: on


@table("gold.security", key=FINDING, reads=("silver.hops",), columns=COLUMNS)
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
    """Crossings, as often as they have a finding."""
    verdict, is_replayed = F.col("verdict"), F.col("repeat") == "replayed"
    odd = hops.where((F.col("fate") != "dead") & ((verdict != "valid") | is_replayed))
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
