"""Structured Streaming over captures: offsets, rows that are the same again, and a lake that is fed."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from hopwire.capture.sources import list_sources, read_source
from hopwire.errors import LakeBusy, LakeError, SettingsError
from hopwire.lake.build import build
from hopwire.lake.expiry import expire
from hopwire.lake.settings import LakeSettings
from hopwire.lake.source import HopwireSource
from hopwire.lake.store import read_arrow, read_manifest, writing
from hopwire.lake.stream import CaptureStream
from hopwire.lake.stream_feed import feed_lake, take_pieces
from tests.lake.captures import make_capture, make_sightings, write_segment
from tests.lake.test_increment import GrowingFile, assert_same, no_spark, rows_of
from tests.transcripts import blocks


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "captures")


def stream_of(captures: Path, **options: str) -> CaptureStream:
    source = HopwireSource({"path": str(captures), **options})
    return source.streamReader(source.schema())


def numbers_in(reader: CaptureStream, start: dict[str, int], end: dict[str, int]) -> list[Any]:
    found: list[Any] = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            found += zip(batch.column("node").to_pylist(), batch.column("sequence").to_pylist(), strict=True)
    return sorted(found)


def test_micro_batches_have_all_rows_once_and_the_same_again(captures: Path) -> None:
    reader = stream_of(captures, maxRowsPerBatch="20")
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    start, found = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadMaxRows(20))) != start:
        rows = numbers_in(reader, start, end)
        assert rows == numbers_in(stream_of(captures), start, end)
        assert len(rows) <= 20
        found += rows
        start = end
    whole = stream_of(captures)
    assert sorted(found) == numbers_in(whole, {}, whole.latestOffset({}, ReadAllAvailable()))
    assert len(found) == sum(len(batch) for each in list_sources(captures) for batch in read_source(each))


def test_stream_that_takes_what_is_there_ends_there(captures: Path) -> None:
    reader = stream_of(captures)
    reader.prepareForTriggerAvailableNow()
    write_segment(captures / "carl.arrows", make_sightings("carl"))
    end = reader.latestOffset({}, ReadAllAvailable())
    assert set(end) == {"anna.arrows", "bert.arrows"}
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_half_a_batch_of_an_open_segment_waits(tmp_path: Path, captures: Path) -> None:
    live = tmp_path / "live"
    live.mkdir()
    growing = GrowingFile(captures / "anna.arrows", live)
    path = live / "anna.open.arrows"
    path.write_bytes(growing.content[: growing.ends[0] + 100])
    reader = stream_of(live)
    assert reader.latestOffset({}, ReadAllAvailable()) == {"anna.arrows": growing.ends[0]}
    path.rename(live / "anna.arrows")
    (live / "anna.arrows").write_bytes(growing.content)
    assert reader.latestOffset({"anna.arrows": growing.ends[0]}, ReadAllAvailable()) == {
        "anna.arrows": len(growing.content)
    }


def test_capture_that_is_gone_is_told_with_what_was_not_read(captures: Path) -> None:
    reader = stream_of(captures)
    end = reader.latestOffset({}, ReadAllAvailable())
    (captures / "anna.arrows").unlink()
    with pytest.raises(SettingsError, match=r"anna.arrows: is gone, its bytes from 0 to [\d,]+ were not read"):
        reader.partitions({}, end)


def pieces_between(captures: Path, start: dict[str, int], end: dict[str, int]) -> list[dict[str, Any]]:
    reader = stream_of(captures, pieces="true")
    (partition,) = reader.partitions(start, end)
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


@pytest.mark.slow
def test_pieces_that_come_again_are_taken_once(captures: Path, tmp_path: Path) -> None:
    lake, reader = tmp_path / "lake", stream_of(captures)
    first = reader.latestOffset({}, ReadMaxRows(40))
    last = reader.latestOffset(first, ReadAllAvailable())
    for start, end in (({}, first), ({}, first), (first, last), (first, last), ({}, last)):
        take_pieces(lake, pieces_between(captures, start, end))
    assert read_manifest(lake).number == 2
    build(no_spark, captures, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


@pytest.mark.slow
def test_two_streams_on_one_lake_take_nothing_twice(captures: Path, tmp_path: Path) -> None:
    lake, offsets = tmp_path / "lake", list[dict[str, int]]([{}, {}])
    while not offsets[0] or offsets[0] != offsets[1]:
        for number, rows in enumerate((20, 50)):
            reader, begin = stream_of(captures), offsets[number]
            offsets[number] = reader.latestOffset(begin, ReadMaxRows(rows))
            if offsets[number] != begin:
                pieces = pieces_between(captures, begin, offsets[number])
                if not begin and not number:
                    with writing(lake), pytest.raises(LakeBusy, match="is being built by process"):
                        take_pieces(lake, pieces)  # the other is at work: the query ends, and comes again
                take_pieces(lake, pieces)
    build(no_spark, captures, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


@pytest.mark.slow
def test_what_is_too_old_and_what_is_broken_is_told(captures: Path, tmp_path: Path) -> None:
    lake, reader, told = tmp_path / "lake", stream_of(captures), list[str]()
    end = reader.latestOffset({}, ReadAllAvailable())
    take_pieces(lake, pieces_between(captures, {}, end))
    newest = max(read_arrow(lake, "bronze.sightings")["seen_at_ns"].to_pylist())
    expire(lake, date.fromtimestamp(newest / 1e9) + timedelta(days=2))
    late = write_segment(captures / "late.arrows", make_sightings("late", 20))
    late.write_bytes(late.read_bytes()[:-300])
    grown = stream_of(captures).latestOffset(end, ReadAllAvailable())
    take_pieces(lake, pieces_between(captures, end, grown), tell=told.append)
    assert [line for line in told if line.startswith("late.arrows: ")], told
    assert [line for line in told if "left out: the lake is kept from" in line], told


def test_checkpoint_of_another_lake_is_refused(captures: Path, tmp_path: Path) -> None:
    reader = stream_of(captures)
    first = reader.latestOffset({}, ReadMaxRows(40))
    last = reader.latestOffset(first, ReadAllAvailable())
    with pytest.raises(LakeError, match="the checkpoint belongs to another lake"):
        take_pieces(tmp_path / "lake", pieces_between(captures, first, last))


@pytest.mark.spark
@pytest.mark.slow
def test_query_that_is_started_again_goes_on_where_its_checkpoint_ends(
    captures: Path, tmp_path: Path, spark: SparkSession
) -> None:
    lake, live, chance = tmp_path / "lake", tmp_path / "live", Random(1)
    live.mkdir()
    growing = [GrowingFile(source.path, live) for source in list_sources(captures)]
    for _ in range(2):
        for each in growing:
            each.grow(chance)
        feed_lake(spark, [live], lake, tmp_path / "checkpoint", max_rows=30).awaitTermination()
    assert len(read_arrow(lake, "bronze.sightings")) == 64
    while not all(each.is_over for each in growing):
        for each in growing:
            if not each.is_over:
                each.grow(chance)
    with pytest.raises(StreamingQueryException, match="the checkpoint belongs to another lake: name a new one"):
        feed_lake(spark, [live], tmp_path / "another lake", tmp_path / "checkpoint").awaitTermination()
    few = LakeSettings(step_rows=20)  # so Spark judges the lake as a whole
    feed_lake(spark, [live], lake, tmp_path / "another checkpoint", settings=few).awaitTermination()
    build(no_spark, live, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


@pytest.mark.spark
@pytest.mark.slow
def test_rows_of_a_stream_are_those_of_the_captures(captures: Path, tmp_path: Path, spark: SparkSession) -> None:
    spark.dataSource.register(HopwireSource)
    stream = spark.readStream.format("hopwire").option("columns", "node,sequence").load(str(captures))
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    writer = stream.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    total = sum(len(batch) for each in list_sources(captures) for batch in read_source(each))
    assert spark.read.parquet(out).distinct().count() == total


def has_same_sightings(lake: Path, other: Path) -> bool:
    return len(read_arrow(lake, "bronze.sightings")) == len(read_arrow(other, "bronze.sightings"))


@pytest.mark.spark
@pytest.mark.slow
def test_code_on_the_page_of_live_lakes_runs(captures: Path, tmp_path: Path, spark: SparkSession) -> None:
    code, names = "\n".join(blocks("docs/howto/live-lakes.md", "python")), {"spark": spark}
    for name in ("captures", "lake", "checkpoint"):
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    exec(compile(code, "live-lakes.md", "exec"), names)
    query: Any = names["query"]
    build(no_spark, captures, tmp_path / "other")
    while query.isActive and not (query.lastProgress and has_same_sightings(tmp_path / "lake", tmp_path / "other")):
        query.awaitTermination(0.1)
    query.stop()
    assert_same(rows_of(tmp_path / "lake"), rows_of(tmp_path / "other"))
    sightings: Any = names["sightings"]
    assert sightings.isStreaming
    assert {"node", "sequence", "frames"} <= set(sightings.columns)
