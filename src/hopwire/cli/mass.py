"""Many messages through the batch reader, counted: part of the demonstration."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopwire.wire import FORMATS, decode_batch, encode
from hopwire.wire.samples import break_frames, sample_message

__all__ = ["Tally", "decode_many"]

DISTINCT = 20_000  # messages that are made; the others repeat them
BATCH_ROWS = 16_384
BROKEN_SHARE = 0.02


@dataclass(slots=True)
class Tally:
    """What came out of the batches so far."""

    rows: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    formats: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def decoded(self) -> int:
        """How many rows are messages."""
        return self.formats.total()

    @property
    def quarantined(self) -> int:
        """How many rows have a reason instead."""
        return self.reasons.total()

    @property
    def adds_up(self) -> bool:
        """Whether every row is one or the other."""
        return self.rows == self.decoded + self.quarantined


def decode_many(count: int, chance: random.Random) -> Iterator[Tally]:
    """Decode so many messages of all formats, and give the tally after each batch."""
    distinct = [_frames(number, chance) for number in range(min(DISTINCT, count))]
    column = pa.array(distinct, pa.list_(pa.binary()))
    sizes = np.array([sum(map(len, frames)) for frames in distinct])
    tally = Tally()
    for rows in _draws(count, len(distinct), chance):
        batch = column.take(pa.array(rows))
        start = perf_counter()
        decoded = decode_batch(batch)
        tally.seconds += perf_counter() - start
        tally.rows += len(rows)
        tally.size_bytes += int(sizes[rows].sum())
        tally.formats.update(_counts(decoded.column("wire_format")))
        tally.reasons.update(_counts(decoded.column("reason")))
        yield tally


def _frames(number: int, chance: random.Random) -> list[bytes]:
    fmt = FORMATS[number % len(FORMATS)]
    frames = encode(sample_message(fmt, chance), fmt)
    return break_frames(frames, chance) if chance.random() < BROKEN_SHARE else frames


def _draws(count: int, distinct: int, chance: random.Random) -> Iterator[npt.NDArray[np.int64]]:
    draw = np.random.default_rng(chance.randrange(2**32))
    for start in range(0, count, BATCH_ROWS):
        yield draw.integers(0, distinct, min(BATCH_ROWS, count - start))


def _counts(column: pa.Array) -> dict[Any, int]:
    return {each["values"]: each["counts"] for each in column.drop_null().value_counts().to_pylist()}
