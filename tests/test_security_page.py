"""The page about security promises nothing without a test, and its commands and options exist."""

from __future__ import annotations

import re
from pathlib import Path

from hopwire.cli.keys import COMMANDS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
PROMISES = PAGE[PAGE.index("## The promise to each") : PAGE.index("## What is not promised")]
ROWS = [line.strip("|").split("|") for line in PROMISES.splitlines() if line.startswith("| ")][1:]
ATTACKERS = (
    "a stranger on the port",
    "on the path",
    "a member with the key of one domain",
    "a member with a revoked certificate",
    "a local user who reads",
    "a local user who writes",
    "who sees the page of Spark",
)


def test_every_promise_names_tests_that_exist() -> None:
    assert len(ROWS) > 12
    for who, promise, proof in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", proof)
        assert named, (who, promise)
        for path, name in named:
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), f"{path}::{name}"


def test_every_kind_of_attacker_has_a_row() -> None:
    found = [who for who, _, _ in ROWS if who.strip()]
    assert [any(f"**{each}**" in who for who in found) for each in ATTACKERS] == [True] * len(ATTACKERS)


def test_every_command_of_the_page_exists() -> None:
    words = set(re.findall(r"hopwire keys (\w+)", PAGE))
    assert words == {command.__name__ for command in COMMANDS}
