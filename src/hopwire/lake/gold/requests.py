"""`gold.requests`: who asked, and what became of the question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import Summariser, whole_chunks
from hopwire.flows.coverage import Coverage
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import HOP_SCHEMA, REQUEST_SCHEMA, REQUESTS
from hopwire.lake.dataframes import Batches, Judged
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.clocks import coverage_of
from hopwire.lake.silver.hops import by_time
from hopwire.lake.tables import table

__all__ = ["requests"]

KEY = ("callback_receiver_node_identity", "callback_receiver_identity", "callback_key", "correlation_id", "flow_id")
READS = ("silver.hops", "silver.clocks")
TOGETHER = ["flow_id", "home_receiver", "home_node", "callback_key"]
MAX_LATER_REPLIES = 1_000  # of a request with more hops than fit; the first reply that came home decides
# of hops that do not fit, their number and the replies among them are kept
LATER = pa.schema([("hop_count", pa.int64()), ("replies", pa.list_(pa.struct(list(HOP_SCHEMA))))])


@table("gold.requests", key=KEY, reads=READS, columns=REQUESTS, dated_by=("asked_at_ns",))
def requests(hops: DataFrame, clocks: DataFrame, settings: LakeSettings) -> Judged:
    """One request: the question, what became of it, how long it took, and where it was lost."""
    coverage, rules = coverage_of(clocks), settings.rules
    asked = hops.where(F.length("home_receiver") > 0)
    together = asked.repartition(*TOGETHER).sortWithinPartitions(*TOGETHER, *by_time())
    return Judged(together, _judge(coverage, rules), REQUEST_SCHEMA)


def _judge(coverage: Coverage, rules: Rules) -> Batches:
    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for run in whole_chunks(batches, TOGETHER, rules.max_flow_rows, Summariser(_later, _both)):
            if run.more is None:
                judged = judge_requests(run.rows, coverage, rules)
            else:
                judged = _oversized(run.rows, run.more, coverage, rules)
            yield from judged.to_batches(max_chunksize=10_000)

    return judge_batches


def _oversized(rows: pa.Table, later: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Judge a request by its first hops and the replies that came later; all hops are counted."""
    replies = pa.Table.from_struct_array(later["replies"].combine_chunks().flatten())
    judged = judge_requests(pa.concat_tables([_hops(rows), replies]), coverage, rules)
    count = len(rows) + later["hop_count"][0].as_py()
    made = {"hop_count": pa.repeat(pa.scalar(count), len(judged)), "is_oversized": pa.repeat(True, len(judged))}
    for name, column in made.items():
        judged = judged.set_column(judged.schema.get_field_index(name), REQUEST_SCHEMA.field(name), column)
    return judged


def _later(rows: pa.Table) -> pa.Table:
    replies = rows.filter(pc.or_(rows["is_reply"], pc.equal(rows["fate"], "told"))).slice(0, MAX_LATER_REPLIES)
    return _kept(len(rows), _hops(replies).to_struct_array().combine_chunks())


def _hops(rows: pa.Table) -> pa.Table:
    """Hops as they are declared: Spark says of some columns that they are never null."""
    return rows.select(HOP_SCHEMA.names).cast(HOP_SCHEMA)


def _both(parts: pa.Table) -> pa.Table:
    replies = parts["replies"].combine_chunks().flatten().slice(0, MAX_LATER_REPLIES)
    return _kept(pc.sum(parts["hop_count"]).as_py(), replies)


def _kept(hop_count: int, replies: pa.StructArray) -> pa.Table:
    lists = pa.ListArray.from_arrays(pa.array([0, len(replies)], pa.int32()), replies)
    return pa.table([pa.array([hop_count]), lists], schema=LATER)
