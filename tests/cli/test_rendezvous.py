"""`hopwire rendezvous` as a user runs it; how members find each other through it is in `tests/node`."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli.running import command, environment, hopwire


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--join", "door"), "a door"),
        (("--listen", "tcp://0.0.0.0:0"), "advertise"),
        (("--listen", "tcp://10.0.0.1:1"), "open to all"),
        (("--certificate", "node.pem"), "belong together"),
        (("--domains", "/nowhere.toml"), "nowhere.toml"),
    ],
)
def test_mistake_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    outcome = hopwire("rendezvous", *arguments)
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.slow
def test_rendezvous_says_its_address_and_ends_when_it_is_told_to() -> None:
    process = subprocess.Popen(
        command("rendezvous", "--listen", "tcp://127.0.0.1:0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("tcp://127.0.0.1:")
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "hopwire: interrupted\n"
