"""Whether the lake of a year opens, lists and steps as fast as that of a day.

    python -m benchmarks.year [--days 365] [--sources 4] [--at-once 30] [--place DIRECTORY]

A day has a few small sources, each of some questions. A step takes in a month, and the lake is compacted after it: so a
year is there after a minute of CPU time, and its files lie as those of daily steps do that were compacted. After a day,
a month, a third of a year and a year the lake is measured, and a line is printed. Each number is the least CPU time of
some tries of this process with all its threads: opening the manifest and all tables, the list of flows, a question in
SQL, the status, and a step of one more source.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.lake_steps import NODES, SECOND, Traffic
from hopwire.lake.build import step
from hopwire.lake.compaction import compact
from hopwire.lake.lake_standing import lake_status
from hopwire.lake.query import find_flows
from hopwire.lake.sql import query
from hopwire.lake.store import log_of, read_manifest

TRIES = 7
WARM = 2  # what is loaded with its first use counts for nobody, and logs have a checkpoint, as those of an old lake
ROWS = 10  # sightings of a source
DAY = 86_400 * SECOND


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


def grown(lake: Path, traffic: Traffic, days: range, sources: int, at_once: int) -> Iterator[int]:
    """Take in days, some at once; give each day after which the lake is up to date."""
    paths: list[Path] = []
    for day in days:
        for each in range(sources // len(NODES)):
            traffic.shift = day * DAY + each * 3_600 * SECOND
            paths += traffic.write(ROWS * len(NODES))
        if (day + 1) % at_once and day + 1 < days.stop:
            continue
        step(lake, paths)
        compact(lake)
        paths = []
        yield day + 1


def main() -> None:
    """Print what things cost after a day, and after more and more days."""
    options = _options()
    place = Path(options.place or tempfile.mkdtemp())
    captures, lake = place / "captures", place / "lake"
    captures.mkdir(parents=True)
    traffic = Traffic(captures)
    ages = sorted({1, 30, 120, options.days} & set(range(options.days + 1)))
    first: dict[str, float] = {}
    before = 0
    for age in ages:
        for day in grown(lake, traffic, range(before, age), options.sources, options.at_once):
            print(f"{day} days", end="\r", file=sys.stderr, flush=True)
        before = age
        for _ in range(0 if first else WARM):
            measured(lake, traffic)
        found = measured(lake, traffic)
        first = first or found
        manifest = read_manifest(lake)
        files = sum(each.file_count for each in manifest.tables.values())
        print(f"{age} days: {traffic.count:,} sightings, {len(manifest.sources):,} sources, {files:,} files")
        for work, cost in found.items():
            print(f"{work:>10}: {cost:7.1f} ms of CPU, {cost / first[work]:.2f} times that of a day", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--sources", type=int, default=4, help="of a day")
    parser.add_argument("--at-once", type=int, default=30, help="days of a step")
    parser.add_argument("--place", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
