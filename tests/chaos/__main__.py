"""Let a network suffer, and say what held.

python -m tests.chaos --seconds 150 --seed 1        also: make chaos
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

from hopwire.lake.settings import LakeSettings
from tests.chaos.judge import differences_of
from tests.chaos.member import TIMEOUT_SECONDS, domains_of
from tests.chaos.network import Report, run
from tests.chaos.stranger import ATTACKS

SHOWN = 20  # differences


def main() -> int:
    """Run, print, and give the exit code: 0 where everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--rate", type=float, default=100.0, help="questions of each member in a second")
    parser.add_argument("--peaceful", action="store_true", help="without the stranger")
    parser.add_argument("--keep", type=Path, help="a new directory for captures, logs and lake")
    options = parser.parse_args()
    print(f"seed {options.seed}: four members, {options.seconds:.0f} s, {options.rate:.0f} questions a second each")
    with tempfile.TemporaryDirectory(prefix="hopwire-chaos-") as scratch:
        directory = options.keep or Path(scratch) / "chaos"
        attacks = () if options.peaceful else tuple(ATTACKS.values())
        report = asyncio.run(run(directory, options.seconds, options.seed, options.rate, attacks))
        held = show(report)
        held &= judge(report, directory)
    print("everything held" if held else "something broke")
    return 0 if held else 1


def show(report: Report) -> bool:
    """Print what happened, and tell whether the promises of the network held."""
    told = Counter(promise.told or "killed before it was told" for promise in report.promises.values())
    print(f"blows          {_counts(report.blows)}")
    print(f"promises       {len(report.promises):,}: {_counts(told)}")
    print(f"hanging        {len(report.hanging())}")
    print(f"ended alone    {'; '.join(report.ended) or 'none'}")
    if report.attacks:
        print(f"attackers      {'; '.join(report.attacks)}")
    for member in report.members:
        dead = _counts(Counter(member["dead_letters"]))
        print(
            f"{member['name']} life {member['life']:<2}     exit {member['exit']}, {member['rss_mb']} MB at most, "
            f"{member['descriptors']} descriptors, loop lag {member['lag_ms']} ms at most; dead letters: {dead}"
        )
    wrong = [told_as for told_as in told if told_as.startswith("answered with")]
    is_clean = all(member["exit"] == 0 and not member["open_promises"] for member in report.members)
    return not (report.hanging() or report.ended or report.attacks or wrong) and is_clean


def judge(report: Report, directory: Path) -> bool:
    """Build the lake, and print where it disagrees with what askers were told."""
    requests = _requests(directory)
    found, compared = differences_of(report, requests.to_pylist())
    print(f"lake           {requests.num_rows:,} requests: {_counts(Counter(requests['outcome'].to_pylist()))}")
    print(f"agreement      {compared - len(found):,} of {compared:,} promises")
    for difference in found[:SHOWN]:
        print(f"  {difference}")
    return not found


def _requests(directory: Path) -> pa.Table:
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
    return read_arrow(directory / "lake", "gold.requests", ["correlation_id", "outcome", "reason"])


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in counts.most_common()) or "none"


if __name__ == "__main__":
    sys.exit(main())
