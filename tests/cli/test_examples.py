"""The examples run by themselves."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.cli.running import ROOT, SECONDS, environment

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(example: object) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, env=environment(), timeout=SECONDS, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 3


def test_every_example_says_in_its_first_line_what_it_shows() -> None:
    for example in EXAMPLES:
        assert re.fullmatch(r'""".{20,}\.(""")?', example.read_text("utf-8").splitlines()[0])


def test_the_examples_of_the_tour_are_short() -> None:
    listed = (ROOT / "examples" / "README.md").read_text("utf-8")
    tour = ["hello", "work_queue", "scatter_gather", "pipeline", "streams", "keyed"]
    tour += ["partner_networks", "capture_to_report"]
    places = [listed.index(f"[{name}.py]") for name in tour]
    assert places == sorted(places)
    for name in tour:
        assert 20 <= len((ROOT / "examples" / f"{name}.py").read_text("utf-8").splitlines()) <= 60
