"""The tables of hops, clocks, requests and flows: Spark brings rows together, the same functions judge them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hopwire.flows.coverage import LifeSpan
from hopwire.flows.findings import Known
from hopwire.flows.oversized import OF_REQUEST
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import REQUEST_SCHEMA
from hopwire.flows.spans import Gap, SourceSpan
from hopwire.lake.bronze.spans import rows_from_spans
from hopwire.lake.gold.flows import flows, judge_of
from hopwire.lake.gold.requests import requests
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.clocks import clocks
from hopwire.lake.silver.hops import hops
from hopwire.lake.silver.messages import MESSAGES_TABLE
from hopwire.lake.tables import all_tables
from tests.flows.story import BEGIN, SECOND, Story, answering, asking
from tests.flows.talk import Talk, always, drifting, set_ahead

pytestmark = [pytest.mark.spark, pytest.mark.slow]

A, B, C = b"A", b"B", b"C"
EMPTY = {pa.binary(): b"", pa.string(): "", pa.bool_(): False}


def frame(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFrame:
    """Rows as a table of the lake; what they do not say is empty."""
    full = [{each.name: _empty(each.type) for each in schema} | row for row in rows]
    names = set(schema.names)
    table = pa.Table.from_pylist([{n: v for n, v in row.items() if n in names} for row in full], schema=schema)
    return spark.createDataFrame(table, schema=from_arrow_schema(schema))


def _empty(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return []
    return EMPTY.get(kind, 0)


def spans_of(story: Story) -> list[SourceSpan]:
    """One source with all that the nodes of a story saw, and where they skipped."""
    found = []
    for node, first, last, *_ in story.spans:
        count, offset = sum(row["node"] == node for row in story.rows), story.offsets.get(node, 0)
        gaps = tuple(Gap(0, 0, skip.first_ns, skip.last_ns) for skip in story.skips if skip.node == node)
        found.append(SourceSpan("s", node, 1, "", 0, count, first + offset, last + offset, count, gaps=gaps))
    return found


class Lake:
    """The four tables of a story."""

    def __init__(self, spark: SparkSession, story: Story, **settings: Any) -> None:
        chosen = LakeSettings(**settings)
        messages = frame(spark, story.rows, MESSAGES_TABLE.schema)
        self.clocks = clocks(spark.createDataFrame(rows_from_spans(spans_of(story))), messages).cache()
        self.hops = hops(messages, self.clocks, settings=chosen).frame().cache()
        self.requests = requests(self.hops, self.clocks, settings=chosen).frame().cache()
        self.flows = flows(self.hops, self.requests, self.clocks, settings=chosen).frame().cache()


def talk(flow_count: int, *, skew: bool = True) -> Story:
    """Many flows of three hops between clocks that disagree; every tenth answer is lost."""
    story = Story(seconds=600)
    story.offsets = {A: 0, B: 2 * SECOND, C: -SECOND} if skew else {}
    for number in range(flow_count):
        at, flow = 10.0 * number, {"correlation_id": b"flow-%05d" % number}
        key = [b"%s-%d" % (name, number) for name in (b"q", b"o", b"r")]
        story.hop(A, B, at, at + 1, key[0], **flow, **asking(A, number + 1, ttl_ticks=10_000_000))
        story.hop(B, C, at + 2, at + 3, key[1], **flow, **asking(A, number + 1, identity=b"onward"))
        story.hop(C, B, at + 2.5, at + 3.5, b"x-%d" % number, **flow)
        story.out(C, A, at + 4, key[2], **flow, **answering(A, number + 1))
        if number % 10:
            story.came(A, C, at + 5, key[2], **flow, **answering(A, number + 1))
        story.hop(A, C, at + 6, at + 7, b"y-%d" % number, **flow)
    return story


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    return [row for batch in table.toArrow().to_batches() for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> Lake:
    return Lake(spark, talk(200))


def test_tables_are_what_they_declare(lake: Lake) -> None:
    found = {
        "silver.clocks": lake.clocks,
        "silver.hops": lake.hops,
        "gold.requests": lake.requests,
        "gold.flows": lake.flows,
    }
    for name, table in found.items():
        expected = from_arrow_schema(all_tables()[name].schema)
        assert [(field.name, field.dataType) for field in table.schema] == [
            (field.name, field.dataType) for field in expected
        ]
        assert table.select(*all_tables()[name].key).distinct().count() == table.count()


def test_clocks_are_corrected(lake: Lake) -> None:
    found = {row["node"]: row for row in rows_of(lake.clocks)}
    assert all(row["is_corrected"] for row in found.values())
    ahead = {node: row["offset_ns"] - found[A]["offset_ns"] for node, row in found.items()}
    assert ahead == {A: 0, B: 2 * SECOND, C: -SECOND}


def drifting_and_restarted() -> Talk:
    talk = Talk({A: always(0), B: drifting(300), C: set_ahead(-30 * SECOND, 900 * SECOND)}, {C: (900 * SECOND,)})
    return talk.say((A, B), (B, A), (B, C), (C, A), (A, C), seconds=3600, every=10)


def test_clocks_that_change_are_those_of_the_pure_functions(spark: SparkSession) -> None:
    talk = drifting_and_restarted()
    messages = frame(spark, talk.story.rows, MESSAGES_TABLE.schema)
    found = clocks(spark.createDataFrame(rows_from_spans(talk.spans)), messages).toArrow()
    assert found.to_pylist() == talk.clocks.to_pylist()
    assert any(found["offsets"].to_pylist())


def test_latencies_are_right_though_clocks_change(spark: SparkSession) -> None:
    talk = drifting_and_restarted()
    messages, spans = (
        frame(spark, talk.story.rows, MESSAGES_TABLE.schema),
        spark.createDataFrame(rows_from_spans(talk.spans)),
    )
    found = hops(messages, clocks(spans, messages), settings=LakeSettings()).frame().toArrow()["latency_us"].to_pylist()
    assert (len(found), min(found) > -100, max(found) < 4000) == (len(talk.story.rows) // 2, True, True)


def test_hops_requests_and_flows_are_those_of_the_pure_functions(lake: Lake) -> None:
    story = talk(200, skew=False)
    for found, expected in (
        (lake.hops, story.hops()),
        (lake.requests, story.requests()),
        (lake.flows, story.flows()),
    ):
        times = [name for name in expected.column_names if name.endswith("_at_ns") or name in ("deadline_ns", "steps")]
        kept = expected.drop_columns(times)
        rows = [{name: row[name] for name in kept.column_names} for row in rows_of(found)]
        assert sorted(map(str, rows)) == sorted(map(str, kept.to_pylist()))


def test_flow_too_large_is_there_with_all_its_totals(spark: SparkSession) -> None:
    story = Story(seconds=600)
    for number in range(3_000):
        story.hop(A, B, number, number + 1, b"m%06d" % number)
    story.hop(A, B, 5_000, 5_001, b"q", **asking()).out(B, A, 5_002, b"r", **answering())
    story.hop(A, B, 0, 1, b"other", correlation_id=b"small")
    found = {row["flow_id"]: row for row in rows_of(Lake(spark, story, max_flow_rows=500).flows)}
    giant = found[b"flow"]
    assert (giant["is_oversized"], len(giant["steps"]), giant["hop_count"], giant["message_count"]) == (
        True,
        500,
        3_002,
        3_002,
    )
    assert (giant["outcome"], giant["request_count"], giant["lost_count"]) == ("lost", 1, 1)
    assert giant["duration_us"] == 5_002_000
    assert not found[b"small"]["is_oversized"]


def test_flow_of_a_million_hops_passes_in_batches_and_is_never_whole_in_memory() -> None:
    story = Story(seconds=600)
    for number in range(1_000):
        story.hop(A, B, number, number + 1, b"m%04d" % number)
    kind = pa.struct([REQUEST_SCHEMA.field(name) for name in OF_REQUEST])
    hops = pa.concat_tables([story.hops().append_column("request", pa.nulls(1_000, kind))] * 10).combine_chunks()
    place, left = hops.column_names.index("left_at_ns"), hops["left_at_ns"]
    batches = (
        hops.set_column(place, "left_at_ns", pc.add(left, number * SECOND)).to_batches()[0] for number in range(100)
    )
    before = pa.total_allocated_bytes()
    (batch,) = judge_of(Known(story.coverage, Rules(max_flow_rows=10_000)))(batches)
    (flow,) = batch.select(["hop_count", "message_count", "size_bytes", "duration_us", "is_oversized"]).to_pylist()
    assert flow == {
        "hop_count": 1_000_000,
        "message_count": 1_000_000,
        "size_bytes": 100_000_000,
        "duration_us": 99_999_000,
        "is_oversized": True,
    }
    assert pc.list_value_length(batch["steps"]).to_pylist() == [10_000]
    assert pa.total_allocated_bytes() - before < 100_000_000


def test_key_that_is_used_for_everything_is_one_request_that_says_so(spark: SparkSession) -> None:
    story = Story(seconds=600)
    for number in range(600):
        story.hop(A, B, number, number + 1, b"q%06d" % number, **asking())
    (request,) = rows_of(Lake(spark, story, max_flow_rows=100).requests)
    assert (request["is_reused"], request["hop_count"], request["message_key"]) == (True, 600, b"q000000")


def test_place_where_sightings_are_missing_reaches_to_the_next_sighting(spark: SparkSession) -> None:
    story = Story().out(A, B, 20_000, b"during").out(A, B, 60_000, b"after")
    story.skips = [LifeSpan(B, BEGIN + 10 * SECOND, BEGIN + 18 * SECOND)]
    found = {row["message_key"]: row["fate"] for row in rows_of(Lake(spark, story).hops)}
    assert found == {b"during": "unwitnessed", b"after": "lost"}


def test_lake_without_rows_has_empty_tables(spark: SparkSession) -> None:
    empty = Lake(spark, Story(A))
    assert [table.count() for table in (empty.hops, empty.requests, empty.flows)] == [0, 0, 0]
