"""`gold.security`: what is wrong with signatures and domains, by minute and sender (`flows/minutes.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import pieces
from hopwire.flows.minutes import OF_HOPS, SECURITY, crossings_in, security_of
from hopwire.lake.dataframes import Batches, Judged
from hopwire.lake.gold.links import ANY_SIZE
from hopwire.lake.inheritance import Inherited
from hopwire.lake.tables import table
from hopwire.model.columns import schema_from_columns
from hopwire.model.units import NS_PER_MINUTE

__all__ = ["security"]

FINDING = ("minute", "sender", "finding")
TOGETHER = ("minute", "from_node")


@table("gold.security", key=FINDING, reads=("silver.hops",), columns=SECURITY, dated_by=("minute",))
def security(hops: DataFrame, notes: dict[str, Any] | None = None) -> Judged:
    """One kind of finding on signatures or domains, per minute and sender."""
    verdict = F.col("verdict")
    rows = hops.where(verdict == "valid").select("identity").distinct().collect()
    signed = frozenset(bytes(row.identity) for row in rows).union((notes or {}).get("inherited", Inherited()).signed)
    is_odd = (verdict != "valid") | (F.col("repeat") == "replayed")
    at = F.coalesce("arrived_at_ns", "left_at_ns")
    narrow = hops.where(is_odd).select(*OF_HOPS, (at - F.pmod(at, F.lit(NS_PER_MINUTE))).alias("minute"))
    together = narrow.repartition(*TOGETHER).sortWithinPartitions(*TOGETHER)
    return Judged(together, _judge(signed), schema_from_columns(SECURITY))


def _judge(signed: frozenset[bytes]) -> Batches:
    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for piece in pieces(batches, TOGETHER, ANY_SIZE):
            yield from security_of(crossings_in(piece.rows), signed).to_batches()

    return judge_batches
