"""A follower beside a network of ten nodes that talk: the totals of its lake are what the hubs have counted.

The follower is killed again and again meanwhile: a few times in `make test`, twenty times and more in `make long`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from threading import Thread

import pyarrow.compute as pc
import pytest

from hopwire.lake.build import build
from hopwire.lake.store import manifest_numbers, read_arrow
from tests.lake.killing import FollowerLives, follow_to_the_end
from tests.lake.talking import QUESTION, talk
from tests.lake.test_increment import assert_same, no_spark, rows_of

NODES = 10
QUESTIONS, MANY_QUESTIONS = 200, 600
KILLS, MANY_KILLS = 2, 20


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_totals_of_a_followed_lake_are_what_the_hubs_counted(tmp_path: Path, is_long: bool) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    (kills, questions) = (MANY_KILLS, MANY_QUESTIONS) if is_long else (KILLS, QUESTIONS)
    said: list[Counter[str]] = []
    with FollowerLives(captures, lake, Random(5), max_rows=200) as lives:

        def is_over(asked: int) -> bool:
            return asked >= questions and lives.kills >= kills and len(manifest_numbers(lake)) >= 3

        network = Thread(target=lambda: said.append(asyncio.run(talk(captures, NODES, is_over))))
        network.start()
        while network.is_alive():
            lives.live()
    follow_to_the_end(captures, lake)
    requests = read_arrow(lake, "gold.requests", ["identity", "outcome"])
    asked = requests.filter(pc.equal(requests["identity"], QUESTION))
    assert [Counter(asked["outcome"].to_pylist())] == said
    build(no_spark, captures, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))
