"""The rows that one format claims, read column by column.

Every step works on all rows at once and never says what is wrong, it only leaves the row out; whoever wants the reason
asks the walk. Blobs stay where they are: a start and a length in the buffer.

The trap: numbers are gathered from bad rows too. Frames of the wrong width are left out before anything is read from
them. In a meta frame a length can lead anywhere, so positions are held back (`np.minimum`) where what must still come
would not fit; such a length makes the sum of all lengths larger than the meta frame, and the row is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopwire.model.settings import Limits
from hopwire.wire.batch_frames import Blob, Bools, Bytes, Frames, Ints
from hopwire.wire.columns import RAW_SUFFIX, SCHEMA
from hopwire.wire.schema import WORD_BYTES, Entry, FromEnd, Packed, Run, Type, WireFormat, Word
from hopwire.wire.walk import LENGTH_BYTES, NO_OFFSET

__all__ = ["Part", "read_rows", "within"]

LANE_MASK = 0xFFFF
LENGTH_MASK = 0xFFFFFFFF


@dataclass
class Part:
    """Some rows of a batch, read."""

    rows: Ints
    number: Ints  # of the format that each row is in
    numbers: dict[str, Ints] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)
    counts: dict[str, Ints] = field(default_factory=dict)  # entries in each row, by block
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)  # numbers or blobs of all of them, by block
    copies: dict[int, Bytes] = field(default_factory=dict)  # blobs that were copied out already, by id

    def kept(self, ok: Bools) -> Part:
        """Give only the rows that are marked."""
        if ok.all():
            return self
        part = Part(self.rows[ok], self.number[ok])
        part.numbers = {name: values[ok] for name, values in self.numbers.items()}
        part.blobs = {name: (start[ok], size[ok]) for name, (start, size) in self.blobs.items()}
        for name, counts in self.counts.items():
            keep = np.repeat(ok, counts)
            part.counts[name] = counts[ok]
            part.entries[name] = {column: _picked(values, keep) for column, values in self.entries[name].items()}
        return part


def _picked(values: Any, keep: Bools) -> Any:
    return tuple(v[keep] for v in values) if isinstance(values, tuple) else values[keep]


def read_rows(fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> Part:
    """Read the rows that a format claims and give those whose structure stands."""
    rows = _filtered(rows, frames.count[rows] >= fmt.fewest_frames)
    reader = (_MetaReader if fmt.has_meta_frame else _TailReader)(fmt, frames, rows, limits)
    return reader.part.kept(reader.ok)


def _filtered(values: Ints, ok: Bools) -> Ints:
    return values if ok.all() else values[ok]


def within(counts: Ints) -> tuple[Ints, Ints]:
    """Give for each entry of a block the row it belongs to and its number within the row."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


