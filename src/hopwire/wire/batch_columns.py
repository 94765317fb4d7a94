"""Starts and lengths to Arrow columns: each blob column is copied out of the buffer once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.wire.batch_frames import Blob, Bools, Bytes, Frames, Ints
from hopwire.wire.batch_read import Part
from hopwire.wire.columns import ENTRY_TYPES, FRAME_LISTS, RAW_SUFFIX, SCHEMA
from hopwire.wire.formats import FORMATS

__all__ = ["columns_from_part", "has_right_text"]

UNIFORM_BYTES = 128  # up to this size blobs of one length are copied faster as items of that size
ASCII_END = 0x80
NO_BYTES: Bytes = np.zeros(0, dtype=np.uint8)
HAS_RAW_VERSION = np.array([any(f.number == i and not f.version_type.is_number for f in FORMATS) for i in range(8)])


def columns_from_part(part: Part, ok: Bools, frames: Frames, names: list[str]) -> list[pa.Array]:
    """Give the named columns; rows that are not marked are null."""
    builder = _Builder(part, ok, frames)
    return [builder.column(SCHEMA.field(name)) for name in names]


def has_right_text(part: Part, frames: Frames) -> Bools:
    """Tell which rows have nothing but UTF-8 where text belongs."""
    right = np.ones(len(part.rows), dtype=np.bool_)
    for column in SCHEMA:
        if pa.types.is_string(column.type) and column.name in part.blobs:
            right[_not_utf8(part, frames, part.blobs[column.name])] = False
        elif column.name in ENTRY_TYPES:
            for entry in column.type.value_type:
                if pa.types.is_string(entry.type):
                    wrong = _not_utf8(part, frames, part.entries[column.name][entry.name])
                    if len(wrong):
                        rows = np.repeat(np.arange(len(part.rows)), part.counts[column.name])
                        right[rows[wrong]] = False
    return right


def _not_utf8(part: Part, frames: Frames, blob: Blob) -> Ints:
    """The numbers of the values that are not UTF-8."""
    data = part.copies[id(blob)] = _copied(frames, blob)
    nothing = np.zeros(0, dtype=np.int64)
    if not len(data) or data.max() < ASCII_END:
        return nothing
    try:
        _array(pa.binary(), blob[1], data, None).cast(pa.string())
    except pa.ArrowInvalid:
        ends = np.cumsum(blob[1])
        suspects = np.unique(np.searchsorted(ends, np.flatnonzero(data >= ASCII_END), side="right"))
        wrong = [i for i in suspects if not _is_utf8(data[ends[i] - blob[1][i] : ends[i]].tobytes())]
        return np.array(wrong, dtype=np.int64)
    return nothing


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _copied(frames: Frames, blob: Blob) -> Bytes:
    """The bytes of all blobs, one after another.

    Starts grow from row to row, so the blobs and the gaps between them are one binary array, of which every second
    value is wanted.
    """
    start, size = blob
    longest = int(size.max(initial=0))
    if not longest:
        return NO_BYTES
    shortest = int(size.min())
    if not shortest:
        wanted = np.flatnonzero(size)
        start, size = start[wanted], size[wanted]
        shortest = int(size.min())
    if shortest == longest <= UNIFORM_BYTES:
        return frames.items(shortest)[start].view(np.uint8)
    bounds = np.empty(2 * len(start), dtype=np.int32)
    bounds[0::2] = start
    np.add(start, size, out=bounds[1::2], casting="unsafe")
    both = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), frames.values])
    taken = both.take(pa.array(np.arange(0, len(bounds), 2)))
    return np.frombuffer(taken.buffers()[2], dtype=np.uint8)


def _bounds(sizes: Ints) -> Any:
    bounds = np.empty(len(sizes) + 1, dtype=np.int32)
    bounds[0] = 0
    np.cumsum(sizes.astype(np.int32), out=bounds[1:])
    return pa.py_buffer(bounds)


def _array(kind: pa.DataType, sizes: Ints, data: Bytes, valid: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, len(sizes), [valid, _bounds(sizes), pa.py_buffer(data)])


class _Builder:
    """Builds the columns of one batch."""

    def __init__(self, part: Part, ok: Bools, frames: Frames) -> None:
        self.part, self.frames, self.size = part, frames, len(ok)
        self.all_ok = bool(ok.all())
        self.is_raw = is_raw = HAS_RAW_VERSION[part.number]
        versions = {"version": ~is_raw, "version" + RAW_SUFFIX: is_raw}
        self.valid = {"": None if self.all_ok else _bits(ok), **{k: _bits(mask & ok) for k, mask in versions.items()}}

    def column(self, column: pa.Field) -> pa.Array:
        """Build one column of the schema."""
        name, kind = column.name, column.type
        if name.startswith("reason"):
            return pa.nulls(self.size, kind)
        if pa.types.is_list(kind):
            return self._list(name, kind)
        if name == "wire_format":
            return self._values(column, self.size, {name: self.part.number}, self.valid[""])
        valid = self.valid.get(name, self.valid[""])
        return self._values(column, self.size, {**self.part.blobs, **self.part.numbers}, valid)

    def _values(self, column: pa.Field, size: int, found: dict[str, Any], valid: Any) -> pa.Array:
        kind, values = column.type, found.get(column.name)
        if pa.types.is_integer(kind):
            numbers = np.zeros(size, dtype=np.int64) if values is None else values
            data = pa.py_buffer(numbers.astype(kind.to_pandas_dtype(), copy=False))
            return pa.Array.from_buffers(kind, size, [valid, data])
        if values is None:
            return _array(kind, np.zeros(size, dtype=np.int64), NO_BYTES, valid)
        copied = self.part.copies.get(id(values))
        return _array(kind, values[1], _copied(self.frames, values) if copied is None else copied, valid)

    def _list(self, name: str, kind: pa.DataType) -> pa.Array:
        counts = self.part.counts.get(name)
        if counts is None:
            counts = np.zeros(self.size, dtype=np.int64)
        found = self.part.entries.get(name, {})
        total = int(counts.sum())
        if name in FRAME_LISTS:
            items = self._values(pa.field("", pa.binary()), total, found, None)
        else:
            items = self._structs(list(kind.value_type), total, counts, found)
        return pa.Array.from_buffers(kind, self.size, [self.valid[""], _bounds(counts)], children=[items])

    def _structs(self, fields: list[pa.Field], total: int, counts: Ints, found: dict[str, Any]) -> pa.Array:
        valid: dict[str, Any] = {}
        if any(part.name == "version" for part in fields):
            is_raw = np.repeat(self.is_raw, counts)
            valid = {"version": _bits(~is_raw), "version" + RAW_SUFFIX: _bits(is_raw)}
        parts = [self._values(part, total, found, valid.get(part.name)) for part in fields]
        return pa.StructArray.from_arrays(parts, fields=fields)


def _bits(mask: Bools) -> Any:
    """A validity bitmap, or none where everything is valid."""
    return None if mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))
