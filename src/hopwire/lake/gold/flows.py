"""`gold.flows`: everything that belongs to one correlation id, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.flows.chunks import Summariser, TableFunction
from hopwire.flows.closing import horizon_columns
from hopwire.flows.findings import Known
from hopwire.flows.oversized import ASKED, OF_REQUEST, REQUEST, TOTALS, FlowRun, apart, flow_runs
from hopwire.flows.schemas import FLOW_SCHEMA, FLOWS
from hopwire.lake.dataframes import Batches, Judged
from hopwire.lake.inheritance import Inherited
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.clocks import coverage_of
from hopwire.lake.silver.closed_flows import index_of_part, index_rows, joined_index, most_off_ns
from hopwire.lake.silver.hops import by_time
from hopwire.lake.tables import table

__all__ = ["flows", "judge_of"]

READS = ("silver.hops", "gold.requests", "silver.clocks")
INDEX = "index"  # the column that has a row of silver.closed_flows, beside totals
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
    order = [F.col(REQUEST).isNotNull(), *by_time(), *(F.col(f"{REQUEST}.{name}") for name in ASKED)]
    together = rows.repartition("flow_id").sortWithinPartitions("flow_id", *order)
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

    def indexed(rows: pa.Table) -> pa.Table:
        return index_of_part(*apart(rows), known.rules, off_ns)

    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for run in flow_runs(batches, known, _with_index(indexed) if with_index else None):
            yield from run.flows.to_batches(max_chunksize=ROWS_OF_A_BATCH)
            if with_index:
                yield from _index(run, known, off_ns).to_batches()

    return judge_batches


def _index(run: FlowRun, known: Known, off_ns: int) -> pa.Table:
    if run.more is None:
        return index_rows(run.hops, horizon_columns(run.hops, run.requests, known.rules), off_ns)
    first = index_of_part(run.hops, run.requests, known.rules, off_ns)
    return joined_index(pa.concat_tables([first, _index_in(run.more)]))


def _with_index(indexed: TableFunction) -> Summariser:
    """Give the summary of rows that do not fit: their totals, and beside them what the index says of them."""

    def of(rows: pa.Table) -> pa.Table:
        return _beside(TOTALS.of(rows), indexed(rows))

    def both(parts: pa.Table) -> pa.Table:
        return _beside(TOTALS.added(parts.drop_columns([INDEX])), joined_index(_index_in(parts)))

    return Summariser(of, both)


def _beside(totals: pa.Table, index: pa.Table) -> pa.Table:
    return totals.append_column(INDEX, index.to_struct_array().combine_chunks())


def _index_in(parts: pa.Table) -> pa.Table:
    return pa.Table.from_struct_array(parts[INDEX].combine_chunks())
