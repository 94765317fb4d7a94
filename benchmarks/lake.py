"""The lake on Spark: decoding, MACs, tables and the whole build, beside a scan that touches the same bytes.

    python benchmarks/lake.py --messages 1000000
    python benchmarks/lake.py --messages 1000000 --scaling 1000000,2000000,4000000
    python benchmarks/lake.py --data /tmp/bench          # keeps the captures for the next time
    python benchmarks/lake.py --rounds 0 --scaling 10000000 --keep /tmp/lake     # the last lake stays

One Spark on two cores, warm: a small lake is built first, by the way that a large one takes. The captures are
simulated, of all formats and with all faults. Cases take turns, and ratios are those of one round. The scan reads the
same frames from Parquet, uncompressed, and hashes every byte in the JVM: no frame comes to Python.

"Nothing judged" is what no build can leave out: captures are read, decoded, hashed and written as a build does, and the
tables of flows that the build has made are read and written once more, in place of being judged.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.plot import Bar, Panel, svg_from_panels
from benchmarks.timing import show_table
from benchmarks.watch import ALL, JVM, WORKERS, CpuTime, Peak, watched
from hopwire.capture import SCHEMA as CAPTURE
from hopwire.capture.file_faults import Fault
from hopwire.capture.sources import read_source
from hopwire.errors import WireError
from hopwire.lake.build import build
from hopwire.lake.catalog import find_sources, groups_of
from hopwire.lake.flow_tasks import JUDGED
from hopwire.lake.parquet_output import TableOutput
from hopwire.lake.session import session
from hopwire.lake.settings import LakeSettings
from hopwire.lake.simulation import simulate_on_spark
from hopwire.lake.store import files_of
from hopwire.lake.tables import all_tables
from hopwire.lake.worker import INGESTED, IngestTask, rebatched, split_batch
from hopwire.security import OPEN, Domains
from hopwire.security.batch_verdicts import verify_batch
from hopwire.security.domain_settings import domains_from_table
from hopwire.simulate import SimulateSettings
from hopwire.wire import SCHEMA, decode, decode_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
MESSAGES, WARM_UP = 200_000, 20_000
SAMPLE = 100_000  # rows for what is slow; with few, the fixed cost of a job would be scaled up with them
FRAMES_BYTES = 64 * 1024 * 1024  # of captures whose frames become one file
WARM_SCANS = 10  # Java gets faster for about so long; a scan that is still cold would flatter all others
SETTINGS = LakeSettings()
BUILD = LakeSettings(step_rows=1_000)  # all builds by the workers of Spark, also the first small one
SPARK = {"spark.master": "local[2]", "spark.driver.memory": "4g"}
QUIET_LOAD = 1.0
GB = 1024**3
PLOT = Path(__file__).with_name("lake.svg")
COUNT = pa.schema([("count", pa.int64())])
# fmt: off
SCAN, READ, DECODE, VERIFY = "scan", "read", "decode", "decode, MACs verified"
SILVER, ALL_TABLES, INGEST = "decode, silver written", "decode, silver and bronze written", "captures, as a build does"
UDF = "a Python UDF for each row"
BUILD_CASE = "whole build"
FLOOR_CASE = "nothing judged"
TARGETS = (
    # what is compared, with what, at most so many times as long
    (DECODE, SCAN, 2.5),
    (SILVER, SCAN, 3.0),
)
NOT_IN_A_MESSAGE = ("wire_format", "callback_points", "routing", "reason_frame", "reason_byte")  # the UDF has it easier
MAC_SHARE = 0.5  # of the time of decoding, that verifying may add
GROWTH = 1.25    # of the time for a message, from the smallest to the largest lake
BUILDS = ((10_000_000, 8.0), (0, 12.0))  # from so many messages on, a whole build takes at most so many scans
MEMORY_GB = 8.0
# fmt: on

Batches = Iterable[pa.RecordBatch]
Work = Callable[[Batches], int]  # with the rows of one source; gives how many there were


@dataclass(frozen=True, slots=True)
class Data:
    """Simulated captures, and the same frames as Parquet."""

    place: Path

    @property
    def captures(self) -> Path:
        """The captures."""
        return self.place / "captures"

    @property
    def frames(self) -> Path:
        """The frames of each source as a file of Parquet."""
        return self.place / "frames"

    @property
    def domains(self) -> Domains:
        """The domains whose keys have signed."""
        return domains_from_table(tomllib.loads((self.place / "domains.toml").read_text()))

    @property
    def groups(self) -> list[list[IngestTask]]:
        """The sources as a build hands them out."""
        return groups_of(_tasks(self.captures), SETTINGS.task_bytes)


def _tasks(captures: Path) -> list[IngestTask]:
    sources = [each.source for each in find_sources(captures)[0].values()]
    return [IngestTask(each.name, str(each.path), each.kind, each.size_bytes) for each in sources]


def made(spark: SparkSession, place: Path, messages: int) -> Data:
    """Simulate captures, if they are not there already."""
    data = Data(place / f"messages-{messages}")
    if not (data.place / "simulation.json").exists():
        simulate_on_spark(spark, SimulateSettings(messages=messages), data.place)
    if not data.frames.exists():
        aside = data.place / "frames.unfinished"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for number, group in enumerate(groups_of(_tasks(data.captures), FRAMES_BYTES)):
            _write_frames(group, aside / f"{number}.parquet")
        aside.rename(data.frames)
    return data


def _write_frames(group: Sequence[IngestTask], path: Path) -> None:
    """Write the frames of some sources into one file: the scan must not pay for many small ones."""
    kind = pa.schema([CAPTURE.field("frames")])
    with pq.ParquetWriter(path, kind, compression="none", use_dictionary=False) as writer:
        for task in group:
            rows = rebatched(read_source(task.source, on_fault=_ignored), SETTINGS.batch_rows, SETTINGS.batch_bytes)
            for batch in rows:
                writer.write_batch(pa.RecordBatch.from_arrays([batch.column("frames")], schema=kind))


def _ignored(fault: Fault) -> None:
    """Crashes leave segments that are cut off: as it should be."""


# -- cases: each does its work and gives how many rows it saw


def scanned(spark: SparkSession, data: Data) -> int:
    """Touch every byte of every frame."""
    from pyspark.sql import functions as F

    frames = spark.read.parquet(str(data.frames))
    return int(frames.agg(F.bit_xor(F.xxhash64("frames")), F.count("*")).collect()[0][1])


def by_rows(spark: SparkSession, data: Data) -> int:
    """Decode a sample with what a user would write first."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    names = [name for name in SCHEMA.names if name not in NOT_IN_A_MESSAGE]
    kind = from_arrow_schema(pa.schema([SCHEMA.field(name) for name in names]))

    def read(frames: list[bytes]) -> Any:
        try:
            message = decode([bytes(frame) for frame in frames])
        except WireError as error:
            return tuple(error.reason if name == "reason" else None for name in names)
        version: dict[str, Any] = {"version": None, "version_raw": None, "reason": None}
        version["version_raw" if isinstance(message.version, bytes) else "version"] = message.version
        values = (version[name] if name in version else getattr(message, name) for name in names)
        return tuple(list(value) if isinstance(value, tuple) else value for value in values)

    rows = spark.read.parquet(str(data.frames)).limit(SAMPLE)
    decoded = rows.repartition(2).select(F.udf(read, kind)("frames").alias("message"))
    decoded.write.format("noop").mode("overwrite").save()
    return SAMPLE


