"""`ask` beside what else there is: a plain pyzmq echo, nats-py, xoscar, grpc.aio, Ray; within one process, Pykka.

    python benchmarks/ask.py                                              everything, and the plot
    python benchmarks/ask.py --only hopwire,echo --bodies 256 --seconds 3  a part
    python benchmarks/ask.py --profile                                    where the time of hopwire goes

`make peers` installs the others; what is missing is named as missing. `peers/measure.py` says how it is measured,
`peers/drive.py` what, `peers/targets.py` what hopwire has to reach.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers import IN_PROCESS, PEERS, TWO_PROCESSES, Peer
from benchmarks.peers.cpu import busy_cores
from benchmarks.peers.drive import Plan
from benchmarks.peers.measure import Results, measure
from benchmarks.peers.profiling import show_profile
from benchmarks.peers.targets import BY_KEY, HEADER, P50, RATE, found_in, size_text
from benchmarks.plot import Bar, Panel, svg_from_panels
from benchmarks.timing import show_table

PLOT = Path(__file__).with_suffix(".svg")
BASES = {TWO_PROCESSES: "echo", IN_PROCESS: "pykka"}  # what the others are compared with
OURS = {TWO_PROCESSES: "hopwire", IN_PROCESS: "hopwire-local"}
CPU, P99 = "cpu_us", "p99_us"
DEFAULT = Plan()
ROUNDS = 5
PROFILE_SECONDS = 10.0  # for some thousand samples
PROFILED = Plan(seconds=PROFILE_SECONDS)
QUIET_CORES = 0.2  # above it somebody else is at work
BUSY = "The machine is busy, {:.1f} of {} cores: the ratios are rough. Run again when it is quiet, or look at CPU us."


def show(results: Results, plan: Plan) -> None:
    """Print a table for each place and size of body, what is missing, and the targets."""
    for where in (TWO_PROCESSES, IN_PROCESS):
        for size in plan.body_bytes:
            rows = [_row(results, peer, size) for peer in _peers(results, plan, where, size)]
            if rows:
                title = (
                    f"ask, {where}, {size_text(size)}: round trips with {plan.in_flight:,} in flight, times one by one"
                )
                show_table(title, _header(where), rows)
    _show_targets(results, plan)
    if results.missing:
        print("\nNot measured; `make peers` installs what is not there:\n")
        for key, reason in results.missing.items():
            print(f"- {BY_KEY[key].title}, {BY_KEY[key].where}: {reason}")


def _peers(results: Results, plan: Plan, where: str, size: int) -> list[Peer]:
    chosen = [peer for peer in PEERS if peer.key in results.rounds and peer.where == where]
    return [peer for peer in chosen if size in plan.sizes_for(peer)]


def _show_targets(results: Results, plan: Plan) -> None:
    found = list(found_in(results))
    if found:
        show_table(f"ask, targets: {plan.in_flight:,} in flight", HEADER, [each.row for each in found])
        verdicts = [each.is_met for each in found if each.is_met is not None]
        print(f"\n{sum(verdicts)} of {len(verdicts)} targets met.")


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
                peers = [peer for peer in _peers(results, plan, where, size) if results.rounds[peer.key]]
                bars = [_bar(results, peer, name, size) for peer in peers]
                if bars:
                    panels.append(Panel(f"{where}, {size_text(size)}: {title}", tuple(bars)))
    return panels


def _bar(results: Results, peer: Peer, name: str, size: int) -> Bar:
    value, p99 = results.figure(peer.key, name, size) or 0.0, results.figure(peer.key, P99, size)
    note = f"{value:,.0f}, p99 {p99:,.0f}" if name == P50 else f"{value:,.0f}"
    return Bar(peer.title, value, note, is_ours=peer.module == "hopwire")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"


def run(keys: Collection[str] = (), plan: Plan = DEFAULT, rounds: int = ROUNDS, plot: Path | None = PLOT) -> None:
    """Measure and print; everything, where nothing is named."""
    chosen = [peer for peer in PEERS if not keys or peer.key in keys]
    before, cores = busy_cores(), os.cpu_count() or 1
    if before > QUIET_CORES:
        print(BUSY.format(before, cores), file=sys.stderr, flush=True)
    results = measure(chosen, plan, rounds)
    busy = max(before, busy_cores())
    show(results, plan)
    print(f"\n{rounds} rounds, {plan.seconds:g} s for each figure; {cores} cores, {busy:.1f} of them busy with others.")
    if busy > QUIET_CORES:
        print(BUSY.format(busy, cores))
    if plot is not None:
        plot.write_text(svg_from_panels("hopwire: ask", panels_from(results, plan)))


def show_profiles(keys: Collection[str] = (), plan: Plan = PROFILED) -> None:
    """Print where the time of hopwire goes: between two processes, where nothing is named."""
    for key in keys or [OURS[TWO_PROCESSES]]:
        show_profile(BY_KEY[key], plan)


def main() -> None:
    """Read the arguments and run."""
    keys = [peer.key for peer in PEERS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help=f"some of {', '.join(keys)}")
    parser.add_argument("--bodies", default="256,65536", help="sizes of the body in bytes")
    parser.add_argument("--seconds", type=float, help="for each figure of each round, or for the profile")
    parser.add_argument("--in-flight", type=int, default=DEFAULT.in_flight, help="questions at any time")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--plot", type=Path, help="an SVG file; without --only it is benchmarks/ask.svg")
    parser.add_argument("--profile", action="store_true", help="where the time goes; with --only, for rows of hopwire")
    options = parser.parse_args()
    only = [key for key in options.only.split(",") if key]
    if unknown := set(only) - set(keys):
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; there are {', '.join(keys)}")
    if options.profile and (strangers := [key for key in only if BY_KEY[key].module != "hopwire"]):
        parser.error(f"a profile shows hopwire, not {', '.join(strangers)}")
    seconds = options.seconds or (PROFILE_SECONDS if options.profile else DEFAULT.seconds)
    plan = Plan(tuple(map(int, options.bodies.split(","))), seconds, in_flight=options.in_flight)
    if options.profile:
        show_profiles(only, plan)
    else:
        run(only, plan, options.rounds, options.plot or (None if only else PLOT))


if __name__ == "__main__":
    main()
