from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from hopwire.capture import State, list_segments
from hopwire.domains_file import domains_from_file
from hopwire.errors import CaptureError, SettingsError
from hopwire.lake import simulation as lake_simulate
from hopwire.lake.simulation import simulate_here, simulate_on_spark
from hopwire.simulate import SCHEMAS, SimulatedWorld, SimulateSettings, simulate_chunk
from hopwire.simulate import settings as settings_module

pytestmark = pytest.mark.slow
SETTINGS = SimulateSettings(messages=2_000)


def files_of(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "network"
    simulate_here(SETTINGS, out)
    return out


def test_captures_are_segments_that_add_up(out: Path) -> None:
    segments = list_segments(out / "captures")
    truth = ds.dataset(out / "truth" / "truth_sightings").to_table()
    skips = sum(bool(segment.summary.skipped) for segment in segments)
    assert sum(segment.summary.row_count for segment in segments) == len(truth) + skips


def test_a_crash_leaves_its_segment_open_and_cut_off_and_all_others_are_sealed(out: Path) -> None:
    segments = list_segments(out / "captures")
    (cut_off,) = [segment for segment in segments if segment.state != State.SEALED]
    assert cut_off.state == State.CUT_OFF
    crashed = SimulatedWorld(SETTINGS).nodes[SimulatedWorld(SETTINGS).crashed[0]]
    assert list(cut_off.summary.nodes.values()) == [crashed.name]


def test_truth_has_every_table_in_its_schema(out: Path) -> None:
    assert {path.name for path in (out / "truth").iterdir()} == set(SCHEMAS)
    for name, schema in SCHEMAS.items():
        assert ds.dataset(out / "truth" / name).schema.equals(schema)


def test_the_file_of_domains_is_for_its_owner_only(out: Path) -> None:
    assert (out / "domains.toml").stat().st_mode & 0o077 == 0
    assert domains_from_file(str(out / "domains.toml")) == SimulatedWorld(SETTINGS).domains


def test_the_same_settings_give_the_same_bytes(out: Path, tmp_path: Path) -> None:
    simulate_here(SETTINGS, tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(out)


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SettingsError, match="is there already; name an empty or a new directory"):
        simulate_here(SETTINGS, tmp_path)


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
def test_a_simulation_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool, problem: BaseException
) -> None:
    out = tmp_path / "some" / "where"
    if is_there:
        out.mkdir(parents=True)

    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(lake_simulate, "clocks_of", fail)
    expected = CaptureError if isinstance(problem, OSError) else type(problem)
    with pytest.raises(expected) as caught:
        simulate_here(SETTINGS, out)
    if isinstance(problem, OSError):
        remedy = "nothing was kept; choose another directory, or fewer messages"
        assert str(caught.value) == f"{out}: cannot be written (No space left on device); {remedy}"
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == (["some", "some/where"] if is_there else [])


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not UTF-8; name another path"):
        simulate_here(SETTINGS, tmp_path / "x\udcff")
    assert list(tmp_path.iterdir()) == []


def test_a_chunk_that_is_written_again_replaces_what_a_first_try_left(tmp_path: Path) -> None:
    world = SimulatedWorld(SETTINGS)
    (tmp_path / "captures").mkdir()
    chunk, _ = simulate_chunk(world, 0, [0] * SETTINGS.nodes)
    lake_simulate._write_chunk(world, chunk, tmp_path)
    before = files_of(tmp_path)
    lake_simulate._write_chunk(world, chunk, tmp_path)
    assert files_of(tmp_path) == before


@pytest.mark.spark
def test_spark_writes_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    settings = SimulateSettings(messages=3 * settings_module.CHUNK_ROWS // 2, formats=(5, 6))
    assert settings.chunk_count == 2
    here = simulate_here(settings, tmp_path / "here")
    seen: list[int] = []
    there = simulate_on_spark(spark, settings, tmp_path / "there", seen.append)
    assert here == there
    assert files_of(tmp_path / "here") == files_of(tmp_path / "there")