def in_workers(spark: SparkSession, data: Data, work: Work) -> int:
    """Let workers read the sources as a build does, and do the work with each group: small batches are joined."""
    groups = data.groups

    def count(batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            rows = (rows for task in groups[number] for rows in read_source(task.source, on_fault=_ignored))
            counted = work(rebatched(rows, SETTINGS.batch_rows, SETTINGS.batch_bytes))
            yield pa.RecordBatch.from_arrays([pa.array([counted])], schema=COUNT)

    numbers = spark.range(0, len(groups), 1, len(groups))
    return sum(row[0] for row in numbers.mapInArrow(count, "count long").collect())


def reading(batches: Batches) -> int:
    """Only read."""
    return sum(map(len, batches))


def decoding(batches: Batches) -> int:
    """Decode all fields."""
    return sum(len(decode_batch(batch.column("frames"))) for batch in batches)


def verifying(domains: Domains) -> Work:
    """Decode all fields and judge the signatures."""
    return lambda batches: sum(
        len(verify_batch(decode_batch(batch.column("frames")), domains, batch.column("seen_at_ns")))
        for batch in batches
    )


def writing(place: Path, tables: Sequence[str], domains: Domains = OPEN) -> Work:
    """Decode all fields and write tables; keys, extensions and outcomes, which stand in them, are read too."""

    def work(batches: Batches) -> int:
        outputs = {name: TableOutput(place / name, uuid4().hex, INGESTED[name], SETTINGS) for name in tables}
        count = 0
        for batch in batches:
            split = dict(zip(INGESTED, split_batch(batch, "segment", domains), strict=True))
            for name, output in outputs.items():
                output.add(split[name])
            count += len(batch)
        for output in outputs.values():
            output.close()
        return count

    return work


def floored(spark: SparkSession, data: Data, lake: Path, place: Path) -> int:
    """Do what no build of these captures can leave out; the rows of flows are those of a lake that was built."""
    count = in_workers(spark, data, writing(place, tuple(INGESTED), data.domains))
    files = [(name, str(path)) for name in JUDGED for path in files_of(lake, name)]

    def copy(batches: Batches) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            name, path = files[number]
            layout = all_tables()[name].layout({})
            output = TableOutput(place / name, uuid4().hex, layout, SETTINGS)
            for batch in pq.read_table(path, use_threads=False).cast(layout.schema).to_batches():
                output.add_stored(batch)
            output.close()
            yield pa.RecordBatch.from_arrays([pa.array([1])], schema=COUNT)

    spark.range(0, len(files), 1, len(files)).mapInArrow(copy, "count long").collect()
    return count


# -- measuring


@dataclass(slots=True)
class Measured:
    """Seconds of each case in each round, and of each table in the build; scaled to all messages."""

    messages: int
    size_bytes: int
    rounds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)  # seconds of CPU time of all processes
    tables: dict[str, float] = field(default_factory=dict)
    build: float = 0.0
    floor: float = 0.0
    peak: Peak = field(default_factory=Peak)

    def seconds(self, case: str) -> float:
        """The median of the rounds."""
        return median(self.rounds[case])

    def cpu_figures(self, case: str) -> list[str]:
        """The CPU time, and its ratio to that of the scan: other work on the machine changes these less."""
        spent, scan = median(self.cpu[case]), median(self.cpu[SCAN])
        return [f"{spent:.1f}", f"{spent / scan:.2f} x"]

    def ratio(self, case: str, other: str) -> float:
        """The median of the ratios within a round."""
        return median(a / b for a, b in zip(self.rounds[case], self.rounds[other], strict=True))


