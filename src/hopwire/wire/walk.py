"""The careful reader: one walk over a format's table, one step for each value, with the place of everything it finds.

It is the law. What it accepts is a message; where it stops, its reason and position are the answer that every reader
gives. The fast readers (`codec.py`, `batch/`) only know that something is wrong, and ask here what it is. The
dissector shows the steps.

Rules, in this order:

1. The input is a sequence of byte strings within the limits on frames and bytes.
2. The format is told by its number, standing where its number belongs. A V3 body is the last frame and can imitate the
   number of any other format: where two formats claim a message, the one that fits whole is right, two that fit are
   ambiguous.
3. Fixed frames, top to bottom; in the meta frame, item by item.
4. Blocks of frames, bottom to top: each begins above the one before it and ends within the frames. Gaps are tolerated,
   they are the documents' "new frames come on top"; overlaps are not. On the tail of V4 there is no gap: its number was
   used with tails of other sizes, which a gap would hide.
5. Text, when the structure stands.

The trap: an offset names the last frame of the last entry of a block, but the first frame of the body.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.model.limits import Limits
from hopwire.wire.formats import FORMATS, V3
from hopwire.wire.schema import ENTRY_TYPES, WORD_BYTES, Entry, Field, FromEnd, Packed, Run, Type, WireFormat, Word

__all__ = ["DEFAULT_LIMITS", "Item", "Walk", "claimants", "frames_from", "read", "recognise", "widths"]

DEFAULT_LIMITS = Limits()
BYTES_TYPES = (bytes, bytearray, memoryview)  # a tuple: a union in the loop over the frames would be built for each
LENGTH_BYTES = 4  # of a blob, a text or an entry in the meta frame
NO_OFFSET = -1  # V3's document suggests it for a block that is not there
WHOLE_FRAME_NUMBERS = {number for fmt in FORMATS if not fmt.has_meta_frame and fmt is not V3 for number in fmt.numbers}
RETIRED_NUMBERS = {b"\1\0\0\0": "V1", b"\2\0\0\0": "V2"}


class Item(msgspec.Struct, frozen=True, gc=False):
    """One value of a message and the bytes it stands in: `frames[frame][start:stop]`."""

    frame: int
    start: int
    stop: int
    name: str
    type: Type
    title: str
    value: Any


def frames_from(given: object, limits: Limits) -> list[bytes]:
    """Give the frames as a list of bytes, or say why they are none."""
    if not isinstance(given, Sequence) or isinstance(given, (str, *BYTES_TYPES)):
        raise WireError("not_frames", f"found {type(given).__name__}, expected a sequence of byte strings")
    if len(given) > limits.max_frames:
        raise WireError("too_many_frames", f"found {len(given)}, the limit is {limits.max_frames}")
    for index, frame in enumerate(given):
        if not isinstance(frame, BYTES_TYPES):
            raise WireError("not_frames", f"found {type(frame).__name__}, expected bytes", frame=index)
    frames = [bytes(frame) for frame in given]
    size = sum(map(len, frames))
    if size > limits.max_bytes:
        raise WireError("too_many_bytes", f"found {size}, the limit is {limits.max_bytes}")
    return frames


def claimants(frames: list[bytes]) -> list[WireFormat]:
    """Name the formats whose number stands where it belongs; V3 and at most one other."""
    return [fmt for fmt in FORMATS if _claims(fmt, frames)]


def _claims(fmt: WireFormat, frames: list[bytes]) -> bool:
    if fmt.has_meta_frame:
        return bool(frames) and frames[-1].startswith(fmt.numbers) and frames[-1] not in WHOLE_FRAME_NUMBERS
    place = fmt.number_field.frame
    assert isinstance(place, FromEnd)
    fewest = fmt.tail if fmt is V3 else place.k  # a number in the middle counts only where the frames around it can be
    return len(frames) >= fewest and frames[-place.k] in fmt.numbers


def recognise(given: object, limits: Limits = DEFAULT_LIMITS) -> WireFormat:
    """Tell which format the frames are in, or raise a WireError; a broken message still has the format it claims."""
    frames = frames_from(given, limits)
    claims = claimants(frames)
    if len(claims) == 1:
        return claims[0]
    return read(frames, limits)[0]


def read(given: object, limits: Limits = DEFAULT_LIMITS) -> tuple[WireFormat, Message]:
    """Read a message with care and give it with its format, or raise a WireError."""
    frames = frames_from(given, limits)
    claims = claimants(frames)
    if not claims:
        _refuse_unclaimed(frames)
    fits: list[tuple[WireFormat, Message]] = []
    first_error: WireError | None = None
    for fmt in claims:
        try:
            fits.append((fmt, Walk(fmt, frames, limits).message()))
        except WireError as error:
            first_error = first_error or error
    if len(fits) > 1:
        both = " and ".join(fmt.name for fmt, _ in fits)
        raise WireError("ambiguous_version", f"fits {both} whole", frame=len(frames) - 1, byte=0)
    if not fits:
        assert first_error is not None
        raise first_error
    return fits[0]


def _refuse_unclaimed(frames: list[bytes]) -> NoReturn:
    count = len(frames)
    place = V3.number_field.frame
    assert isinstance(place, FromEnd)
    number = frames[-place.k] if count >= place.k else b""
    if number in RETIRED_NUMBERS:
        name = RETIRED_NUMBERS[number]
        raise WireError("retired_version", f"{name} is not decoded", frame=count - place.k, byte=0)
    if number in V3.numbers:
        raise WireError("too_few_frames", f"V3 has at least {V3.tail} frames, found {count}")
    if count < 2:
        raise WireError("too_few_frames", f"no format has fewer than 2 frames, found {count}")
    start = frames[-1][:4].hex(" ") or "nothing"
    raise WireError("unknown_version", f"the last frame begins with {start}", frame=count - 1, byte=0)


class Walk:
    """One walk over one message: `message()` gives it or raises; `items` are what was found on the way."""

    def __init__(self, fmt: WireFormat, frames: list[bytes], limits: Limits) -> None:
        self.fmt = fmt
        self.frames = frames
        self.limits = limits
        self.items: list[Item] = []
        self._values: dict[str, Any] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._texts: list[tuple[int, int]] = []  # (item index, start of the text) in reading order

    def message(self) -> Message:
        """Read every step and build the message."""
        count = len(self.frames)
        if count < self.fmt.fewest_frames:
            raise WireError("too_few_frames", f"{self.fmt} has at least {self.fmt.fewest_frames} frames, found {count}")
        if self.fmt.has_meta_frame:
            self._read_meta_frame(count - 1)
        else:
            self._read_tail()
        top = self._read_runs()
        self._read_front(count - top)
        self._read_texts()
        return self._build()

    # -- fixed frames

    def _read_tail(self) -> None:
        for word in self.fmt.tail_words:
            place = word[0].frame
            assert isinstance(place, FromEnd)
            index = len(self.frames) - place.k
            frame = self.frames[index]
            if word[0].bit is not None:
                self._check_width(index, word[0], frame, (WORD_BYTES,))
                self._read_lanes(index, 0, word)
            else:
                self._check_width(index, word[0], frame, widths(self.fmt, word[0]))
                self._read_whole(index, word[0], frame)

    def _check_width(self, index: int, field: Field | Entry, frame: bytes, widths: tuple[int, ...]) -> None:
        if widths and len(frame) not in widths:
            expected = " or ".join(map(str, widths))
            raise WireError(
                "bad_width",
                f"found {len(frame)} bytes, expected {expected}",
                frame=index,
                byte=min(len(frame), max(widths)),
                field=field.name,
            )

    def _read_whole(self, index: int, field: Field | Entry, frame: bytes, name: str = "") -> Any:
        value: Any = int.from_bytes(frame, "little", signed=_signed(field.type)) if field.type.is_number else frame
        self._found(index, 0, len(frame), name or field.name, field, value)
        return value

    def _read_lanes(self, index: int, start: int, word: Word) -> None:
        for field in word:
            at = start + field.lane_byte
            value = int.from_bytes(self.frames[index][at : at + 2], "little")
            self._found(index, at, at + 2, field.name, field, value)

    def _found(self, index: int, start: int, stop: int, name: str, field: Field | Entry, value: Any) -> None:
        if field.type is Type.TEXT:
            self._texts.append((len(self.items), stop - len(value)))
        self.items.append(Item(index, start, stop, name, field.type, field.title, value))
        self._values[name] = value
        self._places[name] = (index, start)

    # -- the meta frame

    def _read_meta_frame(self, index: int) -> None:
        meta = self.frames[index]
        at = 0
        for item in self.fmt.meta_items:
            if isinstance(item, Packed):
                at = self._read_packed(index, at, item)
            elif item[0].bit is not None:
                self._need(index, at, WORD_BYTES, len(meta), item[0].name)
                self._read_lanes(index, at, item)
                at += WORD_BYTES
            else:
                at = self._read_item(index, at, len(meta), item[0], item[0].name)
        if at < len(meta):
            raise WireError("trailing_bytes", f"{len(meta) - at} bytes too many", frame=index, byte=at)

    def _read_item(self, index: int, at: int, end: int, field: Field | Entry, name: str) -> int:
        meta = self.frames[index]
        if field.type.is_number:
            width = struct.calcsize(field.type.code)
            self._need(index, at, width, end, name)
            value: Any = int.from_bytes(meta[at : at + width], "little", signed=_signed(field.type))
            stop = at + width
        else:
            stop = self._read_length(index, at, end, name)
            value = meta[at + LENGTH_BYTES : stop]
        self._found(index, at, stop, name, field, value)
        return stop

    def _read_length(self, index: int, at: int, end: int, name: str) -> int:
        """Give where the blob, text or entry that starts at `at` ends."""
        self._need(index, at, LENGTH_BYTES, end, name)
        size = int.from_bytes(self.frames[index][at : at + LENGTH_BYTES], "little", signed=True)
        room = end - at - LENGTH_BYTES
        if size < 0:
            raise WireError("negative_length", f"found {size}", frame=index, byte=at, field=name)
        if size > room:
            raise WireError("bad_length", f"found {size}, there is room for {room}", frame=index, byte=at, field=name)
        return at + LENGTH_BYTES + size

    def _need(self, index: int, at: int, width: int, end: int, name: str) -> None:
        if end - at < width:
            detail = f"needs {width} bytes, {end - at} are left"
            raise WireError("truncated", detail, frame=index, byte=at, field=name)

    def _read_packed(self, index: int, at: int, block: Packed) -> int:
        count = self._values[f"{block.name}.count"]
        self._check_entries(block.name, count)
        end = len(self.frames[index])
        smallest = LENGTH_BYTES + sum(struct.calcsize(e.type.code) or LENGTH_BYTES for e in block.entry)
        if count * smallest > end - at:
            self._blame("bad_count", f"{block.name}.count", f"{count} entries do not fit into {end - at} bytes")
        entries = []
        for number in range(count):
            name = f"{block.name}[{number}]"
            stop = self._read_length(index, at, end, f"{name}.size")
            self._found(
                index, at, at + LENGTH_BYTES, f"{name}.size", Entry("size", Type.I32, block.title), stop - at - 4
            )
            at += LENGTH_BYTES
            for entry in block.entry:
                at = self._read_item(index, at, stop, entry, f"{name}.{entry.name}")
            entries.append({entry.name: self._values[f"{name}.{entry.name}"] for entry in block.entry})
            at = stop
        self._values[block.name] = entries
        return at

    # -- blocks of frames

    def _read_runs(self) -> int:
        """Give the highest frame, counted from the end, that belongs to the message."""
        floor = self.fmt.tail
        for run in reversed(self.fmt.runs):
            floor = self._read_body(floor) if run.name == "body_frames" else self._read_run(run, floor)
        return floor

    def _read_run(self, run: Run, floor: int) -> int:
        count: int = self._values[f"{run.name}.count"]
        offset: int = self._values[f"{run.name}.offset"]
        stride: int = self._values[f"{run.name}.stride"]
        self._values[run.name] = []
        if offset == NO_OFFSET or count == 0:
            return floor
        if count < 0:
            self._blame("bad_count", f"{run.name}.count", f"found {count}")
        self._check_entries(run.name, count)
        if stride < len(run.entry):
            self._blame("bad_stride", f"{run.name}.stride", f"found {stride}, expected {len(run.entry)} or more")
        top = offset + count * stride - 1
        self._check_place(run.name, offset, offset, top, floor)
        for number in range(count):
            last = len(self.frames) - top + (number + 1) * stride - 1
            self._values[run.name].append(self._read_entry(run, number, last))
        return top

    def _read_entry(self, run: Run, number: int, last: int) -> dict[str, Any]:
        values = {}
        for index, entry in enumerate(run.entry, last - len(run.entry) + 1):
            frame = self.frames[index]
            width = entry.type.width
            self._check_width(index, entry, frame, (width,) if width is not None else ())
            values[entry.name] = self._read_whole(index, entry, frame, f"{run.name}[{number}].{entry.name}")
        return values

    def _read_body(self, floor: int) -> int:
        count: int = self._values["body_frames.count"]
        offset: int = self._values["body_frames.offset"]
        if count < 1:
            self._blame("bad_count", "body_frames.count", "a message has at least one body frame")
        self._check_place("body_frames", offset, offset - count + 1, offset, floor)
        first = len(self.frames) - offset
        body = self.frames[first : first + count]
        entry = next(run for run in self.fmt.runs if run.name == "body_frames").entry[0]
        for number, frame in enumerate(body):
            self._found(first + number, 0, len(frame), f"body_frames[{number}]", entry, frame)
        self._values["body_frames"] = body
        self._values["extensions"] = self.frames[first + count : -1] if self.fmt.has_meta_frame else []
        return offset

    def _check_entries(self, name: str, count: int) -> None:
        if count > self.limits.max_entries:
            detail = f"found {count}, the limit is {self.limits.max_entries}"
            self._blame("too_many_entries", f"{name}.count", detail)

    def _check_place(self, name: str, offset: int, bottom: int, top: int, floor: int) -> None:
        """A block stands above `floor` and within the frames; its offset or its count is to blame if it does not."""
        count = len(self.frames)
        if floor == self.fmt.tail and bottom - 1 in self.fmt.retired_tails:
            detail = f"the number {self.fmt.number} with a tail of {bottom - 1} frames"
            self._blame("retired_layout", f"{name}.offset", detail)
        may_leave_gap = floor > self.fmt.tail or not self.fmt.retired_tails  # on the tail of V4 a gap is another layout
        if not floor < offset <= count or (bottom - 1 > floor and not may_leave_gap):
            self._blame("bad_offset", f"{name}.offset", f"found {offset}, expected {floor + 1} to {count}")
        if bottom <= floor or top > count:
            room = offset - floor if name == "body_frames" else count - offset + 1
            self._blame("bad_count", f"{name}.count", f"{top - bottom + 1} frames do not fit into {room}")

    def _blame(self, reason: str, name: str, detail: str) -> NoReturn:
        frame, byte = self._places[name]
        raise WireError(reason, detail, frame=frame, byte=byte, field=name)

    # -- front, text and the whole

    def _read_front(self, top: int) -> None:
        """The frames in front of the message: an empty one, and above it the socket identity."""
        socket_field, empty_field = self.fmt.fields[:2]
        self._values["socket_identity"] = b""
        if top >= 1 and not self.frames[top - 1]:
            self._found(top - 1, 0, 0, "", empty_field, b"")
            if top >= 2:
                self._read_whole(top - 2, socket_field, self.frames[top - 2])

    def _read_texts(self) -> None:
        for position, start in self._texts:
            item = self.items[position]
            try:
                text = item.value.decode()
            except UnicodeDecodeError as error:
                at = start + error.start
                detail = f"found {error.object[error.start : error.start + 4].hex(' ')}"
                raise WireError("invalid_utf8", detail, frame=item.frame, byte=at, field=item.name) from None
            self.items[position] = Item(item.frame, item.start, item.stop, item.name, item.type, item.title, text)
            self._values[item.name] = text

    def _build(self) -> Message:
        values = {name: self._values[name] for name in self.fmt.carried}
        body = values["body_frames"]
        values["body_frames"] = (body,) if isinstance(body, bytes) else tuple(body)
        values["extensions"] = tuple(values.get("extensions", ()))
        for name, entry_type in ENTRY_TYPES.items():
            entries = [
                {key: self._values[f"{name}[{number}].{key}"] for key in entry}
                for number, entry in enumerate(values[name])
            ]
            values[name] = tuple(entry_type(**entry) for entry in entries)
        return Message(**values)


def widths(fmt: WireFormat, field: Field) -> tuple[int, ...]:
    """Give how many bytes a whole frame of the tail may have; empty where the frame may have any number."""
    if field is fmt.number_field:
        return tuple(map(len, fmt.numbers))
    if field.type is Type.I32_OR_EMPTY:
        return (0, 4)
    return () if field.type.width is None else (field.type.width,)


def _signed(kind: Type) -> bool:
    return kind is not Type.U16
