"""Records on their way to the disk: bounded in rows and bytes, with a count of the sightings that found no room.

Rows come in at one end (`offer`) and leave at the other end in two steps: `take` hands out a batch, then `done` forgets
the batch, or `put_back` returns the batch to the front. Rows that are handed out still count against the bounds.

Sightings that find no room are counted in a gap. The gap becomes a row as soon as the next sighting finds room, or the
next batch is taken. Gaps that follow one another are joined: a full buffer in front of a dead disk does not grow.
Example: rows 0 to 9 fill the buffer, sightings 10, 11 and 12 find no room, and 13 finds room again. The rows are 0 to
9, then one row of direction `skipped` with sequence 10 and count 3, then 13.

The last sighting of a long gap has a row of its own, so that a reader knows until when sightings are missing, also if
nothing follows. Example: sightings 10 to 99 find no room from 12:00:00 to 12:00:03. The rows are sequence 10 and count
89 at 12:00:00, and sequence 99 and count 1 at 12:00:03.

A train is one row, and as many sightings as it has messages. The bounds count rows; `offered` and `skipped` count
sightings.

The trap: `offer` runs in the thread of the network, all other methods in the thread that writes. The lock is held for
moments only. A row is a plain tuple: to make a named tuple costs as much as all the rest of `offer`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from threading import Lock
from typing import Final

from hopwire.capture.records import Row
from hopwire.capture.settings import CaptureSettings
from hopwire.model.sighting import Direction
from hopwire.model.units import NS_PER_SECOND

__all__ = ["SEEN_AT", "SKIPPED", "TRAIN", "Buffer", "gap_row", "gap_rows", "sighting_count"]

SEQUENCE: Final = 0  # places in a row
SEEN_AT: Final = 1
REASON: Final = 5
NOTE: Final = 6
SKIPPED: Final = 7
TRAIN: Final = 8
LONG_GAP_NS = NS_PER_SECOND // 10  # a tenth of what a reader takes for unwritten after the last row of a killed node


def sighting_count(rows: Iterable[Row]) -> int:
    """Tell how many sightings rows have; a row that says how many are missing has none."""
    return sum(row[TRAIN] or 1 for row in rows if not row[SKIPPED])


class Buffer:
    """The rows that wait for the disk."""

    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        self._max_rows, self._max_bytes = settings.buffer_rows, settings.buffer_bytes
        self._lock = Lock()
        self._rows: list[Row] = []
        self._sizes: list[int] = []
        self._taken: tuple[list[Row], list[int]] = ([], [])
        self._gap: Row | None = None
        self._gap_ends_ns = 0
        self._row_count = 0  # with the rows that are handed out
        self.size_bytes = 0
        self.offered = 0
        self.skipped = 0
        self.is_closed = False
        self.trouble = ""  # the error of the disk, while the disk refuses to write

    @property
    def waiting(self) -> tuple[int, int]:
        """How many rows wait, and how many bytes."""
        return len(self._rows) + (self._gap is not None), self.size_bytes

    @property
    def oldest_ns(self) -> int:
        """When the oldest row that waits was seen; 0 if none waits."""
        first = next(iter(self._rows), self._gap)
        return first[SEEN_AT] if first else 0

    def offer(
        self,
        seen_at_ns: int,
        direction: str,
        peer: bytes,
        frames: Sequence[bytes],
        reason: str,
        note: str,
        train: int = 0,
    ) -> bool:
        """Take a sighting or a train of so many, or count its sightings as skipped if there is no room."""
        frames = tuple(frames)
        size = sum(map(len, frames))
        with self._lock:
            sequence = self.offered
            self.offered += train or 1
            if self._row_count >= self._max_rows or self.size_bytes + size > self._max_bytes or self.is_closed:
                self._skip(sequence, seen_at_ns, size, train or 1)
                return False
            if self._gap:
                self._close_gap()
            self._rows.append((sequence, seen_at_ns, direction, peer, frames, reason, note, 0, train))
            self._sizes.append(size)
            self._row_count += 1
            self.size_bytes += size
        return True

    def _skip(self, sequence: int, seen_at_ns: int, size: int, count: int) -> None:
        self.skipped += count
        self._gap_ends_ns = seen_at_ns
        if self._gap:
            self._gap = (*self._gap[:SKIPPED], self._gap[SKIPPED] + count, 0)
        elif size > self._max_bytes:
            self._gap = gap_row(sequence, seen_at_ns, "too_large", f"{size} bytes", count)
        else:
            reason = "closed" if self.is_closed else "disk_error" if self.trouble else "too_slow"
            self._gap = gap_row(sequence, seen_at_ns, reason, self.trouble, count)

    def _close_gap(self) -> None:
        gap, self._gap = self._gap, None
        if gap is None:
            return
        end, first = gap[SEQUENCE] + gap[SKIPPED], gap
        while self._rows and self._rows[-1][SKIPPED]:
            first = self._rows.pop()
            self._sizes.pop()
            self._row_count -= 1
        self._add_gap(len(self._rows), gap_rows(first, end, self._gap_ends_ns))

    def _add_gap(self, place: int, rows: list[Row]) -> None:
        self._rows[place:place] = rows
        self._sizes[place:place] = [0] * len(rows)
        self._row_count += len(rows)

    def take(self) -> list[Row]:
        """Hand out the rows of the next batch."""
        with self._lock:
            assert not self._taken[0], "a batch is out already"
            self._close_gap()
            sizes = list(accumulate(self._sizes[: self._settings.batch_rows]))
            count = bisect_left(sizes, self._settings.batch_bytes) + 1  # the row that fills the batch is its last
            self._taken = self._rows[: min(count, len(sizes))], self._sizes[: min(count, len(sizes))]
            del self._rows[: len(self._taken[0])], self._sizes[: len(self._taken[0])]
            return self._taken[0]

    def done(self) -> None:
        """Forget the rows that were handed out, since they are written."""
        with self._lock:
            self._forget_taken()

    def put_back(self) -> None:
        """Return the rows that were handed out to the front, since they were not written."""
        with self._lock:
            self._rows[:0], self._sizes[:0] = self._taken
            self._taken = [], []

    def give_up(self, reason: str, note: str) -> None:
        """Make one gap of the rows that were handed out, or of all rows if none is: they will never be written."""
        with self._lock:
            if not self._taken[0]:
                self._close_gap()
                self._taken, self._rows, self._sizes = (self._rows, self._sizes), [], []
            rows = self._forget_taken()
            if rows:
                lost = sighting_count(rows)
                self.skipped += lost
                count = lost + sum(row[SKIPPED] for row in rows)
                first = gap_row(rows[0][SEQUENCE], rows[0][SEEN_AT], reason, note, count)
                self._add_gap(0, gap_rows(first, first[SEQUENCE] + count, rows[-1][SEEN_AT]))

    def _forget_taken(self) -> list[Row]:
        rows, sizes = self._taken
        self._taken = [], []
        self._row_count -= len(rows)
        self.size_bytes -= sum(sizes)
        return rows


def gap_row(sequence: int, seen_at_ns: int, reason: str, note: str, count: int) -> Row:
    """Give the row that says how many sightings are missing from a number on."""
    return (sequence, seen_at_ns, Direction.SKIPPED, b"", (), reason, note, count, 0)


def gap_rows(first: Row, end: int, last_ns: int) -> list[Row]:
    """Give the rows of a gap that begins as the first row says, and ends before a number, at a time."""
    reason, note, count = first[REASON], first[NOTE], end - first[SEQUENCE]
    if count == 1 or abs(last_ns - first[SEEN_AT]) < LONG_GAP_NS:
        return [gap_row(first[SEQUENCE], first[SEEN_AT], reason, note, count)]
    head = gap_row(first[SEQUENCE], first[SEEN_AT], reason, note, count - 1)
    return [head, gap_row(end - 1, last_ns, reason, note, 1)]
