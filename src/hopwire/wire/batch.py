"""A million messages at a time: Arrow in, Arrow out, no Python loop over the messages.

The rows of a table become steps over whole columns. Frames keep lying where they are: a blob is a start and a length in the one buffer that
holds all frames, a number is gathered from there, and only at the end is each blob column copied out, once.

A step never says what is wrong, it only marks the row; the walk is asked about marked rows, one by one, and about the rare row that two
formats claim. So a reason is the same whoever reads, and a batch that is broken throughout is read at the speed of the walk.

The trap: numbers are gathered from bad rows too, so positions are kept within bounds at every step (`np.minimum`). A length that
was too large shows up in the sum of all lengths, which must be the size of the meta frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hopwire.errors import WireError
from hopwire.model.settings import Limits
from hopwire.wire.columns import ENTRY_TYPES, FRAME_LISTS, RAW_SUFFIX, SCHEMA
from hopwire.wire.formats import FORMATS, V3
from hopwire.wire.schema import WORD_BYTES, Entry, FromEnd, Packed, Run, Type, WireFormat, Word
from hopwire.wire.walk import DEFAULT_LIMITS, LENGTH_BYTES, NO_OFFSET, read

__all__ = ["decode_batch"]

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Blob: TypeAlias = tuple[Ints, Ints]  # starts and lengths in the buffer

MAX_BATCH_BYTES = 2**31 - 1  # what the 32-bit offsets of a binary column reach
UNIFORM_BYTES = 128  # up to this size blobs of equal length are copied faster as fixed-size items


def decode_batch(frames: pa.Array | pa.ChunkedArray, limits: Limits = DEFAULT_LIMITS) -> pa.RecordBatch:
    """Read a column of messages, one list of frames a row, in any mix of formats; a row that is none gets its reason."""
    buffer = _Frames(_list_of_binary(frames))
    parts = [_read_rows(fmt, buffer, rows, limits) for fmt, rows in _claims(buffer, limits) if len(rows)]
    table = _merged(parts, len(buffer.count))
    batch = pa.RecordBatch.from_arrays(_Columns(table, buffer).all(), schema=SCHEMA)
    return batch if table.ok.all() else _with_reasons(batch, buffer, np.flatnonzero(~table.ok), limits)


def _read_rows(fmt: WireFormat, frames: _Frames, rows: Ints, limits: Limits) -> _Part:
    """Read the rows that a format claims and keep those that fit it whole."""
    part = (_Meta if fmt.has_meta_frame else _Tail)(fmt, frames, rows, limits).part.kept()
    _check_text(part, frames)
    return part.kept()


# -- the input


def _list_of_binary(given: Any) -> pa.ListArray | pa.LargeListArray:
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
        given = pa.concat_arrays(given.chunks) if isinstance(given, pa.ChunkedArray) else given
    if not isinstance(given, pa.Array):
        raise WireError("not_frames", f"found {type(given).__name__}, expected an Arrow array of list<binary>")
    kind = given.type
    if pa.types.is_null(kind):
        given = given.cast(pa.list_(pa.binary()))
    elif not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise WireError("not_frames", f"found an array of {kind}, expected list<binary>")
    elif not (pa.types.is_binary(kind.value_type) or pa.types.is_large_binary(kind.value_type)):
        if not (pa.types.is_null(kind.value_type) or kind.value_type == pa.binary_view()):
            raise WireError("not_frames", f"found an array of {kind}, expected list<binary>")
        given = given.cast(pa.list_(pa.binary()))
    return given


def _numbers(array: pa.Array) -> Ints:
    return array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


class _Frames:
    """All frames of a batch: one buffer of bytes, where each frame starts, and which frames a row has."""

    def __init__(self, lists: Any) -> None:
        self.lists = lists
        bounds = _numbers(lists.offsets)
        self.first, self.end = bounds[:-1], bounds[1:]
        self.count = self.end - self.first
        child = lists.values
        self.has_frame: Bools | None = None
        if child.null_count:
            self.has_frame = np.logical_not(child.is_null().to_numpy(zero_copy_only=False))
        width = np.int64 if pa.types.is_large_binary(child.type) else np.int32
        _, starts, values = child.buffers()
        size = len(child) + 1
        if starts is None or len(child) == 0:
            self.starts = np.zeros(size, dtype=np.int64)
        else:
            raw = np.frombuffer(starts, dtype=width, count=child.offset + size)[child.offset :]
            self.starts = raw.astype(np.int64)
        if self.starts[-1] > MAX_BATCH_BYTES:
            detail = f"a batch holds up to {MAX_BATCH_BYTES} bytes, found {self.starts[-1]}; split it"
            raise WireError("too_many_bytes", detail)
        data = np.frombuffer(values, dtype=np.uint8) if values is not None else np.zeros(0, dtype=np.uint8)
        if len(data) < 2 * WORD_BYTES:  # too small to look at through a view
            data = np.concatenate([data, np.zeros(2 * WORD_BYTES, dtype=np.uint8)])
            values = pa.py_buffer(data)
        self.data, self.values = data, values
        self._views = {code: _view(data, code) for code in ("u2", "u4", "i4", "i8")}

    def gather(self, code: str, at: Ints) -> Ints:
        """Read a little-endian number at each position."""
        return self._views[code][at].astype(np.int64, copy=False)

    def sound(self, limits: Limits) -> Bools:
        """Rows that are lists of frames within the limits."""
        size = self.starts[self.end] - self.starts[self.first]
        sound: Bools = (self.count > 0) & (self.count <= limits.max_frames) & (size <= limits.max_bytes)
        if self.lists.null_count:
            sound &= np.logical_not(self.lists.is_null().to_numpy(zero_copy_only=False))
        if self.has_frame is not None:
            missing = np.concatenate([[0], np.cumsum(~self.has_frame)])
            sound &= missing[self.end] == missing[self.first]
        return sound

    def frame(self, index: Ints) -> Blob:
        """The bytes of frames, by their numbers within the batch."""
        start = self.starts[index]
        return start, self.starts[index + 1] - start


def _view(data: npt.NDArray[np.uint8], code: str) -> npt.NDArray[Any]:
    """The buffer seen as numbers that start at every byte."""
    kind = np.dtype("<" + code)
    return np.ndarray(shape=(len(data) - kind.itemsize + 1,), dtype=kind, buffer=data, strides=(1,))


# -- which format


def _claims(frames: _Frames, limits: Limits) -> list[tuple[WireFormat, Ints]]:
    """The rows that each format claims by its number; V3 may claim a row that another format claims too."""
    rows = np.flatnonzero(frames.sound(limits))
    start, size = frames.frame(frames.end[rows] - 1)
    at = np.minimum(start, len(frames.data) - LENGTH_BYTES)
    begins = frames.gather("u4", at) >> (8 * (start - at))  # the last bytes of the buffer are read from further left
    claims = []
    for fmt in FORMATS:
        if fmt is V3:
            claims.append((fmt, _claims_within(fmt, frames, rows[frames.count[rows] >= fmt.tail])))
            continue
        matches = np.zeros(len(rows), dtype=np.bool_)
        for number in fmt.numbers:
            fits = size > LENGTH_BYTES if fmt.has_meta_frame else size == len(number)
            matches |= fits & (begins & ((1 << 8 * len(number)) - 1) == int.from_bytes(number, "little"))
        claims.append((fmt, rows[matches]))
    return claims


def _claims_within(fmt: WireFormat, frames: _Frames, rows: Ints) -> Ints:
    """The rows that have the number of a format in the frame where it belongs."""
    place = fmt.number_field.frame
    assert isinstance(place, FromEnd)
    (number,) = fmt.numbers
    start, size = frames.frame(frames.end[rows] - place.k)
    right = size == len(number)
    rows, start = rows[right], start[right]
    return rows[frames.gather("u4", start) == int.from_bytes(number, "little")]


# -- what is read


@dataclass
class _Part:
    """Some rows of a batch, read: which they are, which of them are sound, and their columns."""

    rows: Ints
    ok: Bools
    number: Ints
    numbers: dict[str, Ints] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)
    counts: dict[str, Ints] = field(default_factory=dict)  # entries in each row, by block
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)  # by block and column, all rows in one
    copies: dict[int, Bytes] = field(default_factory=dict)  # what was copied out already, by the id of the blob

    def kept(self) -> _Part:
        """Give the rows that are sound."""
        ok = self.ok
        if ok.all():
            return self
        part = _Part(self.rows[ok], ok[ok], self.number[ok])
        part.numbers = {name: values[ok] for name, values in self.numbers.items()}
        part.blobs = {name: (start[ok], size[ok]) for name, (start, size) in self.blobs.items()}
        for name, counts in self.counts.items():
            keep = np.repeat(ok, counts)
            part.counts[name] = counts[ok]
            part.entries[name] = {column: _picked(values, keep) for column, values in self.entries[name].items()}
        return part


def _picked(values: Any, keep: Bools) -> Any:
    return tuple(v[keep] for v in values) if isinstance(values, tuple) else values[keep]


def _within(counts: Ints) -> tuple[Ints, Ints]:
    """For each entry of a block the row it belongs to and its number within the row."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


