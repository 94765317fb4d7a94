"""A lake that follows a network as it talks: how far behind it is, what it costs, and how much is open.

    python -m benchmarks.follow [--rate 20000] [--seconds 120] [--boot 70] [--nodes 10] [--every 2] [--plot FILE]
    python -m benchmarks.follow --speed 6 --rate 3000 --seconds 3600 --plot FILE       # an hour in ten minutes

A process plays a network: its nodes ask one another, and each writes its own capture, by the writer of real nodes. In
the first seconds (`--boot`) the network is quiet: while clocks are compared for the first time, flows stay open. Then
it talks at the rate. Beside it runs `hopwire lake follow`. Once a second this process looks how the lake stands.

With `--speed` the clock of the network is quicker than that of the machine: seconds and rate are those of the network.
With a speed of 6 and a rate of 3,000, an hour is over after ten minutes, and the follower gets 18,000 sightings in each
second. It ends about now, so that the hour began in the past. The lag is told in seconds of the machine.

At the end the captures are sealed, the follower takes in the rest, and the totals of the lake are compared with what
the nodes have offered. Rates and lags are wall time, on a machine that should have nothing else to do; what the
follower costs is CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.plot import LinePanel, svg_from_panels
from hopwire.capture.writer import CaptureWriter
from hopwire.errors import LakeError
from hopwire.lake.lake_standing import lake_status
from hopwire.lake.store import read_arrow
from hopwire.model.message import CallbackPoint, Message
from hopwire.model.sighting import Direction
from hopwire.wire import FORMATS, encode

PLACEHOLDER = b"f" * 36
QUIET_RATE = 200  # sightings a second while nodes boot
TICK_SECONDS = 0.05
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MS = 1_000_000


@dataclass(frozen=True)
class PlayedClock:
    """The clock of a network, which may be quicker than that of the machine."""

    started_ns: int  # by the machine
    began_ns: int  # by the network
    speed: float

    @classmethod
    def of(cls, seconds: float, speed: float) -> PlayedClock:
        """Begin so long ago that both clocks agree after so many seconds of the network."""
        now = time.time_ns()
        return cls(now, now - round((seconds - seconds / speed) * 1e9), speed)

    def now_ns(self) -> int:
        """What time it is for the network."""
        return self.began_ns + round((time.time_ns() - self.started_ns) * self.speed)


class PlayedNetwork:
    """Nodes that ask one another, each with a capture of its own."""

    def __init__(self, place: Path, count: int, clock: PlayedClock) -> None:
        self._names = [f"node-{number}".encode() for number in range(count)]
        self._clock = clock
        started = clock.now_ns()
        self._writers = {
            name: CaptureWriter(place, name, incarnation=started, node_name=name.decode()) for name in self._names
        }
        self._frames = {name: self._templates(name) for name in self._names}
        self._chance, self._number = Random(1), 0

    def _templates(self, home: bytes) -> tuple[list[bytes], list[bytes]]:
        question = Message(
            b"orders.create",
            1,
            body_frames=(b'{"order":17,"note":"as always"}',),
            correlation_id=PLACEHOLDER,
            callback_points=(CallbackPoint(b"orders.created"),),
            callback_key=7,
            callback_receiver_identity=b"hub",
            callback_receiver_node_identity=home,
            ttl_ticks=10**8,
        )
        answer = question.replace(
            identity=b"orders.created", receiver_identity=b"hub", receiver_node_identity=home, body_frames=(b"{}",)
        )
        return encode(question, FORMATS[-1]), encode(answer, FORMATS[-1])

    def talk(self, count: int, now_ns: int) -> None:
        """Make so many sightings at about this time: four for each question."""
        for _ in range(count // 4):
            self._ask(now_ns)
            now_ns += 1_000

    def _ask(self, at: int) -> None:
        number, size = self._number, len(self._names)
        self._number += 1
        home = self._names[number % size]
        other = self._names[(number + 1 + number // size % (size - 1)) % size]
        flow = self._chance.randbytes(18).hex().encode()
        asked, answered = ([each.replace(PLACEHOLDER, flow) for each in some] for some in self._frames[home])
        here, there = self._writers[home], self._writers[other]
        here.offer(at, Direction.OUT, other, asked)
        there.offer(at + MS // 2, Direction.IN, home, asked)
        there.offer(at + MS, Direction.OUT, home, answered)
        here.offer(at + 3 * MS // 2, Direction.IN, other, answered)

    def write(self) -> None:
        """Write what is due."""
        for writer in self._writers.values():
            writer.tick(self._clock.now_ns())

    def close(self) -> dict[str, int]:
        """Seal all captures, and give how many sightings there were, offered and skipped."""
        for writer in self._writers.values():
            writer.close(self._clock.now_ns())
        statuses = [writer.status for writer in self._writers.values()]
        return {"offered": sum(each.offered for each in statuses), "skipped": sum(each.skipped for each in statuses)}


def play(place: Path, rate: int, seconds: float, boot: float, nodes: int, clock: PlayedClock) -> None:
    """Be the network: talk for some seconds, then say how much was said."""
    network = PlayedNetwork(place, nodes, clock)
    begun = last = clock.now_ns()
    owed = 0.0
    while (now := clock.now_ns()) - begun < (boot + seconds) * 1e9:
        owed += (now - last) / 1e9 * (QUIET_RATE if now - begun < boot * 1e9 else rate)
        last = now
        count = int(owed) // 4 * 4
        owed -= count
        network.talk(count, now - 10 * MS)
        network.write()
        time.sleep(max(0.0, TICK_SECONDS - (clock.now_ns() - now) / 1e9 / clock.speed))
    print(json.dumps(network.close()))


@dataclass(frozen=True)
class Look:
    """How things stand at a moment."""

    at: float  # seconds of the network
    lag: float  # seconds of the machine
    open_sightings: int
    files: int
    memory_mb: float
    cpu_seconds: float
    rows: int


def look(lake: Path, process: int, clock: PlayedClock) -> Look | None:
    """Look at the lake and at its follower."""
    now = clock.now_ns()
    try:
        status = lake_status(lake, now)
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        memory = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 2**20
    except (LakeError, OSError):
        return None
    cpu = sum(map(int, stat[11:15])) / TICKS
    rows = status.manifest.tables["bronze.sightings"].row_count
    at, lag = (now - clock.began_ns) / 1e9, (status.lag_seconds or 0.0) / clock.speed
    return Look(at, lag, status.open_sightings, status.files, memory, cpu, rows)


def main() -> None:
    """Play, follow, look, and print."""
    options = _options()
    place = Path(options.place or tempfile.mkdtemp())
    captures, lake = place / "captures", place / "lake"
    captures.mkdir(parents=True)
    own = [sys.executable, "-m", "benchmarks.follow", "--play", str(captures)]
    clock = PlayedClock.of(options.boot + options.seconds, options.speed)
    played = (options.rate, options.seconds, options.boot, options.nodes, *astuple(clock))
    network = subprocess.Popen([*own, *map(str, played)], stdout=subprocess.PIPE, text=True)
    command = [sys.executable, "-m", "hopwire.cli", "lake", "follow", str(captures), str(lake)]
    how = {"--every": options.every, "--max-rows": options.max_rows, "--compact": options.compact}
    follower = subprocess.Popen([*command, *(str(each) for pair in how.items() for each in pair)])
    looks = []
    while network.poll() is None and follower.poll() is None:
        time.sleep(1.0)
        if found := look(lake, follower.pid, clock):
            looks.append(found)
    assert network.stdout
    said = json.loads(network.stdout.read())
    while follower.poll() is None and (found := look(lake, follower.pid, clock)) and found.rows < said["offered"]:
        time.sleep(0.5)
    follower.send_signal(signal.SIGTERM)
    follower.wait()
    _print(looks, options, said, lake)
    if options.plot:
        Path(options.plot).write_text(_plot(looks, options), "utf-8")


def _print(looks: list[Look], options: argparse.Namespace, said: dict[str, int], lake: Path) -> None:
    loud = [each for each in looks if each.at > options.boot + 10]
    if len(loud) > 1:
        first, last = loud[0], loud[-1]
        rate = (last.rows - first.rows) / (last.at - first.at) * options.speed
        cost = (last.cpu_seconds - first.cpu_seconds) / max(last.rows - first.rows, 1)
        lags = [each.lag for each in loud]
        offered = options.rate * options.speed
        print(f"published {rate:,.0f} sightings a second of {offered:,.0f}; {1e6 * cost:.0f} us of CPU for each")
        print(f"lag p50 {median(lags):.1f} s, max {max(lags):.1f} s; open sightings at most {_most(loud):,}")
        print(f"memory at most {max(each.memory_mb for each in loud):,.0f} MB; files at the end {last.files:,}")
    counted = len(read_arrow(lake, "bronze.sightings", ["sequence"]))
    print(f"offered {said['offered']:,}, skipped {said['skipped']:,}, in the lake {counted:,}")


def _most(looks: list[Look]) -> int:
    return max(each.open_sightings for each in looks)


def _plot(looks: list[Look], options: argparse.Namespace) -> str:
    names = {"lag": " s", "open_sightings": "", "memory_mb": " MB", "files": "", "cpu_seconds": " s", "rows": ""}
    panels = [
        LinePanel(name.replace("_", " "), tuple((each.at, float(getattr(each, name))) for each in looks), unit)
        for name, unit in names.items()
    ]
    offered = f"{options.rate * options.speed:,.0f} sightings a second"
    quicker = f", {options.speed:g} seconds of the network in one" if options.speed != 1 else ""
    return svg_from_panels(f"lake follow at {offered}{quicker}", panels)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--boot", type=float, default=70.0)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--every", type=float, default=2.0)
    parser.add_argument("--max-rows", type=int, default=100_000)
    parser.add_argument("--compact", type=int, default=50)
    parser.add_argument("--plot", default="")
    parser.add_argument("place", nargs="?", default="")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--play"]:
        rate, seconds, boot, nodes, started, began, speed = sys.argv[3:]
        clock = PlayedClock(int(started), int(began), float(speed))
        play(Path(sys.argv[2]), int(rate), float(seconds), float(boot), int(nodes), clock)
    else:
        main()
