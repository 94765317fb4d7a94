"""What the demonstration prints: it fits a terminal of 80 x 24, and ends with where to look further."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from hopwire.cli import demo
from hopwire.demo.agreement import Disagreement
from hopwire.demo.day_summary import DaySummary, LinkTraffic, TroubleMet
from hopwire.demo.trouble import TROUBLES


def printed(
    monkeypatch: pytest.MonkeyPatch, keep: Path | None, show: Callable[..., None] = demo.show_day, **changes: object
) -> list[str]:
    monkeypatch.setattr(demo, "_show_flow", lambda console, lake: console.print("order-001"))
    many = {f"a_rather_long_reason_{number}": 1_000 * number for number in range(9)}
    values: dict[str, object] = {
        "seconds": 20.0, "endings": many, "outcomes": many, "losses": many, "dead_letters": many, "verdicts": many,
        "quarantine": {}, "differences": [], "members": 6, "given_up": {"billing": 5},
        "has_lake": True, "control_count": 10,
        "links": [LinkTraffic("billing", "rendezvous", 6, 1_000_000, 12_345, 318_000, 6_360_000, 10_700_000)],
        "troubles": [TroubleMet(each.name, each.what, each.times, {each.seen: each.times},
                                dict.fromkeys(each.shown, each.times), True) for each in TROUBLES.values()],
        "balance": {"rows_in": 5_579, "message_count": 5_569, "quarantine_count": 10, "skipped_rows": 0},
    }  # fmt: skip
    console = Console(file=StringIO(), width=80, markup=False, emoji=False, highlight=False, color_system=None)
    show(console, DaySummary(**{**values, **changes}), Path("build/demo/lake"), keep, 81.0)  # type: ignore[arg-type]
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [str(line).rstrip() for line in text.splitlines()]


def test_it_fits_one_screen_with_what_make_says_and_the_next_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, Path("build/demo"))
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24 - 2
    for name in TROUBLES:  # one line each, so none is wrapped
        assert sum(line[2:].startswith(f"{name} ") for line in lines) == 1
    assert sum(line.startswith("hubs ") for line in lines) == 1
    assert any(line.startswith("lake ") and "agrees on each: " in line for line in lines)


def test_what_differs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, None, differences=[Disagreement("order-001", "Timeout", "answered")])
    assert not any("agrees" in line for line in lines)
    assert any("HUBS AND LAKE DO NOT AGREE on 1:" in line for line in lines)
    assert any("order-001: the hub saw Timeout, the lake shows answered" in line for line in lines)


def test_the_report_fits_a_terminal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(
        monkeypatch, Path("build/demo"), show=lambda console, summary, lake, *_: demo.report_day(console, summary, lake)
    )
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("balance ") and line.endswith("adds up") for line in lines)
    assert "hopwire flows lives build/demo/lake" in lines[-1]


def test_it_ends_with_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = printed(monkeypatch, Path("build/demo"))
    assert "hopwire ui build/demo/lake" in kept[-1]
    assert "http://127.0.0.1:8710/" in kept[-1]
    assert "build/demo/report.txt" in kept[-2]
    assert "hopwire ui DIR/lake" in printed(monkeypatch, None)[-1]


def test_a_long_path_is_not_broken_into_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Path("a-rather-long-name-of-a-directory") / "within-another-one" / "demo"
    lines = printed(monkeypatch, keep)
    assert f"Everything is in {keep}, and more about it in {keep / 'report.txt'}:" in lines


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_counts_that_do_not_fit_are_counted_together(count: int) -> None:
    counts = {f"word_{number}": 1_000 for number in range(count)}
    text = demo._counted(counts, "245 questions: ")
    assert len(text) <= demo.COUNTS_WIDTH
    shown = [int(part.split()[0].replace(",", "")) for part in text.partition(": ")[2].split(", ") if part != "none"]
    assert sum(shown) == 1_000 * count
