"""The README and the page on messages are true: their commands print what they show, their code runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hopwire.cli.demo import show_day
from hopwire.demo.agreement import Disagreement
from hopwire.demo.day_summary import DaySummary, LinkTraffic, TroubleMet

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/messages.md")}
DEMO = "make demo"
# lines of the demonstration whose words depend on the moment
DEPENDS = ("dead letters", "why lost", "stock -> billing", "shop -> billing")


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)


def _steps(page: str) -> list[tuple[str, str]]:
    """The commands of the transcripts, each with what it printed."""
    steps = [step for block in _blocks(page, "console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, _, output in (step.partition("\n") for step in steps)]


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.slow
def test_the_commands_print_what_the_pages_show(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {**os.environ, "PATH": path, "COLUMNS": "100", "PYTHONUTF8": "1"}
    steps = [step for page in PAGES for step in _steps(page) if step[0] != DEMO]
    assert len(steps) > 3
    for command, expected in steps:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environ, capture_output=True, text=True, encoding="utf-8", timeout=60
        )
        assert _plain(done.stdout) == _plain(expected), command


def _masked(text: str) -> list[str]:
    """The lines with # for numbers and durations, and one space for several."""
    lines = [re.sub(r"(?<= )\d[\d,.]*( (us|ms|s)\b)?|\d[\d,.]*", "#", line) for line in _plain(text).splitlines()]
    lines = [re.sub(r"\s+", " ", re.sub(r"─{4,}", "─", line)).strip() for line in lines]
    return [next((label for label in DEPENDS if line.startswith(label)), line) for line in lines]


def test_the_demonstration_prints_what_the_readme_shows_but_for_the_numbers(
    demo_run: tuple[dict[str, Any], Path],
) -> None:
    said, directory = demo_run
    rows = {"troubles": TroubleMet, "links": LinkTraffic, "differences": Disagreement}
    values: dict[str, Any] = {name: said[name] for name in DaySummary.__dataclass_fields__}
    values |= {name: [row(**each) for each in said[name]] for name, row in rows.items()}
    summary = DaySummary(**values)
    console = Console(file=StringIO(), width=110, markup=False, highlight=False)
    show_day(console, summary, directory / "lake", None, 60.0)
    shown = dict(_steps("README.md"))[DEMO]
    assert isinstance(console.file, StringIO)
    assert _masked(console.file.getvalue()) == _masked(shown)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "printed"), [("README.md", ""), ("docs/messages.md", "unknown_version 2 0\n")])
def test_the_code_of_the_pages_runs(
    page: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(_blocks(page, "python")), page, "exec"), {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert (ROOT / page).parent.joinpath(link).exists(), link
