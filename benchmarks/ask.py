"""`ask` beside what else there is: a plain pyzmq echo, nats-py, xoscar, grpc.aio, Ray; within one process, Pykka.

    python benchmarks/ask.py                                              everything, and the plot
    python benchmarks/ask.py --only hopwire,echo --bodies 256 --seconds 3  a part

`make peers` installs the others; what is missing is named as missing. `peers/measure.py` says how it is measured,
`peers/drive.py` what.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers import IN_PROCESS, PEERS, TWO_PROCESSES, Peer
from benchmarks.peers.drive import Plan
from benchmarks.peers.measure import Results, measure
from benchmarks.plot import Bar, Panel, svg_from_panels
from benchmarks.timing import show_table

PLOT = Path(__file__).with_suffix(".svg")
BASES = {TWO_PROCESSES: "echo", IN_PROCESS: "pykka"}  # what the others are compared with
OURS = {TWO_PROCESSES: "hopwire", IN_PROCESS: "hopwire-local"}
RATE, CPU, P50, P99 = "round_trips_per_second", "cpu_us", "p50_us", "p99_us"


@dataclass(frozen=True, slots=True)
class Target:
    """What hopwire has to reach."""

    figure: str
    other: str
    factor: float  # at least so many times its round trips, at most so many times its p50


# fmt: off
TARGETS = (
    #       figure  beside    factor
    Target(RATE,    "echo",   2.0),
    Target(RATE,    "nats",   1.0),
    Target(RATE,    "ray",    1.0),
    Target(RATE,    "xoscar", 1.0),
    Target(RATE,    "grpc",   1.0),
    Target(P50,     "echo",   1.5),
    Target(RATE,    "pykka",  2.0),
    Target(P50,     "pykka",  0.2),
)
# fmt: on
TARGET_BODY_BYTES = 256
DEFAULT = Plan()
QUIET_LOAD = 0.5  # above it somebody else is at work
BY_KEY = {peer.key: peer for peer in PEERS}


def show(results: Results, plan: Plan) -> None:
    """Print a table for each place and size of body, what is missing, and the targets."""
    for where in (TWO_PROCESSES, IN_PROCESS):
        for size in plan.body_bytes:
            rows = [_row(results, peer, size) for peer in PEERS if peer.key in results.rounds and peer.where == where]
            if rows:
                title = f"ask, {where}, {_size(size)}: round trips with {plan.in_flight:,} in flight, times one by one"
                show_table(title, _header(where), rows)
    targets = list(_target_rows(results))
    if targets:
        show_table(
            f"ask, targets, {_size(TARGET_BODY_BYTES)}", ["hopwire, asyncio", "beside", "target", "found", ""], targets
        )
    if results.missing:
        print("\nNot measured; `make peers` installs what is not there:\n")
        for key, reason in results.missing.items():
            print(f"- {BY_KEY[key].title}, {BY_KEY[key].where}: {reason}")


def _header(where: str) -> list[str]:
    base = BASES[where]
    rates = ["round trips/s", "±", f"of {base}", "hopwire", "CPU us"]
    return ["", *rates, "p50 us", "p99 us", f"p50 of {base}", "hopwire p50"]


def _row(results: Results, peer: Peer, size: int) -> list[str]:
    if peer.key in results.missing:
        return [peer.title, "not measured", *[""] * 8]
    base, ours = BASES[peer.where], OURS[peer.where]
    rate, cpu, p50, p99 = (_number(results.figure(peer.key, name, size)) for name in (RATE, CPU, P50, P99))
    rates, p50s = (
        [_times(results.ratio(peer.key, base, name, size)), _times(results.ratio(ours, peer.key, name, size))]
        for name in (RATE, P50)
    )
    spread = f"{results.spread(peer.key, RATE, size):.0%}"
    return [peer.title, rate, spread, *rates, cpu, p50, p99, *p50s]


def _target_rows(results: Results) -> Iterator[list[str]]:
    for target in TARGETS:
        other = BY_KEY[target.other]
        found = results.ratio(OURS[other.where], other.key, target.figure, TARGET_BODY_BYTES)
        if found is None:
            continue
        is_rate = target.figure == RATE
        is_met = found >= target.factor if is_rate else found <= target.factor
        what = "round trips/s" if is_rate else "p50, one at a time"
        wanted = f"{'at least' if is_rate else 'at most'} {target.factor:g} x"
        yield [f"{what}, {other.where}", other.title, wanted, _times(found), "met" if is_met else "missed"]


def panels_from(results: Results, plan: Plan) -> list[Panel]:
    """Give the panels of the plot: round trips and times, for each place and size of body."""
    titles = {
        RATE: f"round trips/s, {plan.in_flight:,} in flight (longer is better)",
        P50: "one at a time, p50 in us (shorter is better)",
    }
    panels = []
    for where in (TWO_PROCESSES, IN_PROCESS):
        for size in plan.body_bytes:
            for name, title in titles.items():
                peers = [peer for peer in PEERS if peer.where == where and results.rounds.get(peer.key)]
                bars = [_bar(results, peer, name, size) for peer in peers]
                if bars:
                    panels.append(Panel(f"{where}, {_size(size)}: {title}", tuple(bars)))
    return panels


def _bar(results: Results, peer: Peer, name: str, size: int) -> Bar:
    value, p99 = results.figure(peer.key, name, size) or 0.0, results.figure(peer.key, P99, size)
    note = f"{value:,.0f}, p99 {p99:,.0f}" if name == P50 else f"{value:,.0f}"
    return Bar(peer.title, value, note, is_ours=peer.module == "hopwire")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"


def _size(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KB"


def run(keys: Collection[str] = (), plan: Plan | None = None, rounds: int = 5, plot: Path | None = PLOT) -> None:
    """Measure and print; everything, where nothing is named."""
    plan = plan or DEFAULT
    chosen = [peer for peer in PEERS if not keys or peer.key in keys]
    load = os.getloadavg()[0]
    results = measure(chosen, plan, rounds)
    show(results, plan)
    print(f"\n{rounds} rounds, {plan.seconds:g} s for each figure; {os.cpu_count()} cores, load before: {load:.1f}.")
    if load > QUIET_LOAD:
        print("The machine was busy: every figure is too low, and the ratios are rough.")
    if plot is not None:
        plot.write_text(svg_from_panels("hopwire: ask", panels_from(results, plan)))


def main() -> None:
    """Read the arguments and run."""
    keys = [peer.key for peer in PEERS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help=f"some of {', '.join(keys)}")
    parser.add_argument("--bodies", default="256,65536", help="sizes of the body in bytes")
    parser.add_argument("--seconds", type=float, default=DEFAULT.seconds, help="for each figure of each round")
    parser.add_argument("--in-flight", type=int, default=DEFAULT.in_flight, help="questions at any time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="an SVG file; without --only it is benchmarks/ask.svg")
    options = parser.parse_args()
    only = [key for key in options.only.split(",") if key]
    if unknown := set(only) - set(keys):
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; there are {', '.join(keys)}")
    plan = Plan(tuple(map(int, options.bodies.split(","))), options.seconds, in_flight=options.in_flight)
    run(only, plan, options.rounds, options.plot or (None if only else PLOT))


if __name__ == "__main__":
    main()
