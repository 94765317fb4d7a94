"""The page about security promises nothing without a test, and its commands and options exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hopwire.cli.keys import COMMANDS
from hopwire.node import Node, Tls
from tests.cli.running import hopwire
from tests.node.networks import needs_openssl

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
PROMISES = PAGE[PAGE.index("## The promise to each") : PAGE.index("## What is not promised")]
ROWS = [line.strip("|").split("|") for line in PROMISES.splitlines() if line.startswith("| ")][1:]
ATTACKERS = (
    "a stranger on the port",
    "on the path",
    "a member with the key of one domain",
    "a member with a revoked certificate",
    "a partner network",
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


@pytest.mark.slow
@needs_openssl
def test_the_five_steps_give_a_node_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = re.findall(
        r"^hopwire (keys .*)$", PAGE[PAGE.index("## Set up") : PAGE.index("## Change keys")], re.MULTILINE
    )
    assert len(steps) == 5
    for step in steps:
        outcome = hopwire(*shlex.split(step, comments=True))
        assert (outcome.code, outcome.err) == (0, "")
    monkeypatch.chdir(tmp_path / "keys" / "nodes" / "payment-1")
    tls = Tls("node.pem", "node.key", "authority.pem", revoked="revoked.txt")
    assert Node("tcp://0.0.0.0:0", advertise="tcp://shop:1", tls=tls, domains="domains.toml").identity == b"payment-1"
