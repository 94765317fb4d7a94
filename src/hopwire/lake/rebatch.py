"""Batches of a good size: small ones are put together, large ones are cut, by rows and by bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

__all__ = ["rebatched"]


def rebatched(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Give the same rows in batches of at most so many rows and bytes; a row that is larger comes alone."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for piece in (piece for batch in batches for piece in _pieces(batch, max_rows, max_bytes)):
        if waiting and (rows + len(piece) > max_rows or size + piece.nbytes > max_bytes):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(piece)
        rows, size = rows + len(piece), size + piece.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _pieces(batch: pa.RecordBatch, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= max_bytes:
        for start in range(0, len(batch), max_rows):
            yield batch.slice(start, max_rows)
        return
    ends = _sizes(batch).cumsum()
    start = 0
    while start < len(batch):
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + max_bytes, side="right")) - start
        count = min(max(fitting, 1), max_rows)
        yield batch.slice(start, count)
        start += count


def _sizes(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bytes of the frames of each row."""
    frames = batch.column("frames")
    bounds = frames.offsets.to_numpy(zero_copy_only=False)
    lengths = np.diff(np.frombuffer(frames.values.buffers()[1], dtype=np.int32))[frames.values.offset :]
    sums = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return np.asarray(sums[bounds[1:]] - sums[bounds[:-1]], dtype=np.int64)
