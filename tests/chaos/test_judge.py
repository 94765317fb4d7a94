"""The judge of healing counts the time in which a member could have had answers, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.judge import _until_answered
from tests.chaos.life import Life
from tests.chaos.network import Order, Report
from tests.chaos.record import Promise
from tests.chaos.troubles import Spell

CUT = Spell("cut", "a1", "", 5.0, 10.0)


def spell(kind: str, member: str, began_at: float, ended_at: float) -> Spell:
    return Spell(kind, member, "", began_at, ended_at)


# fmt: off
CASES = [
    # what else was done                                                      answered   took
    ([],                                                                      12.5,      2.5),
    ([spell("kill", "b1", 9.0, 30.0)],                                        12.5,      2.5),
    ([spell("kill", "b1", 9.0, 12.0), spell("stop", "b2", 8.0, 13.0)],        12.5,      0.5),
    ([spell("cut", "a1", 11.0, 14.0)],                                        17.0,      3.0),
    ([spell("cut", "b1", 10.5, 14.0), spell("kill", "b2", 9.0, 12.0)],        12.4,      0.5),
    ([spell("disk", "b2", 9.0, 30.0), spell("kill", "a2", 9.0, 30.0)],        12.5,      2.5),
]
# fmt: on


@pytest.mark.parametrize(("others", "answered_at", "took"), CASES)
def test_time_counts_while_neither_the_member_nor_all_others_are_hindered(
    others: list[Spell], answered_at: float, took: float
) -> None:
    lives = [Life(f"{name}-0", 0.0) for name in ("a1", "a2", "b1", "b2")]
    report = Report(Order(60.0, 1), Path(), 0.0, ended_at=60.0, lives=lives, spells=[CUT, *others])
    report.recorded.promises["a1-0-7"] = Promise("a1-0-7", "ask", "prompt", 9.0, "answered", answered_at)
    assert next(_until_answered(report)) == pytest.approx(took)
