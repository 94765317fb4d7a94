"""What a build costs against the size of the lake: 1,000 new sightings alone, and on lakes that grow.

    python benchmarks/lake_steps.py [LARGEST] [PLACE]          # draws benchmarks/lake_steps.svg
    python benchmarks/lake_steps.py --lake LAKE [DOMAINS]      # on a lake that is there, such as one that lake.py kept

Four nodes ask one another, in captures that come in order: a segment for each node and 100,000 sightings. A lake grows
by builds: a step up to some 100,000 sightings, the workers of Spark for more. Each measurement is the least CPU time of
some steps of 1,000 sightings, from captures to tables: as the command `hopwire lake build`, which counts, and within a
process that has made the step before, as a follower does. Steps of this size need no Spark. A lake that is there gets
sightings of four new nodes, later than all of its own, and is larger by 10,000 sightings afterwards. Its domains are
those it was built with.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.plot import Bar, Panel, svg_from_panels
from hopwire.capture import SCHEMA, Sighting, batch_from_sightings
from hopwire.domains_file import domains_from_file
from hopwire.lake.build import build, step
from hopwire.lake.manifest import Manifest
from hopwire.lake.session import session
from hopwire.lake.store import read_arrow
from hopwire.model.message import CallbackPoint, Message
from hopwire.security import OPEN
from hopwire.wire import FORMATS, encode

NODES = (b"node-a", b"node-b", b"node-c", b"node-d")
SIZES = (0, 100_000, 1_000_000, 3_000_000, 10_000_000)
SEGMENTS = 100_000  # sightings of the segments that are written at a time
SPARK = {"spark.master": "local[2]", "spark.driver.memory": "4g"}
PLOT = Path(__file__).with_name("lake_steps.svg")
LIMIT = 1.5  # times the CPU time of the 1,000 alone
TRIES = 3
PER_SECOND = 100  # sightings: 1,000 are a step of 10 s
BEGIN = 1_700_000_000_000_000_000
SECOND, MS = 1_000_000_000, 1_000_000


class Traffic:
    """Sightings of a network, as segments of its nodes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.number = 0  # of the request
        self.sequence = dict.fromkeys(NODES, 0)
        self.chance = Random(1)
        self.shift = 0  # of all times from now on, in nanoseconds

    @property
    def count(self) -> int:
        """How many sightings there are."""
        return self.number * 4

    def write(self, count: int) -> list[Path]:
        """Write segments with so many sightings that follow those before."""
        seen: dict[bytes, list[Sighting]] = {node: [] for node in NODES}
        first = self.number
        for _ in range(count // 4):
            self._request(seen)
        paths = []
        for node, rows in seen.items():
            path = self.place / f"{node.decode()}-{self.shift // SECOND}-{first:010}.arrows"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
                for start in range(0, len(rows), 1000):
                    stream.write_batch(batch_from_sightings(rows[start : start + 1000]))
            paths.append(path)
        return paths

    def _request(self, seen: dict[bytes, list[Sighting]]) -> None:
        number = self.number
        self.number += 1
        home, other = NODES[number % 4], NODES[(number + 1 + number // 4 % 3) % 4]
        at = BEGIN + self.shift + number * 4 * SECOND // PER_SECOND
        flow = self.chance.randbytes(18).hex().encode()
        question = Message(
            b"orders.create",
            1,
            body_frames=(b'{"order":17,"note":"as always"}',),
            correlation_id=flow,
            callback_points=(CallbackPoint(b"orders.created"),),
            callback_key=7,
            callback_receiver_identity=b"hub",
            callback_receiver_node_identity=home,
            ttl_ticks=10**8,
        )
        answer = question.replace(
            identity=b"orders.created", receiver_identity=b"hub", receiver_node_identity=home, body_frames=(b"{}",)
        )
        asked, answered = encode(question, FORMATS[-1]), encode(answer, FORMATS[-1])
        self._see(seen, home, other, "out", at, asked)
        self._see(seen, other, home, "in", at + MS // 2, asked)
        self._see(seen, other, home, "out", at + MS, answered)
        self._see(seen, home, other, "in", at + 3 * MS // 2, answered)

    def _see(
        self, seen: dict[bytes, list[Sighting]], node: bytes, peer: bytes, way: str, at: int, frames: list[bytes]
    ) -> None:
        number = self.sequence[node]
        self.sequence[node] += 1
        seen[node].append(Sighting(node, node.decode(), 1, number, at, way, peer, frames))


def measured(lake: Path, sources: list[Path], domains: str = "") -> tuple[float, Manifest]:
    """Take sources into a lake, and give the CPU time in seconds."""
    judges = domains_from_file(domains) if domains else OPEN
    begun = time.process_time()
    manifest = step(lake, sources, domains=judges)
    return time.process_time() - begun, manifest


def commanded(captures: Path, lake: Path, domains: str = "") -> float:
    """Build a lake by the command, and give its CPU time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("hopwire")), "lake", "build", str(captures), str(lake)]
    subprocess.run([*command, *(["--domains", domains] if domains else [])], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(place: Path, domains: str = "") -> tuple[float, float]:
    """Give the CPU time of a new lake of 1,000 sightings: by the command, and within this process."""
    captures = Path(tempfile.mkdtemp(dir=place))
    sources = Traffic(captures).write(1_000)
    return commanded(captures, captures / "command", domains), measured(captures / "lake", sources, domains)[0]


def grow(place: Path, traffic: Traffic, size: int) -> float:
    """Build a lake of so many sightings, and give the seconds."""
    while traffic.count < size:
        traffic.write(min(SEGMENTS, max(size - traffic.count, 4_000)))
    begun = time.perf_counter()
    build(lambda: session("benchmark", **SPARK), place / "captures", place / "lake")
    return time.perf_counter() - begun


def compared(place: Path, lake: Path, traffic: Traffic, grown: float, domains: str = "") -> Bar:
    """Measure steps on a lake beside new lakes of as many sightings, print a line, and give the bar of it."""
    bases, found = [], []
    for _ in range(TRIES):  # in turns, so that a busy machine is as busy for both
        bases.append(alone(place, domains))
        traffic.write(1_000)
        by_command = commanded(traffic.place, lake, domains)
        measured(lake, traffic.write(1_000), domains)  # what the command has written is read once
        seconds, manifest = measured(lake, traffic.write(1_000), domains)
        found.append((by_command, seconds))
    opened, count = (manifest.tables[name].row_count for name in ("silver.open_sightings", "bronze.sightings"))
    (base, base_within), (cost, within) = (
        [1000 * min(each) for each in zip(*some, strict=True)] for some in (bases, found)
    )
    print(
        f"{count:>10,} sightings, {opened:>6,} open: {cost:5.0f} ms of CPU for 1,000 new by the command, "
        f"alone {base:5.0f} ms: {cost / base:.2f} x; in a process {within:4.0f} ms, alone {base_within:4.0f} ms: "
        f"{within / base_within:.2f} x; built in {grown:.0f} s",
        flush=True,
    )
    return Bar(f"{count:,}", cost, f"{cost:.0f} ms, {cost / base:.2f} x", cost / base <= LIMIT)


def on_a_lake(lake: Path, domains: str) -> None:
    """Print the line of a lake that is there."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "captures").mkdir()
        traffic = Traffic(place / "captures")
        last = pc.max(read_arrow(lake, "silver.lives", ["ended_at_ns"])["ended_at_ns"]).as_py()
        traffic.shift = last + SECOND - BEGIN
        traffic.chance = Random(last)  # flows of an earlier run on this lake would be opened again
        alone(place, domains)  # modules are loaded
        measured(lake, traffic.write(1_000), domains)  # opens what the last build left to the next step
        compared(place, lake, traffic, 0, domains)


def main() -> None:
    """Print a line for each size, and draw them."""
    if sys.argv[1:2] == ["--lake"]:
        on_a_lake(Path(sys.argv[2]), *sys.argv[3:4] or [""])
        return
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    (place / "captures").mkdir(exist_ok=True, parents=True)
    alone(place)  # modules are loaded
    traffic, bars = Traffic(place / "captures"), []
    for size in (each for each in SIZES if each <= largest):
        grown = grow(place, traffic, size) if size else 0
        bars.append(compared(place, place / "lake", traffic, grown))
    title = f"CPU ms for 1,000 new, by the lake's size (at most {LIMIT} x alone)"
    PLOT.write_text(svg_from_panels("hopwire: what a step costs", [Panel(title, tuple(bars))]))


if __name__ == "__main__":
    main()
