"""The law of steps on a lake: any cutting of captures into builds gives the tables of one build, row for row."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from hopwire.capture import SCHEMA
from hopwire.capture.sources import list_sources, read_source
from hopwire.domains_file import domains_from_file
from hopwire.errors import LakeError
from hopwire.lake.build import Built, build
from hopwire.lake.increment import OWN, STEPPED
from hopwire.lake.settings import LakeSettings
from hopwire.lake.simulation import simulate_here
from hopwire.lake.store import files_of, read_arrow, read_manifest
from hopwire.lake.tables import all_tables
from hopwire.security import Domains
from hopwire.simulate import SimulateSettings

pytestmark = pytest.mark.slow

Rows = dict[str, list[str]]


def no_spark() -> SparkSession:
    raise AssertionError("Spark was started")


@dataclass(frozen=True)
class CutCaptures:
    """Captures of a simulated network as many small files, in the order of time."""

    place: Path
    domains: Domains
    files: tuple[Path, ...]

    def build(self, lake: Path, live: Path, some: Iterable[Path]) -> Built:
        """Build a lake from those that are there already, and some more."""
        live.mkdir(exist_ok=True)
        for path in some:
            shutil.copy(path, live)
        return build(no_spark, live, lake, domains=self.domains)


def write_part(path: Path, rows: pa.Table, is_sealed: bool = True) -> Path:
    with pa.OSFile(str(path), "wb") as file:
        stream = pa.ipc.new_stream(file, SCHEMA)
        for batch in rows.to_batches(max_chunksize=100):
            stream.write_batch(batch)
        if is_sealed:
            stream.close()
    return path


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> CutCaptures:
    out = tmp_path_factory.mktemp("steps") / "network"
    simulate_here(SimulateSettings(messages=1_000), out)
    place = out / "cut"
    place.mkdir()
    found = []
    for source in list_sources(out / "captures"):
        rows = pa.Table.from_batches(read_source(source)).combine_chunks()
        size = max(-(-len(rows) // 3), 20)
        for first in range(0, len(rows), size):
            part = rows.slice(first, size)
            path = place / f"{source.path.name.partition('.arrows')[0]}-{first // size}.arrows"
            found.append((pc.max(part["seen_at_ns"]).as_py(), write_part(path, part)))
    return CutCaptures(place, domains_from_file(str(out / "domains.toml")), tuple(path for _, path in sorted(found)))


def rows_of(lake: Path) -> Rows:
    """All rows of all tables that people read, sorted."""
    names = set(all_tables()) - set(OWN)
    return {name: sorted(map(repr, read_arrow(lake, name).to_pylist())) for name in sorted(names)}


def assert_same(found: Rows, expected: Rows) -> None:
    for name, rows in expected.items():
        assert set(found[name]) - set(rows) == set(), name
        assert found[name] == rows, name


@pytest.fixture(scope="module")
def whole(cut: CutCaptures, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    lake = tmp_path_factory.mktemp("whole") / "lake"
    build(no_spark, cut.place, lake, domains=cut.domains)
    return rows_of(lake)


@pytest.mark.parametrize(("count", "seed"), [(5, None), (4, 1), (9, 2)])
def test_any_cutting_in_any_order_gives_the_tables_of_one_build(
    cut: CutCaptures, whole: Rows, tmp_path: Path, count: int, seed: int | None
) -> None:
    files = list(cut.files) if seed is None else Random(seed).sample(cut.files, len(cut.files))
    size = -(-len(files) // count)
    for first in range(0, len(files), size):
        built = cut.build(tmp_path / "lake", tmp_path / "live", files[first : first + size])
        assert built.tables == STEPPED
    assert_same(rows_of(tmp_path / "lake"), whole)


@pytest.mark.spark
def test_spark_gives_the_rows_of_a_step(cut: CutCaptures, whole: Rows, tmp_path: Path, spark: SparkSession) -> None:
    few = LakeSettings(step_rows=1)
    build(spark, cut.place, tmp_path, domains=cut.domains, settings=few)
    assert_same(rows_of(tmp_path), whole)


def test_captures_in_order_leave_closed_files_alone(cut: CutCaptures, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    half = len(cut.files) * 3 // 4
    cut.build(lake, tmp_path / "live", cut.files[:half])
    manifest = read_manifest(lake)
    closed = {}
    for name in ("silver.hops", "gold.requests", "gold.flows"):
        step = manifest.tables[name].step
        assert step is not None
        closed[name] = {path for path in files_of(lake, name) if not path.name.startswith(step.open_part)}
    cut.build(lake, tmp_path / "live", cut.files[half:])
    for name, paths in closed.items():
        assert paths <= set(files_of(lake, name)), name
