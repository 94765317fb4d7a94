"""Writing a capture, beside pyarrow's own writer with the same columns and beside the same bytes written raw.

Then the same messages in trains and one by one: what offering costs the node, writing the disk, and reading the lake.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random

import pyarrow as pa

from benchmarks.timing import Case, best_times, print_table
from hopwire.capture import CaptureSettings, CaptureWriter, Direction, Sync, read_capture
from hopwire.capture.records import RECORDS, Origin, batch_from_rows
from hopwire.model import Message
from hopwire.wire import V6, encode
from hopwire.wire.samples import sample_message
from hopwire.wire.train import pack_train

ROWS = 20_000
BATCH = 1_000
TRAIN, BODY_BYTES = 64, 256  # messages of a train, bytes of the body of each
START = 1_800_000_000_000_000_000
NODE, PEER = b"node-0123456789a", b"peer-0123456789a"
Messages = list[list[bytes]]
Offered = list[tuple[list[bytes], int]]  # frames, and how many messages they are if they are a train


def run() -> None:
    """Measure and print."""
    chance = Random(7)
    messages = [encode(sample_message(V6, chance), V6) for _ in range(ROWS)]
    directory = Path(tempfile.mkdtemp(prefix="hopwire-bench-"))
    try:
        _measure(messages, directory)
        _measure_trains(chance, directory)
    finally:
        shutil.rmtree(directory)


def _measure(messages: Messages, directory: Path) -> None:
    ready = list(map(_batch, _batches(messages)))
    cases: dict[str, Case] = {
        "raw file": lambda: _raw(messages, directory, False),
        "raw file, fsync each batch": lambda: _raw(messages, directory, True),
        "pyarrow stream, batches ready-made": lambda: _arrow(ready, directory),
        "pyarrow stream, from frames": lambda: _arrow(map(_batch, _batches(messages)), directory),
        **{f"CaptureWriter, sync {sync}": _writer_case(messages, directory, sync) for sync in Sync},
        "of that, offer alone": lambda: _offer(messages, directory),
    }
    ns = best_times(cases, ROWS, rounds=9)
    raw, arrow = ns["raw file"], ns["pyarrow stream, from frames"]
    size = sum(map(len, chain.from_iterable(messages))) / ROWS
    rows = [[name, f"{t:.0f}", f"{1e6 / t:.0f}", f"{t / raw:.2f} x", f"{t / arrow:.2f} x"] for name, t in ns.items()]
    header = ["writing", "ns each", "thousand/s", "of raw", "of pyarrow"]
    print_table(f"Capture, V6, {size:.0f} bytes each, {BATCH:,} a batch, one core", header, rows)
    _writer_case(messages, directory / "read", Sync.NEVER)()
    reading = best_times({"read_capture": lambda: _read_all(directory / "read" / Sync.NEVER)}, ROWS, rounds=9)[
        "read_capture"
    ]
    row = ["read_capture, all columns", f"{reading:.0f}", f"{1e6 / reading:.0f}"]
    print_table("Capture, reading it back", ["reading", "ns each", "thousand/s"], [row])


def _measure_trains(chance: Random, directory: Path) -> None:
    count = ROWS // TRAIN * TRAIN
    messages = [
        [PEER, *encode(Message(b"orders.place", 1, body_frames=(chance.randbytes(BODY_BYTES),)))[1:]]
        for _ in range(count)
    ]
    alone: Offered = [(frames, 0) for frames in messages]
    ones: Offered = [([PEER, pack_train([frames], 0)], 1) for frames in messages]
    trains: Offered = [
        ([PEER, pack_train(messages[first : first + TRAIN], 0)], TRAIN) for first in range(0, count, TRAIN)
    ]
    kinds = {"one by one": alone, "in trains of 1": ones, f"in trains of {TRAIN}": trains}
    writing: dict[str, Case] = {}
    reading: dict[str, Case] = {}
    for name, offered in kinds.items():
        place = directory / name.replace(" ", "-")
        writing[f"offer {name}"] = partial(_offer_all, offered, directory / "offered", is_written=False)
        writing[f"offer and write {name}"] = partial(_offer_all, offered, place, is_written=True)
        reading[f"read {name}"] = partial(_read_all, place)
    ns = best_times(writing, count, rounds=9) | best_times(reading, count, rounds=15)
    rows = [[name, f"{each:.0f}", f"{1e6 / each:,.0f}"] for name, each in ns.items()]
    header = ["the same messages", "ns each", "thousand sightings/s"]
    print_table(f"Capture, trains and messages, {BODY_BYTES} bytes of body, one core", header, rows)


def _offer_all(offered: Offered, directory: Path, *, is_written: bool) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    writer = CaptureWriter(directory, NODE, incarnation=1, settings=CaptureSettings(sync=Sync.NEVER))
    for frames, train in offered:
        writer.offer(START, Direction.IN, PEER, frames, train=train)
    if is_written:
        assert writer.close().skipped == 0


def _batches(messages: Messages) -> Iterable[Messages]:
    rest = iter(messages)
    return iter(lambda: list(islice(rest, BATCH)), [])


def _raw(messages: Messages, directory: Path, is_synced: bool) -> None:
    with open(directory / "raw", "wb", buffering=0) as file:
        for batch in _batches(messages):
            file.write(b"".join(chain.from_iterable(batch)))
            if is_synced:
                os.fsync(file.fileno())


def _batch(messages: Messages) -> pa.RecordBatch:
    rows = [(number, START, Direction.IN, PEER, frames, "", "", 0, 0) for number, frames in enumerate(messages)]
    return batch_from_rows(Origin(NODE, "", 1), rows)


def _arrow(batches: Iterable[pa.RecordBatch], directory: Path) -> None:
    with pa.OSFile(str(directory / "stream"), "wb") as file, pa.ipc.new_stream(file, RECORDS) as stream:
        for batch in batches:
            stream.write_batch(batch)


def _writer(directory: Path, sync: Sync) -> CaptureWriter:
    shutil.rmtree(directory, ignore_errors=True)
    return CaptureWriter(directory, NODE, incarnation=1, settings=CaptureSettings(sync=sync))


def _writer_case(messages: Messages, directory: Path, sync: Sync) -> Callable[[], None]:
    def case() -> None:
        with _writer(directory / sync, sync) as writer:
            for batch in _batches(messages):
                for frames in batch:
                    writer.offer(START, Direction.IN, PEER, frames)
                writer.tick(START)
            assert writer.status.written == ROWS

    return case


def _offer(messages: Messages, directory: Path) -> None:
    writer = _writer(directory / "offer", Sync.NEVER)
    for frames in messages:
        writer.offer(START, Direction.IN, PEER, frames)


def _read_all(directory: Path) -> int:
    return sum(batch.num_rows for batch in read_capture(directory))


if __name__ == "__main__":
    run()
