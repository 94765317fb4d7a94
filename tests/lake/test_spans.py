"""A capture that lost a segment, or has one twice: nobody is accused of it."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hopwire.capture import sightings_from_batch
from hopwire.capture.sources import list_sources, read_source
from hopwire.domains_file import domains_from_file
from hopwire.errors import LakeError
from hopwire.flows.spans import Gap, SourceSpan
from hopwire.lake.bronze.spans import SPANS_TABLE, rows_from_spans, spans_from_rows
from hopwire.lake.build import build
from hopwire.lake.simulation import simulate_here
from hopwire.lake.store import read_arrow, read_manifest
from hopwire.simulate import SimulateSettings
from tests.lake.captures import write_segment
from tests.lake.pure import tables_without_spark

pytestmark = pytest.mark.slow

PIECES = 4  # of each segment: some seconds
HONEST = {"arrived", "in_flight", "unwitnessed", "unsent"}  # what can be said of a network without faults


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network without faults, in short segments."""
    out = tmp_path_factory.mktemp("simulated") / "network"
    simulate_here(SimulateSettings(messages=3_000, rates={"clock_skew": 1.0}), out)
    for source in list_sources(out / "captures"):
        rows = [row for batch in read_source(source) for row in sightings_from_batch(batch)]
        size = -(-len(rows) // PIECES)
        for start in range(0, len(rows), size):
            write_segment(source.path.with_suffix(f".{start:06d}.arrows"), rows[start : start + size])
        source.path.unlink()
    return out


@pytest.fixture
def damaged(network: Path, tmp_path: Path) -> Path:
    """A network to take files away from."""
    return Path(shutil.copytree(network, tmp_path / "network"))


def segments(network: Path) -> list[Path]:
    """The segments of the first node, in order."""
    names = sorted(path for path in (network / "captures").iterdir() if path.suffix == ".arrows")
    node = names[0].name.partition("Z-")[2][:36]
    return [path for path in names if node in path.name]


def test_rows_are_spans_and_back() -> None:
    spans = [
        SourceSpan("s", b"\xff", 7, "anna", 0, 9, 10, 20, 5, 2, 3, True, (Gap(1, 2, 3, 4), Gap(5, 7, 8, 9))),
        SourceSpan("t", b"B", 1, "", 0, 0, 0, 0, 1, is_numbered=False),
    ]
    assert rows_from_spans(spans).schema.equals(SPANS_TABLE.schema)
    assert spans_from_rows(rows_from_spans(spans)) == spans
    assert spans_from_rows(rows_from_spans([])) == []


@pytest.mark.parametrize("place", [0, 1, 2, 3, -1])
def test_segment_that_is_lost_accuses_nobody(damaged: Path, place: int) -> None:
    segments(damaged)[place].unlink()
    tables = tables_without_spark(damaged)
    fates = Counter(tables["silver.hops"]["fate"].to_pylist())
    assert set(fates) <= HONEST
    assert fates["arrived"] < fates.total()
    assert set(tables["gold.requests"]["outcome"].to_pylist()) == {"answered"}
    kinds = {finding["kind"] for flow in tables["gold.flows"]["findings"].to_pylist() for finding in flow}
    assert kinds <= {"missing_capture"}


@pytest.mark.spark
def test_lake_says_what_is_missing_and_refuses_what_is_there_twice(
    spark: SparkSession, damaged: Path, tmp_path: Path
) -> None:
    lake, domains = tmp_path / "lake", domains_from_file(str(damaged / "domains.toml"))
    _, lost, behind, *_ = segments(damaged)
    lost.unlink()
    built = build(spark, damaged / "captures", lake, ["gold.quality"], domains=domains)
    (fault,) = built.faults
    assert fault.startswith(f"{behind.name}: sightings are missing: ")
    complete = {
        row["segment"]: row for row in read_arrow(lake, "gold.quality").to_pylist() if row["step"] == "complete"
    }
    assert len(complete) == len(built.read)
    assert all(row["is_balanced"] for row in complete.values())
    row = complete[behind.name]
    assert row["faults"] == [fault.removeprefix(f"{behind.name}: ")]
    assert row["rows_in"] - row["missing"] == built.manifest.sources[behind.name].row_count
    assert sum(row["missing"] for row in complete.values()) == row["missing"] > 0
    clocks = read_arrow(lake, "silver.clocks").to_pylist()
    assert [(each["missing"], len(each["skips"])) for each in clocks if each["missing"]] == [(row["missing"], 1)]
    assert set(read_arrow(lake, "silver.hops")["fate"].to_pylist()) <= HONEST
    shutil.copy(behind, damaged / "captures" / "copy.arrows")
    with pytest.raises(LakeError, match=rf"^copy\.arrows: is the same file as {behind.name}; remove it, or "):
        build(spark, damaged / "captures", lake, ["gold.quality"], domains=domains)
    assert read_manifest(lake) == built.manifest
