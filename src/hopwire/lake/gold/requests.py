"""`gold.requests`: who asked, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.coverage import Coverage
from hopwire.flows.outcomes import REQUEST_SCHEMA, REQUESTS
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.flows.runs import Summary, whole_runs
from hopwire.lake.covered import coverage_of, rules_of
from hopwire.lake.judged import Batches, Judged
from hopwire.lake.settings import LakeSettings
from hopwire.lake.table import table

__all__ = ["requests"]

KEY = ("callback_receiver_node_identity", "callback_receiver_identity", "callback_key", "correlation_id", "flow_id")
READS = ("silver.hops", "gold.clocks")
TOGETHER = ["flow_id", "home_receiver", "home_node", "callback_key"]
# what is counted of a request with more hops than fit
COUNT = pa.schema([("hop_count", pa.int64())])


@table("gold.requests", key=KEY, reads=READS, columns=REQUESTS)
def requests(hops: DataFrame, clocks: DataFrame, settings: LakeSettings) -> Judged:
    """One request: the question, what became of it, how long it took, and where it was lost."""
    coverage, rules = coverage_of(clocks), rules_of(settings)
    asked = hops.where(F.length("home_receiver") > 0)
    time = F.coalesce("left_at_ns", "arrived_at_ns")
    together = asked.repartition(*TOGETHER).sortWithinPartitions(*TOGETHER, time)
    return Judged(together, _judge(coverage, rules), REQUEST_SCHEMA)


def _judge(coverage: Coverage, rules: Rules) -> Batches:
    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for run in whole_runs(batches, TOGETHER, rules.max_flow_rows, Summary(_count, _sum)):
            judged = judge_requests(run.rows, coverage, rules)
            if run.more is not None and len(judged):
                total = pc.add(judged["hop_count"], run.more["hop_count"][0])
                judged = judged.set_column(judged.schema.get_field_index("hop_count"), "hop_count", total)
            yield from judged.to_batches(max_chunksize=10_000)

    return judge_batches


def _count(rows: pa.Table) -> pa.Table:
    return pa.table([[len(rows)]], schema=COUNT)


def _sum(counts: pa.Table) -> pa.Table:
    return pa.table([[pc.sum(counts["hop_count"]).as_py()]], schema=COUNT)