class _Tail:
    """Rows of a format whose header is frames at the end: V3, V4, V5."""

    def __init__(self, fmt: WireFormat, frames: _Frames, rows: Ints, limits: Limits) -> None:
        self.fmt, self.frames, self.limits = fmt, frames, limits
        self.end, self.n = frames.end[rows], frames.count[rows]
        fewest = fmt.tail + any(run.name == "body_frames" for run in fmt.runs)
        self.part = _Part(rows, self.n >= fewest, np.full(len(rows), fmt.number))
        self.values: dict[str, Ints] = {}
        self._read_tail()
        top = np.full(len(rows), fmt.tail)
        for run in reversed(fmt.runs):
            top = self._read_body(top) if run.name == "body_frames" else self._read_run(run, top)
        if "body_frames" not in self.part.counts:
            self._take_frames("body_frames", self.end - 1, np.ones_like(top))
        _read_front(self.part, frames, self.n - top)

    def _read_tail(self) -> None:
        bounds = [self.frames.starts[np.maximum(self.end - k, 0)] for k in range(self.fmt.tail + 1)]
        for word in self.fmt.tail_words:
            place = word[0].frame
            assert isinstance(place, FromEnd)
            start, width = bounds[place.k], bounds[place.k - 1] - bounds[place.k]
            if word[0].bit is not None:
                start = self._fixed(start, width == WORD_BYTES)
                for lane in word:
                    self._keep(lane.name, self.frames.gather("u2", start + lane.lane_byte))
            elif word[0] is not self.fmt.number_field:
                self._read_whole(word[0].name, word[0].type, start, width)

    def _read_whole(self, name: str, kind: Type, start: Ints, width: Ints) -> None:
        if kind is Type.EMPTY:
            self.part.ok &= width == 0
        elif kind is Type.I32_OR_EMPTY:
            is_set = width == 4
            start = self._fixed(start, is_set | (width == 0), is_set)
            self._keep(name, np.where(is_set, self.frames.gather("i4", start), 0))
        elif kind.is_number:
            start = self._fixed(start, width == kind.width)
            self._keep(name, self.frames.gather(_code(kind), start))
        elif name != "body_frames":
            self.part.blobs[_column(name, kind)] = (start, width)

    def _fixed(self, start: Ints, is_right: Bools, is_set: Bools | None = None) -> Ints:
        """Positions that may be read: those of frames with the right width, the rest moved to the front."""
        self.part.ok &= is_right
        return np.where(is_right if is_set is None else is_set, start, 0)

    def _keep(self, name: str, values: Ints) -> None:
        if "." in name:
            self.values[name] = values
        elif name:
            self.part.numbers[name] = values

    def _read_run(self, run: Run, top: Ints) -> Ints:
        count, offset, stride = (self.values[f"{run.name}.{what}"] for what in ("count", "offset", "stride"))
        has = (count != 0) & (offset != NO_OFFSET)
        reach = np.where(has, offset + count * stride - 1, top)
        fits = (offset > top) & (count > 0) & (count <= self.limits.max_entries) & (stride >= len(run.entry))
        fits &= reach <= self.n
        if self.fmt.retired_tails:
            fits &= (top != self.fmt.tail) | (offset == self.fmt.tail + 1)
        self.part.ok &= ~has | fits
        count = np.where(has & self.part.ok, count, 0)
        rows, number = _within(count)
        identity = (self.end - reach - 1 + stride)[rows] + number * stride[rows]
        columns: dict[str, Any] = {}
        for above, entry in enumerate(reversed(run.entry)):
            self._read_entry(columns, entry, rows, identity - above)
        self.part.counts[run.name], self.part.entries[run.name] = count, columns
        return reach

    def _read_entry(self, columns: dict[str, Any], entry: Entry, rows: Ints, index: Ints) -> None:
        start, width = self.frames.frame(index)
        if entry.type.is_number:
            is_right = width == entry.type.width
            self.part.ok[rows[~is_right]] = False
            columns[entry.name] = self.frames.gather(_code(entry.type), np.where(is_right, start, 0))
        else:
            columns[_column(entry.name, entry.type)] = (start, width)

    def _read_body(self, top: Ints) -> Ints:
        offset, count = self.values["body_frames.offset"], self.values["body_frames.count"]
        fits = (count >= 1) & (offset <= self.n) & (offset - count >= top)
        if self.fmt.retired_tails:
            fits &= (top != self.fmt.tail) | (offset - count == self.fmt.tail)
        self.part.ok &= fits
        self._take_frames("body_frames", self.end - offset, count)
        return np.where(fits, offset, top)

    def _take_frames(self, name: str, first: Ints, count: Ints) -> None:
        _take_frames(self.part, self.frames, name, first, count)


