"""The README is true: its code runs, and what it shows of the demonstration is what that prints."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hopwire.cli.demo import show_day
from hopwire.demo.agreement import Disagreement
from hopwire.demo.day_summary import DaySummary, LinkTraffic, TroubleMet
from tests.transcripts import blocks, plain, steps

ROOT = Path(__file__).parents[1]
DEMO = "make demo"
# lines of the demonstration whose words depend on the moment
DEPENDS = ("dead letters", "why lost", "stock -> billing", "shop -> billing")


def _masked(text: str) -> list[str]:
    """The lines with # for numbers and durations, and one space for several."""
    lines = [re.sub(r"(?<= )\d[\d,.]*( (us|ms|s)\b)?|\d[\d,.]*", "#", line) for line in plain(text).splitlines()]
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
    console = Console(file=StringIO(), width=300, markup=False, highlight=False)
    show_day(console, summary, directory / "lake", Path("build/demo"), 60.0)
    shown = dict(steps("README.md"))[DEMO]
    assert isinstance(console.file, StringIO)
    printed = (
        console.file.getvalue().replace(str(directory), "build/demo").replace("  hopwire ", "  .venv/bin/hopwire ")
    )
    assert _masked(printed) == _masked(shown)


@pytest.mark.slow
def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks("README.md", "python")), "README.md", "exec"), {})
    assert capsys.readouterr().out == ""


def test_every_link_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / link).exists(), link
