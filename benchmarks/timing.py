"""Timing on a noisy machine: every case in turns, many rounds, the best of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

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
