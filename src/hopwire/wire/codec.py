"""One message at a time: recognise, decode, encode, and the route selectors alone.

The work is done by the functions that `compile.py` makes of the tables. This module chooses the function. Whenever a
function refuses a message, the walk (reading) or the check in `transcode.py` (writing) says why.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from hopwire.errors import WireError
from hopwire.model import Message, Selectors
from hopwire.model.limits import Limits
from hopwire.wire.compile import compiled
from hopwire.wire.formats import FORMATS, V3, V6
from hopwire.wire.schema import WireFormat
from hopwire.wire.transcode import check
from hopwire.wire.walk import DEFAULT_LIMITS, read, recognise

__all__ = ["decode", "decode_received", "encode", "encode_own", "recognise", "select"]


Decoder = Callable[[Sequence[bytes], int, int], Message]
Selector = Callable[[Sequence[bytes]], Selectors]
Encoder = Callable[[Message], list[bytes]]

_FUNCTIONS = {fmt.name: compiled(fmt) for fmt in FORMATS}
_ENCODERS: dict[str, Encoder] = {name: functions["encode"] for name, functions in _FUNCTIONS.items()}
_encode_v6 = _ENCODERS[V6.name]
_Reader = tuple[Decoder, Selector]
_READERS: dict[str, _Reader] = {name: (made["decode"], made["select"]) for name, made in _FUNCTIONS.items()}

# A format is told by its last frame: by the whole of it, or by how the meta frame begins. V3 has its number elsewhere.
_BY_LAST_FRAME = {raw: _READERS[f.name] for f in FORMATS for raw in f.numbers if not f.has_meta_frame and f is not V3}
_BY_META_FRAME = {raw: _READERS[f.name] for f in FORMATS for raw in f.numbers if f.has_meta_frame}
_LONGEST_NUMBER = max(map(len, _BY_LAST_FRAME))
_V3_READER = _READERS[V3.name]
_V3_TAIL = V3.tail
(_V3_NUMBER,) = V3.numbers

_ALL_BYTES = {bytes}
_REFUSALS = (struct.error, ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError)


def decode(frames: Sequence[bytes], limits: Limits = DEFAULT_LIMITS) -> Message:
    """Read one message in any of the formats; a WireError says what is wrong with the message, and where."""
    try:
        count = len(frames)
        reader = _reader(frames, count)
        if (
            reader is not None
            and count <= limits.max_frames
            and {*map(type, frames)} == _ALL_BYTES
            and sum(map(len, frames)) <= limits.max_bytes
        ):
            return reader[0](frames, count, limits.max_entries)
    except _REFUSALS:
        pass
    return read(frames, limits)[1]


def decode_received(frames: list[bytes], limits: Limits = DEFAULT_LIMITS) -> Message:
    """Read one message as `decode` does; the caller knows that the frames are bytes, and not more than the limit."""
    try:
        count = len(frames)
        reader = _reader(frames, count)
        if reader is not None and count <= limits.max_frames:
            return reader[0](frames, count, limits.max_entries)
    except _REFUSALS:
        pass
    return read(frames, limits)[1]


def select(frames: Sequence[bytes]) -> Selectors:
    """Read the route selectors alone, which is all that a router needs; the rest of the message may still be broken."""
    try:
        reader = _reader(frames, len(frames))
        if reader is not None:
            return reader[1](frames)
    except _REFUSALS:
        pass
    message = read(frames)[1]
    return Selectors(*(getattr(message, name) for name in Selectors.__struct_fields__))


def _reader(frames: Sequence[bytes], count: int) -> _Reader | None:
    """Choose the reader by the number, or None where the walk has to decide."""
    last = frames[-1]
    reader = _BY_LAST_FRAME.get(last) if len(last) <= _LONGEST_NUMBER else _BY_META_FRAME.get(last[:2])
    if count >= _V3_TAIL and frames[-3] == _V3_NUMBER:
        return _V3_READER if reader is None else None
    return reader


def encode_own(message: Message) -> list[bytes]:
    """Write one message as `encode` does in V6; the caller knows that all frames are bytes."""
    try:
        return _encode_v6(message)
    except _REFUSALS:
        return encode(message, V6)


def encode(message: Message, fmt: WireFormat = V6) -> list[bytes]:
    """Write one message as frames; a WireError names the field that the format cannot carry."""
    try:
        frames = _ENCODERS[fmt.name](message)
        if {*map(type, frames)} == _ALL_BYTES:
            return frames
    except _REFUSALS:
        pass
    check(message, fmt)
    raise WireError("bad_value", f"cannot be written as {fmt}")
