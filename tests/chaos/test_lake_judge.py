"""The judge of the lake tells attempts apart, and excuses only what nobody could have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hopwire.model.units import NS_PER_SECOND
from tests.chaos.lake_judge import capture_checks, differences_of
from tests.chaos.life import Life
from tests.chaos.member import TIMEOUT_SECONDS
from tests.chaos.network import SMALL_DISK, Order, Report
from tests.chaos.record import Handling, Promise

LATE = TIMEOUT_SECONDS + 1


def hop(fate: str, left_at: float = 10.0) -> dict[str, Any]:
    return {
        "correlation_id": b"a1-0-7",
        "fate": fate,
        "is_reply": False,
        "is_control": False,
        "to_node": b"b1",
        "left_at_ns": int(left_at * NS_PER_SECOND),
    }


def found(hops: list[dict[str, Any]], handled: list[Handling], killed_at: dict[str, float]) -> tuple[bool, str]:
    lives = [Life(name, 0.0, ended_at=at, was_killed=True) for name, at in killed_at.items()]
    report = Report(Order(60.0, 1), Path(), 0.0, epoch=0.0, lives=lives)
    report.recorded.handled["a1-0-7"] = handled
    _, check = capture_checks(report, [], hops)
    return check.is_held, check.found


# fmt: off
CASES = [
    ([hop("lost")], [], {}, True),
    ([hop("lost")], [Handling("b1-0", 10.1)], {}, False),
    ([hop("lost"), hop("arrived", 10.4)], [Handling("b1-0", 10.5)], {}, True),  # another attempt
    ([hop("lost"), hop("arrived", 10.4)], [Handling("b1-0", 10.1), Handling("b1-1", 10.5)], {}, False),  # two lives
    ([hop("lost")], [Handling("b2-0", 10.1)], {}, True),  # another node
    ([hop("lost")], [Handling("b1-0", 10.1)], {"b1-0": 10.2}, False),  # the lake knows of this end
    ([hop("lost")], [Handling("b1-0", 10 + LATE)], {"b1-0": 10.2 + LATE}, True),  # held back, and never written
    ([hop("lost")], [Handling("b1-0", 10 + LATE)], {"b1-0": 20 + LATE}, False),  # it had time to write
    ([hop("foreign")], [Handling("b1-0", 10.1)], {}, False),
]
# fmt: on


@pytest.mark.parametrize(("hops", "handled", "killed_at", "is_held"), CASES)
def test_a_hop_is_wrongly_called_lost_if_its_receiver_handled_it(
    hops: list[dict[str, Any]], handled: list[Handling], killed_at: dict[str, float], is_held: bool
) -> None:
    held, words = found(hops, handled, killed_at)
    assert held == is_held, words


def test_what_a_full_disk_skipped_is_excused_if_it_came_later_than_patience() -> None:
    def is_held(handled_at: float) -> bool:
        report = Report(Order(60.0, 1), Path(), 0.0, epoch=0.0)
        report.recorded.blind_at.append(handled_at + 1)
        report.recorded.handled["a1-0-7"] = [Handling(f"{SMALL_DISK}-0", handled_at)]
        _, check = capture_checks(report, [], [{**hop("lost"), "to_node": SMALL_DISK.encode()}])
        return check.is_held

    assert is_held(10 + LATE)
    assert not is_held(10.1)


def test_what_is_excused_is_counted() -> None:
    _, words = found([hop("lost")], [Handling("b1-0", 10 + LATE)], {"b1-0": 10.2 + LATE})
    assert words.startswith("0 hops are called lost or foreign, and were handled; 1 came later than patience")


@pytest.mark.parametrize(
    ("outcome", "is_guessed", "killed_at", "excuses"),
    [
        ("late", False, 10.3, []),
        ("answered", True, 10.3, ["guessed"]),
        ("answered", False, 10.3, [""]),  # the lake is sure of it
        ("answered", True, 15.0, [""]),  # the asker had time to write down what it was told
    ],
)
def test_a_guess_is_excused_if_its_asker_was_killed_before_it_wrote_what_it_was_told(
    outcome: str, is_guessed: bool, killed_at: float, excuses: list[str]
) -> None:
    lives = [Life("a1-0", 0.0, ended_at=killed_at, was_killed=True)]
    report = Report(Order(60.0, 1), Path(), 0.0, epoch=0.0, lives=lives)
    report.recorded.promises["a1-0-7"] = Promise("a1-0-7", "send", "prompt", 10.0, "Unreachable", 10.2)
    request = {"correlation_id": b"a1-0-7", "outcome": outcome, "is_outcome_guessed": is_guessed}
    differences, compared = differences_of(report, [request])
    assert ([each.excuse for each in differences], compared) == (excuses, 1)
