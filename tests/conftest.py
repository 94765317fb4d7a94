"""What all tests share: the Spark session, and how many mutated inputs a fuzz test tries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hopwire.lake.spark import Setting


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz-cases", type=int, default=200_000, help="mutated inputs for each fuzz test")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))  # one worker, so one JVM


@pytest.fixture(scope="session")
def fuzz_cases(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--fuzz-cases"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from hopwire.lake.spark import session

    warehouse = tmp_path_factory.mktemp("warehouse").as_uri()
    settings: dict[str, Setting] = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": warehouse,
    }
    spark = session("hopwire-tests", **settings)
    yield spark
    spark.stop()
