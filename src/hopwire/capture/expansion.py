"""Records to sightings: every message of a train becomes a sighting of its own.

Example: a record has sequence 10, `train` 3, and the frames [sender, train]. Its sightings have the sequences 10, 11
and 12, and the frames [sender, *frames of the message]. All other columns are those of the record.

A train that cannot be taken apart, or that does not have as many messages as its record says, becomes one row of
direction `skipped`: its sightings are missing, the reason is `bad_train`, and the numbers stay complete. The reader
also tells a fault of the file.

A short record may stand for many rows, and each row repeats the names of the record. So the records of a batch are
taken in pieces, by the size of what they become. A train whose names would take more room than the largest train is
bad too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.records import TRAIN
from hopwire.columnar import Bools, Ints, binary_from_bounds, ints
from hopwire.errors import WireError
from hopwire.model.limits import Limits
from hopwire.model.sighting import Direction
from hopwire.model.sighting_batch import SCHEMA
from hopwire.model.units import MEBIBYTE
from hopwire.wire.batch.buffers import Frames
from hopwire.wire.batch.format_reader import spread
from hopwire.wire.batch.trains import FoundMessages, find_messages
from hopwire.wire.train import MAX_TRAIN_BYTES, MAX_TRAIN_MESSAGES, is_train, unpack_train

__all__ = ["Expansion"]

PIECE_BYTES = 16 * MEBIBYTE  # of rows that are made at a time, unless a single record is larger
ROW_BYTES = 64  # of a sighting beside its names and its frames, about
NAMES = [column.name for column in SCHEMA if pa.types.is_binary(column.type) or pa.types.is_string(column.type)]
REPEATED = [name for name in SCHEMA.names if name not in ("sequence", "frames")]
LIMITS = Limits()
BAD_TRAIN = "bad_train"


class Expansion:
    """Makes sightings of the records of one file, and counts the trains that cannot be taken apart."""

    def __init__(self) -> None:
        self._bad_count = 0
        self._first_bad = ""

    @property
    def trouble(self) -> str:
        """What is wrong with the trains so far; empty if nothing is."""
        if not self._bad_count:
            return ""
        return f"has trains that cannot be taken apart: {self._bad_count}, the first of them: {self._first_bad}"

    def sightings(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give the sightings of a batch of records, or of sightings, in batches of a bounded size."""
        if TRAIN not in records.schema.names or not ints(records.column(TRAIN)).any():
            yield records.select(SCHEMA.names).replace_schema_metadata(SCHEMA.metadata)
            return
        measured = _MeasuredRecords(records)
        for begin, end in measured.pieces():
            sightings, bad = measured.expanded(begin, end)
            self._bad_count += len(bad)
            self._first_bad = self._first_bad or next(iter(bad), "")
            yield sightings


