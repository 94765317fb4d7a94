"""What the tests of a capture share: small writers, and rows as they come back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hopwire.capture import CaptureSettings, CaptureWriter, Direction, Fault, Sighting, read_capture
from hopwire.capture import sightings_from_batch as sightings_from

START = 1_800_000_000_000_000_000  # some night in 2027
MS = 1_000_000
S = 1_000_000_000
NODE = b"node-a"


def writer(directory: Path, node: bytes = NODE, incarnation: int = 1, **settings: Any) -> CaptureWriter:
    """Give a writer with small batches."""
    chosen = CaptureSettings(**{"batch_rows": 4, **settings})
    return CaptureWriter(directory, node, incarnation=incarnation, node_name=node.decode().upper(), settings=chosen)


def frames(number: int, size: int = 10) -> list[bytes]:
    return [b"", b"%d" % number, bytes(size)]


def append_many(capture: CaptureWriter, count: int, first: int = 0, step_ns: int = MS, size: int = 10) -> None:
    """Append so many sightings, one each millisecond."""
    for number in range(first, first + count):
        capture.append(START + number * step_ns, Direction.IN, b"peer", frames(number, size))


def write(directory: Path, count: int, node: bytes = NODE, first: int = 0, **settings: Any) -> None:
    """Write a whole capture of so many sightings."""
    with writer(directory, node, **settings) as capture:
        append_many(capture, count, first)


def rows(paths: Path | Sequence[Path], **wanted: Any) -> list[Sighting]:
    """Give what is in a capture, with frames as lists."""
    return [row for batch in read_capture(paths, **wanted) for row in sightings_from(batch)]


def numbers(found: Sequence[Sighting]) -> list[int]:
    """Give the numbers that were written into the frames."""
    return [int(row.frames[1]) for row in found if row.frames]


def read_all(path: Path) -> tuple[list[pa.RecordBatch], list[Fault]]:
    """Give the batches of a capture and what is wrong with it."""
    faults: list[Fault] = []
    return list(read_capture(path, on_fault=faults.append)), faults


def names(directory: Path, suffix: str = ".arrows") -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(suffix))


def covered(found: Sequence[Sighting]) -> list[int]:
    """Give every sequence number that the rows stand for: their own, or those that they say are missing."""
    return [number for row in found for number in range(row.sequence, row.sequence + (row.skipped or 1))]
