"""A build on a real cluster gives what a build on one machine gives, though workers are killed in the middle of it.

`make test` has the cluster whose lake is in a bucket, and kills one worker; `make long` kills two, one after the other.

The traffic is simulated, with all faults: so what both give is compared with the truth too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hopwire.domains_file import domains_from_file
from hopwire.lake.build import build, no_spark
from hopwire.lake.increment import OWN
from hopwire.lake.simulation import check_lake, simulate_here
from hopwire.lake.store import read_arrow
from hopwire.lake.tables import all_tables
from hopwire.places import Place, list_below, place_of, read_file, upload
from hopwire.simulate import FAULTS, SimulateSettings
from tests.lake.cluster import standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

MESSAGES = 1_000

# Two workers and their executors are killed: one as soon as the first source is read, one as soon as hops are written.
BUILD = """
import os, signal, sys, threading, time
from fnmatch import fnmatch
from pathlib import Path
from hopwire.domains_file import domains_from_file
from hopwire.lake.build import build, no_spark
from hopwire.lake.settings import LakeSettings
from hopwire.lake.session import session
from hopwire.places import list_below, place_of

master, captures, domains, lake, *victims = sys.argv[1:]
lake, killed = place_of(lake), []
waits = {"captures": "_hopwire/work/*/done/*", "flows": "silver/hops/*.parquet"}
spark = session("cluster", **{
    "spark.master": master,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": 2,
})

def kill(sign):
    while not any(fnmatch(file.name, sign) for file in list_below(lake)):
        time.sleep(0.01)
    victim = victims[len(killed)]
    children = [child for thread in Path(f"/proc/{victim}/task").glob("*/children")
                for child in thread.read_text().split()]
    for process in [victim, *children]:
        os.kill(int(process), signal.SIGKILL)
    killed.append(len(children))

def progress(what, done, total):
    if what in waits and len(victims) + len(waits) > 2:
        threading.Thread(target=kill, args=[waits.pop(what)], daemon=True).start()

domains = domains_from_file(domains)
settings = LakeSettings(task_bytes=1_000_000, step_rows=1)
build(spark, captures, lake, domains=domains, settings=settings, progress=progress)
print("killed", killed)
spark.stop()
"""


def build_on(master: str, captures: Place | str, domains: Path, lake: Path | str, victims: list[int]) -> str:
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", BUILD, master, str(captures), str(domains), str(lake), *map(str, victims)]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=350, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.strip()


def rows_of(lake: Path | str, table: str) -> list[str]:
    return sorted(map(repr, read_arrow(lake, table).to_pylist()))


def assert_true(lake: Path | str, network: Path) -> None:
    checked = check_lake(lake, network / "truth")
    assert [tally for tally in checked.tallies if tally.missed or tally.false] == [], checked.differences
    assert {tally.fault for tally in checked.tallies} == {"", *FAULTS}


@pytest.mark.long
def test_cluster_builds_what_one_machine_builds_though_workers_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    network, lake, alone = tmp_path / "network", tmp_path / "lake", tmp_path / "alone"
    simulate_here(SimulateSettings(messages=MESSAGES), network)
    with standalone(tmp_path, workers=3) as cluster:
        victims = cluster.workers[:2]
        assert (
            build_on(cluster.url, network / "captures", network / "domains.toml", lake, [each.pid for each in victims])
            == "killed [1, 1]"
        )
        assert [each.wait(10) for each in victims] == [-9, -9]
    build(spark, network / "captures", alone, domains=domains_from_file(str(network / "domains.toml")))
    for table in all_tables().keys() - OWN:  # what a next step begins with depends on who went before
        assert rows_of(lake, table) == rows_of(alone, table), table
    assert not (lake / "_hopwire" / "staging").exists()
    assert_true(lake, network)


def test_cluster_builds_in_a_bucket_though_a_worker_is_killed(bucket: str, tmp_path: Path) -> None:
    """Spark itself has no way to the bucket: its Python workers read and write."""
    network, captures, lake = tmp_path / "network", f"{bucket}/captures", f"{bucket}/lake"
    simulate_here(SimulateSettings(messages=MESSAGES), network)
    for file in (network / "captures").iterdir():
        upload(file, place_of(captures) / file.name)
    with standalone(tmp_path, workers=2) as cluster:
        victim = cluster.workers[0]
        assert build_on(cluster.url, captures, network / "domains.toml", lake, [victim.pid]) == "killed [1]"
        assert victim.wait(10) == -9
    domains = domains_from_file(str(network / "domains.toml"))
    build(no_spark, network / "captures", tmp_path / "alone", domains=domains)
    for table in all_tables().keys() - OWN:
        assert rows_of(lake, table) == rows_of(tmp_path / "alone", table), table
    assert_true(lake, network)
    logs = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix in (".log", "")]
    stored = [read_file(place_of(bucket) / each.name, 2**30) for each in list_below(place_of(bucket))]
    assert not any(b"never-seen-anywhere" in each for each in (*logs, *stored))
