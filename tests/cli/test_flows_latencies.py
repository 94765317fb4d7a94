"""`hopwire flows latencies`: how long questions took, and the SQL that says the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hopwire.flows.histograms import latencies_of
from hopwire.lake.sql import query
from tests.cli.running import hopwire
from tests.flows.test_histograms import requests
from tests.lake.pure import write_lake

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [(minute, "answered", 1_000 * (minute + 1)) for minute in range(10) for _ in range(10)]
    made = latencies_of(requests(*rows, (3, "lost", None)))
    made = made.append_column("contract", made["identity"].cast("string"))
    place = tmp_path_factory.mktemp("latencies") / "lake"
    write_lake(place, {"gold.latencies": made})
    return place


def test_command_adds_up_minutes_and_says_what_was_not_answered(lake: Path) -> None:
    found = hopwire("flows", "latencies", str(lake))
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines()[2].split() == (
        ["shop.pay", "v1", "101", "100", "5.119", "ms", "10", "ms", "10", "ms", "10", "ms", "1", "lost"]
    )


def test_command_takes_a_time_and_a_contract(lake: Path) -> None:
    begin, end = "2025-02-19T21:22", "2025-02-19T21:24"
    found = hopwire("flows", "latencies", str(lake), "--from", begin, "--to", end, "--json")
    row = json.loads(found.out)
    assert (row["request_count"], row["p50_us"], row["p99_us"], row["max_us"]) == (21, 3_071, 4_000, 4_000)
    assert hopwire("flows", "latencies", str(lake), "--contract", "shop.none").out == "no questions\n"
    assert hopwire("flows", "latencies", str(lake), "--from", "soon").code == 2


def test_documented_sql_gives_the_same_quantiles(lake: Path) -> None:
    page = (ROOT / "docs" / "tables.md").read_text()
    statements = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    (statement,) = [each for each in statements if "unnest(latency_histogram)" in each]
    (row,) = query(lake, statement.strip().rstrip(";")).to_pylist()
    assert row == {"contract": "shop.pay", "answers": 100, "p50_us": 5_119, "p95_us": 10_239, "p99_us": 10_239}
