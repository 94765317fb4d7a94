"""Commands that talk to a network load nothing that only captures and lakes need, and no command loads pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hopwire.cli import network
from hopwire.cli.launch import LIGHT
from hopwire.cli.main import COMMANDS, GROUPS
from tests.cli.running import SECONDS, environment, process
from tests.lake.captures import make_capture

LOADED = """
import sys
from hopwire.cli import launch, network
launch.app_of(network.COMMANDS, network.GROUPS)
heavy = {"numpy", "pyarrow", "pandas", "pyspark", "hopwire.demo", "hopwire.lake", "hopwire.capture"}
print(sorted(heavy & set(sys.modules)))
"""
WITHOUT_PANDAS = """
import sys
from hopwire.cli.launch import start
code = start()
is_loaded = "pandas" in sys.modules
import pyarrow
print(code, is_loaded, pyarrow.table({"a": [1, 2]}).to_pandas()["a"].sum())
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
def test_the_others_start_without_pandas_and_find_it_when_it_is_asked_for(tmp_path: Path) -> None:
    captures = str(make_capture(tmp_path / "captures"))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PANDAS, "capture", "ls", captures],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=SECONDS,
    )
    assert (done.stdout.splitlines()[-1], done.stderr) == ("0 False 3", "")


@pytest.mark.slow
def test_both_ways_end_alike() -> None:
    for command in ("node", "decode"):
        found = process(command, "--zzz")
        assert (found.code, found.out, found.err) == (
            2,
            "",
            f"hopwire: No such option: --zzz; hopwire {command} --help shows how\n",
        )