class _Reader:
    """What both kinds of formats share: the rows, the marks, and the frames that hold no header."""

    def __init__(self, fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> None:
        self.fmt, self.frames, self.limits = fmt, frames, limits
        self.start(rows)

    def start(self, rows: Ints) -> None:
        """Begin with these rows, all of them still sound."""
        self.part = Part(rows, np.full(len(rows), self.fmt.number))
        self.ok = np.ones(len(rows), dtype=np.bool_)
        self.end, self.n = self.frames.end[rows], self.frames.count[rows]
        self.placed: dict[str, Ints] = {}

    def keep(self, name: str, values: Ints) -> None:
        """Keep numbers: a field of the message, or the place of a block."""
        if "." in name:
            self.placed[name] = values
        elif name:
            self.part.numbers[name] = values

    def read_lanes(self, word: Word, at: Ints) -> None:
        """Read a word once and take its lanes apart."""
        whole = self.frames.gather("i8", at)
        for lane in word:
            if lane.name:
                self.keep(lane.name, (whole >> (8 * lane.lane_byte)) & LANE_MASK)

    def read_body(self, top: Ints | int) -> Ints:
        """Read the body frames, which stand above `top`, and give where they end."""
        offset, count = self.placed["body_frames.offset"], self.placed["body_frames.count"]
        fits = (count >= 1) & (offset <= self.n) & (offset - count >= top)
        if self.fmt.retired_tails:
            fits &= (top != self.fmt.tail) | (offset - count == self.fmt.tail)
        self.ok &= fits
        self.take_frames("body_frames", self.end - offset, count)
        return offset

    def take_frames(self, name: str, first: Ints, count: Ints) -> None:
        """Add a column of lists of whole frames."""
        if not self.ok.all():
            count = np.where(self.ok, count, 0)
        if len(count) and count.min() == 1 == count.max():
            index = first
        elif not count.any():
            index = count[:0]
        else:
            rows, number = within(count)
            index = first[rows] + number
        self.part.counts[name] = count
        self.part.entries[name] = {"": self.frames.frame(index)}

    def read_front(self, top: Ints) -> None:
        """The socket identity stands above an empty frame, in front of the message, whose highest frame is `top`."""
        before = np.where(self.ok, self.n - top, 0)
        index = self.end - self.n + before
        starts = self.frames.starts
        has_identity = (before >= 2) & (starts[index] == starts[np.maximum(index - 1, 0)])
        start = starts[np.maximum(index - 2, 0)]
        size = starts[np.maximum(index - 1, 0)] - start
        self.part.blobs["socket_identity"] = (start, size if has_identity.all() else np.where(has_identity, size, 0))


class _TailReader(_Reader):
    """Rows of a format whose header is frames at the end: V3, V4, V5."""

    def __init__(self, fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> None:
        super().__init__(fmt, frames, rows, limits)
        self._read_tail()
        top = np.full(len(self.n), fmt.tail)
        for run in reversed(fmt.runs):
            top = self.read_body(top) if run.name == "body_frames" else self._read_run(run, top)
        if "body_frames" not in self.part.counts:
            self.take_frames("body_frames", self.end - 1, np.ones_like(self.n))
        self.read_front(top)

    def _bounds(self) -> list[Ints]:
        """Where frame n-k starts, for every k of the tail and for n itself."""
        return [self.frames.starts[self.end - k] for k in range(self.fmt.tail + 1)]

    def _read_tail(self) -> None:
        bounds = self._bounds()
        sizes = [np.zeros(0, dtype=np.int64)] + [bounds[k - 1] - bounds[k] for k in range(1, self.fmt.tail + 1)]
        right = self._have_right_widths(sizes)
        if not right.all():
            self.start(self.part.rows[right])
            bounds, sizes = [b[right] for b in bounds], sizes[:1] + [s[right] for s in sizes[1:]]
        for word in self.fmt.tail_words:
            k = _k(word)
            if word[0].bit is not None:
                self.read_lanes(word, bounds[k])
            elif word[0] is not self.fmt.number_field:
                self._read_whole(word[0].name, word[0].type, bounds[k], sizes[k])

    def _have_right_widths(self, sizes: list[Ints]) -> Bools:
        right = np.ones(len(self.n), dtype=np.bool_)
        for word in self.fmt.tail_words:
            size, kind = sizes[_k(word)], word[0].type
            if word[0].bit is not None:
                right &= size == WORD_BYTES
            elif kind is Type.I32_OR_EMPTY:
                right &= (size == kind.width) | (size == 0)
            elif kind.width is not None and word[0] is not self.fmt.number_field:
                right &= size == kind.width
        return right

    def _read_whole(self, name: str, kind: Type, start: Ints, size: Ints) -> None:
        if kind is Type.I32_OR_EMPTY:
            at = np.minimum(start, len(self.frames.data) - LENGTH_BYTES)
            self.keep(name, np.where(size == kind.width, self.frames.gather("i4", at), 0))
        elif kind.is_number:
            self.keep(name, self.frames.gather(_code(kind), start))
        elif name and name != "body_frames":
            self.part.blobs[_column(name, kind)] = (start, size)

    def _read_run(self, run: Run, top: Ints) -> Ints:
        count, offset, stride = (self.placed[f"{run.name}.{what}"] for what in ("count", "offset", "stride"))
        has = (count != 0) & (offset != NO_OFFSET)
        reach = np.where(has, offset + count * stride - 1, top)
        fits = (offset > top) & (count > 0) & (count <= self.limits.max_entries) & (stride >= len(run.entry))
        fits &= reach <= self.n
        if self.fmt.retired_tails:
            fits &= (top != self.fmt.tail) | (offset == self.fmt.tail + 1)
        self.ok &= ~has | fits
        count = np.where(has & self.ok, count, 0)
        rows, number = within(count)
        last = (self.end - reach - 1 + stride)[rows] + number * stride[rows]
        columns: dict[str, Any] = {}
        for above, entry in enumerate(reversed(run.entry)):
            self._read_entry(columns, entry, rows, last - above)
        self.part.counts[run.name], self.part.entries[run.name] = count, columns
        return reach

    def _read_entry(self, columns: dict[str, Any], entry: Entry, rows: Ints, index: Ints) -> None:
        start, size = self.frames.frame(index)
        if entry.type.is_number:
            right = size == entry.type.width
            if not right.all():
                self.ok[rows[~right]] = False
                start = np.where(right, start, 0)
            columns[entry.name] = self.frames.gather(_code(entry.type), start)
        else:
            columns[_column(entry.name, entry.type)] = (start, size)


class _MetaReader(_Reader):
    """Rows of a format whose header is one meta frame: V6."""

    def __init__(self, fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> None:
        super().__init__(fmt, frames, rows, limits)
        self.left = sum(_smallest(item) for item in fmt.meta_items)  # what the items that are still to come need
        fixed = self.left
        at, size = frames.frame(self.end - 1)
        if len(size) and size.min() < fixed:
            self.start(rows[size >= fixed])
            at, size = frames.frame(self.end - 1)
        self.at, self.stop = at, at + size
        self.total = np.full(len(at), fixed)  # of all lengths, as they were read
        for item in fmt.meta_items:
            if isinstance(item, Packed):
                self._read_block(item)
            else:
                self._read_word(item)
        self.ok &= self.total == size
        top = self.read_body(fmt.tail)
        count = self.placed["body_frames.count"]
        self.take_frames("extensions", self.end - top + count, top - count - fmt.tail)
        self.read_front(top)

    def _read_word(self, word: Word) -> None:
        self.left -= _smallest(word)
        first = word[0]
        if first.bit is not None:
            self.read_lanes(word, self.at)
            self.at = self.at + WORD_BYTES
        elif first.type.is_number:
            if first is not self.fmt.number_field:
                self.keep(first.name, self.frames.gather(_code(first.type), self.at))
            self.at = self.at + _smallest_value(first.type)
        else:
            size = self.frames.gather("u4", self.at)
            start = self.at + LENGTH_BYTES
            self.part.blobs[first.name] = (start, size)
            self.total += size
            self.at = np.minimum(start + size, self.stop - self.left)

    def _read_block(self, block: Packed) -> None:
        """Follow the sizes from entry to entry, in as many turns as the longest block has entries."""
        count = self.placed[f"{block.name}.count"]
        smallest = LENGTH_BYTES + _smallest_entry(block)
        fits = (count <= self.limits.max_entries) & (count * smallest <= self.stop - self.left - self.at)
        if not fits.all():
            self.ok &= fits
            count = np.where(fits, count, 0)
        firsts = np.cumsum(count) - count
        heads = np.zeros((3, int(count.sum())), dtype=np.int64)  # of each entry: start, size, first length within it
        going = np.flatnonzero(count)
        turn = 0
        while len(going):
            at = self.at[going]
            both = self.frames.gather("i8", at)
            size = both & LENGTH_MASK
            heads[:, firsts[going] + turn] = at, size, (both >> 32) & LENGTH_MASK
            self.total[going] += LENGTH_BYTES + size
            limit = self.stop[going] - self.left
            self.at[going] = np.minimum(at + LENGTH_BYTES + size, limit)
            turn += 1
            going = going[(count[going] > turn) & (self.at[going] + smallest <= limit)]
        self.part.counts[block.name] = count
        self.part.entries[block.name] = self._read_entries(block, count, heads)

    def _read_entries(self, block: Packed, count: Ints, heads: Ints) -> dict[str, Any]:
        at, size, first_length = heads
        left = _smallest_entry(block)
        start, stop = at + LENGTH_BYTES, at + LENGTH_BYTES + size
        right = (size >= left) & (stop <= len(self.frames.data))
        if not right.all():
            start, stop = np.where(right, start, 0), np.where(right, stop, left)
        columns: dict[str, Any] = {}
        for place, entry in enumerate(block.entry):
            left -= _smallest_value(entry.type)
            if entry.type.is_number:
                columns[entry.name] = self.frames.gather(_code(entry.type), start)
                start = start + _smallest_value(entry.type)
            else:
                length = self.frames.gather("u4", start) if place else first_length
                start = start + LENGTH_BYTES
                columns[entry.name] = (start, length)
                start = start + length
                limit = stop - left
                right &= start <= limit
                start = np.minimum(start, limit)
        if not right.all():
            rows, _ = within(count)
            self.ok[rows[~right]] = False
        return columns


def _k(word: Word) -> int:
    place = word[0].frame
    assert isinstance(place, FromEnd)
    return place.k


def _column(name: str, kind: Type) -> str:
    """The column of a field: raw versions have one of their own."""
    return name + RAW_SUFFIX if kind is Type.RAW and name + RAW_SUFFIX in SCHEMA.names else name


def _code(kind: Type) -> str:
    return {Type.U16: "u2", Type.I32: "i4", Type.I64: "i8"}[kind]


def _smallest_value(kind: Type) -> int:
    return (kind.width or 0) if kind.is_number else LENGTH_BYTES


def _smallest_entry(block: Packed) -> int:
    return sum(_smallest_value(entry.type) for entry in block.entry)


def _smallest(item: Word | Packed) -> int:
    if isinstance(item, Packed):
        return 0
    return WORD_BYTES if item[0].bit is not None else _smallest_value(item[0].type)
