"""The frames of a batch where they lie: one buffer of bytes, the start of each frame, the frames of each row.

Numbers are gathered through views that see the buffer as numbers starting at every byte. A position that is gathered
must lie within the buffer; whoever computes positions keeps them there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopwire.errors import WireError
from hopwire.model.settings import Limits

__all__ = ["Blob", "Bools", "Bytes", "Frames", "Ints", "list_of_binary"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Blob: TypeAlias = tuple[Ints, Ints]  # starts and lengths within the buffer

MAX_BATCH_BYTES = 2**31 - 1  # what the 32-bit offsets of a binary column reach
SMALLEST_BUFFER = 16  # anything smaller cannot be looked at through the views


def list_of_binary(given: Any) -> Any:
    """Give a column of frames as an Arrow list array, or raise the WireError that says what it is instead."""
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
        bounds = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        self.first: Ints = bounds[:-1]
        self.end: Ints = bounds[1:]
        self.count: Ints = self.end - self.first
        child = lists.values
        self._missing = child.is_null().to_numpy(zero_copy_only=False) if child.null_count else None
        self.starts = _starts(child)
        if self.starts[-1] > MAX_BATCH_BYTES:
            detail = f"a batch holds up to {MAX_BATCH_BYTES} bytes, found {self.starts[-1]}; split it"
            raise WireError("too_many_bytes", detail)
        values = child.buffers()[2]
        if values is None or values.size < SMALLEST_BUFFER:
            values = pa.py_buffer((values.to_pybytes() if values is not None else b"").ljust(SMALLEST_BUFFER, b"\0"))
        self.values = values
        self.data: Bytes = np.frombuffer(values, dtype=np.uint8)
        self._views = {code: _view(self.data, code) for code in ("u2", "u4", "i4", "i8")}

    def __len__(self) -> int:
        return len(self.count)

    def gather(self, code: str, at: Ints) -> Ints:
        """Read a little-endian number at each position."""
        numbers: Ints = self._views[code][at]
        return numbers.astype(np.int64, copy=False)

    def frame(self, index: Ints) -> Blob:
        """Give the bytes of frames, by their numbers within the batch."""
        start = self.starts[index]
        return start, self.starts[index + 1] - start

    def items(self, size: int) -> npt.NDArray[np.void]:
        """Give the buffer as items of a fixed size that start at every byte."""
        return np.ndarray((len(self.data) - size + 1,), f"V{size}", self.data, strides=(1,))

    def sound(self, limits: Limits) -> Bools:
        """Tell which rows are lists of frames within the limits."""
        size = self.starts[self.end] - self.starts[self.first]
        sound: Bools = (self.count > 0) & (self.count <= limits.max_frames) & (size <= limits.max_bytes)
        if self._lists.null_count:
            sound &= self._lists.is_valid().to_numpy(zero_copy_only=False)
        if self._missing is not None:
            missing = np.concatenate([[0], np.cumsum(self._missing)])
            sound &= missing[self.end] == missing[self.first]
        return sound

    def row(self, row: int) -> list[bytes | None] | None:
        """Give the frames of one row, as a careful reader takes them."""
        if self._lists.null_count and not self._lists[row].is_valid:
            return None
        first, end = int(self.first[row]), int(self.end[row])
        bounds = self.starts[first : end + 1].tolist()
        frames: list[bytes | None] = [self.data[a:b].tobytes() for a, b in pairwise(bounds)]
        if self._missing is not None:
            frames = [None if self._missing[first + i] else frame for i, frame in enumerate(frames)]
        return frames


def _starts(child: Any) -> Ints:
    """Where each frame starts, and where the last one ends."""
    starts = child.buffers()[1]
    if starts is None or len(child) == 0:
        return np.zeros(len(child) + 1, dtype=np.int64)
    width = np.int64 if pa.types.is_large_binary(child.type) else np.int32
    stop = child.offset + len(child) + 1
    return np.frombuffer(starts, dtype=width, count=stop)[child.offset :].astype(np.int64)


def _view(data: Bytes, code: str) -> npt.NDArray[Any]:
    kind = np.dtype("<" + code)
    return np.ndarray((len(data) - kind.itemsize + 1,), kind, data, strides=(1,))