def _take_frames(part: _Part, frames: _Frames, name: str, first: Ints, count: Ints) -> None:
    """A column of lists of whole frames."""
    count = np.where(part.ok, count, 0)
    rows, number = _within(count)
    part.counts[name] = count
    part.entries[name] = {"": frames.frame(first[rows] + number)}


def _read_front(part: _Part, frames: _Frames, before: Ints) -> None:
    """The socket identity stands above an empty frame, in front of the message; `before` is how many frames do."""
    first = frames.first[part.rows]
    before = np.where(part.ok, before, 0)
    index = first + before
    empty = (before >= 2) & (frames.starts[index] == frames.starts[np.maximum(index - 1, 0)])
    start, width = frames.frame(np.where(empty, index - 2, first))
    part.blobs["socket_identity"] = (start, np.where(empty, width, 0))


class _Meta:
    """Rows of a format whose header is one meta frame: V6."""

    def __init__(self, fmt: WireFormat, frames: _Frames, rows: Ints, limits: Limits) -> None:
        self.fmt, self.frames, self.limits = fmt, frames, limits
        end, self.n = frames.end[rows], frames.count[rows]
        self.at, size = frames.frame(end - 1)
        self.stop = self.at + size
        self.left = sum(_smallest(item) for item in fmt.meta_items)  # what the items that are still to come need at least
        self.part = _Part(rows, (size >= self.left) & (self.n > fmt.tail), np.full(len(rows), fmt.number))
        self.at = np.where(self.part.ok, self.at, 0)
        self.stop = np.where(self.part.ok, self.stop, self.left)
        self.values: dict[str, Ints] = {}
        for item in fmt.meta_items:
            self._read_block(item) if isinstance(item, Packed) else self._read_word(item)
        self.part.ok &= self.at == self.stop
        self._read_frames(end)

    def _step(self, size: Ints | int) -> None:
        """Go on by so many bytes, but never so far that what must still come does not fit."""
        reach = self.at + size
        limit = self.stop - self.left
        self.part.ok &= reach <= limit
        self.at = np.minimum(reach, limit)

    def _read_word(self, word: Word) -> None:
        self.left -= _smallest(word)
        first = word[0]
        if first.bit is not None:
            for lane in word:
                self._keep(lane.name, self.frames.gather("u2", self.at + lane.lane_byte) if lane.name else None)
            self.at = self.at + WORD_BYTES
        elif first.type.is_number:
            if first is not self.fmt.number_field:
                self._keep(first.name, self.frames.gather(_code(first.type), self.at))
            self.at = self.at + (first.type.width or 0)
        else:
            size = self.frames.gather("u4", self.at)
            self.at = self.at + LENGTH_BYTES
            self.part.blobs[first.name] = (self.at, size)
            self._step(size)

    def _keep(self, name: str, values: Ints | None) -> None:
        if values is not None:
            (self.values if "." in name else self.part.numbers)[name] = values

    def _read_block(self, block: Packed) -> None:
        count = self.values[f"{block.name}.count"]
        smallest = LENGTH_BYTES + sum(_smallest_value(entry.type) for entry in block.entry)
        fits = (count <= self.limits.max_entries) & (count * smallest <= self.stop - self.left - self.at)
        self.part.ok &= fits
        count = np.where(self.part.ok, count, 0)
        rows, number = _within(count)
        starts = np.zeros(len(rows), dtype=np.int64)
        firsts = np.cumsum(count) - count
        going = np.flatnonzero(count)
        step = 0
        while len(going):  # as many turns as the longest block has entries
            at = self.at[going]
            starts[firsts[going] + step] = at
            reach = at + LENGTH_BYTES + self.frames.gather("u4", at)
            limit = self.stop[going] - self.left
            self.part.ok[going[reach > limit]] = False
            self.at[going] = np.minimum(reach, limit)
            step += 1
            going = going[(count[going] > step) & (self.at[going] + LENGTH_BYTES <= limit)]
        self.part.counts[block.name] = count
        self.part.entries[block.name] = self._read_entries(block, rows, starts)

    def _read_entries(self, block: Packed, rows: Ints, at: Ints) -> dict[str, Any]:
        left = sum(_smallest_value(entry.type) for entry in block.entry)
        stop = at + LENGTH_BYTES + self.frames.gather("u4", at)
        is_right = (stop <= self.stop[rows]) & (stop - at >= LENGTH_BYTES + left)
        at = np.where(is_right, at + LENGTH_BYTES, 0)
        stop = np.where(is_right, stop, left)
        columns: dict[str, Any] = {}
        for entry in block.entry:
            left -= _smallest_value(entry.type)
            if entry.type.is_number:
                columns[entry.name] = self.frames.gather(_code(entry.type), at)
                at = at + (entry.type.width or 0)
            else:
                size = self.frames.gather("u4", at)
                at = at + LENGTH_BYTES
                columns[entry.name] = (at, size)
                is_right &= at + size <= stop - left
                at = np.minimum(at + size, stop - left)
        self.part.ok[rows[~is_right]] = False
        return columns

    def _read_frames(self, end: Ints) -> None:
        offset, count = self.values["body_frames.offset"], self.values["body_frames.count"]
        self.part.ok &= (count >= 1) & (offset <= self.n) & (offset - count >= self.fmt.tail)
        _take_frames(self.part, self.frames, "body_frames", end - offset, count)
        _take_frames(self.part, self.frames, "extensions", end - offset + count, offset - count - self.fmt.tail)
        _read_front(self.part, self.frames, self.n - offset)


