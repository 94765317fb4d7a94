"""A compaction beside steps: a child writes, the follower publishes, and whatever happens meanwhile changes no row."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from datetime import date
from itertools import repeat
from pathlib import Path

import pytest

from hopwire.errors import LakeBusy, LakeError
from hopwire.lake import compaction, compaction_beside
from hopwire.lake.build import build, step
from hopwire.lake.compaction_beside import CHILD, CompactionBeside
from hopwire.lake.expiry import expire
from hopwire.lake.follow import Follower, FollowSettings, following
from hopwire.lake.forgetting import forget
from hopwire.lake.merging import Merge
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import LakeRun, files_of, read_manifest, writing
from tests.lake.days import FIRST_DAY, SECOND, Days
from tests.lake.killing import Mortals
from tests.lake.test_increment import assert_same, no_spark, rows_of

pytestmark = pytest.mark.slow

SETTINGS = LakeSettings(keep_seconds=120.0, compression="none")
ALL = 2**40
SILENT = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
DEAD = (sys.executable, "-c", "")


@dataclass
class Grown:
    """A lake that was made in steps, and the captures that it has."""

    lake: Path
    days: Days
    count: int = 0

    def step(self, *flows: bytes) -> None:
        """Some flows, in segments of their own."""
        for each, flow in enumerate(flows):
            self.days.ask(flow, FIRST_DAY + (self.count * 100 + each) * SECOND)
        step(self.lake, [*self.days.write(f"part-{self.count}")], settings=SETTINGS)
        self.count += 1

    def counts(self) -> dict[str, int]:
        """How many files each table has."""
        return {name: table.file_count for name, table in read_manifest(self.lake).tables.items()}

    def assert_one_build(self, other: Path) -> None:
        build(no_spark, self.days.place, other)
        assert_same(rows_of(self.lake), rows_of(other))


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Grown:
    """A lake of four steps, whose files are many as soon as there are two."""
    monkeypatch.setattr(compaction, "MAX_FILES", 1)
    made = Grown(tmp_path / "lake", Days(tmp_path / "captures"))
    for number in range(4):
        made.step(*(b"flow-%d-%d" % (number, each) for each in range(10)))
    return made


def begin(grown: Grown) -> CompactionBeside:
    beside = CompactionBeside(grown.lake, SETTINGS, ALL)
    assert not beside.is_over
    return beside


def wait_for(beside: CompactionBeside) -> None:
    """Let the child end."""
    assert beside._written
    futures.wait([beside._written])
    assert beside.is_due


def written(beside: CompactionBeside) -> list[Path]:
    """The files of the child that are there."""
    found = (table.place / f"{each.part}.parquet" for each in beside._merges for table in each.tables)
    return [Path(str(file)) for file in found if Path(str(file)).exists()]


def test_files_are_merged_while_steps_go_on(grown: Grown, tmp_path: Path) -> None:
    before, beside = grown.counts(), begin(grown)
    grown.step(b"flow-more")
    beside.finish()
    after = grown.counts()
    assert beside.is_over
    for name in ("silver.hops", "silver.closed_flows", "silver.messages", "gold.links"):
        assert after[name] < before[name], name
    grown.assert_one_build(tmp_path / "other")
    sources = read_manifest(grown.lake).sources
    parts = {part for source in sources.values() for part in source.parts}
    assert {file.name.partition(".")[0] for file in files_of(grown.lake, "silver.messages")} == parts
    grown.step(b"flow-last")
    grown.assert_one_build(tmp_path / "another")


def test_merged_files_that_were_written_long_before_they_are_named_stay(grown: Grown, tmp_path: Path) -> None:
    beside = begin(grown)
    wait_for(beside)
    for file in written(beside):
        os.utime(file, (1.0, 1.0))  # manifests have come since
    beside.finish()
    assert forget_old(grown.lake, LakeSettings(keep_seconds=0.001, keep_snapshots=2)) >= 0
    grown.assert_one_build(tmp_path / "other")


def test_merge_of_a_file_that_was_written_anew_meanwhile_is_thrown_away(grown: Grown, tmp_path: Path) -> None:
    beside = begin(grown)
    grown.step(b"flow-0-1")  # a flow that was closed goes on
    sizes, hops = grown.counts(), files_of(grown.lake, "silver.hops")
    beside.finish()
    assert files_of(grown.lake, "silver.hops") == hops
    assert grown.counts()["silver.messages"] < sizes["silver.messages"], "all other merges count"
    named = {file for name in grown.counts() for file in files_of(grown.lake, name)}
    assert set(written(beside)) <= named
    grown.assert_one_build(tmp_path / "other")


@pytest.mark.parametrize(
    "remove",
    [
        lambda lake: forget(lake, flow="flow-1-1", settings=SETTINGS),
        lambda lake: expire(lake, date(2026, 1, 1), SETTINGS),
    ],
)
def test_nothing_is_published_that_was_merged_before_something_was_removed(
    grown: Grown, remove: Callable[[Path], object]
) -> None:
    beside = begin(grown)
    wait_for(beside)
    assert written(beside)
    remove(grown.lake)
    number = read_manifest(grown.lake).number
    beside.finish()
    assert (read_manifest(grown.lake).number, written(beside)) == (number, [])


def test_what_is_forgotten_is_in_no_file_whatever_a_child_has_written_meanwhile(grown: Grown) -> None:
    beside = begin(grown)
    wait_for(beside)
    secret = b"the secret of flow-1-1"
    assert any(secret in file.read_bytes() for file in written(beside))
    forget(grown.lake, flow="flow-1-1", settings=SETTINGS)
    assert not [file for file in grown.lake.rglob("*") if file.is_file() and secret in file.read_bytes()]
    beside.end()


COMPACTING = """
from hopwire.lake import compaction
from hopwire.lake.compaction_beside import CompactionBeside
from hopwire.lake.settings import LakeSettings

