"""The targets of `benchmarks/ask.py`: what is met, what is missed, and what a part of a run can tell."""

from __future__ import annotations

import pytest

from benchmarks.peers import PEERS
from benchmarks.peers.drive import Figures, Plan
from benchmarks.peers.measure import Results
from benchmarks.peers.profiling import MOST_FUNCTIONS, Profile, rows_from
from benchmarks.peers.targets import LARGE, P50, RATE, SMALL, TARGETS, Found, Target, found_in


def results(**rates: list[float]) -> Results:
    rounds = {key: [{SMALL: Figures(rate, 1.0, 100.0, 200.0)} for rate in found] for key, found in rates.items()}
    return Results({key.replace("_", "-"): found for key, found in rounds.items()})


def test_every_target_names_rows_that_are_measured_with_its_body() -> None:
    plan, by_key = Plan(), {peer.key: peer for peer in PEERS}
    for target in TARGETS:
        for key in (target.ours, target.other):
            assert target.body_bytes in plan.sizes_for(by_key[key]), target
        assert by_key[target.ours].where == by_key[target.other].where


@pytest.mark.parametrize(
    ("figure", "factor", "ratio", "is_met"),
    [
        (RATE, 0.9, 0.9, True),
        (RATE, 0.9, 0.89, False),
        (P50, 1.3, 1.3, True),
        (P50, 1.3, 1.31, False),
        (RATE, None, 0.1, None),
    ],
)
def test_round_trips_must_reach_a_target_and_times_must_not_pass_it(
    figure: str, factor: float | None, ratio: float, is_met: bool | None
) -> None:
    assert Found(Target(figure, "hopwire", "echo", LARGE, factor), (ratio,)).is_met is is_met


def test_the_median_of_ratios_within_rounds_counts() -> None:
    found = list(found_in(results(hopwire=[100, 10, 100], hopwire_capture=[90, 10, 10])))
    assert [each.target.ours for each in found] == ["hopwire-capture"]
    assert found[0].ratios == (0.9, 1.0, 0.1)
    assert found[0].row[-3:] == ["0.90 x", "0.10 to 1.00", "met"]


def test_a_part_of_a_run_shows_the_targets_that_it_can_tell() -> None:
    assert not list(found_in(results(hopwire=[100])))
    assert not list(found_in(results(hopwire=[100], ray=[])))
    assert not list(found_in(results(hopwire=[100], ray=[0])))
    assert [each.is_met for each in found_in(results(hopwire=[100], ray=[10]))] == [True]


def test_a_profile_adds_the_lines_of_a_function_and_names_the_busiest() -> None:
    lines = [("a.py", "f", 1, 2), ("a.py", "f", 7, 5), ("b.py", "g", 3, 3)]
    rows = list(rows_from(Profile(cpu_seconds=2.0, main_thread_seconds=1.0, answered=100_000, lines=lines)))
    assert rows == [["f", "a.py:7", "70.0%", "7.00"], ["g", "b.py:3", "30.0%", "3.00"]]


def test_a_profile_ends_with_what_all_other_functions_took() -> None:
    lines = [("a.py", f"f{number}", 1, 1) for number in range(MOST_FUNCTIONS + 5)]
    assert [row[0] for row in rows_from(Profile(1.0, 1.0, 1, lines))][-1] == "5 others"
