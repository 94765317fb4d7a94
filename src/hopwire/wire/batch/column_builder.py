"""Numbers and pieces to Arrow columns: all blobs are copied out of the buffer in one go.

The trap: the columns are slices of one copy, so each column keeps the whole copy in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints
from hopwire.wire.arrow import RAW_SUFFIX, SCHEMA
from hopwire.wire.batch.buffers import Frames
from hopwire.wire.batch.format_reader import ColumnKey, Part
from hopwire.wire.formats import FORMATS

__all__ = ["columns_from_part", "copy_blobs", "has_right_text"]

ASCII_END = 0x80
HAS_RAW_VERSION = np.array([any(f.number == i and not f.version_type.is_number for f in FORMATS) for i in range(8)])


def _leaves(column: pa.Field) -> list[tuple[ColumnKey, pa.DataType]]:
    """The values that a column is made of: a field, the frames of a list, or the values of an entry."""
    if not pa.types.is_list(column.type):
        return [(("", column.name), column.type)]
    entry = column.type.value_type
    if not pa.types.is_struct(entry):
        return [((column.name, ""), entry)]
    return [((column.name, part.name), part.type) for part in entry]


BLOBS = {column.name: [key for key, kind in _leaves(column) if not pa.types.is_integer(kind)] for column in SCHEMA}
TEXTS = [key for column in SCHEMA for key, kind in _leaves(column) if pa.types.is_string(kind)]


def copy_blobs(part: Part, frames: Frames, names: Iterable[str]) -> None:
    """Copy the blobs of the named columns, and all text, since text has to be checked."""
    keys = {*TEXTS, *(key for name in names for key in BLOBS[name])}
    wanted = [key for key in part.values if key in keys]  # in the order of the wire, which the cache prefers
    if wanted:
        part.copies = dict(zip(wanted, frames.copies([part.values[key] for key in wanted]), strict=True))


def has_right_text(part: Part) -> Bools:
    """Tell which rows have nothing but UTF-8 where text belongs."""
    right = np.ones(len(part.rows), dtype=np.bool_)
    for block, name in TEXTS:
        if (block, name) in part.copies:
            wrong = _not_utf8(len(part.values[block, name]), part.copies[block, name])
            if len(wrong):
                right[np.repeat(np.arange(len(right)), part.counts[block])[wrong] if block else wrong] = False
    return right


def columns_from_part(part: Part, ok: Bools, names: list[str]) -> list[pa.Array]:
    """Give the named columns; rows that are not marked are null."""
    builder = _Builder(part, ok)
    return [builder.column(SCHEMA.field(name)) for name in names]


def _not_utf8(size: int, copy: Any) -> Ints:
    """The numbers of the values that are not UTF-8."""
    nothing = np.zeros(0, dtype=np.int64)
    bounds = np.frombuffer(copy[0], dtype=np.int32)
    data = np.frombuffer(copy[1], dtype=np.uint8)[bounds[0] : bounds[-1]]
    if data.max(initial=0) < ASCII_END:
        return nothing
    texts = pa.Array.from_buffers(pa.binary(), size, [None, *copy])
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        ends = bounds[1:] - bounds[0]
        suspects = np.unique(np.searchsorted(ends, np.flatnonzero(data >= ASCII_END), side="right"))
        return np.array([i for i in suspects.tolist() if not _is_utf8(texts[i].as_py())], dtype=np.int64)
    return nothing


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Builder:
    """Builds the columns of one batch."""

    def __init__(self, part: Part, ok: Bools) -> None:
        self.part, self.size = part, len(ok)
        self.is_raw = is_raw = HAS_RAW_VERSION[part.values["", "wire_format"]]
        versions = {"version": ~is_raw, "version" + RAW_SUFFIX: is_raw}
        self.valid = {"": _bits(ok), **{name: _bits(mask & ok) for name, mask in versions.items()}}

    def column(self, column: pa.Field) -> pa.Array:
        """Build one column of the schema."""
        name, kind = column.name, column.type
        if name.startswith("reason"):
            return pa.nulls(self.size, kind)
        if pa.types.is_list(kind):
            return self._list(name, kind)
        return self._values(("", name), kind, self.size, self.valid.get(name, self.valid[""]))

    def _values(self, key: ColumnKey, kind: pa.DataType, size: int, valid: Any) -> pa.Array:
        if not pa.types.is_integer(kind):
            bounds, data = self.part.copies.get(key) or (pa.py_buffer(bytes(4 * size + 4)), pa.py_buffer(b""))
            return pa.Array.from_buffers(kind, size, [valid, bounds, data])
        numbers = self.part.values.get(key, np.zeros(size, dtype=np.int64))
        return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(numbers.astype(f"i{kind.bit_width // 8}"))])

    def _list(self, name: str, kind: pa.DataType) -> pa.Array:
        counts = self.part.counts.get(name, np.zeros(self.size, dtype=np.int64))
        bounds = np.zeros(self.size + 1, dtype=np.int32)
        np.cumsum(counts, out=bounds[1:])
        total = int(bounds[-1])
        if pa.types.is_struct(kind.value_type):
            items = self._structs(name, list(kind.value_type), total, counts)
        else:
            items = self._values((name, ""), kind.value_type, total, None)
        return pa.Array.from_buffers(kind, self.size, [self.valid[""], pa.py_buffer(bounds)], children=[items])

    def _structs(self, name: str, fields: list[pa.Field], total: int, counts: Ints) -> pa.Array:
        valid: dict[str, Any] = {}
        if any(part.name == "version" for part in fields):
            is_raw = np.repeat(self.is_raw, counts)
            valid = {"version": _bits(~is_raw), "version" + RAW_SUFFIX: _bits(is_raw)}
        parts = [self._values((name, part.name), part.type, total, valid.get(part.name)) for part in fields]
        return pa.StructArray.from_arrays(parts, fields=fields)


def _bits(mask: Bools) -> Any:
    """A validity bitmap, or none where everything is valid."""
    return None if mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))
