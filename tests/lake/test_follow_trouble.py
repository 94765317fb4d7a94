"""A follower in trouble: stores that refuse, a second follower in a bucket, a real disk that fills, clocks set back.

Each trouble is one line, the follower goes on when the trouble is over, and the tables are those of one build.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hopwire.errors import LakeTaken, PlaceError
from hopwire.lake import compaction, store
from hopwire.lake.build import build
from hopwire.lake.follow import Follower, FollowSettings, following
from hopwire.lake.store import LakeRun, manifest_numbers, read_manifest
from hopwire.model.units import NS_PER_MINUTE
from hopwire.places import Place, place_of
from tests.chaos.small_disk import SmallDisk
from tests.lake.captures import make_capture, make_sightings, write_segment
from tests.lake.killing import follow_to_the_end
from tests.lake.test_increment import assert_same, no_spark, rows_of
from tests.s3_server import ENVIRONMENT, S3Server

pytestmark = pytest.mark.slow

STEPS = FollowSettings(max_rows=40, every_seconds=0.01, compact_steps=2)
ROUNDS = 40  # after which a follower that gets nowhere is given up


@pytest.fixture
def captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compaction, "MAX_FILES", 1)  # so that files are merged in the middle of all this
    return make_capture(tmp_path / "captures", count=24)


def follow_through(captures: Path, lake: Place, mend: Callable[[list[str]], object]) -> list[str]:
    """Follow until there is nothing new, and do something between rounds; give what was said."""
    said: list[str] = []
    left = ROUNDS
    with following(lake) as held:
        follower = Follower([captures], held, STEPS, tell=said.append)

        def wait(seconds: float) -> bool:
            nonlocal left
            left -= 1
            mend(said)
            return left > 0 and follower.notes.state != "idle"

        follower.run(wait)
    assert left, said
    assert not [line for line in said if "\n" in line]
    return said


def assert_one_build(captures: Path, lake: Place, tmp_path: Path) -> None:
    build(no_spark, captures, tmp_path / "one build")
    assert_same(rows_of(lake), rows_of(tmp_path / "one build"))


@pytest.mark.parametrize(
    ("code", "after", "words"),
    [
        ("ExpiredToken", 120, "the credentials have expired; renew AWS_ACCESS_KEY_ID"),
        ("InvalidAccessKeyId", 0, "the store does not take the credentials; look at AWS_ACCESS_KEY_ID"),
    ],
)
def test_follower_goes_on_when_its_credentials_are_right_again(
    bucket: str, s3_server: S3Server, captures: Path, tmp_path: Path, code: str, after: int, words: str
) -> None:
    lake = place_of(f"{bucket}/lake")
    s3_server.refuse(code, after)
    said = follow_through(captures, lake, lambda said: s3_server.refuse() if said else None)
    assert len(said) == 1
    assert words in said[0]
    assert said[0].endswith("; trying again")
    assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in said[0]
    assert_one_build(captures, lake, tmp_path)


def test_bucket_that_is_not_there_is_told(bucket: str, captures: Path) -> None:
    lake = place_of("s3://no-such-bucket/lake")
    with pytest.raises(PlaceError, match="there is no such bucket; make it, or name another"):
        follow_to_the_end(captures, lake)


@pytest.mark.parametrize("where", ["LakeRun.publish", "put_new"])
def test_two_followers_in_a_bucket_take_nothing_twice(
    bucket: str, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The second makes a step before the first commits its tables, or between its commits and its manifest.

    Then the first finds the second, and ends; the second goes on.
    """
    lake = place_of(f"{bucket}/lake")
    second = Follower([captures], lake, STEPS)
    others = [second]
    owner = LakeRun if where == "LakeRun.publish" else store
    function = getattr(owner, where.rpartition(".")[2])

    def after_the_other(*args: Any, **named: Any) -> Any:
        if others:
            others.pop().round()
        return function(*args, **named)

    monkeypatch.setattr(owner, function.__name__, after_the_other)
    refusal = rf"is being followed by process {os.getpid()} on .*, too; that one goes on, and this one ends"
    with pytest.raises(LakeTaken, match=refusal):
        Follower([captures], lake, STEPS).run(lambda seconds: True)
    second.run(lambda seconds: True, is_once=True)
    assert_one_build(captures, lake, tmp_path)


def test_of_two_followers_in_a_bucket_one_goes_on_to_the_end(bucket: str, captures: Path, tmp_path: Path) -> None:
    lake = place_of(f"{bucket}/lake")

    def follow(number: int) -> str:
        follower = Follower([captures], lake, STEPS, clock_ns=lambda: time.time_ns() + number)
        try:
            follower.run(lambda seconds: True, is_once=True)
        except LakeTaken:
            return "taken"
        return "ended"

    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(follow, range(2)))
    assert found == ["ended", "taken"]
    assert_one_build(captures, lake, tmp_path)


def test_new_follower_in_a_bucket_takes_over_from_one_that_died(bucket: str, captures: Path, tmp_path: Path) -> None:
    lake = place_of(f"{bucket}/lake")
    Follower([captures], lake, STEPS).round()
    follow_to_the_end(captures, lake)
    assert_one_build(captures, lake, tmp_path)


def test_follower_on_a_disk_that_fills_goes_on_when_there_is_room(
    disk: SmallDisk, captures: Path, tmp_path: Path
) -> None:
    lake, filled = disk.path / "lake", list[int]()

    def fill_once(said: list[str]) -> None:
        if said:
            disk.free()
        elif not filled and manifest_numbers(lake):
            filled.append(read_manifest(lake).number)
            disk.fill()

    said = follow_through(captures, lake, fill_once)
    assert filled
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert said[0].endswith("; trying again")
    assert_one_build(captures, lake, tmp_path)


def test_clock_that_is_set_back_by_an_hour_changes_nothing(tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    captures.mkdir()
    for node in ("anna", "bert"):
        rows = make_sightings(node, 60)
        back = [row._replace(seen_at_ns=row.seen_at_ns - 60 * NS_PER_MINUTE) for row in rows[30:]]
        write_segment(captures / f"{node}.arrows", [*rows[:30], *back] if node == "anna" else rows)
    assert follow_through(captures, lake, lambda said: None) == []
    assert_one_build(captures, lake, tmp_path)
