"""The page about the original names only tests that exist, and has a verdict for every row."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "origin.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
BEHAVIOURS = [row for row in ROWS if row[0].startswith("`")]
WEAKNESSES = [row for row in ROWS if row[0].isdecimal()]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def names_in(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"^def (\w+)", (ROOT / path).read_text(), re.MULTILINE))


def test_every_test_that_is_named_exists() -> None:
    assert [f"{path}::{name}" for path, name in NAMED if name not in names_in(path)] == []
    assert len(NAMED) > 90


def test_every_behaviour_has_a_verdict_and_a_proof_and_a_reason_where_ours_differs() -> None:
    assert len(BEHAVIOURS) == 167
    for name, verdict, proof, remark in BEHAVIOURS:
        assert verdict in ("same", "better", "not here"), name
        assert proof.startswith("`tests/"), name
        assert remark or verdict == "same", name


def test_every_weakness_is_answered() -> None:
    assert [int(row[0]) for row in WEAKNESSES] == list(range(1, 52))
    assert all(all(row) and "::test_" in row[3] for row in WEAKNESSES)


def test_what_is_not_yet_so_is_said_to_be_open() -> None:
    for row in BEHAVIOURS + WEAKNESSES:
        ((path, name),) = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", " ".join(row))
        source = (ROOT / path).read_text()
        above = source[: source.index(f"def {name}(")].rsplit("\n\n", 1)[-1]
        assert ("xfail" in above) <= ("open" in row[2]), name
