"""`gold.quality`: the balance of the lake. Every row that goes into a step comes out, or is counted where it went.

| step | a row for each | rows in | rows out |
|---|---|---|---|
| `read` | source | rows that the reader counted | rows of bronze.sightings, and rows that were removed since |
| `decode` | source | rows of bronze.sightings | messages, quarantine and rows that stand for what is missing |
| `complete` | source | numbers from the last source of the node to the end of this one | sightings, skipped, missing |
| `link` | lake | rows of silver.messages | sightings that the hops account for |

The rows of the tables are counted; the reports of their writers are not believed. A build that does not add up is not
published. Numbers that are missing are counted, so they add up too: a capture that lost a file is no reason to refuse a
build (`flows/spans.py`). A source whose rows do not have the numbers of their nodes has no step `complete`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopwire.columnar import Ints, ints, one_array
from hopwire.flows.spans import PlacedSpan, placed
from hopwire.lake.bronze.spans import spans_from_rows
from hopwire.lake.tables import Column, table
from hopwire.model.columns import schema_from_columns

__all__ = ["complete_rows", "quality", "quality_rows"]

# fmt: off
COLUMNS = (
    Column("step",             pa.string(),           "read, decode, complete or link"),
    Column("segment",          pa.string(),           "the source; empty for all of the lake"),
    Column("rows_in",          pa.int64(),            "rows before the step"),
    Column("rows_out",         pa.int64(),            "rows after the step, wherever they went"),
    Column("message_count",    pa.int64(),            "of which messages"),
    Column("quarantine_count", pa.int64(),            "of which not messages"),
    Column("skipped_rows",     pa.int64(),            "of which stand for sightings that are missing"),
    Column("skipped",          pa.int64(),            "sightings that are missing, by the account of those rows"),
    Column("missing",          pa.int64(),            "sightings that nobody accounts for: their numbers are nowhere"),
    Column("expired",          pa.int64(),            "rows of before the time that the lake is kept from"),
    Column("forgotten",        pa.int64(),            "rows that were removed because somebody asked for it"),
    Column("is_balanced",      pa.bool_(),            "whether rows in are rows out"),
    Column("faults",           pa.list_(pa.string()), "what is wrong with the file"),
)
# fmt: on
REMOVED = ("expired", "forgotten")  # rows that were read, and are not in the lake any more
COUNTS = ("row_count", *REMOVED, "bronze_count", "message_count", "quarantine_count", "skipped_rows", "skipped")
COUNTED = COUNTS[1 + len(REMOVED) :]
NO_COUNTS: dict[str, int] = {}
READS = ("bronze.sources", "bronze.sightings", "silver.messages", "silver.quarantine", "silver.hops", "bronze.spans")
COMPLETE = pa.schema(
    [("step", pa.string()), ("segment", pa.string())]
    + [(name, pa.int64()) for name in ("rows_in", "rows_out", "skipped", "missing")]
)

Numbers: TypeAlias = Sequence[int] | Ints


@table("gold.quality", key=("step", "segment"), reads=READS, columns=COLUMNS)
def quality(
    sources: DataFrame,
    sightings: DataFrame,
    messages: DataFrame,
    quarantine: DataFrame,
    hops: DataFrame,
    spans: DataFrame,
) -> DataFrame:
    """One step for one source: rows in, rows out, where they went, and whether it adds up."""
    counted = _counted(sources, sightings, messages, quarantine)
    went = F.col("message_count") + F.col("quarantine_count") + F.col("skipped_rows")
    steps = F.array(
        _step("read", F.col("row_count"), F.col("bronze_count") + F.col("expired") + F.col("forgotten")),
        _step("decode", F.col("bronze_count"), went),
    )
    of_sources = counted.select("*", F.inline(steps))
    complete = spans.sparkSession.createDataFrame(complete_rows(placed(spans_from_rows(spans.toArrow()))))
    return (
        of_sources.unionByName(_linked(messages, hops), allowMissingColumns=True)
        .unionByName(
            complete.join(sources.select("segment", "faults"), "segment", how="left"), allowMissingColumns=True
        )
        .fillna(0)
        .withColumn("is_balanced", F.col("rows_in") == F.col("rows_out"))
        .withColumn("faults", F.coalesce("faults", F.array().cast("array<string>")))
        .select([column.name for column in COLUMNS])
    )


def _step(name: str, rows_in: SparkColumn, rows_out: SparkColumn) -> SparkColumn:
    return F.struct(F.lit(name).alias("step"), rows_in.alias("rows_in"), rows_out.alias("rows_out"))


def _counted(sources: DataFrame, sightings: DataFrame, messages: DataFrame, quarantine: DataFrame) -> DataFrame:
    """The rows of each source in each table; a source that only one table knows is there too."""
    is_gap = F.col("direction") == "skipped"
    parts = (
        sightings.groupBy("segment").agg(
            F.count("*").alias("bronze_count"),
            F.count(F.when(is_gap, True)).alias("skipped_rows"),
            F.sum("skipped").alias("skipped"),
        ),
        messages.groupBy("segment").agg(F.count("*").alias("message_count")),
        quarantine.groupBy("segment").agg(F.count("*").alias("quarantine_count")),
    )
    together = sources.select("segment", "row_count", "faults", *REMOVED)
    for part in parts:
        together = together.unionByName(part, allowMissingColumns=True)
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTS]
    return together.groupBy("segment").agg(F.first("faults", ignorenulls=True).alias("faults"), *sums)


def _linked(messages: DataFrame, hops: DataFrame) -> DataFrame:
    """All messages, and the sightings that hops are made of: one of the departure, one of the arrival."""
    covered = hops.agg((F.count("left_sequence") + F.count("arrived_sequence")).alias("rows_out"))
    return (
        messages.agg(F.count("*").alias("rows_in"))
        .crossJoin(covered)
        .select(F.lit("link").alias("step"), F.lit("").alias("segment"), "rows_in", "rows_out")
    )


def quality_rows(
    sources: pa.Table,
    counts: Mapping[str, Mapping[str, int]],
    spans: Iterable[PlacedSpan],
    linked: tuple[int, int],
) -> pa.Table:
    """Give all rows, from rows of sources, the rows of each source in each table, and what went in and out of hops."""
    segments = sources["segment"].to_pylist()
    known = [counts.get(segment, NO_COUNTS) for segment in segments]
    bronze, messages, quarantine, skips, skipped = (
        np.fromiter((each.get(name, 0) for each in known), np.int64, len(known)) for name in COUNTED
    )
    read, expired, forgotten = (ints(sources[name]) for name in ("row_count", *REMOVED))
    where = {"segment": segments, "faults": sources["faults"], "expired": expired, "forgotten": forgotten}
    went = dict(zip(COUNTED[1:], (messages, quarantine, skips, skipped), strict=True))
    steps = [
        _rows("read", read, bronze + expired + forgotten, **where, **went),
        _rows("decode", bronze, messages + quarantine + skips, **where, **went),
        _rows("link", linked[:1], linked[1:], segment=[""]),
    ]
    if complete := _complete(spans):
        places = pc.index_in(pa.array(list(complete), pa.string()), one_array(sources["segment"]))
        numbers = dict(zip(COMPLETE.names[2:], zip(*complete.values(), strict=True), strict=True))
        faults = sources["faults"].take(places)
        steps.append(_rows("complete", **numbers, segment=list(complete), faults=faults))
    return pa.concat_tables(steps)


def _rows(step: str, rows_in: Numbers, rows_out: Numbers, **columns: Any) -> pa.Table:
    """Give rows of one step; what is not named is 0, or an empty list."""
    schema, count = schema_from_columns(COLUMNS), len(rows_in)
    known = {
        "step": pa.repeat(step, count),
        "rows_in": rows_in,
        "rows_out": rows_out,
        "is_balanced": np.asarray(rows_in) == np.asarray(rows_out),
        **columns,
        "faults": _lists(columns["faults"]) if "faults" in columns else [[]] * count,
    }
    return pa.table({name: known[name] if name in known else pa.repeat(0, count) for name in schema.names}, schema)


def _lists(faults: pa.ChunkedArray) -> pa.Array:
    """Give lists, where a null becomes an empty list."""
    lists = one_array(faults)
    return pc.if_else(pc.is_valid(lists), lists, pa.scalar([], lists.type)) if lists.null_count else lists


def complete_rows(spans: Iterable[PlacedSpan]) -> pa.Table:
    """Give the step `complete`: the numbers that should be in each source or in front of it, and the known numbers."""
    rows = [("complete", segment, *counts) for segment, counts in _complete(spans).items()]
    columns = zip(*rows, strict=True) if rows else [()] * len(COMPLETE)
    return pa.table([pa.array(values, each.type) for values, each in zip(columns, COMPLETE, strict=True)], COMPLETE)


def _complete(spans: Iterable[PlacedSpan]) -> dict[str, tuple[int, int, int, int]]:
    """Give the numbers of each source: rows in, rows out, skipped, missing."""
    found: dict[str, tuple[int, int, int, int]] = {}
    for span, missing_before, _ in spans:
        if span.is_numbered:
            missing = span.missing + missing_before
            rows_in = span.last_sequence - span.first_sequence + 1 + missing_before
            rows_out = span.sighting_count + span.skipped + missing
            before = found.get(span.segment, (0, 0, 0, 0))
            found[span.segment] = (
                before[0] + rows_in,
                before[1] + rows_out,
                before[2] + span.skipped,
                before[3] + missing,
            )
    return found
