"""`gold.links`: how much goes from node to node, how fast, and what is lost on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import pieces
from hopwire.flows.minutes import LINKS, OF_HOPS, crossings_in, links_of
from hopwire.lake.dataframes import Judged
from hopwire.lake.tables import table
from hopwire.model.columns import schema_from_columns
from hopwire.model.units import NS_PER_MINUTE

__all__ = ["ANY_SIZE", "links"]

KEY = ("from_node", "to_node", "identity", "minute")
ANY_SIZE = 2**62  # rows of a minute: they are few, and have ten narrow columns


@table("gold.links", key=KEY, reads=("silver.hops",), columns=LINKS, dated_by=("minute",))
def links(hops: DataFrame) -> Judged:
    """One message identity from one node to another in one minute: count, bytes, latency, losses."""
    at = F.coalesce("left_at_ns", "arrived_at_ns")
    narrow = hops.select(*OF_HOPS, (at - F.pmod(at, F.lit(NS_PER_MINUTE))).alias("minute"))
    together = narrow.repartition(*KEY).sortWithinPartitions(*KEY)
    return Judged(together, _judge, schema_from_columns(LINKS))


def _judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for piece in pieces(batches, KEY, ANY_SIZE):
        yield from links_of(crossings_in(piece.rows)).to_batches()
