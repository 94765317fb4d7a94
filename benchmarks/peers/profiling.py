"""A profile of what is left: the functions of client and server with the most time of their own (`sampling.py`)."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import Peer
from benchmarks.peers.drive import Plan
from benchmarks.peers.measure import PATIENCE_SECONDS, ROOT, Failed, address_of, output_of, started
from benchmarks.timing import show_table

__all__ = ["Profile", "profile", "show_profile"]

MOST_FUNCTIONS = 25


@dataclass(frozen=True, slots=True)
class Profile:
    """What was found in one process."""

    cpu_seconds: float
    main_thread_seconds: float
    answered: int  # by the whole pair; the server does not count
    lines: list[tuple[str, str, int, int]]  # file, function, line, how often

    def us_each(self, seconds: float) -> float:
        """Give how much of some seconds each round trip took."""
        return seconds / max(1, self.answered) * 1e6


def profile(peer: Peer, plan: Plan) -> dict[str, Profile]:
    """Run a peer under the sampler; give what was found in each of its processes."""
    if not peer.is_served:
        return {"the only process": _client(peer, "", plan)}
    with started("sample-server", peer.key) as server:
        client = _client(peer, address_of(server), plan)
        server.process.send_signal(signal.SIGTERM)
        found = json.loads(output_of(server, PATIENCE_SECONDS))
    return {"client": client, "server": Profile(**{**found, "answered": client.answered})}


def _client(peer: Peer, address: str, plan: Plan) -> Profile:
    with started("sample-client", peer.key, address, json.dumps(asdict(plan))) as client:
        found: dict[str, Any] = json.loads(output_of(client, PATIENCE_SECONDS + plan.seconds))
    return Profile(**found)


def show_profile(peer: Peer, plan: Plan) -> None:
    """Run a peer under the sampler and print a table for each of its processes."""
    try:
        profiles = profile(peer, plan)
    except Failed as failure:
        print(f"\n{peer.title}, {peer.where}: not measured: {failure}")
        return
    for name, found in profiles.items():
        title = f"{peer.title}, {peer.where}, {min(plan.body_bytes)} B, {plan.in_flight:,} in flight: {name}"
        show_table(title, ["function", "its busiest line", "own time", "us each"], list(rows_from(found)))
        samples = sum(count for *_, count in found.lines)
        main_us, all_us = found.us_each(found.main_thread_seconds), found.us_each(found.cpu_seconds)
        print(
            f"\n{samples:,} samples, {found.answered:,} round trips of {main_us:.1f} us, {all_us:.1f} in all threads."
        )


def rows_from(found: Profile) -> Iterator[list[str]]:
    """Give a row for each of the functions with the most own time, and one for all others."""
    counts: Counter[tuple[str, str]] = Counter()
    busiest: dict[tuple[str, str], tuple[int, int]] = {}
    for file, function, line, count in found.lines:
        counts[file, function] += count
        busiest[file, function] = max(busiest.get((file, function), (0, 0)), (count, line))
    total, each_us = max(1, counts.total()), found.us_each(found.main_thread_seconds)
    for (file, function), count in counts.most_common(MOST_FUNCTIONS):
        share, line = count / total, busiest[file, function][1]
        yield [function, f"{_short(file)}:{line}", f"{share:.1%}", f"{share * each_us:.2f}"]
    if rest := counts.most_common()[MOST_FUNCTIONS:]:
        share = sum(count for _, count in rest) / total
        yield [f"{len(rest)} others", "", f"{share:.1%}", f"{share * each_us:.2f}"]


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else "/".join(path.parts[-2:])
