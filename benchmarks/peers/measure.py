"""Measures the peers: each in processes of its own, in turns, several rounds.

Each round starts each peer afresh, server and client, so that none runs while another is measured. The peers take
turns, each round begins with another one, and the median of the rounds counts. Ratios are taken within a round, between
neighbours on a machine that may be busy, and the median of those counts.

Before a row that writes a file, memory is used once and freed. A virtual machine may give free memory back to its host,
and then the next use of a page costs ten times as much: without this step, that is what such a row would measure.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import IO

from benchmarks.peers import Peer
from benchmarks.peers.drive import Figures, Plan, Round

__all__ = ["Failed", "Results", "Started", "address_of", "measure", "output_of", "started"]

ROOT = Path(__file__).resolve().parents[2]
PEERS_PYTHON = ROOT / ".venv-peers/bin/python"
USED_BYTES = 1 << 30  # what the files of a row take, several times over
PATIENCE_SECONDS = 60  # beyond the plan; Ray takes ten to start on a busy machine


@dataclass(slots=True)
class Results:
    """What the rounds found; a peer that failed has a reason instead."""

    rounds: dict[str, list[Round]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def figure(self, key: str, name: str, size: int) -> float | None:
        """Give the median of one figure; None where there is none."""
        found = self._found(key, name, size)
        return median(found) if found else None

    def spread(self, key: str, name: str, size: int) -> float:
        """Give by which part of the median the rounds lie around it, at most."""
        found = self._found(key, name, size)
        middle = median(found) if found else 0.0
        return max((abs(each / middle - 1) for each in found), default=0.0) if middle else 0.0

    def ratio(self, key: str, other: str, name: str, size: int) -> float | None:
        """Give the median of the ratios between two peers, each taken within a round."""
        found = self.ratios(key, other, name, size)
        return median(found) if found else None

    def ratios(self, key: str, other: str, name: str, size: int) -> list[float]:
        """Give the ratio between two peers for each round; a round in which nothing was answered has none."""
        pairs = zip(self.rounds.get(key, ()), self.rounds.get(other, ()), strict=False)
        both = [(getattr(a[size], name), getattr(b[size], name)) for a, b in pairs if size in a and size in b]
        return [ours / theirs for ours, theirs in both if theirs]

    def _found(self, key: str, name: str, size: int) -> list[float]:
        return [getattr(each[size], name) for each in self.rounds.get(key, ()) if size in each]


class Failed(Exception):
    """A peer could not be measured; the text says why."""


def measure(peers: Sequence[Peer], plan: Plan, rounds: int) -> Results:
    """Let the peers take turns; one that fails is not tried again."""
    results = Results({peer.key: [] for peer in peers})
    for number in range(rounds):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            if peer.key in results.missing:
                continue
            _say(f"round {number + 1} of {rounds}: {peer.title}, {peer.where}")
            try:
                results.rounds[peer.key].append(measure_once(peer, plan))
            except Failed as failure:
                results.missing[peer.key] = str(failure)
                results.rounds[peer.key].clear()
    _say("")
    return results


def measure_once(peer: Peer, plan: Plan) -> Round:
    """Start a peer, drive it, stop it."""
    plan = replace(plan, body_bytes=plan.sizes_for(peer))
    if peer.is_written:
        _use_memory()
    if not peer.is_served:
        return _driven(peer, "", plan)
    with started("serve", peer.key) as server:
        return _driven(peer, address_of(server), replace(plan, sessions=(server.process.pid,)))


def _use_memory() -> None:
    """Have the host give us memory, and free it; the kernel takes such memory first."""
    if hasattr(mmap, "MAP_POPULATE"):
        free_bytes = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, min(USED_BYTES, free_bytes // 2), flags=flags).close()


def _driven(peer: Peer, address: str, plan: Plan) -> Round:
    patience = PATIENCE_SECONDS + 2 * len(plan.body_bytes) * (plan.seconds + plan.warm_up_seconds)
    with started("drive", peer.key, address, json.dumps(asdict(plan))) as driver:
        output = output_of(driver, patience)
    return {int(size): Figures(**figures) for size, figures in json.loads(output).items()}


@dataclass(frozen=True, slots=True)
class Started:
    """A process that plays a role of `drive.py`, and what it complains of."""

    process: subprocess.Popen[str]
    errors: IO[str]


@contextmanager
def started(*arguments: str) -> Iterator[Started]:
    """A process with its children in a session of their own, so that all end together; its files end with it."""
    python = str(PEERS_PYTHON) if PEERS_PYTHON.exists() else sys.executable
    with (
        tempfile.TemporaryFile("w+") as errors,
        tempfile.TemporaryDirectory(prefix="ask", ignore_cleanup_errors=True) as directory,
    ):
        process = subprocess.Popen(
            [python, "-m", "benchmarks.peers.drive", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "TMPDIR": directory},
            start_new_session=True,
        )
        try:
            yield Started(process, errors)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def address_of(server: Started) -> str:
    """Wait for the address of a server."""
    assert server.process.stdout is not None
    address = server.process.stdout.readline().strip()
    if not address:
        raise Failed(_last_line(server.errors))
    return address


def output_of(started: Started, patience_seconds: float) -> str:
    """Wait for the end of a process, and give the last line that it printed."""
    try:
        output, _ = started.process.communicate(timeout=patience_seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"did not end within {patience_seconds:.0f} s") from None
    if started.process.returncode or not output:
        raise Failed(_last_line(started.errors))
    return output.splitlines()[-1]


def _last_line(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    return lines[-1] if lines else "ended without a word"


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