def measure(spark: SparkSession, data: Data, place: Path, rounds: int) -> Measured:
    """Run all cases in turns, then the whole build."""
    domains, scratch = data.domains, place / "written"
    silver = ("silver.messages", "silver.quarantine")
    cases: dict[str, Callable[[], int]] = {
        SCAN: lambda: scanned(spark, data),
        READ: lambda: in_workers(spark, data, reading),
        DECODE: lambda: in_workers(spark, data, decoding),
        VERIFY: lambda: in_workers(spark, data, verifying(domains)),
        SILVER: lambda: in_workers(spark, data, writing(scratch, silver)),
        ALL_TABLES: lambda: in_workers(spark, data, writing(scratch, tuple(INGESTED))),
        INGEST: lambda: in_workers(spark, data, writing(scratch, tuple(INGESTED), domains)),
        UDF: lambda: by_rows(spark, data),
    }
    size = sum(path.stat().st_size for path in data.captures.iterdir())
    found = Measured(in_workers(spark, data, reading), size)
    for _ in range(WARM_SCANS):
        scanned(spark, data)
    for number in range(rounds + 1):
        for name, case in cases.items():
            seconds, spent, count = _timed(scratch, case)
            assert count == (found.messages if name != UDF else SAMPLE), f"{name}: {count} rows"
            if number:  # the first round is for warmth
                found.rounds.setdefault(name, []).append(seconds * found.messages / count)
                found.cpu.setdefault(name, []).append(spent * found.messages / count)
    built(spark, data, place, found)
    return found


def _timed(scratch: Path, case: Callable[[], int]) -> tuple[float, float, int]:
    """Give the seconds, the seconds of CPU time, and how many rows there were."""
    scratch.mkdir(parents=True)
    try:
        cpu = CpuTime()
        begin, before = time.perf_counter(), cpu.seconds()
        count = case()
        return time.perf_counter() - begin, cpu.seconds() - before, count
    finally:
        shutil.rmtree(scratch)


