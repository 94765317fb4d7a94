"""A large source in parts that are read one by one, by several workers at a time: each is a source of its own.

| kind | a part is |
|---|---|
| `segment` | some batches, from one position in the file to another; only their heads are read to find them |
| `parquet` | some row groups, from one number to another |
| `pcap` | the whole: where a message begins is known only to who has read all before it |

The parts of a source have all its rows, each once, in the order of the source. Where a batch is damaged, the rest of
its part is lost; other parts are not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from hopwire.capture.sources import Source, SourceKind
from hopwire.capture.stream import CONTINUATION, MAX_HEADER_BYTES, PREFIX_BYTES

__all__ = ["parts_of"]

BODY_LENGTH_SLOT = 3  # of the table `Message` in Arrow's Message.fbs


def parts_of(source: Source, max_bytes: int) -> list[Source]:
    """Give a source in parts of about so many bytes; one that is not larger, or cannot be parted, stays whole."""
    find = FINDERS.get(source.kind)
    if find is None or source.size_bytes <= max_bytes:
        return [source]
    ends = list(_spaced(find(source.path), max_bytes))
    return [replace(source, begin=begin, end=end) for begin, end in zip([0, *ends], [*ends, None], strict=True)]


def _spaced(ends: Iterable[tuple[int, int]], max_bytes: int) -> Iterator[int]:
    """Choose the ends of parts among those of batches; what follows the last of them is a part too."""
    begin, last = 0, None
    for end, size in ends:
        if last is not None and size - begin > max_bytes:
            yield last[0]
            begin = last[1]
        last = end, size


# -- where batches end: as the reader of the kind counts, and in bytes


def _batch_ends(path: Path) -> Iterator[tuple[int, int]]:
    with open(path, "rb") as file:
        position = 0
        while (length := _message_bytes(file)) is not None:
            position += length
            file.seek(position)
            yield position, position


def _message_bytes(file: BinaryIO) -> int | None:
    """The size of the message of an Arrow stream that begins here: its head and its body; nothing if there is none."""
    prefix = file.read(PREFIX_BYTES)
    length = int.from_bytes(prefix[4:], "little")
    if len(prefix) < PREFIX_BYTES or prefix[:4] != CONTINUATION or not 0 < length <= MAX_HEADER_BYTES:
        return None
    try:
        body = _body_bytes(file.read(length))
    except struct.error:
        return None
    return PREFIX_BYTES + length + body if body >= 0 else None


def _body_bytes(head: bytes) -> int:
    """The field bodyLength of a FlatBuffers table: its vtable says where it lies."""
    (table,) = struct.unpack_from("<I", head)
    (back,) = struct.unpack_from("<i", head, table)
    slot = 4 + 2 * BODY_LENGTH_SLOT
    (vtable_bytes,) = struct.unpack_from("<H", head, table - back)
    (offset,) = struct.unpack_from("<H", head, table - back + slot) if vtable_bytes > slot else (0,)
    return int(struct.unpack_from("<q", head, table + offset)[0]) if offset else 0


def _row_group_ends(path: Path) -> Iterator[tuple[int, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return  # whoever reads it says what is wrong
    size = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size += sum(group.column(column).total_compressed_size for column in range(group.num_columns))
        yield number + 1, size


FINDERS: dict[SourceKind, Callable[[Path], Iterator[tuple[int, int]]]] = {
    SourceKind.SEGMENT: _batch_ends,
    SourceKind.PARQUET: _row_group_ends,
}