def _column(name: str, kind: Type) -> str:
    """The column of a field: raw versions have one of their own."""
    return name + RAW_SUFFIX if kind is Type.RAW and name + RAW_SUFFIX in SCHEMA.names else name


def _code(kind: Type) -> str:
    return {"u16": "u2", "i32": "i4", "i32?": "i4", "i64": "i8"}[kind.word]


def _smallest_value(kind: Type) -> int:
    return (kind.width or 0) if kind.is_number else LENGTH_BYTES


def _smallest(item: Word | Packed) -> int:
    if isinstance(item, Packed):
        return 0
    return WORD_BYTES if item[0].bit is not None else _smallest_value(item[0].type)


# -- parts to one table


def _merged(parts: list[_Part], rows: int) -> _Part:
    """All parts as one, in the order of the rows; what a format does not carry is empty or 0."""
    if len(parts) == 1 and len(parts[0].rows) == rows:
        return parts[0]
    fits = np.zeros(rows, dtype=np.int64)
    for part in parts:
        fits[part.rows] += 1
    for part in parts:
        part.ok &= fits[part.rows] == 1  # a row that fits two formats belongs to neither
    parts = [part.kept() for part in parts]
    whole = _Part(np.arange(rows), fits == 1, _scattered(rows, ((part.rows, part.number) for part in parts)))
    for name in {name for part in parts for name in part.numbers}:
        whole.numbers[name] = _scattered(rows, ((p.rows, p.numbers[name]) for p in parts if name in p.numbers))
    for name in {name for part in parts for name in part.blobs}:
        having = [p for p in parts if name in p.blobs]
        starts, sizes = (_scattered(rows, ((p.rows, p.blobs[name][i]) for p in having)) for i in (0, 1))
        whole.blobs[name] = (starts, sizes)
    for name in {name for part in parts for name in part.counts}:
        _merge_block(whole, name, [part for part in parts if name in part.counts])
    return whole


