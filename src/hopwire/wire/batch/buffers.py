"""The frames of a batch in the buffers of Arrow: one buffer of bytes, the start of each frame, the frames of each row.

Numbers are gathered through views: a view sees the buffer as values that start at every byte. A position behind the end
of the buffer is moved back to the last possible position. So `gather` never fails, and the caller has to check whether
the position was within its frame.

A piece is a stretch of the buffer, and pieces are numbered. Piece 0 is empty and stands for a value that is missing.
Frame i of the batch is piece i + 1. Blobs within frames become pieces by `add`. `copies` copies all wanted pieces at
once.

The trap: the bounds of all pieces are one array of numbers, so the space between two added pieces has a piece number
too. Such a number may mean any stretch, even one that ends before it begins. `add` never gives these numbers out.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints
from hopwire.errors import WireError
from hopwire.model.limits import Limits

__all__ = ["Copy", "Frames", "list_of_binary"]

Copy: TypeAlias = tuple[Any, Any]  # the buffers of a binary array: bounds and bytes

MAX_BATCH_BYTES = 2**31 - 1  # what the 32-bit offsets of a binary column reach
SMALLEST_BUFFER = 64  # no layout is longer; a view needs a buffer at least as long as its layout


def list_of_binary(given: Any) -> Any:
    """Give a column of frames as an Arrow list array, or raise a WireError that says what was found instead."""
    if isinstance(given, pa.ChunkedArray):
        given = pa.concat_arrays(given.chunks) if given.num_chunks else pa.array([], given.type)
    if not isinstance(given, pa.Array):
        raise WireError("not_frames", f"found {type(given).__name__}, expected an Arrow array of list<binary>")
    kind = given.type
    if pa.types.is_null(kind):
        return given.cast(pa.list_(pa.binary()))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise WireError("not_frames", f"found an array of {kind}, expected list<binary>")
    frame = kind.value_type
    if pa.types.is_binary(frame) or pa.types.is_large_binary(frame):
        return given
    if pa.types.is_null(frame) or frame == pa.binary_view():
        return given.cast(pa.list_(pa.binary()))
    raise WireError("not_frames", f"found an array of {kind}, expected list<binary>")


class Frames:
    """All frames of a batch."""

    def __init__(self, lists: Any) -> None:
        self._lists = lists
        bounds = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64) + 1
        self.first: Ints = bounds[:-1]
        self.end: Ints = bounds[1:]
        self.count: Ints = self.end - self.first
        child = lists.values
        self._missing = child.is_null().to_numpy(zero_copy_only=False) if child.null_count else None
        self.starts = _starts(child)
        values = child.buffers()[2]
        if values is None or values.size < SMALLEST_BUFFER:
            values = pa.py_buffer((values.to_pybytes() if values is not None else b"").ljust(SMALLEST_BUFFER, b"\0"))
        self.values = values
        self.data: npt.NDArray[np.uint8] = np.frombuffer(values, dtype=np.uint8)
        self._views: dict[int, npt.NDArray[np.void]] = {}
        self._pieces: list[npt.NDArray[Any]] = [self.starts]
        self._piece_count = len(self.starts)

    def __len__(self) -> int:
        return len(self.count)

    def gather(self, layout: np.dtype[Any], at: Ints) -> npt.NDArray[Any]:
        """Read a value at each position."""
        size = layout.itemsize
        last = len(self.data) - size
        if size not in self._views:
            self._views[size] = np.ndarray((last + 1,), f"V{size}", self.data, strides=(1,))
        return self._views[size][np.minimum(at, last)].view(layout)

    def frame(self, index: Ints) -> tuple[Ints, Ints]:
        """Give where frames start and end."""
        return self.starts.take(index), self.starts.take(index + 1)

    def add(self, start: Ints, stop: Ints) -> Ints:
        """Make pieces and give their numbers."""
        bounds = np.empty((len(start), 2), dtype=np.int32)
        bounds[:, 0] = start
        bounds[:, 1] = stop
        first = self._piece_count
        self._pieces.append(bounds.ravel())
        self._piece_count += bounds.size
        return np.arange(first, self._piece_count, 2)

    def copies(self, wanted: list[Ints]) -> list[Copy]:
        """Copy columns of pieces, all in one go."""
        bounds = _joined([*self._pieces, self.starts[-1:]], np.int32)
        pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), self.values])
        numbers = _joined(wanted, np.uint32)  # faster than wider ones
        _, taken, data = pc.take(pieces, pa.array(numbers), boundscheck=False).buffers()
        ends = accumulate(map(len, wanted))
        return [(taken.slice(4 * (end - len(n)), 4 * len(n) + 4), data) for end, n in zip(ends, wanted, strict=True)]

    def sound(self, limits: Limits) -> Bools:
        """Tell which rows are lists of frames within the limits."""
        size = self.starts[self.end] - self.starts[self.first]
        sound: Bools = (self.count > 0) & (self.count <= limits.max_frames) & (size <= limits.max_bytes)
        if self._lists.null_count:
            sound &= self._lists.is_valid().to_numpy(zero_copy_only=False)
        if self._missing is not None:
            missing = np.concatenate([[0, 0], np.cumsum(self._missing)])
            sound &= missing[self.end] == missing[self.first]
        return sound

    def row(self, row: int) -> list[bytes | None] | None:
        """Give the frames of one row, as the walk takes them."""
        if self._lists.null_count and not self._lists[row].is_valid:
            return None
        first, end = int(self.first[row]), int(self.end[row])
        bounds = self.starts[first : end + 1].tolist()
        frames: list[bytes | None] = [self.data[a:b].tobytes() for a, b in pairwise(bounds)]
        if self._missing is not None:
            frames = [None if self._missing[first - 1 + i] else frame for i, frame in enumerate(frames)]
        return frames


def _joined(arrays: list[npt.NDArray[Any]], kind: Any) -> npt.NDArray[Any]:
    """Arrays one after another, in memory of Arrow, which keeps freed memory longer than numpy does."""
    memory = pa.allocate_buffer(4 * sum(map(len, arrays)))
    return np.concatenate(arrays, out=np.frombuffer(memory, dtype=kind), casting="unsafe")


def _starts(child: Any) -> Ints:
    """Where the empty piece and each frame start, and where the last frame ends."""
    starts = child.buffers()[1]
    if starts is None or len(child) == 0:
        return np.zeros(len(child) + 2, dtype=np.int32)
    width = np.int64 if pa.types.is_large_binary(child.type) else np.int32
    stop = child.offset + len(child) + 1
    bounds = np.frombuffer(starts, dtype=width, count=stop)[child.offset :]
    if bounds[-1] > MAX_BATCH_BYTES:
        detail = f"a batch holds up to {MAX_BATCH_BYTES} bytes, found {bounds[-1]}; split it"
        raise WireError("too_many_bytes", detail)
    return np.concatenate([bounds[:1], bounds], dtype=np.int32, casting="same_kind")