class _MeasuredRecords:
    """A batch of records; it knows how much each record becomes."""

    def __init__(self, records: pa.RecordBatch) -> None:
        self._records = records
        self._frames = frames = Frames(records.column("frames"))
        self._said = said = ints(records.column(TRAIN))
        self._is_train: Bools = (said != 0) & (ints(records.column("skipped")) == 0)
        self._head_end = np.minimum(frames.first + 1, frames.end)  # a message without frames has no first frame
        names = np.sum([ints(pc.binary_length(records.column(name))) for name in NAMES], axis=0)
        senders = frames.starts[self._head_end] - frames.starts[frames.first]
        count = np.clip(said, 1, MAX_TRAIN_MESSAGES)
        repeated = (names + senders) * count
        is_sound = (frames.count == 2) & (said == count) & (repeated <= MAX_TRAIN_BYTES)
        self._is_sound: Bools = self._is_train & is_sound  # worth to be looked into
        alone = frames.starts[frames.end] - frames.starts[frames.first] + names + ROW_BYTES
        self._size_bytes = np.where(self._is_sound, alone + repeated + ROW_BYTES * count, alone)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Give the first record of each piece, and the record behind its last."""
        ends = np.cumsum(self._size_bytes)
        begin = 0
        while begin < len(ends):
            before = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, before + PIECE_BYTES, side="right")), begin + 1)
            yield begin, end
            begin = end

    def expanded(self, begin: int, end: int) -> tuple[pa.RecordBatch, list[str]]:
        """Give the sightings of the records of a piece, and what is wrong with trains in it."""
        trains = begin + np.flatnonzero(self._is_sound[begin:end])
        found = find_messages(self._frames.data, *self._frames.frame(self._head_end[trains]), self._said[trains])
        is_right = np.zeros(end - begin, dtype=np.bool_)
        is_right[trains - begin] = found.is_right
        is_bad = self._is_train[begin:end] & ~is_right
        count = np.where(is_right, self._said[begin:end], 1)  # a bad train has one row too
        row = np.repeat(np.arange(end - begin), count)
        records = self._records.slice(begin, end - begin)
        index = pa.array(row.astype(np.uint32))
        columns = {name: pc.take(records.column(name), index, boundscheck=False) for name in REPEATED}
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        columns["sequence"] = pa.array(ints(records.column("sequence"))[row] + number)
        columns["frames"] = self._joined(begin, count, is_right, is_bad, found)
        words = [self._words(record) for record in (begin + np.flatnonzero(is_bad)).tolist()]
        if words:
            columns |= _missing(columns, is_bad[row], np.maximum(self._said[begin:end][is_bad], 1), words)
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA), words

    def _joined(self, begin: int, count: Ints, is_right: Bools, is_bad: Bools, found: FoundMessages) -> pa.Array:
        """Give the frames of each sighting: those of its record, or the sender and the frames of the message.

        The first frame of a sighting is one stretch of the buffer, and all its other frames are another.
        """
        starts, rows = self._frames.starts, slice(begin, begin + len(count))
        first, head_end = self._frames.first[rows], self._head_end[rows]
        end = np.where(is_bad, first, self._frames.end[rows])
        head_end = np.minimum(head_end, end)
        is_message: Any = slice(None) if is_right.all() else np.repeat(is_right, count)
        stretches = np.repeat(starts[np.stack([first, head_end, head_end, end], axis=1)], count, axis=0)
        stretches[is_message, 2], stretches[is_message, 3] = found.start, found.stop
        sizes = np.repeat(end - first, count)
        sizes[is_message] = found.frame_count + 1
        ends = np.cumsum(sizes)
        heads = (ends - sizes)[sizes > 0]
        is_body = np.ones(ends[-1], dtype=np.bool_)
        is_body[heads] = False
        frame_bytes = np.empty(ends[-1], dtype=np.int64)
        frame_bytes[heads] = (stretches[:, 1] - stretches[:, 0])[sizes > 0]
        frame_bytes[is_body] = self._bodies(head_end, end, is_right, is_message, sizes, found)
        values = binary_from_bounds(_bounds(np.cumsum(frame_bytes)), _copied(self._frames.values, stretches))
        return pa.ListArray.from_arrays(pa.array(_bounds(ends)), values, type=SCHEMA.field("frames").type)

    def _bodies(
        self, head_end: Ints, end: Ints, is_right: Bools, is_message: Any, sizes: Ints, found: FoundMessages
    ) -> Ints:
        """Give the length of every frame behind the first of its sighting."""
        if is_right.all():
            return found.frame_bytes
        is_of_message = np.repeat(is_message, np.maximum(sizes - 1, 0))
        frame_bytes = np.empty(len(is_of_message), dtype=np.int64)
        frame_bytes[is_of_message] = found.frame_bytes
        frame = spread(head_end[~is_right], (end - head_end)[~is_right])
        frame_bytes[~is_of_message] = self._frames.starts[frame + 1] - self._frames.starts[frame]
        return frame_bytes

    def _words(self, record: int) -> str:
        """Say what is wrong with a train."""
        said, frames = int(self._said[record]), [frame or b"" for frame in self._frames.row(record) or ()]
        if not is_train(frames):
            return f"found {len(frames)} frames, expected a sender and a train"
        try:
            found = len(unpack_train(frames, LIMITS))
        except WireError as error:
            return str(error)
        if found != said:
            return f"found a train of {found}, the record says {said}"
        return f"its names would take more than {MAX_TRAIN_BYTES} bytes in {found} sightings"


def _bounds(ends: Ints) -> Ints:
    return np.concatenate([[0], ends], dtype=np.int32, casting="same_kind")


def _copied(values: Any, stretches: Ints) -> Any:
    """Give stretches of a buffer one after another: two of each row, with a gap between them."""
    bounds = np.concatenate([[0], stretches.ravel(), [values.size]], dtype=np.int32, casting="same_kind")
    pieces = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), values])
    wanted = pa.array(np.arange(1, stretches.size, 2, dtype=np.uint32))
    return pc.take(pieces, wanted, boundscheck=False).buffers()[2]


def _missing(columns: dict[str, Any], is_bad: Bools, skipped: Ints, words: list[str]) -> dict[str, Any]:
    """Give the columns that say of some rows that their sightings are missing."""
    mask = pa.array(is_bad)
    same = {"direction": str(Direction.SKIPPED), "peer": b"", "reason": BAD_TRAIN}
    changed = {
        name: pc.if_else(mask, pa.scalar(to, SCHEMA.field(name).type), columns[name]) for name, to in same.items()
    }
    changed["note"] = pc.replace_with_mask(columns["note"], mask, pa.array(words, pa.string()))
    changed["skipped"] = pc.replace_with_mask(columns["skipped"], mask, pa.array(skipped))
    return changed
