"""`silver.hops`: which departure belongs to which arrival, and what is known where one is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.coverage import Coverage
from hopwire.flows.hops import HOP_SCHEMA, HOPS
from hopwire.flows.link import SIGHTING_COLUMNS, link
from hopwire.flows.rules import Rules
from hopwire.flows.runs import Summary, whole_runs
from hopwire.lake.covered import coverage_of, rules_of
from hopwire.lake.judged import Batches, Judged
from hopwire.lake.settings import LakeSettings
from hopwire.lake.table import table

__all__ = ["hops"]

KEY = ("message_key", "attempt", "from_node", "to_node", "crossing", "fate", "left_sequence", "arrived_sequence")
READS = ("silver.messages", "gold.clocks")
NO_LIMIT = 2**62


@table("silver.hops", key=KEY, reads=READS, columns=HOPS)
def hops(messages: DataFrame, clocks: DataFrame, settings: LakeSettings) -> Judged:
    """One crossing of one message from one node to another, or its end at a node as a dead letter.

    The sightings of one message come together by its key, so a flow of any size is spread over all tasks.
    """
    coverage, rules = coverage_of(clocks), rules_of(settings)
    router = F.when(F.size("routing") > 0, F.element_at("routing", -1)["identity"]).otherwise(F.lit(b""))
    made = {"route_count": F.size("routing"), "route_node": router}
    narrow = messages.select([made[name].alias(name) if name in made else F.col(name) for name in SIGHTING_COLUMNS])
    together = narrow.repartition("message_key").sortWithinPartitions("message_key")
    return Judged(together, _linker(coverage, rules), HOP_SCHEMA)


def _linker(coverage: Coverage, rules: Rules) -> Batches:
    def link_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for run in whole_runs(batches, ["message_key"], NO_LIMIT, Summary(_same, _same)):
            yield from link(run.rows, coverage, rules).to_batches(max_chunksize=10_000)

    return link_batches


def _same(rows: pa.Table) -> pa.Table:
    return rows
