"""What all tests share: Spark, one run of the demonstration, and how many mutated inputs a fuzz test tries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hopwire.lake.session import Setting

ROOT = Path(__file__).parents[1]
SPARK_SETTINGS = ROOT / "tests" / "lake" / "conf"
hypothesis.settings.register_profile("hopwire", deadline=None)  # a deadline would judge the machine, not the code
hypothesis.settings.load_profile("hopwire")
DEMO_SECONDS = 300  # it takes a minute where nothing else runs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-cases", type=int, default=200_000, help="mutated inputs for each fuzz test")
    parser.addoption("--networks", type=int, default=20, help="random networks for the lake to judge")


def pytest_configure() -> None:
    os.environ["SPARK_CONF_DIR"] = str(SPARK_SETTINGS)  # processes that tests start have it too


@pytest.hookimpl(tryfirst=True)  # xdist looks for the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))  # one worker, so one JVM
        if "demo_run" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("demo"))  # one worker, so one run
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(DEMO_SECONDS))
        if getattr(config.option, "loadgroup", False):
            _tell_group(item)


def _tell_group(item: pytest.Item) -> None:
    """Write the group of a test behind its id: xdist 3.8 does so where pytest 9.2 does not look (pytest-xdist#1386)."""
    if (group := item.get_closest_marker("xdist_group")) and hasattr(item, "_id"):
        item._id = item._id.parse(f"{item.nodeid}@{group.args[0]}")


@pytest.fixture(scope="session")
def fuzz_cases(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--fuzz-cases"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from hopwire.lake.session import session

    warehouse = tmp_path_factory.mktemp("warehouse").as_uri()
    settings: dict[str, Setting] = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": warehouse,
    }
    spark = session("hopwire-tests", **settings)
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What `hopwire demo --json` printed, and the directory that it kept."""
    directory = tmp_path_factory.mktemp("demo") / "kept"
    command = [sys.executable, "-m", "hopwire.cli", "demo", "--json", "--keep", str(directory)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=DEMO_SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return json.loads(done.stdout), directory