def built(spark: SparkSession, data: Data, place: Path, found: Measured, keep: Path | None = None) -> None:
    """Build the whole lake, and see how long each table takes and how much memory; the lake may be kept somewhere."""
    lake, times = keep or place / "lake", dict[str, list[float]]()
    if keep is None:
        shutil.rmtree(lake, ignore_errors=True)

    def progress(what: str, done: int, total: int) -> None:
        times.setdefault(what, []).append(time.perf_counter())

    begin = time.perf_counter()
    with watched() as watch:
        build(spark, data.captures, lake, domains=data.domains, settings=BUILD, progress=progress)
    found.build = time.perf_counter() - begin
    found.peak, found.cpu[BUILD_CASE] = watch.peak, [watch.cpu_seconds]
    found.tables = {what: marks[-1] - marks[0] for what, marks in times.items()}
    with watched() as watch:
        found.floor, _, _ = _timed(place / "floor", lambda: floored(spark, data, lake, place / "floor"))
    found.cpu[FLOOR_CASE] = [watch.cpu_seconds]
    if keep is None:
        shutil.rmtree(lake)


# -- showing


def show(found: Measured) -> None:
    """Print what was measured at one size."""
    size = f"{found.messages:,} messages, {found.size_bytes / 1e6:,.0f} MB"
    rows = [
        [name, *_figures(found, found.seconds(name)), f"{found.ratio(name, SCAN):.2f} x", *found.cpu_figures(name)]
        for name in found.rounds
    ]
    of_scan = f"{found.build / found.seconds(SCAN):.2f} x"
    rows.append([BUILD_CASE, *_figures(found, found.build), of_scan, *found.cpu_figures(BUILD_CASE)])
    of_scan = f"{found.floor / found.seconds(SCAN):.2f} x"
    rows.append([FLOOR_CASE, *_figures(found, found.floor), of_scan, *found.cpu_figures(FLOOR_CASE)])
    header = ["what", "s", "us each", "thousand/s", "of the scan", "CPU s", "CPU of the scan"]
    show_table(f"Lake, {size}, two cores", header, rows)
    tables = sorted(found.tables.items(), key=lambda each: -each[1])
    rows = [[name, f"{seconds:.1f}", f"{seconds / found.seconds(SCAN):.2f} x"] for name, seconds in tables]
    show_table("Lake, tables within the build", ["table", "s", "of the scan"], rows)
    show_table("Lake, targets", ["what", "target", "found", ""], list(judged(found)))
    print("\nMemory at most: " + ", ".join(f"{kind} {size / GB:.2f} GB" for kind, size in sorted(found.peak.items())))


def _figures(found: Measured, seconds: float) -> list[str]:
    each = seconds / found.messages
    return [f"{seconds:.1f}", f"{each * 1e6:.2f}", f"{1e-3 / each:,.0f}"]


def judged(found: Measured) -> Iterator[list[str]]:
    """Give the targets, and whether they are met."""
    for case, other, limit in TARGETS:
        ratio = found.ratio(case, other)
        yield [case, f"at most {limit:g} x {other}", f"{ratio:.2f} x", _met(ratio <= limit)]
    share = found.ratio(VERIFY, DECODE) - 1
    yield ["MACs", f"at most {MAC_SHARE:g} of decode more", f"{share:.2f}", _met(share <= MAC_SHARE)]
    yield from judged_build(found)


def judged_build(found: Measured) -> Iterator[list[str]]:
    """Give the targets of a whole build, and whether they are met."""
    limit = next(times for size, times in BUILDS if found.messages >= size)
    ratio, memory = found.build / found.seconds(SCAN), found.peak[ALL] / GB
    what = f"whole build of {found.messages / 1e6:.1f} M"
    yield [what, f"at most {limit:g} x {SCAN}", f"{ratio:.2f} x", _met(ratio <= limit)]
    yield [f"{what}, memory", f"at most {MEMORY_GB:g} GB", f"{memory:.2f} GB", _met(memory <= MEMORY_GB)]


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def show_scaling(sizes: Sequence[Measured]) -> None:
    """Print time and memory of builds of several sizes."""
    rows = [
        [
            f"{each.messages:,}",
            *_figures(each, each.build)[:2],
            f"{each.build / each.seconds(SCAN):.2f} x",
            *each.cpu_figures(BUILD_CASE),
            f"{each.floor / each.seconds(SCAN):.2f} x",
            each.cpu_figures(FLOOR_CASE)[1],
            *(f"{each.peak[kind] / GB:.2f}" for kind in (JVM, WORKERS, ALL)),
        ]
        for each in sizes
    ]
    header = ["messages", "s", "us each", "of the scan", "CPU s", "CPU of the scan", FLOOR_CASE, "CPU of the scan"]
    header += ["JVM GB", "workers GB", "all GB"]
    show_table("Lake, whole build", header, rows)
    show_table(
        "Lake, targets of the whole build",
        ["what", "target", "found", ""],
        [row for each in sizes for row in judged_build(each)],
    )
    growth = (sizes[-1].build / sizes[-1].messages) / (sizes[0].build / sizes[0].messages)
    is_met = "met" if growth <= GROWTH else "missed"
    print(f"\nA message takes {growth:.2f} x as long in the largest as in the smallest; at most {GROWTH} x: {is_met}")