def _scattered(size: int, pieces: Any) -> Ints:
    values = np.zeros(size, dtype=np.int64)
    for index, piece in pieces:
        values[index] = piece
    return values


def _merge_block(whole: _Part, name: str, parts: list[_Part]) -> None:
    counts = _scattered(len(whole.rows), ((part.rows, part.counts[name]) for part in parts))
    firsts = np.cumsum(counts) - counts
    size = int(counts.sum())
    places = []
    for part in parts:
        rows, number = _within(part.counts[name])
        places.append(firsts[part.rows][rows] + number)
    columns: dict[str, Any] = {}
    for column in {column for part in parts for column in part.entries[name]}:
        having = [(at, part.entries[name][column]) for at, part in zip(places, parts, strict=True) if column in part.entries[name]]
        if isinstance(having[0][1], tuple):
            columns[column] = tuple(_scattered(size, ((at, blob[i]) for at, blob in having)) for i in (0, 1))
        else:
            columns[column] = _scattered(size, having)
    whole.counts[name], whole.entries[name] = counts, columns


def _check_text(part: _Part, frames: _Frames) -> None:
    """Mark the rows whose text is not UTF-8."""
    for column in SCHEMA:
        if pa.types.is_string(column.type) and column.name in part.blobs:
            part.ok[_not_utf8(part, frames, part.blobs[column.name])] = False
        elif column.name in ENTRY_TYPES:
            for entry in column.type.value_type:
                if pa.types.is_string(entry.type):
                    rows = np.repeat(np.arange(len(part.ok)), part.counts[column.name])
                    part.ok[rows[_not_utf8(part, frames, part.entries[column.name][entry.name])]] = False


