"""Commands that talk to a network load nothing that only captures and lakes need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hopwire.cli import network
from hopwire.cli.launch import LIGHT
from hopwire.cli.main import COMMANDS, GROUPS
from tests.cli.running import SECONDS, environment, process

LOADED = """
import sys
from hopwire.cli import launch, network
launch.app_of(network.COMMANDS, network.GROUPS)
heavy = {"numpy", "pyarrow", "pandas", "pyspark", "hopwire.demo", "hopwire.lake", "hopwire.capture"}
print(sorted(heavy & set(sys.modules)))
"""


def test_the_light_commands_are_those_of_the_network() -> None:
    names = [command.__name__ for command in network.COMMANDS]
    assert [*names, *network.GROUPS] == list(LIGHT)
    assert set(network.COMMANDS) <= set(COMMANDS)
    assert network.GROUPS.keys() <= GROUPS.keys()


@pytest.mark.slow
def test_they_load_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, env=environment(), timeout=SECONDS
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.slow
def test_both_ways_end_alike() -> None:
    for command in ("node", "decode"):
        found = process(command, "--zzz")
        assert (found.code, found.out, found.err) == (
            2,
            "",
            f"hopwire: No such option: --zzz; hopwire {command} --help shows how\n",
        )
