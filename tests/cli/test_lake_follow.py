"""`hopwire lake follow` and `hopwire lake status`: a lake beside captures that grow."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pytest

from hopwire.capture.records import RECORDS, Origin, Row, batch_from_rows
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from hopwire.lake.follow import following
from hopwire.lake.manifest import RULES
from hopwire.lake.store import manifest_numbers
from hopwire.runner.lake_metrics import serving_metrics
from tests.lake.captures import NOW, make_capture, make_sightings, write_segment

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
    assert (found["rules"], found["present_rules"]) == (RULES, RULES)
    assert found["bad_sources"] == {}
    assert [each["node"] for each in found["nodes"]] == ["anna", "bert"]
    assert run(["lake", "status", str(lake)]) == ExitCode.FINE
    shown = capsys.readouterr().out
    assert "ended after 2 steps, 82 sightings" in shown
    assert f"judged by rules {RULES}\n" in shown
    assert "could not be read" not in shown
    with serving_metrics("0", lake) as url:
        text = urlopen(f"{url}/metrics").read().decode()
    assert "hopwire_lake_version{} 2.0" in text
    assert "hopwire_lake_sighting_count_total{} 82.0" in text
    assert 'hopwire_lake_node_lag_seconds{node="anna"}' in text
    assert f"hopwire_lake_rules{{}} {RULES}.0" in text
    for name, value in (
        ("lag_seconds", found["lag_seconds"]),
        ("open_flows", found["open_flows"]),
        ("open_sightings", found["open_sightings"]),
        ("files", found["files"]),
        ("step_count_total", 2),
    ):
        (shown,) = re.findall(rf"^hopwire_lake_{name}{{}} (.*)$", text, re.MULTILINE)
        assert float(shown) == pytest.approx(value, rel=0.01), name
    assert "hopwire_lake_bad_source_count{} 0.0" in text


def test_status_names_what_could_not_be_read_and_rules_that_are_others(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (captures / "cleo.arrows").write_bytes(b"no capture at all, but of this name")
    (captures / "dora.arrows").symlink_to(captures / "anna.arrows")
    (captures / "letter.txt").write_text("nobody misses it")
    lake = tmp_path / "lake"
    run(["lake", "follow", str(captures), str(lake), "--once"])
    capsys.readouterr()
    run(["lake", "status", str(lake), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert list(found["bad_sources"]) == ["cleo.arrows", "dora.arrows"]
    assert all(faults for faults in found["bad_sources"].values())
    monkeypatch.setattr("hopwire.lake.manifest.RULES", RULES + 1)
    run(["lake", "status", str(lake)])
    shown = capsys.readouterr().out
    assert "2 sources could not be read, or not in full:\n  cleo.arrows: " in shown
    assert "\n  dora.arrows: is a symlink" in shown
    assert "letter.txt" not in shown
    assert f"judged by rules {RULES}, and this hopwire has {RULES + 1}: its next build judges all anew" in shown
    run(["flows", "ls", str(lake)])
    said = capsys.readouterr().err
    assert (
        said == f"hopwire: {lake}: its flows are judged by rules {RULES}, this hopwire has {RULES + 1}; build again\n"
    )


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


def test_damage_is_named_alike_by_a_build_and_by_a_follower(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = captures / "anna.arrows"
    cut.write_bytes(cut.read_bytes()[:-20])
    damaged: list[Row] = [(0, NOW, "in", b"peer", [b"peer", b"HWT\x01damaged"], "", "", 0, 64)]
    with pa.OSFile(str(captures / "dora.arrows"), "wb") as file, pa.ipc.new_stream(file, RECORDS) as stream:
        stream.write_batch(batch_from_rows(Origin(b"dora", "dora", 1), damaged))
    left = write_segment(captures / "emil.open.arrows", make_sightings("emil"), is_sealed=False)
    left.write_bytes(left.read_bytes() + b"\xff\xff\xff")  # its process was killed, which is no damage
    for command in (["build"], ["follow", "--once"], ["follow", "--once"]):
        lake = tmp_path / command[0]
        assert run(["lake", *command, str(captures), str(lake)]) == ExitCode.INCOMPLETE
        said = capsys.readouterr().err.splitlines()
        assert said[-1] == "hopwire: could not be read, or not in full: anna.arrows, dora.arrows"
    for bad in ("anna", "dora"):
        (captures / f"{bad}.arrows").unlink()
    assert run(["lake", "build", str(captures), str(tmp_path / "new")]) == ExitCode.FINE
    assert run(["lake", "follow", "--once", str(captures), str(tmp_path / "other")]) == ExitCode.FINE


def test_damage_in_a_segment_of_several_steps_is_remembered_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[Row] = [(0, NOW, "in", b"peer", [b"peer", b"HWT\x01damaged"], "", "", 0, 4)]
    rows += [(number, NOW + number, "in", b"peer", [b"peer", b"noise"], "", "", 0, 0) for number in range(4, 40)]
    (tmp_path / "captures").mkdir()
    with (
        pa.OSFile(str(tmp_path / "captures" / "dora.arrows"), "wb") as file,
        pa.ipc.new_stream(file, RECORDS) as stream,
    ):
        for start in range(0, len(rows), 4):
            stream.write_batch(batch_from_rows(Origin(b"dora", "dora", 1), rows[start : start + 4]))
    command = ["lake", "follow", str(tmp_path / "captures"), str(tmp_path / "lake"), "--once", "--max-rows", "8"]
    assert run(command) == ExitCode.INCOMPLETE
    assert "37 sightings in " in capsys.readouterr().out


def test_captures_that_are_not_there_are_not_waited_for_once(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for name, words in (("nowhere", "is not there; name a directory of captures"), ("empty", "has no captures in it")):
        for place in ([name], ["captures", name]):
            paths = [str(tmp_path / each) for each in (*place, "lake")]
            assert run(["lake", "follow", *paths, "--once"]) == ExitCode.USAGE
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith(f"hopwire: {tmp_path / name}: {words}")
            assert not (tmp_path / "lake").exists()


def test_follower_that_finds_nothing_new_tells_the_version_of_the_lake(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    for said in ("82 sightings in 1 step", "0 sightings in 0 steps"):
        assert run(["lake", "follow", str(captures), str(lake), "--once"]) == ExitCode.FINE
        assert capsys.readouterr().out == f"{said}; version 1 of {lake}\n"


def test_what_is_wrong_is_one_line(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    assert run(["lake", "follow", str(lake)]) == ExitCode.USAGE
    for option in ("--every=0", "--max-rows=-5", "--compact=0", "--metrics=abc"):
        assert run(["lake", "follow", str(captures), str(lake), option]) == ExitCode.USAGE
    with following(lake):
        assert run(["lake", "follow", str(captures), str(lake)]) == ExitCode.USAGE
    assert run(["lake", "status", str(lake)]) == ExitCode.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("hopwire: expected captures and a lake")
    assert lines[1:5] == [
        "hopwire: --every must be a positive number, not 0.0",
        "hopwire: --max-rows must be a positive number, not -5",
        "hopwire: --compact must be a positive number, not 0",
        "hopwire: --metrics: found 'abc', expected HOST:PORT, or a port on 127.0.0.1",
    ]
    assert f"is being followed by process {os.getpid()}" in lines[5]
    assert len(lines) == 7


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