def _not_utf8(part: _Part, frames: _Frames, blob: Blob) -> Ints:
    """The numbers of the values that are not UTF-8."""
    data = part.copies[id(blob)] = _copied(frames, blob)
    if not len(data) or data.max() < 0x80:
        return np.zeros(0, dtype=np.int64)
    texts = _array(pa.binary(), blob[1], data)
    try:
        texts.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([i for i, text in enumerate(texts.to_pylist()) if not _is_utf8(text)], dtype=np.int64)
    return np.zeros(0, dtype=np.int64)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- the table to Arrow


def _copied(frames: _Frames, blob: Blob) -> npt.NDArray[np.uint8]:
    """The bytes of all blobs, one after another.

    The starts grow from row to row, so blobs and the gaps between them are one binary array, of which every second value is wanted.
    """
    start, size = blob
    wanted = np.flatnonzero(size)
    if not len(wanted):
        return np.zeros(0, dtype=np.uint8)
    if len(wanted) < len(size):
        start, size = start[wanted], size[wanted]
    shortest = int(size.min())
    if shortest == size.max() and shortest <= UNIFORM_BYTES:
        items = np.ndarray((len(frames.data) - shortest + 1,), f"V{shortest}", frames.data, strides=(1,))
        return items[start].view(np.uint8)
    bounds = np.empty(2 * len(start), dtype=np.int32)
    bounds[0::2] = start
    np.add(start, size, out=bounds[1::2], casting="unsafe")
    both = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), frames.values])
    taken = both.take(pa.array(np.arange(0, len(bounds), 2)))
    return np.frombuffer(taken.buffers()[2], dtype=np.uint8)


def _array(kind: pa.DataType, sizes: Ints, data: npt.NDArray[np.uint8], valid: Any = None) -> pa.Array:
    bounds = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=bounds[1:])
    return pa.Array.from_buffers(kind, len(sizes), [valid, pa.py_buffer(bounds), pa.py_buffer(data)])


def _valid(mask: Bools | None) -> Any:
    return None if mask is None or mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))


