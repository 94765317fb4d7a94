"""Let a network suffer, and say what was done and what held.

python -m tests.chaos --seconds 150 --seed 1        also: make chaos
python -m tests.chaos --seconds 100 --kills         20,000 requests and some fifteen kill -9, each held against the lake
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.lake.settings import LakeSettings
from tests.chaos.judge import checks_of
from tests.chaos.lake_judge import DOUBTED, HOP_COLUMNS, REQUEST_COLUMNS, capture_checks, lake_check
from tests.chaos.member import TIMEOUT_SECONDS, domains_of
from tests.chaos.network import KILLED, Order, run
from tests.chaos.page import page_of
from tests.chaos.stranger import ATTACKS
from tests.chaos.troubles import Force


def main() -> int:
    """Run, print, and give the exit code: 0 where everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--rate", type=float, default=100.0, help="questions of each member in a second")
    parser.add_argument("--kills", action="store_true", help="kills and stops alone, many of them")
    parser.add_argument("--peaceful", action="store_true", help="without the stranger")
    parser.add_argument("--keep", type=Path, help="a new directory for captures, logs and lake")
    parser.add_argument("--report", type=Path, help="a file for the page that is printed")
    options = parser.parse_args()
    attacks = () if options.peaceful or options.kills else tuple(ATTACKS.values())
    order = Order(options.seconds, options.seed, options.rate, attacks=attacks)
    if options.kills:
        order = replace(order, networks=(KILLED,), force=Force(pause_seconds=(0.3, 1.5)))
    print(f"seed {order.seed}: chaos for {order.seconds:.0f} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="hopwire-chaos-") as scratch:
        directory = options.keep or Path(scratch) / "chaos"
        report = asyncio.run(run(directory, order))
        print(f"{report.ended_at - report.began_at:.0f} s of chaos are over; the lake is built and held against it")
        began_at = time.monotonic()
        requests, hops = _tables(directory)
        checks = [*checks_of(report), lake_check(report, requests), *capture_checks(report, requests, hops)]
    page = page_of(report, checks)
    print(page)
    print(f"\nThe lake took {time.monotonic() - began_at:.0f} s to build and to judge.")
    if options.report:
        options.report.write_text(page + "\n")
    return 0 if all(check.is_held for check in checks) else 1


def _tables(directory: Path) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Build the lake, and give what it says of requests and hops."""
    from hopwire.lake.build import build
    from hopwire.lake.session import session
    from hopwire.lake.store import read_arrow

    spark = session("hopwire chaos", **{"spark.master": "local[2]"})
    try:
        domains = domains_of((directory / "secret").read_bytes())
        settings = LakeSettings(patience_seconds=TIMEOUT_SECONDS)
        build(spark, directory / "captures", directory / "lake", domains=domains, settings=settings)
    finally:
        spark.stop()
    requests = read_arrow(directory / "lake", "gold.requests", REQUEST_COLUMNS).to_pylist()
    hops = read_arrow(directory / "lake", "silver.hops", HOP_COLUMNS)
    doubted = hops.filter(pc.is_in(hops["fate"], pa.array(DOUBTED)))  # few of millions
    return requests, hops.filter(pc.is_in(hops["correlation_id"], pc.unique(doubted["correlation_id"]))).to_pylist()


if __name__ == "__main__":
    sys.exit(main())
