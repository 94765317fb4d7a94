"""Columns of fields to a column of frames, without a Python loop over the messages.

1. Every frame of a format is made as a column: fields as they are, numbers as little-endian bytes, the meta frame as
   the join of its items.
2. The frames of all rows are put in order by a single `take`.

A row that does not fit its format is handed to `transcode.py`, which names the field to blame.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, binary_from_bounds, binary_from_rows, bools, ints
from hopwire.errors import WireError
from hopwire.wire.arrow import FRAME_LISTS, RAW_SUFFIX, SCHEMA, column_name, messages_from_batch
from hopwire.wire.formats import FORMATS
from hopwire.wire.schema import ENTRY_TYPES, Entry, Field, Packed, Run, Type, WireFormat, Word
from hopwire.wire.transcode import check

__all__ = ["encode_batch"]

NUMPY_TYPES = {"H": "<u2", "i": "<i4", "q": "<i8"}


def encode_batch(batch: pa.RecordBatch, fmt: WireFormat | None = None) -> pa.ListArray:
    """Write the rows of a batch as frames: each row in the format that it was read in, or all rows in `fmt`.

    A row that is not a message gives null. A row that its format cannot carry raises the WireError that `encode` would.
    """
    batch = _with_schema(batch)
    is_message, numbers = bools(pc.is_null(batch.column("reason"))), ints(batch.column("wire_format"))
    parts, places = [], []
    for candidate in FORMATS:
        wanted = is_message & (numbers == candidate.number if fmt is None else candidate is fmt)
        rows = np.flatnonzero(wanted)
        if len(rows):
            part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            _check_rows(part, candidate, rows)
            parts.append(_FrameWriter(part, candidate).frames())
            places.append(rows)
    return _in_row_order(parts, places, batch.num_rows)


def _with_schema(batch: Any) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        raise WireError("bad_value", f"found {type(batch).__name__}, expected a RecordBatch")
    missing = [name for name in SCHEMA.names if name not in batch.schema.names]
    if missing:
        raise WireError("bad_value", f"the batch has no column {missing[0]!r}")
    chosen = batch.select(SCHEMA.names)
    return chosen if chosen.schema.equals(SCHEMA) else chosen.cast(SCHEMA)


def _in_row_order(parts: list[pa.ListArray], places: list[Ints], size: int) -> pa.ListArray:
    if len(parts) == 1 and len(places[0]) == size:
        return parts[0]
    order = np.full(size, -1, dtype=np.int64)
    if not parts:
        return pa.nulls(size, pa.list_(pa.binary()))
    order[np.concatenate(places)] = np.arange(sum(map(len, places)))
    return pa.concat_arrays(parts).take(pa.array(order, mask=order < 0))


def _check_rows(batch: pa.RecordBatch, fmt: WireFormat, rows: Ints) -> None:
    """Raise for the first row that the format cannot carry."""
    doubtful = _doubtful(batch, fmt)
    for place in np.flatnonzero(doubtful):
        (message,) = messages_from_batch(batch.slice(int(place), 1))
        assert message is not None
        try:
            check(message, fmt)
        except WireError as error:
            raise WireError(error.reason, f"row {rows[place]}: {error.detail}", field=error.field) from None


def _doubtful(batch: pa.RecordBatch, fmt: WireFormat) -> Bools:
    """Rows with a null, with a field that the format has no place for, or with a number out of range."""
    doubtful = np.zeros(batch.num_rows, dtype=np.bool_)
    wrong_version = "version" if not fmt.version_type.is_number else "version" + RAW_SUFFIX
    for column in SCHEMA:
        if column.name == "wire_format" or column.name.startswith("reason"):
            continue
        values = batch.column(column.name)
        if column.name == wrong_version:
            doubtful |= bools(pc.is_valid(values))
        elif column.name in fmt.not_carried:
            doubtful |= ~bools(_is_empty(values))
        else:
            doubtful |= bools(pc.is_null(values))
    for field in fmt.fields:
        if field.type.is_number and field.name in fmt.carried:
            doubtful |= _out_of_range(batch.column(field.name), field.type)
    return doubtful | _bad_blocks(batch, fmt, wrong_version)


def _is_empty(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        return pc.fill_null(pc.equal(values, 0), False)
    size = pc.list_value_length(values) if pa.types.is_list(values.type) else pc.binary_length(values)
    return pc.fill_null(pc.equal(size, 0), False)


def _out_of_range(values: pa.Array, kind: Type) -> Bools:
    low, high = kind.bounds
    numbers = ints(values)
    outside: Bools = (numbers < low) | (numbers > high)
    return outside


def _bad_blocks(batch: pa.RecordBatch, fmt: WireFormat, wrong_version: str) -> Bools:
    """Rows whose counts or offsets are too large, or whose entries the format cannot carry."""
    counts = {name: ints(pc.list_value_length(batch.column(name))) for name in (*ENTRY_TYPES, *FRAME_LISTS)}
    bad = counts["body_frames"] < 1
    if not fmt.has_body_run:
        bad |= counts["body_frames"] != 1
    highest = next(field.type.bounds[1] for field in fmt.fields if field.name == "routing.count")
    frames = sum(counts[run.name] * len(run.entry) for run in fmt.runs) + fmt.tail + counts["extensions"] + 1
    bad |= frames > highest
    for row in fmt.rows:
        if isinstance(row, Run | Packed) and row.name in ENTRY_TYPES:
            bad |= counts[row.name] > highest
            bad |= _bad_entries(batch.column(row.name), row, counts[row.name], wrong_version)
    return bad


def _bad_entries(lists: pa.ListArray, block: Run | Packed, counts: Ints, wrong_version: str) -> Bools:
    entries = lists.flatten()
    bad = bools(pc.is_null(entries))
    for entry in block.entry:
        values = entries.field(column_name(entry))
        bad |= bools(pc.is_null(values))
        if entry.type.is_number:
            bad |= _out_of_range(values, entry.type)
    if any(entry.name == "version" for entry in block.entry):
        bad |= bools(pc.is_valid(entries.field(wrong_version)))
    rows = np.repeat(np.arange(len(counts)), counts)
    found = np.zeros(len(counts), dtype=np.bool_)
    found[rows[bad]] = True
    return found


def _number_frames(numbers: Ints, code: str) -> pa.Array:
    """Numbers as little-endian byte strings."""
    return binary_from_rows(np.ascontiguousarray(numbers).astype(NUMPY_TYPES[code]))


def _binary(values: pa.Array) -> pa.Array:
    return values.cast(pa.binary()) if pa.types.is_string(values.type) else values


class _FrameWriter:
    """Writes rows that are known to fit into one format."""

    def __init__(self, batch: pa.RecordBatch, fmt: WireFormat) -> None:
        self.batch, self.fmt, self.size = batch, fmt, batch.num_rows
        self.counts = {name: ints(pc.list_value_length(batch.column(name))) for name in (*ENTRY_TYPES, *FRAME_LISTS)}
        self.flat = {name: batch.column(name).flatten() for name in self.counts}
        self.placed = fmt.placed(self.counts)
        self._sources: list[pa.Array] = []
        self._slots: list[tuple[Ints, Ints]] = []  # (frame within the row, row) of each value of the source
        self._height = np.zeros(self.size, dtype=np.int64)

    def frames(self) -> pa.ListArray:
        """Give the frames of all rows."""
        self._add(self._blob("socket_identity"))
        self._add(self._constant(b""))
        for run in self.fmt.runs:
            self._add_run(run)
        if self.fmt.has_meta_frame:
            self._add_lists([self.flat["extensions"]], self.counts["extensions"])
            self._add(self._meta_frame())
        else:
            for word in self.fmt.tail_words:
                self._add(self._word(word) if word[0].bit is not None else self._whole(word[0]))
        return self._assembled()

    def _add(self, column: pa.Array) -> None:
        self._add_lists([column], np.ones(self.size, dtype=np.int64))

    def _add_lists(self, columns: list[pa.Array], counts: Ints) -> None:
        """Add, for each entry, one frame of every column."""
        rows = np.repeat(np.arange(self.size), counts)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        for place, column in enumerate(columns):
            self._sources.append(column)
            self._slots.append((self._height[rows] + number * len(columns) + place, rows))
        self._height = self._height + counts * len(columns)

    def _add_run(self, run: Run) -> None:
        entries = self.flat[run.name]
        columns = [entries] if run.name == "body_frames" else [self._entry(entries, part) for part in run.entry]
        self._add_lists(columns, self.counts[run.name])

    def _assembled(self) -> pa.ListArray:
        bounds = np.concatenate([[0], np.cumsum(self._height)])
        order = np.empty(int(bounds[-1]), dtype=np.int64)
        base = 0
        for slot, rows in self._slots:
            order[bounds[rows] + slot] = np.arange(base, base + len(rows))
            base += len(rows)
        frames = pa.concat_arrays(self._sources).take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), frames)

    # -- values

    def _constant(self, value: bytes) -> pa.Array:
        return binary_from_bounds(np.arange(self.size + 1) * len(value), value * self.size)

    def _blob(self, name: str) -> pa.Array:
        return _binary(self.batch.column(name))

    def _entry(self, entries: pa.StructArray, part: Entry) -> pa.Array:
        values = entries.field(column_name(part))
        return _number_frames(ints(values), part.type.code) if part.type.is_number else _binary(values)

    def _number(self, field: Field) -> Ints:
        if not field.name:
            return np.zeros(self.size, dtype=np.int64)
        return self.placed[field.name] if "." in field.name else ints(self.batch.column(field.name))

    def _whole(self, field: Field) -> pa.Array:
        if field is self.fmt.number_field:
            return self._constant(self.fmt.numbers[0])
        if field.type is Type.EMPTY:
            return self._constant(b"")
        if field.name == "body_frames":
            return self.flat["body_frames"]
        if field.type is Type.I32_OR_EMPTY:
            numbers = self._number(field)
            return pc.if_else(pa.array(numbers != 0), _number_frames(numbers, "i"), self._constant(b""))
        if field.type.is_number:
            return _number_frames(self._number(field), field.type.code)
        return self._blob(column_name(field))

    def _word(self, word: Word) -> pa.Array:
        total: Ints = np.zeros(self.size, dtype=np.int64)
        for field in word:
            total |= self._number(field) << (8 * field.lane_byte)
        return _number_frames(total, "q")

    # -- the meta frame

    def _meta_frame(self) -> pa.Array:
        pieces: list[pa.Array] = []
        for item in self.fmt.meta_items:
            if isinstance(item, Packed):
                pieces.append(self._packed(item))
            elif item[0].bit is not None:
                pieces.append(self._word(item))
            elif item[0].type.is_number:
                pieces.append(self._whole(item[0]))
            else:
                pieces += _sized(self._blob(column_name(item[0])))
        return pc.binary_join_element_wise(*pieces, b"")

    def _packed(self, block: Packed) -> pa.Array:
        """The entries of each row, joined: entries lie one after another already, so a row is a stretch of entries."""
        entries = self.flat[block.name]
        pieces: list[pa.Array] = []
        for part in block.entry:
            values = self._entry(entries, part)
            pieces += [values] if part.type.is_number else _sized(values)
        whole = pc.binary_join_element_wise(*_sized(pc.binary_join_element_wise(*pieces, b"")), b"")
        counts = self.counts[block.name]
        rows = np.concatenate([[0], np.cumsum(counts)])
        _, starts, data = whole.buffers()
        bounds = np.frombuffer(starts, dtype=np.int32, count=len(whole) + 1 + whole.offset)[whole.offset :][rows]
        return binary_from_bounds(bounds, data)


def _sized(values: pa.Array) -> list[pa.Array]:
    return [_number_frames(ints(pc.binary_length(values)), "i"), values]
