"""A short chaos in a cluster: kills, stops, pulled cables, no rendezvous and a name that changes; every rule holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.cluster import FOUND, cluster_checks, cluster_page, kept_part, run_cluster
from tests.chaos.network import Order
from tests.chaos.troubles import Force

SMALL = Force(pause_seconds=(1.0, 2.0), stopped_seconds=(0.5, 3.0), wrong_seconds=(2.0, 8.0))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


TIMED = ("routes heal in under 3 s",)  # how long it takes on a machine with other tests is no fault


def test_no_promise_hangs_nothing_is_lost_and_routes_heal_in_a_cluster_of_processes(tmp_path: Path) -> None:
    report = asyncio.run(run_cluster(tmp_path / "cluster", Order(34.0, 5, 4.0, SMALL)))
    checks = cluster_checks(report, tmp_path / "cluster")
    assert [check for check in checks if not check.is_held and check.rule not in TIMED] == []
    kinds = {spell.kind for spell in report.spells}
    assert {"kill", "stop", "doors"} <= kinds
    assert "cut" in kinds or report.left_out
    held = [check._replace(is_held=True) for check in checks]
    assert "Everything held." in cluster_page(report, held)


def test_what_people_wrote_below_a_report_stays_when_the_report_is_written_anew(tmp_path: Path) -> None:
    report = tmp_path / "page.md"
    assert kept_part(report) == ""
    report.write_text(f"# Chaos\n\nEverything held.\n\n{FOUND}\n| run |\n")
    assert kept_part(report) == f"\n{FOUND}\n| run |\n"
