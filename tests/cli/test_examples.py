"""The examples run by themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.running import ROOT, environment

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(example: object) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, env=environment(), timeout=60, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 3
