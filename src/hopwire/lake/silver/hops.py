"""`silver.hops`: which departure belongs to which arrival, and what is known where one of the two is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import pieces
from hopwire.flows.coverage import Coverage
from hopwire.flows.hops import SIGHTING_COLUMNS, link, link_piece
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import HOP_SCHEMA, HOPS
from hopwire.lake.dataframes import Batches, Judged
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.clocks import coverage_of
from hopwire.lake.tables import table

__all__ = ["by_time", "hops"]

SEEN = ("left_incarnation", "left_sequence", "arrived_incarnation", "arrived_sequence")
KEY = ("message_key", "attempt", "from_node", "to_node", "crossing", "fate", *SEEN)
READS = ("silver.messages", "silver.clocks")
ORDER = ("message_key", "seen_at_ns", "node", "incarnation", "sequence")  # the same order in every build


@table("silver.hops", key=KEY, reads=READS, columns=HOPS, dated_by=("left_at_ns", "arrived_at_ns"))
def hops(messages: DataFrame, clocks: DataFrame, settings: LakeSettings) -> Judged:
    """One crossing of one message from one node to another, or its end at a node as a dead letter.

    The sightings of one message come together by its key, so a flow of any size is spread over all tasks. Equal
    messages without an id have the same key, and may be many: they are linked piece by piece.
    """
    coverage, rules = coverage_of(clocks), settings.rules
    router = F.when(F.size("routing") > 0, F.element_at("routing", -1)["identity"]).otherwise(F.lit(b""))
    made = {"route_count": F.size("routing"), "route_node": router}
    narrow = messages.select([made[name].alias(name) if name in made else F.col(name) for name in SIGHTING_COLUMNS])
    together = narrow.repartition("message_key").sortWithinPartitions(*ORDER)
    return Judged(together, _linker(coverage, rules), HOP_SCHEMA)


def by_time() -> list[Column]:
    """Give the order of hops: time first, then columns that make the order the same in every build, and in a step."""
    names = ("from_node", "to_node", *SEEN, "message_key")
    return [F.coalesce("left_at_ns", "arrived_at_ns"), *(F.col(name).asc_nulls_last() for name in names)]


def _linker(coverage: Coverage, rules: Rules) -> Batches:
    def link_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        for piece in pieces(batches, ["message_key"], rules.max_flow_rows):
            rows = pa.concat_tables([*waiting, piece.rows])
            found, rest = link_piece(rows, coverage, rules, piece.is_cut)
            waiting = [rest] if len(rest) else []
            yield from found.to_batches(max_chunksize=10_000)
        for rows in waiting:
            yield from link(rows, coverage, rules).to_batches(max_chunksize=10_000)

    return link_batches
