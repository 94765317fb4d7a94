"""The heads of the messages of an Arrow stream, read before Arrow reads the message: how large it is, and whether it is
packed.

    ff ff ff ff, u32 length of the head, the head (a FlatBuffers table), then the body

A capture has a schema, then batches, and none of them is compressed. Arrow unpacks a compressed batch as a whole: 29 KB
become 850 MB. So the head is looked at first, and what a capture does not have is not given to Arrow.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from hopwire.model.units import MEBIBYTE

__all__ = ["CONTINUATION", "MAX_HEADER_BYTES", "PREFIX_BYTES", "MessageHead", "read_head"]

CONTINUATION = b"\xff\xff\xff\xff"  # each message begins with it; then comes the length of its head
PREFIX_BYTES = 8
MAX_HEADER_BYTES = MEBIBYTE  # a schema is some hundred bytes; what claims more is something else

# places in the tables `Message` and `RecordBatch` of Arrow's Message.fbs
TYPE_SLOT, HEADER_SLOT, BODY_LENGTH_SLOT = 1, 2, 3
COMPRESSION_SLOT = 3
DICTIONARY, BATCH = 2, 3  # what `TYPE_SLOT` has


class MessageHead(NamedTuple):
    """What the head of a message says."""

    size_bytes: int  # of prefix, head and body together
    is_packed: bool  # compressed, or a dictionary for the columns of others


def read_head(file: Any) -> MessageHead | None:
    """Read the head of the message that begins here; nothing if there is none."""
    prefix = file.read(PREFIX_BYTES)
    length = int.from_bytes(prefix[4:], "little")
    if len(prefix) < PREFIX_BYTES or prefix[:4] != CONTINUATION or not 0 < length <= MAX_HEADER_BYTES:
        return None
    try:
        return _head(file.read(length), PREFIX_BYTES + length)
    except struct.error:
        return None


def _head(data: bytes, size_bytes: int) -> MessageHead | None:
    message = struct.unpack_from("<I", data)[0]
    body = _number(data, message, BODY_LENGTH_SLOT, "<q")
    if body < 0:
        return None
    kind, at = _number(data, message, TYPE_SLOT, "<B"), _place(data, message, HEADER_SLOT)
    is_packed = kind == DICTIONARY
    if kind == BATCH and at is not None:
        is_packed = _place(data, at + struct.unpack_from("<I", data, at)[0], COMPRESSION_SLOT) is not None
    return MessageHead(size_bytes + body, is_packed)


def _place(data: bytes, table: int, slot: int) -> int | None:
    """Where a field of a FlatBuffers table lies, as its vtable says; nothing if the table does not have it."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise struct.error("a table in front of the data")
    at = 4 + 2 * slot
    (vtable_bytes,) = struct.unpack_from("<H", data, vtable)
    (offset,) = struct.unpack_from("<H", data, vtable + at) if vtable_bytes > at else (0,)
    return table + offset if offset else None


def _number(data: bytes, table: int, slot: int, form: str) -> int:
    at = _place(data, table, slot)
    return 0 if at is None else int(struct.unpack_from(form, data, at)[0])
