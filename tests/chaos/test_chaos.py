"""A short chaos: kills, stops and a stranger; every member lives, every promise ends, the lake agrees with each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hopwire.flows.rules import Rules
from hopwire.model.units import NS_PER_SECOND
from tests.chaos.judge import differences_of
from tests.chaos.member import TIMEOUT_SECONDS, domains_of
from tests.chaos.network import run
from tests.chaos.stranger import ATTACKS
from tests.lake.pure import judge_captures

SECONDS, RATE = 14.0, 30.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_no_member_ends_no_promise_hangs_and_the_lake_agrees_with_every_asker(tmp_path: Path) -> None:
    report = asyncio.run(run(tmp_path / "chaos", SECONDS, 7, RATE, tuple(ATTACKS.values())))
    assert report.blows["kill"]
    assert (report.ended, report.attacks, report.hanging()) == ([], [], [])
    assert [(member["exit"], member["open_promises"]) for member in report.members] == [(0, 0)] * 4
    domains = domains_of((tmp_path / "chaos" / "secret").read_bytes())
    rules = Rules(patience_ns=round(TIMEOUT_SECONDS * NS_PER_SECOND))
    judged = judge_captures(report.captures, domains, rules)
    differences, compared = differences_of(report, judged.requests.to_pylist())
    assert compared > 100
    assert differences == []