compaction.MAX_FILES = 1

def work(place):
    beside = CompactionBeside(place, LakeSettings(compression="none"), 2**40)
    beside.finish()
"""


def test_follower_that_is_killed_between_two_commits_of_a_compaction_changes_no_row(
    grown: Grown, tmp_path: Path
) -> None:
    before = read_manifest(grown.lake).number
    with Mortals(COMPACTING) as mortals:
        codes = []
        for commits in (1, 3, 5, 4, 100):  # of tables by minute, then of all others; each of both ends with a manifest
            codes.append(mortals.live(grown.lake, commits))
            grown.assert_one_build(tmp_path / f"other-{commits}")
    assert codes == [-9, -9, -9, -9, 0]
    assert read_manifest(grown.lake).number == before + 2
    grown.step(b"flow-last")
    grown.assert_one_build(tmp_path / "another")


def test_merged_files_wait_while_the_lake_is_busy(grown: Grown, tmp_path: Path) -> None:
    beside = begin(grown)
    with writing(grown.lake), pytest.raises(LakeBusy):
        beside.finish()
    assert not beside.is_over
    beside.finish()
    assert beside.is_over
    grown.assert_one_build(tmp_path / "other")


def test_what_cannot_be_published_is_removed(grown: Grown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = begin(grown)

    def refuse(*args: object, **named: object) -> None:
        raise LakeError("the disk of the lake is full")

    monkeypatch.setattr(LakeRun, "publish", refuse)
    with pytest.raises(LakeError, match="is full"):
        beside.finish()
    monkeypatch.undo()
    assert (beside.is_over, written(beside)) == (True, [])
    grown.assert_one_build(tmp_path / "other")


def test_child_that_died_leaves_nothing_behind(grown: Grown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(compaction_beside, "CHILD", DEAD)
        beside = begin(grown)
        with pytest.raises(LakeError, match="the process that merges files died"):
            beside.finish()
    assert (beside.is_over, written(beside)) == (True, [])
    again = begin(grown)
    again.finish()
    grown.assert_one_build(tmp_path / "other")


def test_child_says_which_file_it_cannot_read(grown: Grown) -> None:
    damaged = files_of(grown.lake, "silver.hops")[0]
    Path(str(damaged)).write_bytes(bytes(Path(str(damaged)).stat().st_size))
    beside = begin(grown)
    with pytest.raises(LakeError, match=rf"silver\.hops: {damaged.name} cannot be read"):
        beside.finish()
    assert written(beside) == []


def test_end_does_not_wait_for_the_child(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_beside, "CHILD", SILENT)
    beside = begin(grown)
    assert not beside.is_due
    beside.end()
    assert (beside.is_over, written(beside)) == (True, [])


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """A follower that is killed closes the input of its child, as all that it has open."""
    with subprocess.Popen(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin
        pickle.dump((repeat(Merge("without end", [])), SETTINGS), child.stdin)
        child.stdin.close()
        assert child.wait() == 1


def test_follower_says_once_that_files_are_not_merged_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MAX_FILES", 1)
    monkeypatch.setattr(compaction_beside, "CHILD", DEAD)
    days, said = Days(tmp_path / "captures"), list[str]()
    left = iter(range(8))

    def wait(seconds: float) -> bool:
        if (beside := follower._beside) and beside._written:
            futures.wait([beside._written])
        if (number := next(left, None)) is not None:
            days.ask(b"flow-%d" % number, FIRST_DAY + number * 100 * SECOND)
            days.write(f"part-{number}")
        return number is not None

    wait_once = FollowSettings(every_seconds=0.01, compact_steps=2)
    days.place.mkdir()
    with following(tmp_path / "lake") as held:
        follower = Follower([days.place], held, wait_once, lake_settings=SETTINGS, tell=said.append)
        notes = follower.run(wait)
    assert notes.step_count == 8
    assert [line for line in said if not line.startswith("waiting")] == [
        "small files are not merged: the process that merges files died"
    ]
    build(no_spark, days.place, tmp_path / "other")
    assert_same(rows_of(tmp_path / "lake"), rows_of(tmp_path / "other"))
