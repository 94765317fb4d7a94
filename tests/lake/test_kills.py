"""Followers that are killed at random points, again and again: the tables are those of one build, row for row.

The traffic is simulated, with all faults, or was captured by nodes that talked. It lies on a disk, as the lake does, or
both are in a bucket. `make test` kills a few times, `make long` twenty times and more.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from hopwire.capture.sources import list_sources
from hopwire.lake.build import build
from hopwire.lake.simulation import simulate_here
from hopwire.places import Place, make_place, place_of
from hopwire.simulate import SimulateSettings
from tests.lake.killing import FollowerLives, follow_to_the_end
from tests.lake.talking import talk
from tests.lake.test_increment import GrowingFile, assert_same, no_spark, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS, MANY_KILLS = 3, 20
NODES = 4
GROWING = 3  # segments that grow at a time, in `make long`; else all do


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory, is_long: bool) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "network"
    simulate_here(SimulateSettings(messages=400 if is_long else 100), out)
    return out / "captures"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, is_long: bool) -> Path:
    captures = tmp_path_factory.mktemp("real") / "captures"
    asyncio.run(talk(captures, NODES, lambda asked: asked >= (400 if is_long else 80)))
    return captures


def assert_kills_change_nothing(captures: Path, place: Place, tmp_path: Path, is_long: bool) -> None:
    lake, live, chance = place / "lake", place / "live", Random(7)
    wanted, at_once = (MANY_KILLS, GROWING) if is_long else (KILLS, None)
    make_place(live)
    growing = [GrowingFile(source.path, live) for source in list_sources(captures)]
    with FollowerLives(live, lake, chance) as lives:
        while lives.kills < wanted or growing or lives.version_count < 2:
            for each in growing[:at_once]:
                each.grow(chance)
            growing = [each for each in growing if not each.is_over]
            lives.live()
    follow_to_the_end(live, lake)
    build(no_spark, captures, tmp_path / "one build")
    assert_same(rows_of(lake), rows_of(tmp_path / "one build"))


@pytest.mark.parametrize("traffic", ["simulated", pytest.param("real", marks=pytest.mark.long)])
def test_kills_at_random_points_give_the_tables_of_one_build(
    request: pytest.FixtureRequest, tmp_path: Path, is_long: bool, traffic: str
) -> None:
    captures = request.getfixturevalue(traffic)
    assert_kills_change_nothing(captures, tmp_path, tmp_path, is_long)


@pytest.mark.parametrize("traffic", ["real", pytest.param("simulated", marks=pytest.mark.long)])
def test_kills_at_random_points_give_the_tables_of_one_build_in_a_bucket(
    request: pytest.FixtureRequest, bucket: str, tmp_path: Path, is_long: bool, traffic: str
) -> None:
    captures = request.getfixturevalue(traffic)
    assert_kills_change_nothing(captures, place_of(bucket), tmp_path, is_long)
