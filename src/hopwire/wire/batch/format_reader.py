"""The rows that one format claims, read column by column.

Every step works on all rows at once. A step that finds a row wrong leaves the row out and does not say why; the walk
finds the reason later. Values of fixed width that follow one another are read in one go. Blobs are not copied here: a
blob is the number of its piece (`buffers.py`).

The trap: numbers are gathered from wrong rows too, and a wrong length can lead to any position. Two rules make that
safe. Lengths are read without a sign, so the position in a meta frame only grows. A row is right only if its last
position is exactly the end of its meta frame, and a position that has left the meta frame never comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hopwire.columnar import Bools, Ints
from hopwire.model.limits import Limits
from hopwire.wire.arrow import column_name
from hopwire.wire.batch.buffers import Copy, Frames
from hopwire.wire.formats import FORMATS
from hopwire.wire.schema import WORD_BYTES, Field, FromEnd, Packed, Run, Type, WireFormat, Word
from hopwire.wire.walk import LENGTH_BYTES, NO_OFFSET

__all__ = ["ColumnKey", "Part", "read_rows", "spread"]

ColumnKey = tuple[str, str]  # block and column; the block of a field is ""
CODES = {Type.U16: "<u2", Type.I32: "<i4", Type.I32_OR_EMPTY: "<i4", Type.I64: "<i8", Type.RAW: "<u4", Type.TEXT: "<u4"}
LENGTH = np.dtype("<u4")


@dataclass
class Part:
    """Some rows of a batch, read: numbers, and blobs as the numbers of their pieces."""

    rows: Ints
    values: dict[ColumnKey, Ints] = field(default_factory=dict)
    counts: dict[str, Ints] = field(default_factory=dict)  # entries in each row, by block
    copies: dict[ColumnKey, Copy] = field(default_factory=dict)  # blobs that were copied out already

    def kept(self, ok: Bools) -> Part:
        """Give the rows that are marked, and leave the others out."""
        if ok.all():
            return self
        keep = {"": ok, **{block: np.repeat(ok, counts) for block, counts in self.counts.items()}}
        values = {key: values[keep[key[0]]] for key, values in self.values.items()}
        return Part(self.rows[ok], values, {block: counts[ok] for block, counts in self.counts.items()})


def read_rows(fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> Part:
    """Read the rows that a format claims, and give the rows whose structure is right."""
    enough = frames.count[rows] >= fmt.fewest_frames
    reader = (_MetaReader if fmt.has_meta_frame else _TailReader)(
        fmt, frames, rows if enough.all() else rows[enough], limits
    )
    return reader.part.kept(reader.ok)


def spread(first: Ints, count: Ints, step: Ints | int = 1) -> Ints:
    """Give for each entry of a block its number, counted from the `first` of its row in steps."""
    ends = np.cumsum(count)
    starts = np.repeat(first - step * (ends - count), count)
    steps = step if isinstance(step, int) else np.repeat(step, count)
    return np.asarray(starts + steps * np.arange(len(starts)))


# -- what is read in one go


class FixedValues(NamedTuple):
    """Values of fixed width that follow one another; the last value can be the length of a blob that comes next."""

    layout: np.dtype[Any]
    blob: str


def _stretch(words: Sequence[Word]) -> FixedValues:
    """Lay out some words; values without a name and the number of the format are left out."""
    names, codes, offsets, size = [], [], [], 0
    for word in words:
        for value in word:
            if value.name not in ("", "wire_format_version"):
                names.append(value.name)
                codes.append(CODES[value.type])
                offsets.append(size + value.lane_byte)
        size += _width(word)
    layout = np.dtype({"names": names, "formats": codes, "offsets": offsets, "itemsize": size})
    return FixedValues(layout, "" if words[-1][0].type.is_number else words[-1][0].name)


def _width(word: Word) -> int:
    return WORD_BYTES if word[0].bit is not None else int(CODES[word[0].type][-1])


def _steps(items: Iterable[Word | Packed]) -> list[FixedValues | Packed]:
    """The items of a meta frame or of an entry: stretches that end with a length, and blocks."""
    steps: list[FixedValues | Packed] = []
    words: list[Word] = []
    for item in items:
        if isinstance(item, Packed):
            steps += [*_closed(words), item]
            words = []
        elif item[0].type.is_number:
            words.append(item)
        else:
            steps += _closed([*words, item])
            words = []
    return steps + _closed(words)


def _closed(words: Sequence[Word]) -> list[FixedValues | Packed]:
    return [_stretch(words)] if words else []


def _entry_steps(block: Packed) -> list[Any]:
    size = Field(None, None, f"{block.name}.size", Type.I32, block.title)
    return _steps([(size,), *((Field(None, None, e.name, e.type, e.title),) for e in block.entry)])


def _tail_steps(fmt: WireFormat) -> list[tuple[int, FixedValues]]:
    """Frames of fixed width that lie side by side, with the number of the first."""
    steps: list[tuple[int, list[Word]]] = []
    for word in fmt.tail_words:
        k = _k(word)
        if _is_fixed(fmt, word):
            if steps and steps[-1][0] - len(steps[-1][1]) == k:
                steps[-1][1].append(word)
            else:
                steps.append((k, [word]))
    return [(k, _stretch(words)) for k, words in steps]


def _is_fixed(fmt: WireFormat, word: Word) -> bool:
    first = word[0]
    return first.type.is_number and first is not fmt.number_field and first.type is not Type.I32_OR_EMPTY


def _k(word: Word) -> int:
    place = word[0].frame
    assert isinstance(place, FromEnd)
    return place.k


META_STEPS = {fmt.name: _steps(fmt.meta_items) for fmt in FORMATS}
TAIL_STEPS = {fmt.name: _tail_steps(fmt) for fmt in FORMATS}
ENTRY_STEPS = {
    (fmt.name, row.name): _entry_steps(row) for fmt in FORMATS for row in fmt.rows if isinstance(row, Packed)
}


# -- readers


class _FormatReader:
    """The parts that both kinds of formats share: the rows, the marks, and the frames that hold no header."""

    def __init__(self, fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> None:
        self.fmt, self.frames, self.limits = fmt, frames, limits
        self.part = Part(rows, {("", "wire_format"): np.full(len(rows), fmt.number)})
        self.ok = np.ones(len(rows), dtype=np.bool_)
        self.end, self.n = frames.end[rows], frames.count[rows]
        self.placed: dict[str, Ints] = {}

    def keep(self, block: str, name: str, values: Ints) -> None:
        """Keep values: a column, or the place of a block."""
        if "." in name:
            self.placed[name] = values.astype(np.int64)
        else:
            self.part.values[block, name] = values

    def refuse(self, count: Ints, wrong: Bools) -> None:
        """Leave out the rows that have a wrong entry."""
        if wrong.any():
            self.ok[np.repeat(np.arange(len(count)), count)[wrong]] = False

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
        self.part.counts[name] = count
        self.part.values[name, ""] = first if (count == 1).all() else spread(first, count)

    def read_front(self, top: Ints) -> None:
        """Read the socket identity: the frame above the empty frame above the message; `top` is its highest frame."""
        before = np.where(self.ok, self.n - top, 0)
        index = self.end - self.n + before
        start, stop = self.frames.frame(index - 1)
        self.part.values["", "socket_identity"] = np.where((before >= 2) & (start == stop), index - 2, 0)


class _TailReader(_FormatReader):
    """Rows of a format whose header is frames at the end: V3, V4, V5."""

    def __init__(self, fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> None:
        super().__init__(fmt, frames, rows, limits)
        self.starts: dict[int, Ints] = {}
        for word in fmt.tail_words:
            self._read_whole(_k(word), word)
        for k, stretch in TAIL_STEPS[fmt.name]:
            found = frames.gather(stretch.layout, self._start(k))
            for name in stretch.layout.names or ():
                self.keep("", name, found[name])
        top = np.full(len(self.n), fmt.tail)
        for run in reversed(fmt.runs):
            top = self.read_body(top) if run.name == "body_frames" else self._read_run(run, top)
        if "body_frames" not in self.part.counts:
            self.take_frames("body_frames", self.end - 1, np.ones_like(self.n))
        self.read_front(top)

    def _start(self, k: int) -> Ints:
        """Where frame n-k starts."""
        if k not in self.starts:
            self.starts[k] = self.frames.starts.take(self.end - k)
        return self.starts[k]

    def _read_whole(self, k: int, word: Word) -> None:
        """Check the width of a frame; read the frame if it is a blob or may be empty."""
        first = word[0]
        if first is self.fmt.number_field:
            return
        if first.type.width is None:
            if first.name != "body_frames":
                self.keep("", column_name(first), self.end - k)
            return
        size = self._start(k - 1) - self._start(k)
        right = size == (WORD_BYTES if first.bit is not None else first.type.width)
        if first.type is Type.I32_OR_EMPTY:
            numbers = self.frames.gather(np.dtype(CODES[first.type]), self._start(k))
            self.keep("", first.name, np.where(right, numbers, 0))
            right |= size == 0
        self.ok &= right

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
        is_even = len(stride) and (stride == stride[0]).all()
        last = spread(self.end - reach - 1 + stride, count, int(stride[0]) if is_even else stride)
        for above, entry in enumerate(reversed(run.entry)):
            index = last - above
            if entry.type.is_number:
                start, stop = self.frames.frame(index)
                self.refuse(count, stop - start != entry.type.width)
                index = self.frames.gather(np.dtype(CODES[entry.type]), start)
            self.part.values[run.name, column_name(entry)] = index
        self.part.counts[run.name] = count
        return reach


class _MetaReader(_FormatReader):
    """Rows of a format whose header is one meta frame: V6."""

    def __init__(self, fmt: WireFormat, frames: Frames, rows: Ints, limits: Limits) -> None:
        super().__init__(fmt, frames, rows, limits)
        start, self.stop = frames.frame(self.end - 1)
        self.at = start.astype(np.int64)
        for step in META_STEPS[fmt.name]:
            if isinstance(step, Packed):
                self._read_block(step)
            else:
                self.at = self._read_stretch("", step, self.at, frames.gather(step.layout, self.at))
        self.ok &= self.at == self.stop
        top = self.read_body(fmt.tail)
        count = self.placed["body_frames.count"]
        self.take_frames("extensions", self.end - top + count, top - count - fmt.tail)
        self.read_front(top)

    def _read_stretch(self, block: str, stretch: FixedValues, at: Ints, found: Any) -> Ints:
        """Keep the values, and give where the values and their blob end."""
        at = at + stretch.layout.itemsize
        for name in stretch.layout.names or ():
            if name == stretch.blob:
                stop: Ints = at + found[name]
                self.keep(block, name, self.frames.add(at, stop))
                return stop
            self.keep(block, name, found[name])
        return at

    def _read_block(self, block: Packed) -> None:
        """Follow the sizes from entry to entry, in as many turns as the longest block has entries."""
        count = self.placed[f"{block.name}.count"]
        head, *others = ENTRY_STEPS[self.fmt.name, block.name]
        smallest = head.layout.itemsize + sum(step.layout.itemsize for step in others)
        fits = (count <= self.limits.max_entries) & (count * smallest <= self.stop - self.at)
        if not fits.all():
            self.ok &= fits
            count = np.where(fits, count, 0)
        total = int(count.sum())
        starts, heads = np.empty(total, dtype=np.int64), np.empty(total, dtype=head.layout)
        rows = np.flatnonzero(count)
        at, last = self.at[rows], np.cumsum(count)[rows]
        place = last - count[rows]
        while len(rows):
            found = self.frames.gather(head.layout, at)
            starts[place], heads[place] = at, found
            self.at[rows] = at = at + found[f"{block.name}.size"].view(LENGTH) + LENGTH_BYTES
            place = place + 1
            going = place < last
            if not going.all():
                rows, at, place, last = rows[going], at[going], place[going], last[going]
        self.part.counts[block.name] = count
        at = self._read_stretch(block.name, head, starts, heads)
        for step in others:
            at = self._read_stretch(block.name, step, at, self.frames.gather(step.layout, at))
        self.refuse(count, at > starts + self.placed[f"{block.name}.size"] + LENGTH_BYTES)