class _Columns:
    """Builds the columns of a batch out of a table."""

    def __init__(self, table: _Part, frames: _Frames) -> None:
        self.table, self.frames = table, frames
        raw = [fmt.number for fmt in FORMATS if not fmt.version_type.is_number]
        self.is_raw = np.isin(table.number, raw)
        self.size = len(table.ok)

    def all(self) -> list[pa.Array]:
        return [self._column(column) for column in SCHEMA]

    def _mask(self, name: str, ok: Bools, is_raw: Bools) -> Bools:
        if name == "version" + RAW_SUFFIX:
            return ok & is_raw
        return ok & ~is_raw if name == "version" else ok

    def _column(self, column: pa.Field) -> pa.Array:
        name, kind, ok = column.name, column.type, self.table.ok
        if name.startswith("reason"):
            return pa.nulls(self.size, kind)
        if pa.types.is_list(kind):
            return self._list(name, kind)
        if name == "wire_format":
            return self._numbers(kind, self.table.number, ok)
        return self._values(column, self.size, self.table.numbers, self.table.blobs, self._mask(name, ok, self.is_raw))

    def _values(self, column: pa.Field, size: int, numbers: Any, blobs: Any, mask: Bools | None) -> pa.Array:
        kind = column.type
        if pa.types.is_integer(kind):
            return self._numbers(kind, numbers.get(column.name, np.zeros(size, dtype=np.int64)), mask)
        blob = blobs.get(column.name)
        if blob is None:
            return _array(kind, np.zeros(size, dtype=np.int64), np.zeros(0, dtype=np.uint8), _valid(mask))
        return _array(kind, blob[1], self._bytes(blob), _valid(mask))

    def _bytes(self, blob: Blob) -> Bytes:
        copied = self.table.copies.get(id(blob))
        return _copied(self.frames, blob) if copied is None else copied

    def _numbers(self, kind: pa.DataType, values: Ints, mask: Bools | None) -> pa.Array:
        data = pa.py_buffer(values.astype(kind.to_pandas_dtype(), copy=False))
        return pa.Array.from_buffers(kind, len(values), [_valid(mask), data])

    def _list(self, name: str, kind: pa.DataType) -> pa.Array:
        counts = self.table.counts.get(name, np.zeros(self.size, dtype=np.int64))
        columns = self.table.entries.get(name, {})
        total = int(counts.sum())
        if name in FRAME_LISTS:
            items = self._values(pa.field("", pa.binary()), total, {}, columns, None)
        else:
            is_raw = np.repeat(self.is_raw, counts)
            everything = np.ones(total, dtype=np.bool_)
            fields = list(kind.value_type)
            masks = [self._mask(part.name, everything, is_raw) for part in fields]
            parts = [self._values(p, total, columns, columns, mask) for p, mask in zip(fields, masks, strict=True)]
            items = pa.StructArray.from_arrays(parts, fields=fields)
        bounds = np.zeros(self.size + 1, dtype=np.int32)
        np.cumsum(counts, out=bounds[1:])
        return pa.Array.from_buffers(kind, self.size, [_valid(self.table.ok), pa.py_buffer(bounds)], children=[items])


# -- the rows that are not messages


def _with_reasons(batch: pa.RecordBatch, frames: _Frames, rows: Ints, limits: Limits) -> pa.RecordBatch:
    """Let the walk say what is wrong with the rows that are not messages."""
    errors = {row: _error(_row_frames(frames, row), limits) for row in rows.tolist()}
    for name in ("reason", "frame", "byte"):
        index = SCHEMA.get_field_index(name if name == "reason" else f"reason_{name}")
        values = np.full(batch.num_rows, None, dtype=object)
        values[rows] = [getattr(error, name) for error in errors.values()]
        batch = batch.set_column(index, SCHEMA.field(index), pa.array(values, SCHEMA.field(index).type))
    return batch


def _error(frames: list[bytes | None] | None, limits: Limits) -> WireError:
    try:
        read(frames, limits)
    except WireError as error:
        return error
    raise AssertionError(f"the readers disagree on {frames!r}")


def _row_frames(frames: _Frames, row: int) -> list[bytes | None] | None:
    if frames.lists.null_count and not frames.lists[row].is_valid:
        return None
    first, end = int(frames.first[row]), int(frames.end[row])
    data = memoryview(frames.data)
    bounds = frames.starts[first : end + 1].tolist()
    whole: list[bytes | None] = [bytes(data[a:b]) for a, b in zip(bounds, bounds[1:], strict=False)]
    if frames.has_frame is not None:
        return [frame if frames.has_frame[first + i] else None for i, frame in enumerate(whole)]
    return whole
