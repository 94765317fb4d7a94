"""The small gold tables, each as a function of a few rows."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hopwire.flows.histograms import latencies_of
from hopwire.flows.schemas import HOP_SCHEMA, REQUEST_SCHEMA
from hopwire.flows.spans import SourceSpan
from hopwire.lake.bronze.sightings import SIGHTINGS_TABLE
from hopwire.lake.bronze.sources import SOURCES_TABLE
from hopwire.lake.bronze.spans import rows_from_spans
from hopwire.lake.dataframes import write_frame
from hopwire.lake.gold.contracts import contracts
from hopwire.lake.gold.latencies import latencies
from hopwire.lake.gold.quality import quality
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.messages import MESSAGES_TABLE
from hopwire.lake.silver.quarantine import QUARANTINE_TABLE
from hopwire.lake.tables import Column, all_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
MINUTE = datetime(2023, 11, 14, 22, 13, tzinfo=UTC)
NOW = int(MINUTE.timestamp()) * 1_000_000_000
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def is_timestamp(column: Column) -> bool:
    return bool(pa.types.is_timestamp(column.type))


def frame(spark: SparkSession, schema: pa.Schema, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema))


def found(rows: DataFrame) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return sorted(values, key=repr)


def hop(fate: str, **more: Any) -> dict[str, Any]:
    plain = {"from_node": b"a", "to_node": b"b", "identity": b"x", "size_bytes": 10, "verdict": "valid", "repeat": ""}
    return {**plain, "left_at_ns": NOW, "left_sequence": 1, "fate": fate, **more}


def test_latencies_are_those_of_the_pure_function_and_add_up_in_sql(spark: SparkSession) -> None:
    asked = {"identity": b"x", "version": 1, "partition": b"", "is_control": False, "outcome": "answered"}
    rows = [{**asked, "asked_at_ns": NOW + took * 10**9, "latency_us": took} for took in range(1, 101)]
    made = latencies(frame(spark, REQUEST_SCHEMA, *rows)).frame()
    expected = latencies_of(pa.Table.from_pylist(rows, REQUEST_SCHEMA))
    assert made.toArrow().cast(expected.schema).sort_by("minute").equals(expected.sort_by("minute"))
    made.withColumn("contract", F.col("identity").cast("string")).createOrReplaceTempView("latencies")
    (statement,) = re.findall(r"-- DuckDB.*?\n(.*?);\n```", (ROOT / "docs" / "tables.md").read_text(), re.DOTALL)
    for theirs, ours in (("unnest", "explode"), ("group by all", "group by contract, bin.up_to_us"), ("::bigint", "")):
        assert theirs in statement
        statement = statement.replace(theirs, ours)
    (row,) = found(spark.sql(statement))
    assert row == {"contract": "x", "answers": 100, "p50_us": 51, "p95_us": 95, "p99_us": 99}


@pytest.mark.parametrize("name", [t.name for t in all_tables().values() if any(map(is_timestamp, t.columns))])
def test_timestamps_are_timestamps_in_utc_for_whoever_reads_the_files(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    one_hop = hop("arrived", arrived_at_ns=NOW, latency_us=1, verdict="invalid")
    inputs = {
        "silver.hops": frame(spark, HOP_SCHEMA, one_hop),
        "gold.requests": frame(spark, REQUEST_SCHEMA, {"identity": b"x", "asked_at_ns": NOW, "outcome": "lost"}),
    }
    before = spark.conf.get(TIMESTAMPS)
    table = all_tables()[name]
    settings = LakeSettings()
    write_frame(
        table,
        table.rows([inputs[each] for each in table.reads], settings),
        tmp_path / "rows",
        settings,
        run="0" * 12,
        names={},
    )
    (file,) = (tmp_path / "rows").rglob("*.parquet")
    kinds = {column.path: column.logical_type.to_json() for column in pq.ParquetFile(file).schema}
    kind = json.loads(kinds["minute"])
    assert (kind["Type"], kind["isAdjustedToUTC"], kind["timeUnit"]) == ("Timestamp", True, "microseconds")
    assert pq.read_table(file)["minute"].to_pylist() == [MINUTE]
    assert spark.conf.get(TIMESTAMPS) == before


def test_contracts_say_who_and_when_and_how(spark: SparkSession) -> None:
    def seen(node: str, direction: str, **more: Any) -> dict[str, Any]:
        plain = {"node": node.encode(), "node_name": node, "direction": direction, "identity": b"x", "version": 1}
        return {**plain, "partition": b"", "wire_format": 6, "seen_at_ns": 5, "size_bytes": 10, **more}

    rows = [
        seen("anna", "out"),
        seen("bert", "in", seen_at_ns=7, size_bytes=20, wire_format=5),
        seen("bert", "dead", seen_at_ns=9),
        {**seen("", "out"), "node": b"\x01\xff"},
        seen("anna", "out", version=None, version_raw=b"1.0", wire_format=4),
        seen("anna", "told", seen_at_ns=11, size_bytes=3),
        seen("anna", "told", identity=b"never said"),
    ]
    one, two = sorted(
        found(contracts(frame(spark, MESSAGES_TABLE.schema, *rows))), key=lambda row: row["sighting_count"]
    )
    assert (one["version"], one["version_raw"], one["wire_formats"]) == (None, b"1.0", [4])
    assert (two["senders"], two["receivers"], two["dead_count"]) == (["01ff", "anna"], ["bert"], 1)
    assert (two["first_seen_at_ns"], two["last_seen_at_ns"], two["wire_formats"]) == (5, 9, [5, 6])
    assert (two["min_size_bytes"], two["mean_size_bytes"], two["max_size_bytes"]) == (10, 12.5, 20)


@pytest.mark.parametrize(
    ("lost", "unbalanced"),
    [("", set()), ("source", {("read", "s")}), ("message", {("decode", "s"), ("link", "")}), ("hop", {("link", "")})],
)
def test_quality_finds_where_a_row_got_lost(spark: SparkSession, lost: str, unbalanced: set[tuple[str, str]]) -> None:
    source: dict[str, Any] = {"segment": "s", "row_count": 4 if lost == "source" else 3, "faults": []}
    foreign = {"segment": "letter.txt", "row_count": 0, "faults": ["is not a capture"]}
    sightings = [{"segment": "s", "direction": direction, "skipped": 0} for direction in ("in", "out")]
    sightings += [{"segment": "s", "direction": "skipped", "skipped": 5}]
    messages = [] if lost == "message" else [{"segment": "s"}]
    hops = [] if lost == "hop" else [hop("arrived", left_sequence=None, arrived_sequence=0)]
    table = quality(
        frame(spark, SOURCES_TABLE.schema, source, foreign),
        frame(spark, SIGHTINGS_TABLE.schema, *sightings),
        frame(spark, MESSAGES_TABLE.schema, *messages),
        frame(spark, QUARANTINE_TABLE.schema, {"segment": "s"}),
        frame(spark, HOP_SCHEMA, *hops),
        spark.createDataFrame(rows_from_spans([SourceSpan("s", b"a", 1, "", 4, 11, 0, 0, 2, skipped=5, missing=1)])),
    )
    rows = {(row["step"], row["segment"]): row for row in found(table)}
    assert {key for key, row in rows.items() if not row["is_balanced"]} == unbalanced
    assert rows["read", "letter.txt"]["faults"] == ["is not a capture"]
    assert (rows["decode", "s"]["skipped_rows"], rows["decode", "s"]["skipped"]) == (1, 5)
    complete = rows["complete", "s"]
    assert (complete["rows_in"], complete["rows_out"], complete["skipped"], complete["missing"]) == (12, 12, 5, 5)
    assert len(rows) == 6
