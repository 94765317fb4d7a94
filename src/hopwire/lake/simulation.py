"""A simulated network on disk: captures as nodes write them, the truth as Parquet, the domains as a file of settings.

    OUT/captures/*.arrows                         one segment for each node, chunk and incarnation; a crash leaves its
                                                  segment open, cut off within a batch
    OUT/truth/<table>/chunk-000000.parquet        what is true, chunk by chunk
    OUT/domains.toml                              keys, for the build of a lake
    OUT/simulation.json                           the settings, and how much there is; written last

Chunks are made here one after another, or by Spark's Python workers, which write the files themselves. The files are
the same. Sequence numbers go on from chunk to chunk, so on Spark a first pass only counts them.

A task that Spark tries again finds the files of the first try, and writes them anew. A simulation that fails or is
interrupted removes the files that it has made: half a simulation is of no use.

`check_lake` compares a lake with the truth (`simulate/check.py`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hopwire.capture.reader import HIDDEN
from hopwire.capture.records import coupled
from hopwire.capture.segment import END, OPEN_SUFFIX, SUFFIX, SegmentFile, index_path, segment_name
from hopwire.capture.settings import CaptureSettings
from hopwire.disk import create_file, is_regular, local_path, make_directory
from hopwire.errors import CaptureError, LakeError, SettingsError
from hopwire.lake.store import read_arrow, read_manifest
from hopwire.lake.unreadable import UNREADABLE, in_short
from hopwire.model.sighting_batch import SCHEMA
from hopwire.simulate import (
    CHECKED_TABLES,
    FAULTS,
    SCHEMAS,
    Checked,
    Chunk,
    SimulatedCapture,
    SimulatedWorld,
    SimulateSettings,
    check_tables,
    clocks_of,
    counts_of_chunk,
    faults_of,
    next_bases,
    simulate_chunk,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Simulated", "check_lake", "simulate_here", "simulate_on_spark"]

CAPTURES, TRUTH, DOMAINS, SUMMARY = "captures", "truth", "domains.toml", "simulation.json"
BATCH = CaptureSettings()
LOOK_SECONDS = 0.2  # between two looks at the progress

OnChunk = Callable[[int], None]  # how many chunks are done


class Simulated(msgspec.Struct, frozen=True):
    """The summary of a simulated network."""

    seed: int
    nodes: int
    formats: tuple[int, ...]
    rates: dict[str, float]
    sightings: int = 0
    segments: int = 0
    size_bytes: int = 0
    injected: dict[str, int] = {}  # flows with each fault


class _Written(msgspec.Struct, frozen=True):
    """The counts of one chunk that was written."""

    sightings: int
    segments: int
    size_bytes: int
    injected: dict[str, int]


def simulate_here(settings: SimulateSettings, out: Path | str, on_chunk: OnChunk = lambda _: None) -> Simulated:
    """Write a simulated network, one chunk after another."""
    world, out = SimulatedWorld(settings), local_path(out)
    bases = [0] * settings.nodes
    written = []
    with _making(out):
        for number in range(settings.closing + 1):
            chunk, bases = simulate_chunk(world, number, bases)
            written.append(_write_chunk(world, chunk, out))
            on_chunk(number + 1)
        return _finish(world, out, written)


def simulate_on_spark(
    spark: SparkSession, settings: SimulateSettings, out: Path | str, on_chunk: OnChunk = lambda _: None
) -> Simulated:
    """Let Spark's workers write a simulated network: the same files."""
    world, out = SimulatedWorld(settings), local_path(out)
    count = settings.closing + 1
    place = str(out.absolute())

    def write(number: int) -> _Written:
        world = SimulatedWorld(settings)
        return _write_chunk(world, simulate_chunk(world, number, bases[number])[0], Path(place))

    with _making(out):
        numbers = spark.range(0, count, 1, count)
        counts = _collected(numbers, _each(lambda number: counts_of_chunk(SimulatedWorld(settings), number)))
        bases = list(accumulate(counts, next_bases, initial=[0] * settings.nodes))
        with _watched(out / TRUTH / "truth_sightings", on_chunk):
            written = [msgspec.convert(each, _Written) for each in _collected(numbers, _each(write))]
        return _finish(world, out, written)


