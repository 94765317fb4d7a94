"""`hopwire lake follow` and `hopwire lake status`: a lake beside captures that grow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from hopwire.lake.follow import following
from hopwire.lake.store import manifest_numbers
from hopwire.runner.lake_metrics import serving_metrics
from tests.lake.captures import make_capture

pytestmark = pytest.mark.slow


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "captures")


def test_captures_are_followed_and_the_lake_says_how_it_stands(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    assert run(["lake", "follow", str(captures), str(lake), "--once", "--max-rows", "50"]) == ExitCode.FINE
    assert capsys.readouterr().out == f"82 sightings in 2 steps; version 2 of {lake}\n"
    assert run(["lake", "status", str(lake), "--json"]) == ExitCode.FINE
    found = json.loads(capsys.readouterr().out)
    assert found["version"] == 2
    assert found["tables"]["bronze.sightings"]["row_count"] == 82
    assert not found["is_followed"]
    assert [each["node"] for each in found["nodes"]] == ["anna", "bert"]
    assert run(["lake", "status", str(lake)]) == ExitCode.FINE
    shown = capsys.readouterr().out
    assert "ended after 2 steps, 82 sightings" in shown
    with serving_metrics("0", lake) as url:
        text = urlopen(f"{url}/metrics").read().decode()
    assert "hopwire_lake_version{} 2.0" in text
    assert "hopwire_lake_sighting_count_total{} 82.0" in text
    assert 'hopwire_lake_node_lag_seconds{node="anna"}' in text


def test_bad_captures_give_the_exit_code_of_a_build(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (captures / "cleo.arrows").write_bytes(b"no capture at all, but of this name")
    built, followed = str(tmp_path / "built"), str(tmp_path / "followed")
    assert run(["lake", "build", str(captures), built]) == ExitCode.INCOMPLETE
    for _ in range(2):  # also if nothing is new
        capsys.readouterr()
        assert run(["lake", "follow", str(captures), followed, "--once"]) == ExitCode.INCOMPLETE
        assert capsys.readouterr().err.splitlines()[-1] == "hopwire: could not be read, or not in full: cleo.arrows"
    (captures / "cleo.arrows").unlink()
    assert (
        run(["lake", "follow", str(captures), followed, "--once"]) == run(["lake", "build", str(captures), built]) == 0
    )


def test_what_is_wrong_is_one_line(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    assert run(["lake", "follow", str(lake)]) == ExitCode.USAGE
    assert run(["lake", "follow", str(captures), str(lake), "--every", "0"]) == ExitCode.USAGE
    with following(lake):
        assert run(["lake", "follow", str(captures), str(lake)]) == ExitCode.USAGE
    assert run(["lake", "status", str(lake)]) == ExitCode.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("hopwire: expected captures and a lake")
    assert lines[1].startswith("hopwire: every_seconds must be a positive number")
    assert f"is being followed by process {os.getpid()}" in lines[2]
    assert len(lines) == 4


def test_follower_ends_in_order_when_it_is_told_to(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "hopwire.cli", "lake", "follow", str(captures), str(lake), "--every", "0.05"]
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True) as process:
        while not manifest_numbers(lake):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        said = json.loads(process.communicate()[0])
    assert process.returncode == ExitCode.FINE
    assert said["state"] == "ended"
    assert said["sighting_count"] == 82
