"""`gold.flows`: everything that belongs to one correlation id, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import Summariser, whole_chunks
from hopwire.flows.closing import horizon_columns
from hopwire.flows.findings import Known
from hopwire.flows.flows import added, judge_flows, totals_of
from hopwire.flows.schemas import FLOW_SCHEMA, FLOWS, HOP_SCHEMA, REQUEST_SCHEMA
from hopwire.lake.dataframes import Batches, Judged
from hopwire.lake.inheritance import Inherited
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.clocks import coverage_of
from hopwire.lake.silver.closed_flows import index_rows, most_off_ns
from hopwire.lake.silver.hops import by_time
from hopwire.lake.tables import table

__all__ = ["OF_REQUEST", "flows", "judge_of"]

READS = ("silver.hops", "gold.requests", "silver.clocks")
REQUEST = "request"  # the column that has a request; null in rows of hops
OF_REQUEST = (
    "correlation_id",
    "message_key",
    "identity",
    "version",
    "version_raw",
    "home_node",
    "told",
    "is_told_otherwise",
    "reached_node",
    "outcome",
    "is_reused",
    "is_callback_unreached",
    "is_unhandled",
    "asked_at_ns",
    "deadline_ns",
)
ROWS_OF_A_BATCH = 1_000  # flows are long rows


@table("gold.flows", key=("flow_id",), reads=READS, columns=FLOWS, dated_by=("started_at_ns",))
def flows(
    hops: DataFrame,
    requests: DataFrame,
    clocks: DataFrame,
    settings: LakeSettings,
    notes: dict[str, Any] | None = None,
) -> Judged:
    """One flow: its steps as a tree, how long it took and why, its outcome, and what is odd about it.

    Hops and requests of a flow come together in one stream, hops first.
    """
    before = (notes or {}).get("inherited", Inherited()).answered
    known = Known(coverage_of(clocks), settings.rules, _answered(requests).union(before))
    asked = requests.select("flow_id", F.struct(*OF_REQUEST).alias(REQUEST))
    rows = hops.unionByName(asked, allowMissingColumns=True)
    together = rows.repartition("flow_id").sortWithinPartitions("flow_id", F.col(REQUEST).isNotNull(), *by_time())
    return Judged(together, judge_of(known), FLOW_SCHEMA, judge_of(known, with_index=True))


def _answered(requests: DataFrame) -> frozenset[tuple[bytes, int | None, bytes | None]]:
    """The contracts that somebody answers: few, however many requests there are."""
    is_answered = F.col("outcome").isin("answered", "late")
    rows = requests.where(is_answered).select("identity", "version", "version_raw").distinct().collect()
    return frozenset((bytes(row[0]), row[1], None if row[2] is None else bytes(row[2])) for row in rows)


def judge_of(known: Known, *, with_index: bool = False) -> Batches:
    """Give the function from sorted batches of hops and requests to batches of flows.

    With the index, batches of silver.closed_flows are among them.
    """
    off_ns = most_off_ns(known.coverage)

    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for run in whole_chunks(batches, ["flow_id"], known.rules.max_flow_rows, Summariser(_totals, added)):
            hops, requests = _apart(run.rows)
            totals = None if run.more is None else added(pa.concat_tables([totals_of(hops, requests), run.more]))
            yield from judge_flows(hops, requests, known, totals).to_batches(max_chunksize=ROWS_OF_A_BATCH)
            if with_index:
                rules = known.rules
                index = index_rows(hops, horizon_columns(hops, requests, rules), off_ns, is_cut=run.more is not None)
                yield from index.to_batches()

    return judge_batches


def _totals(rows: pa.Table) -> pa.Table:
    return totals_of(*_apart(rows))


def _apart(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Hops and requests, each with its own columns."""
    is_request = pc.is_valid(rows[REQUEST])
    hops = rows.filter(pc.invert(is_request)).select(HOP_SCHEMA.names)
    asked = rows.filter(is_request)
    parts = asked[REQUEST].combine_chunks()
    columns = {"flow_id": asked["flow_id"]} | {name: pc.struct_field(parts, name) for name in OF_REQUEST}
    return hops, pa.table(columns).cast(pa.schema([REQUEST_SCHEMA.field(name) for name in columns]))
