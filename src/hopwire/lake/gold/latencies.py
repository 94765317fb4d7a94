"""`gold.latencies`: how long questions take, by contract and minute, with histograms that add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import pieces
from hopwire.flows.histograms import LATENCIES, OF_REQUESTS, latencies_of
from hopwire.lake.dataframes import Judged
from hopwire.lake.tables import table
from hopwire.model.columns import schema_from_columns
from hopwire.model.units import NS_PER_MINUTE

__all__ = ["latencies"]

KEY = ("minute", "identity", "version", "version_raw", "partition", "is_control")
ANY_SIZE = 2**62  # rows of a contract in a minute: they have eight narrow columns


@table("gold.latencies", key=KEY, reads=("gold.requests",), columns=LATENCIES, dated_by=("minute",))
def latencies(requests: DataFrame) -> Judged:
    """One contract in one minute: how many asked, what became of it, and how long answers took."""
    at = F.col("asked_at_ns")
    narrow = requests.select(*OF_REQUESTS, (at - F.pmod(at, F.lit(NS_PER_MINUTE))).alias("minute"))
    together = narrow.repartition(*KEY).sortWithinPartitions(*KEY)
    return Judged(together, _judge, schema_from_columns(LATENCIES))


def _judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for piece in pieces(batches, KEY, ANY_SIZE):
        yield from latencies_of(piece.rows).to_batches()
