"""Whether the lake of a year opens, lists and steps as fast as that of a day.

    python benchmarks/year.py [DAYS] [SOURCES_A_DAY] [PLACE]

A day has a few small sources, each of some questions; a step takes in one day, and a lake is compacted now and then, as
it would be. Each measurement is the least CPU time of some tries of this process with all its threads: opening the
manifest and all tables, the list of flows, a question in SQL, the status, and a step of one more source.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.lake_steps import SECOND, Traffic
from hopwire.lake.build import step
from hopwire.lake.compaction import compact
from hopwire.lake.lake_standing import lake_status
from hopwire.lake.query import find_flows
from hopwire.lake.sql import query
from hopwire.lake.store import log_of, read_manifest

TRIES = 3
ROWS = 40  # sightings of a source
COMPACTED = 10  # days


def spent(work: Callable[[], Any]) -> float:
    """Give the least CPU time of some tries, in milliseconds."""
    found = []
    for _ in range(TRIES):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found) * 1000


def opened(lake: Path) -> int:
    """Open the manifest and the logs of all tables."""
    manifest = read_manifest(lake)
    return sum(len(log_of(lake, name).files(stored.version)) for name, stored in manifest.tables.items())


def measured(lake: Path, traffic: Traffic) -> dict[str, float]:
    """Give what things cost, in milliseconds of CPU time."""
    return {
        "open": spent(lambda: opened(lake)),
        "flows ls": spent(lambda: find_flows(lake, ["flow_id", "started_at_ns"], limit=20)),
        "sql": spent(lambda: query(lake, "select outcome, count(*) from flows group by all", read_manifest(lake))),
        "status": spent(lambda: lake_status(lake, time.time_ns())),
        "step": spent(lambda: step(lake, traffic.write(1_000))),
    }


def main() -> None:
    """Print a line for each kind of work: a day, a year, and how many times as dear."""
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 365
    sources = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    place = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp())
    place.mkdir(exist_ok=True, parents=True)
    found = []
    for name, count in (("warm", 1), ("day", 1), ("year", days)):
        captures, lake = place / f"{name}-captures", place / name
        captures.mkdir()
        traffic = Traffic(captures)
        for number in range(count):
            paths = []
            for each in range(sources // 4):
                traffic.shift = (number * 86_400 + each * 3_600) * SECOND
                paths += traffic.write(ROWS * 4)
            step(lake, paths)
            if number % COMPACTED == COMPACTED - 1:
                compact(lake)
        compact(lake)
        found.append(measured(lake, traffic))
        print(f"{name}: {traffic.count:,} sightings, {len(read_manifest(lake).sources):,} sources", flush=True)
    for work, day in found[1].items():
        long = found[2][work]
        print(f"{work:>10}: {day:7.1f} ms of CPU for a day, {long:7.1f} ms for {days} days: {long / day:.2f} x")


if __name__ == "__main__":
    main()
