"""`gold.requests`: who asked, and what became of the question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.coverage import Coverage
from hopwire.flows.oversized import TOGETHER, judged_requests
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import REQUEST_SCHEMA, REQUESTS
from hopwire.lake.dataframes import Batches, Judged
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.clocks import coverage_of
from hopwire.lake.silver.hops import by_time
from hopwire.lake.tables import table

__all__ = ["requests"]

KEY = ("callback_receiver_node_identity", "callback_receiver_identity", "callback_key", "correlation_id", "flow_id")
READS = ("silver.hops", "silver.clocks")


@table("gold.requests", key=KEY, reads=READS, columns=REQUESTS, dated_by=("asked_at_ns",))
def requests(hops: DataFrame, clocks: DataFrame, settings: LakeSettings) -> Judged:
    """One request: the question, what became of it, how long it took, and where it was lost."""
    coverage, rules = coverage_of(clocks), settings.rules
    asked = hops.where(F.length("home_receiver") > 0)
    together = asked.repartition(*TOGETHER).sortWithinPartitions(*TOGETHER, *by_time())
    return Judged(together, _judge(coverage, rules), REQUEST_SCHEMA)


def _judge(coverage: Coverage, rules: Rules) -> Batches:
    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for judged in judged_requests(batches, coverage, rules):
            yield from judged.to_batches(max_chunksize=10_000)

    return judge_batches