def _each(work: Callable[[int], Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Do the work for each number that Spark hands out, and give each result as JSON."""

    def workers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = msgspec.json.encode(work(number))
                yield pa.RecordBatch.from_pydict({"number": [number], "done": [done]})

    return workers


def _collected(numbers: Any, workers: Any) -> list[Any]:
    """Give the result for each number, in the order of the numbers: a few bytes for each chunk."""
    rows = numbers.mapInArrow(workers, "number long, done binary").collect()
    return [msgspec.json.decode(bytes(row.done)) for row in sorted(rows, key=lambda row: int(row.number))]


@contextmanager
def _watched(directory: Path, on_chunk: OnChunk) -> Iterator[None]:
    """Meanwhile tell how many chunks are done: each chunk leaves a file."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            on_chunk(len(list(directory.glob("*.parquet"))) if directory.is_dir() else 0)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


# -- files


@contextmanager
def _making(out: Path) -> Iterator[None]:
    """Make the directory; if the work within fails, leave all as it was."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SettingsError(f"{out}: is there already; name an empty or a new directory")
    missing = [path for path in (out, *out.parents) if not path.exists()]
    try:
        make_directory(out / CAPTURES)
        yield
    except OSError as error:
        _remove(out, missing)
        remedy = "nothing was kept; choose another directory, or fewer messages"
        raise CaptureError(f"{out}: cannot be written ({error.strerror or error}); {remedy}") from error
    except BaseException:
        _remove(out, missing)
        raise


def _remove(out: Path, missing: list[Path]) -> None:
    """Remove the files of a simulation, and the directories that were missing before."""
    for name in (CAPTURES, TRUTH):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in (DOMAINS, SUMMARY):
        (out / name).unlink(missing_ok=True)
    for path in missing:
        with suppress(OSError):  # somebody else has put something there
            path.rmdir()


def _write_chunk(world: SimulatedWorld, chunk: Chunk, out: Path) -> _Written:
    sizes = [_write_capture(world, chunk.number, capture, out / CAPTURES) for capture in chunk.captures]
    flows = chunk.truth["truth_flows"].column("fault").to_pylist()
    for name, table in chunk.truth.items():
        _write_truth(out, name, f"chunk-{chunk.number:06d}", table)
    return _Written(chunk.row_count, len(sizes), sum(sizes), Counter(fault for fault in flows if fault))


def _write_capture(world: SimulatedWorld, chunk: int, capture: SimulatedCapture, directory: Path) -> int:
    """Write the sightings of one node as a segment; give the size of the segment."""
    records = coupled(capture.sightings.cast(SCHEMA))
    opened_at_ns = records.column("seen_at_ns")[0].as_py()
    name = segment_name(opened_at_ns, world.nodes[capture.node].identity, chunk + 1)
    sealed, left_open = directory / (name + SUFFIX), directory / (name + OPEN_SUFFIX)
    for path in (sealed, left_open, index_path(sealed)):
        path.unlink(missing_ok=True)
    segment = SegmentFile(directory, name, opened_at_ns)
    for start in range(0, records.num_rows, BATCH.batch_rows):
        segment.append(records.slice(start, BATCH.batch_rows))
    segment.seal(is_synced=False)
    if not capture.is_cut_off:
        return segment.size_bytes
    _cut_off(sealed, left_open, records.slice(0, 1))
    return left_open.stat().st_size


def _cut_off(sealed: Path, left_open: Path, batch: pa.RecordBatch) -> None:
    """Turn a sealed segment into one that a crash left behind: open, and with half of a batch at its end."""
    data = sealed.read_bytes().removesuffix(END)
    index_path(sealed).unlink()
    sealed.unlink()
    half = memoryview(batch.serialize())
    _write(left_open, data + bytes(half[: len(half) // 2]))


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(create_file(path), "wb") as file:
        file.write(content)


def _write_truth(out: Path, name: str, part: str, table: pa.Table) -> None:
    place = out / TRUTH / name
    make_directory(place)
    aside = place / f".{part}.unfinished"
    aside.unlink(missing_ok=True)  # left by a task that was tried before
    with os.fdopen(create_file(aside), "wb") as file:
        pq.write_table(table, file, compression="zstd")
    aside.rename(place / f"{part}.parquet")


def _finish(world: SimulatedWorld, out: Path, written: list[_Written]) -> Simulated:
    settings = world.settings
    injected: Counter[str] = Counter()
    for each in written:
        injected.update(each.injected)
    _write_truth(out, "truth_clocks", "all", clocks_of(world))
    _write_truth(out, "truth_faults", "all", faults_of(world, injected))
    _write(out / DOMAINS, world.domains_toml().encode())
    simulated = Simulated(
        settings.seed,
        settings.nodes,
        settings.formats,
        {name: settings.rate(name) for name in FAULTS},
        sum(each.sightings for each in written),
        sum(each.segments for each in written),
        sum(each.size_bytes for each in written),
        {name: injected[name] for name in FAULTS if injected[name]},
    )
    _write(out / SUMMARY, msgspec.json.format(msgspec.json.encode(simulated), indent=1) + b"\n")
    return simulated


# -- the truth, read again


def check_lake(lake: Path | str, truth: Path | str) -> Checked:
    """Compare a lake with the directory `truth` of the network that its captures are of."""
    manifest = read_manifest(lake)
    tables = manifest.tables
    if not set(tables) & set(CHECKED_TABLES):
        raise LakeError(f"{lake}: has none of {', '.join(CHECKED_TABLES)}; build it first")
    left_count = sum(source.expired + source.forgotten for source in manifest.sources.values())
    return check_tables(tables, partial(read_arrow, lake), partial(_read_truth, local_path(truth)), left_count)


def _read_truth(directory: Path, name: str, columns: Sequence[str]) -> pa.Table:
    place = directory / name
    files = sorted(path for path in place.glob("*") if not path.name.startswith(HIDDEN) and is_regular(path))
    if not files:
        raise LakeError(f"{directory}: has no {name}; name the directory `truth` of a simulated network")
    return pa.concat_tables([_read_truth_file(file, SCHEMAS[name]).select(columns) for file in files])


def _read_truth_file(file: Path, schema: pa.Schema) -> pa.Table:
    try:
        return pq.read_table(file, columns=schema.names, partitioning=None).select(schema.names).cast(schema)
    except (*UNREADABLE, KeyError) as error:
        remedy = "remove it if it is not of the truth, or simulate anew"
        raise LakeError(f"{file}: cannot be read ({in_short(error)}); {remedy}") from None
