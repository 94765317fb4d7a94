"""What all tests share: Spark, one run of the demonstration, and how many mutated inputs a fuzz test tries."""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import typer.main
from _pytest.runner import runtestprotocol

from tests.chaos.small_disk import SmallDisk, mounted
from tests.chaos.wires import NotPossibleError
from tests.s3_server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hopwire.lake.session import Setting

ROOT = Path(__file__).parents[1]
SPARK_SETTINGS = ROOT / "tests" / "lake" / "conf"
EXAMPLES, LONG_EXAMPLES = 25, 1_000  # of everything that Hypothesis tries: in `make test`, and in `make long`
NOT_INSTALLED = re.compile(r"NOT INSTALLED: ([\w-]+)")  # how tests that need a program are skipped
DEMO_SECONDS = 400  # it takes a minute where nothing else runs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="only what can be tried for longer, and for long")
    parser.addoption("--fuzz-cases", type=int, default=30_000, help="mutated inputs for each fuzz test")
    parser.addoption("--pictures", type=Path, help="put the pictures of the documentation into this directory")
    parser.addoption("--networks", type=int, default=8, help="random networks for the lake to judge")


def pytest_configure(config: pytest.Config) -> None:
    # a deadline would judge the machine, not the code
    examples = LONG_EXAMPLES if config.getoption("--long") else EXAMPLES
    hypothesis.settings.register_profile("hopwire", deadline=None, max_examples=examples)
    hypothesis.settings.load_profile("hopwire")
    atexit.register(gc.unfreeze)  # or Python ends without freeing what was collected, and DuckDB complains of it
    os.environ["SPARK_CONF_DIR"] = str(SPARK_SETTINGS)  # processes that tests start have it too
    # Typer builds the tree of all commands for each call, which takes longer than most commands do
    vars(typer.main)["get_command"] = cache(typer.main.get_command)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, and never again in what was collected: it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test as pytest does, and report how it was set up and torn down only where that failed or was skipped.

    A process of xdist sends each report to the first one, which costs more than most tests do.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)  # xdist looks for the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _choose(config, items)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))  # one worker, so one JVM
        if "demo_run" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("demo"))  # one worker, so one run
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(DEMO_SECONDS))
        if "bucket" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("s3"))  # one worker, so one server
            item.add_marker(pytest.mark.slow)
        if getattr(config.option, "loadgroup", False):
            _tell_group(item)


def _choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make long` runs; or everything else, if it is `make long` that runs."""
    is_long = config.getoption("--long")
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        is_only = item.get_closest_marker("long") is not None
        is_property = hypothesis.is_hypothesis_test(getattr(item, "obj", None))
        has_more = is_property or "is_long" in getattr(item, "fixturenames", ())
        (chosen if (is_only or has_more if is_long else not is_only) else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Take the session of Spark up again behind a test that may have reached its time limit within a call to Java."""
    spark = getattr(item, "funcargs", {}).get("spark")
    if spark is not None and call.excinfo is not None and call.excinfo.errisinstance(pytest.fail.Exception):
        take_up_again(spark)


def take_up_again(spark: SparkSession) -> None:
    """Forget the answer that is still to come: the next call would take it for its own."""
    connection = spark.sparkContext._jvm._gateway_client.get_thread_connection()  # type: ignore[union-attr]
    if connection is not None:
        connection.close()  # the next call opens another
    spark.sparkContext.cancelAllJobs()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end what was not run because a program is not installed, and how to run it."""
    lines = missing_tools(str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    for line in lines:
        terminalreporter.write_line(line, yellow=True)


def missing_tools(reasons: Iterable[str]) -> list[str]:
    """Give a line for each program that tests were skipped for; reasons begin with NOT INSTALLED: and its name."""
    counts = Counter(found[1] for reason in reasons if (found := NOT_INSTALLED.search(reason)))
    return [
        f"NOT RUN: {count} tests that need {tool}; run them: apt-get install {tool}, then make test"
        for tool, count in sorted(counts.items())
    ]


def _tell_group(item: pytest.Item) -> None:
    """Write the group of a test behind its id: xdist 3.8 does so where pytest 9.2 does not look (pytest-xdist#1386)."""
    if (group := item.get_closest_marker("xdist_group")) and hasattr(item, "_id"):
        item._id = item._id.parse(f"{item.nodeid}@{group.args[0]}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of its own, which can be full at any time; needs root."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(mounted(tmp_path / "disk"))
        except NotPossibleError as error:
            pytest.skip(f"no disk can be mounted here: {error}")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket, which the environment has the credentials for."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    yield s3_server.new_bucket()
    s3_server.refuse()


@pytest.fixture(scope="session")
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether a test is to do as much as it can: `make long` says so."""
    return bool(request.config.getoption("--long"))


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
