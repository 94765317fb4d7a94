"""A lake that follows captures: steps of bounded size give the tables of one build."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from hopwire.capture.segment import sealed_path
from hopwire.capture.sources import list_sources, read_placed
from hopwire.errors import LakeBusy, LakeError, WholeNeeded
from hopwire.lake import follow, store
from hopwire.lake.build import build, step, step_sources
from hopwire.lake.catalog import find_sources
from hopwire.lake.follow import Follower, FollowSettings, following
from hopwire.lake.lake_standing import lake_status
from hopwire.lake.settings import LakeSettings
from hopwire.lake.simulation import simulate_here
from hopwire.lake.step_admission import StepLimits, admit
from hopwire.lake.store import LakeRun, read_arrow, read_manifest
from hopwire.simulate import SimulateSettings
from tests.lake.captures import make_capture, make_sightings, write_segment
from tests.lake.days import FIRST_DAY, SECOND, Days
from tests.lake.test_increment import GrowingFile, assert_same, no_spark, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SMALL = FollowSettings(max_rows=400, every_seconds=0.01, compact_steps=3, compact_bytes=1)
LARGE = FollowSettings(max_rows=100_000, every_seconds=0.01, compact_steps=3)


def at_once(seconds: float) -> bool:
    """Wait for nothing, and go on."""
    return True


def follow_once(captures: Path, lake: Path, settings: FollowSettings = SMALL, **more: Any) -> list[str]:
    """Follow until there is nothing new; give what was said."""
    said: list[str] = []
    with following(lake) as held:
        Follower([captures], held, settings, tell=said.append, **more).run(at_once, is_once=True)
    return said


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("followed") / "network"
    simulate_here(SimulateSettings(messages=400), out)
    return out


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "captures")


def test_steps_of_bounded_size_give_the_tables_of_one_build(network: Path, tmp_path: Path) -> None:
    lake, live, chance = tmp_path / "lake", tmp_path / "live", Random(1)
    live.mkdir()
    growing = [GrowingFile(source.path, live) for source in list_sources(network / "captures")]
    while growing:
        for each in growing:
            each.grow(chance)
        growing = [each for each in growing if not each.is_over]
        follow_once(live, lake)
    build(no_spark, live, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


def test_more_than_a_step_can_judge_is_work_for_spark_or_ends_in_words(network: Path, tmp_path: Path) -> None:
    few = LakeSettings(step_rows=100)
    with pytest.raises(WholeNeeded, match="build the lake: hopwire lake build"):
        follow_once(network / "captures", tmp_path / "lake", lake_settings=few)
    asked: list[str] = []

    def spark() -> Any:
        asked.append("a session")
        raise LakeError("Spark does not start")

    with pytest.raises(LakeError, match="Spark does not start"):
        follow_once(network / "captures", tmp_path / "lake", lake_settings=few, spark=spark)
    assert asked == ["a session"]


def test_backlog_of_many_times_what_a_step_can_judge_is_taken_in_bounded_steps(tmp_path: Path, is_long: bool) -> None:
    """The first minute alone, in which clocks are compared for the first time, is more than a step can judge."""
    captures, lake, limit = tmp_path / "captures", tmp_path / "lake", 120
    times = 10 if is_long else 5
    days = Days(captures)
    for each in range(times * limit // 4):  # of four sightings each
        days.ask(b"flow-%03d" % each, FIRST_DAY + each * SECOND // 5)
    days.write("all")
    found: list[int] = []

    def count(seconds: float) -> bool:
        found.append(follower.notes.last_step_rows)
        return True

    with following(lake) as held:
        settings = FollowSettings(max_rows=100, every_seconds=0.01)
        follower = Follower([captures], held, settings, lake_settings=LakeSettings(step_rows=limit))
        follower.run(count, is_once=True)
    assert (max(found) <= 100, len(found) > times, follower.notes.sighting_count) == (True, True, times * limit)
    build(no_spark, captures, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


def test_segment_that_is_sealed_while_it_is_looked_at_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both nodes share the files of a step: to read one of them as a whole would be to read all again."""
    live, lake = tmp_path / "live", tmp_path / "lake"
    live.mkdir()
    days = Days(tmp_path / "given")
    for each in range(40):
        days.ask(b"flow-%03d" % each, FIRST_DAY + each * SECOND)
    given = {live / f"{path.stem}.open.arrows": path.read_bytes() for path in days.write("all")}
    for path, content in given.items():
        path.write_bytes(content[: len(content) * 3 // 4])
    follow_once(live, lake)
    for path, content in given.items():
        path.write_bytes(content)
    first = min(given)
    asked: list[int] = []

    def sealing(*args: Any) -> Any:
        admitted = admit(*args)
        asked.append(admitted.row_count)
        if first.exists():
            first.rename(live / sealed_path(first).name)
        return admitted

    monkeypatch.setattr(follow, "admit", sealing)
    bounded = LakeSettings(task_bytes=len(given[first]))  # more than the rest of both, less than all of both
    assert follow_once(live, lake, lake_settings=bounded, spark=no_spark) == []
    assert asked[0] == asked[1] > 0, "the second round reads what the first could not"
    for path in set(given) - {first}:
        path.rename(live / sealed_path(path).name)
    follow_once(live, lake)
    build(no_spark, live, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


@pytest.mark.parametrize(("times", "said"), [(3, 0), (4, 1)])
def test_segments_that_are_sealed_one_after_the_other_are_looked_for_again_at_once(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, said: int
) -> None:
    """Nodes of one age seal at one time; a file that stays away is said."""
    left, pauses = [times], list[float]()

    def sealing(*args: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise FileNotFoundError(2, "No such file or directory", "anna.open.arrows")
        return admit(*args)

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return not store.manifest_numbers(tmp_path / "lake")

    monkeypatch.setattr(follow, "admit", sealing)
    lines: list[str] = []
    with following(tmp_path / "lake") as held:
        Follower([captures], held, FollowSettings(every_seconds=0.01), tell=lines.append).run(wait)
    assert pauses[:3] == [0, 0, 0]
    assert lines == said * ["anna.open.arrows: No such file or directory; trying again"]


@pytest.mark.spark
def test_spark_judges_where_a_step_is_not_enough(network: Path, tmp_path: Path, spark: SparkSession) -> None:
    few = LakeSettings(step_rows=300)
    follow_once(network / "captures", tmp_path / "lake", LARGE, lake_settings=few, spark=spark)
    build(no_spark, network / "captures", tmp_path / "other")
    assert_same(rows_of(tmp_path / "lake"), rows_of(tmp_path / "other"))


def test_step_takes_the_batches_of_all_nodes_in_the_order_of_time(captures: Path) -> None:
    found = find_sources(captures)[0]
    total = admit(found, {}, StepLimits(10**9, 10**9))
    assert not total.has_more
    assert set(total.ends.values()) == {None}
    some = admit(found, {}, StepLimits(total.row_count // 2, 10**9))
    assert some.has_more
    assert 0 < some.row_count <= total.row_count // 2
    read = {}
    for name, end in some.ends.items():
        for batch, position in read_placed(found[name].source):
            if end is None or position <= end:
                read[name] = batch.column("seen_at_ns")[-1].as_py()
    waiting = [
        batch.column("seen_at_ns")[-1].as_py()
        for name, each in found.items()
        for batch, position in read_placed(each.source)
        if name not in some.ends or (some.ends[name] or position) < position
    ]
    assert max(read.values()) <= min(waiting)


def test_batch_that_is_larger_than_the_limit_is_a_step_of_its_own(captures: Path) -> None:
    assert admit(find_sources(captures)[0], {}, StepLimits(1, 1)).row_count > 1


# -- bad input


def test_captures_that_are_not_there_yet_are_waited_for(tmp_path: Path) -> None:
    lake, live = tmp_path / "lake", tmp_path / "live"
    said: list[str] = []
    rounds: list[Callable[[], object]] = [
        lambda: None,
        lambda: live.mkdir(),
        lambda: write_segment(live / "anna.arrows", make_sightings("anna")),
        lambda: None,
    ]

    def wait(seconds: float) -> bool:
        if not rounds:
            return False
        rounds.pop(0)()
        return True

    with following(lake) as held:
        notes = Follower([live], held, SMALL, tell=said.append).run(wait)
    assert notes.step_count == 1
    assert said[0] == f"waiting: {live}: is not there; name a directory of captures"
    assert said[1].startswith(f"waiting: {live}: has no captures in it")
    assert len(read_arrow(lake, "bronze.sightings")) == notes.sighting_count


def test_second_follower_is_refused_by_name(tmp_path: Path) -> None:
    refusal = pytest.raises(LakeBusy, match=rf"is being followed by process {os.getpid()} on")
    with following(tmp_path / "lake"), refusal, following(tmp_path / "lake"):
        pass


def test_lake_that_is_being_built_is_tried_again(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    said: list[str] = []
    builds = [store.writing(lake)]
    builds[0].__enter__()

    def wait(seconds: float) -> bool:
        while builds:
            builds.pop().__exit__(None, None, None)
        return read_manifest(lake).number < 1 if store.manifest_numbers(lake) else True

    with following(lake) as held:
        Follower([captures], held, SMALL, tell=said.append).run(wait)
    assert said[0].endswith("wait for it, or end it; trying again")
    assert read_manifest(lake).number >= 1


def test_full_disk_is_told_and_tried_again(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    said: list[str] = []
    troubles = ["the disk of the lake is full (No space left on device) at anna.arrows: make room and build again"]

    def full(*args: Any, **more: Any) -> Any:
        if troubles:
            raise LakeError(troubles.pop())
        return step_sources(*args, **more)

    monkeypatch.setattr(follow, "step_sources", full)
    with following(lake) as held:
        Follower([captures], held, SMALL, tell=said.append).run(lambda seconds: not store.manifest_numbers(lake))
    assert said[0].startswith("the disk of the lake is full")
    assert read_manifest(lake).number == 1


def test_step_that_fails_leaves_no_file_behind(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    step(lake, [captures / "anna.arrows"])
    before = set(lake.rglob("*.parquet"))

    def refuse(*args: Any, **named: Any) -> None:
        raise LakeError("the disk of the lake is full")

    monkeypatch.setattr(LakeRun, "publish", refuse)
    with pytest.raises(LakeError, match="is full"):
        step(lake, [captures / "bert.arrows"])
    assert set(lake.rglob("*.parquet")) == before


def test_capture_that_is_gone_before_its_end_is_a_fault_of_the_lake(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    said: list[str] = []
    gone = captures / "anna.arrows"

    def wait(seconds: float) -> bool:
        gone.unlink(missing_ok=True)
        return len(store.manifest_numbers(lake)) < 4

    with following(lake) as held:
        Follower([captures], held, FollowSettings(max_rows=20), tell=said.append).run(wait)
    assert any(line.startswith("anna.arrows: is gone:") for line in said)
    (row,) = [each for each in read_arrow(lake, "bronze.sources").to_pylist() if each["segment"] == "anna.arrows"]
    assert any("were not read" in fault for fault in row["faults"])
    assert all(each["is_balanced"] for each in read_arrow(lake, "gold.quality").to_pylist())
    numbers = read_arrow(lake, "bronze.sightings", ["segment", "node", "incarnation", "sequence"]).to_pylist()
    assert len({tuple(row.values()) for row in numbers}) == len(numbers), "nothing is there twice"


def test_two_captures_of_one_name_are_refused(captures: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(captures, other)
    with following(tmp_path / "lake") as held, pytest.raises(LakeError, match="has the name of"):
        Follower([captures, other], held, SMALL).run(at_once, is_once=True)


# -- how it stands


def test_status_tells_lag_and_what_is_open(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with following(lake) as held:
        Follower([captures], held, SMALL).run(at_once, is_once=True)
        newest = max(read_arrow(lake, "bronze.spans")["last_seen_at_ns"].to_pylist())
        found = lake_status(lake, newest + 3 * 10**9)
        assert found.is_followed
    assert found.lag_seconds == 3.0
    assert found.open_flows > 0
    assert found.open_sightings > 0
    assert found.follower is not None
    assert found.follower.sighting_count == found.manifest.tables["bronze.sightings"].row_count
    ended = lake_status(lake, newest)
    assert not ended.is_followed
    assert ended.follower is not None
    assert ended.follower.state == "ended"
