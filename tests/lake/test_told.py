"""What the lake says of requests, beside what those were told who asked, while nodes are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.lake.told import be_told, judge


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_lake_says_of_every_request_what_its_asker_was_told_though_nodes_are_killed(tmp_path: Path) -> None:
    told = asyncio.run(be_told(tmp_path, questions=600, kills=6, seed=1))
    verdict = judge(tmp_path, told)
    assert len(told) == 600
    assert {"answered", "HandlerFailed", "Timeout", "Unreachable"} <= set(verdict.told)
    assert verdict.disagreements == []
    assert verdict.lost_though_answered == []
    assert verdict.contradicted == []
    assert [each for each in verdict.foreign if each] == []  # a beat at the edge of a minute may look foreign
    assert verdict.fates["unsent"] + verdict.fates["unwitnessed"] > 0  # somebody was killed with sightings unwritten
