"""How the tests run the command line: in this process, or as a user would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from hopwire.cli.main import app

ROOT = Path(__file__).parents[2]
SECONDS = 110  # for a command, on a machine with much else to do
VECTORS = ROOT / "tests" / "vectors"


class Outcome:
    """What a command wrote, and its code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


def hopwire(*arguments: str, given: str | bytes = "", columns: int | None = None) -> Outcome:
    """Run a command in this process; it must not raise."""
    result = CliRunner().invoke(app, arguments, input=given, env={"COLUMNS": str(columns) if columns else None})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Outcome(result.exit_code, result.stdout, result.stderr)


def command(*arguments: str) -> list[str]:
    """Give the command line that starts hopwire in a process of its own."""
    return [sys.executable, "-m", "hopwire.cli", *arguments]


def environment(**changes: str) -> dict[str, str]:
    """Give the environment for it."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1", **changes}


def process(*arguments: str, given: bytes = b"", **changes: str) -> Outcome:
    """Run a command as a user would."""
    done = subprocess.run(
        command(*arguments), input=given, capture_output=True, env=environment(**changes), timeout=SECONDS
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def heed_ctrl_c() -> None:
    """Let a process be interrupted, though a shell that runs the tests in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
