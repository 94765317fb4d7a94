"""Timing on a noisy machine: every case in turns, many rounds, the best of each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence

Case = Callable[[], object]


def best_times(cases: dict[str, Case], operations: int, rounds: int = 15) -> dict[str, float]:
    """Give the best time of each case, in ns for each operation; the cases take turns, so noise hits all alike."""
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, case in cases.items():
            begin = time.perf_counter_ns()
            case()
            best[name] = min(best[name], (time.perf_counter_ns() - begin) / operations)
    return best


def print_table(title: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n## {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(list(header)))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: drawn on a terminal, Markdown elsewhere."""
    if not sys.stdout.isatty():
        print_table(title, header, rows)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for number, name in enumerate(header):
        widest = max(len(str(row[number])) for row in rows)  # where it is narrow the header wraps, not the cells
        table.add_column(name, justify="right" if number else "left", min_width=widest)
    for row in rows:
        table.add_row(*map(str, row), style="bold" if str(row[0]).startswith("hopwire") else "")
    Console().print(table)
