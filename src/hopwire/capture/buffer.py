"""Records on their way to the disk: bounded in rows and bytes, with a count of the sightings that found no room.

Rows come in at one end (`offer`) and leave at the other end in two steps: `take` hands out a batch, then `done` forgets
the batch, or `put_back` returns the batch to the front. Rows that are handed out still count against the bounds.

Sightings that find no room are counted in a gap. The gap becomes a row as soon as the next sighting finds room, or the
next batch is taken. Gaps that follow one another are joined: a full buffer in front of a dead disk does not grow.
Example: rows 0 to 9 fill the buffer, sightings 10, 11 and 12 find no room, and 13 finds room again. The rows are 0 to
9, then one row of direction `skipped` with sequence 10 and count 3, then 13.

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

__all__ = ["SEEN_AT", "SKIPPED", "Buffer", "sighting_count"]

SEQUENCE: Final = 0  # places in a row
SEEN_AT: Final = 1
SKIPPED: Final = 7
TRAIN: Final = 8


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
        if self._gap:
            self._gap = _wider(self._gap, count)
        elif size > self._max_bytes:
            self._gap = _gap(sequence, seen_at_ns, "too_large", f"{size} bytes", count)
        else:
            reason = "closed" if self.is_closed else "disk_error" if self.trouble else "too_slow"
            self._gap = _gap(sequence, seen_at_ns, reason, self.trouble, count)

    def _close_gap(self) -> None:
        gap, self._gap = self._gap, None
        if gap and self._rows and self._rows[-1][SKIPPED]:
            self._rows[-1] = _wider(self._rows[-1], gap[SKIPPED])
        elif gap:
            self._rows.append(gap)
            self._sizes.append(0)
            self._row_count += 1

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
                self._rows.insert(0, _gap(rows[0][SEQUENCE], rows[0][SEEN_AT], reason, note, count))
                self._sizes.insert(0, 0)
                self._row_count += 1

    def _forget_taken(self) -> list[Row]:
        rows, sizes = self._taken
        self._taken = [], []
        self._row_count -= len(rows)
        self.size_bytes -= sum(sizes)
        return rows


def _gap(sequence: int, seen_at_ns: int, reason: str, note: str, count: int) -> Row:
    return (sequence, seen_at_ns, Direction.SKIPPED, b"", (), reason, note, count, 0)


def _wider(gap: Row, count: int) -> Row:
    return (*gap[:SKIPPED], gap[SKIPPED] + count, 0)
