"""A short chaos with each kind of trouble: every rule holds, and the lake agrees with every asker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hopwire.flows.rules import Rules
from hopwire.model.units import NS_PER_SECOND
from tests.chaos.judge import checks_of
from tests.chaos.lake_judge import lake_check
from tests.chaos.member import TIMEOUT_SECONDS, domains_of
from tests.chaos.network import Order, run
from tests.chaos.page import page_of
from tests.chaos.stranger import ATTACKS
from tests.chaos.troubles import TROUBLES, Force
from tests.lake.pure import judge_captures

SMALL = Force(pause_seconds=(0.2, 0.5), wrong_seconds=(2.0, 3.0), burst=1_000, toil=200)
SECONDS, LONG_SECONDS = 10.0, 60.0  # each kind of trouble comes once, however short the time is
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_no_member_ends_no_promise_hangs_nothing_is_lost_and_the_lake_agrees_with_every_asker(
    tmp_path: Path, is_long: bool
) -> None:
    order = Order(LONG_SECONDS if is_long else SECONDS, 7, 30.0, SMALL, tuple(ATTACKS.values()))
    report = asyncio.run(run(tmp_path / "chaos", order))
    domains = domains_of((tmp_path / "chaos" / "secret").read_bytes())
    rules = Rules(patience_ns=round(TIMEOUT_SECONDS * NS_PER_SECOND))
    requests = judge_captures(report.captures, domains, rules).requests.to_pylist()
    checks = [*checks_of(report), lake_check(report, requests)]
    assert [check for check in checks if not check.is_held] == []
    assert len({spell.kind for spell in report.spells}) == len(TROUBLES) - len(report.left_out)
    assert "Everything held." in page_of(report, checks)
