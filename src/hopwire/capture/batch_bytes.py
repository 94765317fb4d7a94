"""The bytes of a batch of records, as Arrow would write them, in fewer steps.

The head of a batch says how many rows there are and where each column lies. All heads of one schema have the same
shape. So Arrow writes one batch of one row, and from then on numbers are filled into the head that is known. Frames are
handed on as they are, and not copied: a train has tens of kilobytes, and frames are nearly all of a capture.

The law: all parts together are the bytes of `batch_from_rows(origin, rows).serialize()`. A test holds it.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from hopwire.capture.arrow_stream import BODY_LENGTH_SLOT, HEADER_SLOT, PREFIX_BYTES, place_of
from hopwire.capture.records import RECORDS, Origin, Row, batch_from_rows
from hopwire.errors import CaptureError

__all__ = ["BatchBytes"]

MOST_FRAMES = 512  # that are handed on as they are; more of them are small, and are joined
ALIGNMENT = 8  # of each buffer in the body of a batch
ROW_COUNT_SLOT, COLUMNS_SLOT, BUFFERS_SLOT = 0, 1, 2  # of the table `RecordBatch` of Arrow's Message.fbs
ANY_ROW: Row = (1, 1, "in", b"peer", (b"frame",), "", "", 0, 0)
PADDINGS = [bytes(count) for count in range(ALIGNMENT)]


class BatchBytes:
    """Gives the bytes of batches of one node in one incarnation."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin.node, origin.node_name, origin.incarnation
        data = batch_from_rows(origin, [ANY_ROW]).serialize().to_pybytes()
        flat = data[PREFIX_BYTES : PREFIX_BYTES + int.from_bytes(data[4:PREFIX_BYTES], "little")]
        self._prefix, self._head = data[:PREFIX_BYTES], bytearray(flat)
        (message,) = struct.unpack_from("<I", flat)
        batch = _target(flat, message, HEADER_SLOT)
        self._body_bytes, self._row_count = _place(flat, message, BODY_LENGTH_SLOT), _place(flat, batch, ROW_COUNT_SLOT)
        self._columns, self._buffers = _target(flat, batch, COLUMNS_SLOT), _target(flat, batch, BUFFERS_SLOT)

    def parts(self, rows: Sequence[Row]) -> list[bytes]:
        """Give the parts of a batch in their order; TypeError, ValueError or OverflowError if a row is no record."""
        columns = chain(([value] * len(rows) for value in self._origin), zip(*rows, strict=True))
        lengths: list[int] = []
        buffers: list[list[bytes]] = []
        for kind, values in zip(RECORDS.types, columns, strict=True):
            _ADDERS[kind](values, lengths, buffers)
        places: list[int] = []
        parts: list[bytes] = []
        position = 0
        for pieces in buffers:
            size = sum(map(len, pieces))
            padding = PADDINGS[-size % ALIGNMENT]
            places += position, size
            parts += *pieces, padding
            position += size + len(padding)
        return [self._prefix, self._filled(len(rows), lengths, places, position), *filter(None, parts)]

    def _filled(self, row_count: int, lengths: list[int], places: list[int], body_bytes: int) -> bytes:
        """Give the head with numbers filled in: behind the number of its entries, a vector has all of them."""
        head = self._head
        struct.pack_into("<q", head, self._body_bytes, body_bytes)
        struct.pack_into("<q", head, self._row_count, row_count)
        no_nulls = chain.from_iterable((length, 0) for length in lengths)
        struct.pack_into(f"<I{2 * len(lengths)}q", head, self._columns, len(lengths), *no_nulls)
        struct.pack_into(f"<I{len(places)}q", head, self._buffers, len(places) // 2, *places)
        return bytes(head)


def _place(flat: bytes, table: int, slot: int) -> int:
    found = place_of(flat, table, slot)
    if found is None:
        raise CaptureError("this version of Arrow writes batches in a way that is not known here")
    return found


def _target(flat: bytes, table: int, slot: int) -> int:
    """Where a table or a vector lies that a field refers to."""
    at = _place(flat, table, slot)
    return at + int(struct.unpack_from("<I", flat, at)[0])


# -- the buffers of a column: a bitmap of nulls, which is empty, then those of its type


def _add_ints(values: Sequence[int], lengths: list[int], buffers: list[list[bytes]]) -> None:
    lengths.append(len(values))
    buffers += [], [array("q", values).tobytes()]


def _offsets(values: Iterable[Any]) -> bytes:
    return array("i", accumulate(map(len, values), initial=0)).tobytes()


def _add_binaries(values: Sequence[bytes], lengths: list[int], buffers: list[list[bytes]]) -> None:
    lengths.append(len(values))
    buffers += [], [_offsets(values)], [b"".join(values)]


def _add_texts(values: Sequence[str], lengths: list[int], buffers: list[list[bytes]]) -> None:
    _add_binaries([value.encode() for value in values], lengths, buffers)


def _add_frames(values: Sequence[Sequence[bytes]], lengths: list[int], buffers: list[list[bytes]]) -> None:
    frames = [frame for row in values for frame in row]
    is_handed_on = len(frames) <= MOST_FRAMES and all(type(frame) is bytes for frame in frames)
    lengths += len(values), len(frames)
    buffers += [], [_offsets(values)], [], [_offsets(frames)], frames if is_handed_on else [b"".join(frames)]


_ADDERS: dict[Any, Callable[[Any, list[int], list[list[bytes]]], None]] = {
    pa.int64(): _add_ints,
    pa.binary(): _add_binaries,
    pa.string(): _add_texts,
    pa.list_(pa.binary()): _add_frames,
}