def panels_from(sizes: Sequence[Measured]) -> list[Panel]:
    """Give the panels of the plot: time and memory against size."""
    seconds = [
        Bar(
            f"{each.messages:,}",
            each.build,
            f"{each.build:.0f} s, {each.build / each.messages * 1e6:.0f} us each",
            True,
        )
        for each in sizes
    ]
    memory = [Bar(f"{each.messages:,}", each.peak[ALL] / GB, _memory(each.peak), True) for each in sizes]
    return [
        Panel("whole build in seconds, by messages (straight is good)", tuple(seconds)),
        Panel("memory at most in GB, by messages (level is good)", tuple(memory)),
    ]


def _memory(peak: Peak) -> str:
    return f"{peak[ALL] / GB:.1f}, JVM {peak[JVM] / GB:.1f}"


def run(
    messages: int = MESSAGES,
    rounds: int = 3,
    scaling: Sequence[int] = (),
    data: Path | None = None,
    keep: Path | None = None,
) -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    place = Path(tempfile.mkdtemp(prefix="hopwire-bench-"))
    try:
        spark = session("benchmark", **SPARK)
        kept = data or place
        built(spark, made(spark, kept, WARM_UP), place, Measured(0, 0))
        if rounds:
            show(measure(spark, made(spark, kept, messages), place, rounds))
        if scaling:
            _scale(spark, kept, place, scaling, keep)
    finally:
        shutil.rmtree(place)
    print(f"\n{rounds} rounds; {os.cpu_count()} cores, load before: {load:.1f}.")
    if load > QUIET_LOAD:
        print("The machine was busy: every figure is too high, and the ratios are rough.")


def _scale(spark: SparkSession, kept: Path, place: Path, scaling: Sequence[int], keep: Path | None) -> None:
    sizes = []
    for messages in scaling:
        data = made(spark, kept, messages)
        sizes.append(Measured(in_workers(spark, data, reading), 0))
        scans = [_timed(place / "written", partial(scanned, spark, data))[:2] for _ in range(WARM_SCANS // 2)][2:]
        sizes[-1].rounds[SCAN], sizes[-1].cpu[SCAN] = map(list, zip(*scans, strict=True))
        built(spark, data, place, sizes[-1], keep if messages == scaling[-1] else None)
        print(f"{messages:,}: built in {sizes[-1].build:.0f} s", flush=True)
    show_scaling(sizes)
    PLOT.write_text(svg_from_panels("hopwire: building a lake", panels_from(sizes)))


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=MESSAGES, help="sightings, about")
    parser.add_argument("--rounds", type=int, default=3, help="0 leaves out all but --scaling")
    parser.add_argument(
        "--scaling", default="", help="sizes of further builds, commas between: draws benchmarks/lake.svg"
    )
    parser.add_argument("--data", type=Path, help="where captures are kept for the next time")
    parser.add_argument(
        "--keep", type=Path, help="where the last lake of --scaling stays: a directory that is not there"
    )
    options = parser.parse_args()
    if options.keep and options.keep.exists():
        parser.error(f"--keep: {options.keep} is there already")
    if options.rounds and options.messages < SAMPLE:
        parser.error(f"--messages: found {options.messages}, expected {SAMPLE} or more")
    scaling = [int(word) for word in options.scaling.split(",") if word]
    run(options.messages, options.rounds, scaling, options.data, options.keep)


if __name__ == "__main__":
    main()
