"""Queries of Structured Streaming that are killed, and started again from their checkpoints: no row is lost or doubled.

A process has two queries over captures that grow: one feeds a lake, one writes sightings as Parquet. The process and
its Java are killed together, at random points.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from hopwire.capture.sources import list_sources, read_source
from hopwire.lake.build import build
from hopwire.lake.simulation import simulate_here
from hopwire.lake.store import manifest_numbers
from hopwire.simulate import SimulateSettings
from tests.lake.test_increment import GrowingFile, assert_same, no_spark, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]

KILLS = 6
TRIES = 4  # Spark gives a process of Python ten seconds to start, and ends the query if a busy machine needs more
WITH_FAULTS = ("bronze.sources", "gold.quality")  # half a batch of a crash is no piece: the next build writes it down
STREAMING = """
import sys
from pathlib import Path
from hopwire.lake.session import session
from hopwire.lake.source import HopwireSource
from hopwire.lake.stream_feed import feed_lake

place, is_once = Path(sys.argv[1]), sys.argv[2] == "once"
spark = session("killed", **{"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2})
spark.dataSource.register(HopwireSource)
rows = spark.readStream.format("hopwire").option("columns", "node,incarnation,sequence").option("maxRowsPerBatch", 60)
rows = rows.load(str(place / "live")).writeStream.format("parquet").option("path", str(place / "rows"))
rows = rows.option("checkpointLocation", str(place / "checkpoint of rows"))
when = {"availableNow": True} if is_once else {"processingTime": "0.1 seconds"}
every = None if is_once else 0.1
feed = feed_lake(spark, [place / "live"], place / "lake", place / "checkpoint", max_rows=60, every_seconds=every)
queries = [feed, rows.trigger(**when).start()]
print("started", flush=True)
for query in queries:
    query.awaitTermination()
"""


def start(place: Path, how: str) -> subprocess.Popen[str]:
    """Start the queries in a group of processes of their own, and wait until they run."""
    command = [sys.executable, "-c", STREAMING, str(place), how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout
    assert process.stdout.readline() == "started\n"
    return process


def is_ended_in_order(place: Path) -> bool:
    """Take in what is left, and tell whether both queries say that they have it."""
    with start(place, "once") as queries:
        return queries.wait() == 0


def test_kills_of_queries_give_the_rows_of_one_build(tmp_path: Path, spark: SparkSession) -> None:
    simulate_here(SimulateSettings(messages=100), tmp_path / "network")
    live, chance, kills, longest = tmp_path / "live", Random(3), 0, 4.0
    live.mkdir()
    growing = [GrowingFile(source.path, live) for source in list_sources(tmp_path / "network" / "captures")]
    while kills < KILLS:
        with start(tmp_path, "on and on") as queries:
            before = manifest_numbers(tmp_path / "lake")
            for each in growing[:12]:
                each.grow(chance)
            growing = [each for each in growing if not each.is_over]
            time.sleep(chance.uniform(0.1, longest))  # when is chance, and nothing depends on it
            os.killpg(queries.pid, signal.SIGKILL)
        kills += 1
        longest *= 1.5 if manifest_numbers(tmp_path / "lake") == before else 1.0
    while growing:
        for each in growing:
            each.grow(chance)
        growing = [each for each in growing if not each.is_over]
    assert any(is_ended_in_order(tmp_path) for _ in range(TRIES))
    lake, other = tmp_path / "lake", tmp_path / "one build"
    build(no_spark, live, other)
    fed, expected = rows_of(lake), rows_of(other)
    assert_same(fed, {name: rows for name, rows in expected.items() if name not in WITH_FAULTS})
    build(no_spark, live, lake)
    assert_same(rows_of(lake), expected)
    written = spark.read.parquet(str(tmp_path / "rows"))
    numbers = [tuple(row) for row in written.collect()]
    read = [
        (row["node"], row["incarnation"], row["sequence"])
        for source in list_sources(live)
        for batch in read_source(source)
        for row in batch.select(["node", "incarnation", "sequence"]).to_pylist()
    ]
    assert sorted(numbers) == sorted(read)
