"""A build on a real cluster gives what a build on one machine gives, also when a worker is killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hopwire.lake.run import build
from hopwire.lake.store import read_arrow
from tests.lake.captures import make_capture
from tests.lake.cluster import standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

TABLES = ("silver.messages", "silver.quarantine", "gold.contracts")
NODES, ROWS = 24, 500

# Two builds of one driver. In the second a worker and its executor are killed as soon as the first source is done.
BUILDS = """
import os, signal, sys
from pathlib import Path
from hopwire.lake import ingest
from hopwire.lake.run import build
from hopwire.lake.settings import LakeSettings
from hopwire.lake.spark import session

ingest.LOOK_SECONDS = 0.01
master, place, victim, *tables = sys.argv[1:]
place, killed = Path(place), []
spark = session("cluster", **{
    "spark.master": master,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": 2,
})

def kill(what, done, total):
    if what == "captures" and 0 < done < total and not killed:
        threads = Path(f"/proc/{victim}/task").glob("*/children")
        killed.extend([victim, *(child for thread in threads for child in thread.read_text().split())])
        for process in killed:
            os.kill(int(process), signal.SIGKILL)

settings = LakeSettings(task_bytes=1)
build(spark, place / "captures", place / "whole", tables, settings=settings)
build(spark, place / "captures", place / "killed", tables, settings=settings, progress=kill)
print("killed", len(killed))
spark.stop()
"""


def build_on(master: str, place: Path, victim: int) -> str:
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", BUILDS, master, str(place), str(victim), *TABLES]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.strip()


def rows_of(lake: Path) -> dict[str, list[str]]:
    return {name: sorted(map(repr, read_arrow(lake, name).to_pylist())) for name in TABLES}


def test_cluster_builds_what_one_machine_builds_also_with_a_worker_killed(spark: SparkSession, tmp_path: Path) -> None:
    captures = make_capture(tmp_path / "captures", [f"node{number}" for number in range(NODES)], ROWS)
    with standalone(tmp_path) as cluster:
        assert build_on(cluster.url, tmp_path, cluster.workers[0].pid) == "killed 2"
        assert cluster.workers[0].wait(10) == -9
    build(spark, captures, tmp_path / "alone", TABLES)
    expected = rows_of(tmp_path / "alone")
    assert len(expected["silver.messages"]) == NODES * ROWS * 9 // 10
    assert rows_of(tmp_path / "whole") == expected
    assert rows_of(tmp_path / "killed") == expected
    assert not (tmp_path / "killed" / "_hopwire" / "staging").exists()
