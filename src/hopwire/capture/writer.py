"""The writer of a capture: a node offers its sightings, whole batches go to disk, segments are sealed in time.

`offer` never touches the disk, never waits and never raises. `tick` writes what is due. A node calls `offer` in its
event loop, and `tick` in a thread, several times a second. A script calls `append`, which does both. Time is an
argument.

| what happens | what follows |
|---|---|
| the disk is slow | the buffer fills; then sightings are skipped, and a row says how many and why |
| the disk refuses | the batch stays in the buffer, the segment is sealed as it is, the next tick tries a new segment |
| there is no room for a new segment either | a reserve becomes a segment; each tick it is marked with what waits |
| there is no reserve either | the segment is not sealed: it ends as that of a process that was killed |
| the disk refuses to the end | `close` writes a last row that counts the lost sightings, in the reserve if need be |
| the process is killed | all batches written so far are in the open segment |
| the process is killed while the disk is full | the mark tells which sightings are missing, from when to when |

A train is offered as one record, and counts as many sightings as it has messages (`records.py`). `status` has the
balance of sightings at any time: offered = written + skipped + waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from hopwire.capture.batch_bytes import BatchBytes
from hopwire.capture.buffer import SEEN_AT, SKIPPED, TRAIN, Buffer, gap_row, gap_rows, sighting_count
from hopwire.capture.records import Origin, Row, batch_from_rows
from hopwire.capture.segment import SegmentFile, keep_reserve, reserve_paths, segment_name
from hopwire.capture.segment_index import Summary
from hopwire.capture.settings import CaptureSettings, Sync, is_batch_due, is_roll_due
from hopwire.disk import local_path, make_directory
from hopwire.errors import CaptureError
from hopwire.model.sighting import Direction

__all__ = ["CaptureStatus", "CaptureWriter"]

DEFAULTS = CaptureSettings()
MAX_NOTE_CHARACTERS = 200  # of a mark, which has little room
LAST_ATTEMPTS = 2  # to write at the end: in the segment at hand, then in a new segment


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """How a capture stands, in sightings: offered = written + skipped + waiting."""

    offered: int
    written: int
    skipped: int
    waiting: int
    skips_recorded: int  # how many of the skipped sightings are counted by rows of the capture so far
    segment_count: int
    size_bytes: int
    trouble: str  # the last error of the disk; empty if the disk took the last batch


class CaptureWriter:
    """Writes the sightings of one node, in one incarnation, into a directory that other nodes may write to as well."""

    def __init__(
        self,
        directory: Path | str,
        node: bytes,
        *,
        incarnation: int,
        node_name: str = "",
        settings: CaptureSettings = DEFAULTS,
    ) -> None:
        self._directory = local_path(directory)
        self._settings = settings
        self._origin = Origin(node, node_name, incarnation)
        self._bytes = BatchBytes(self._origin)
        self._buffer = Buffer(settings)
        self._disk = Lock()
        self._segment: SegmentFile | None = None
        self._segment_count = 0
        self._number = 0  # of the last segment that was tried
        self._sealed_bytes = 0
        self._written = 0
        self._skips_recorded = 0
        self._now_ns = 0
        self._reserves, self._has_reserves = reserve_paths(self._directory, node), False
        self._make_directory()
        self._keep_reserves()

    def _make_directory(self) -> None:
        try:
            make_directory(self._directory, self._settings.file_mode)
        except OSError as error:
            raise CaptureError(f"{self._directory}: no capture can be written here: {error.strerror}") from None

    def _keep_reserves(self) -> None:
        self._has_reserves = True
        for reserve in self._reserves:
            try:
                keep_reserve(reserve, self._settings.file_mode)
            except OSError:  # a disk that is full already; perhaps a life before has left a reserve
                self._has_reserves = False

    # -- the network's side

    def offer(
        self,
        seen_at_ns: int,
        direction: Direction,
        peer: bytes,
        frames: Sequence[bytes],
        reason: str = "",
        note: str = "",
        train: int = 0,
    ) -> bool:
        """Take a sighting into the buffer; if the buffer is full, count the sighting as skipped and return False.

        With `train` the frames are a sender and a train of so many messages, each of which is a sighting.
        """
        return self._buffer.offer(seen_at_ns, direction, peer, frames, reason, note, train)

    def append(
        self,
        seen_at_ns: int,
        direction: Direction,
        peer: bytes,
        frames: Sequence[bytes],
        reason: str = "",
        note: str = "",
        train: int = 0,
    ) -> bool:
        """Take a sighting, or a train, and write what is due; for callers that may wait for the disk."""
        is_taken = self._buffer.offer(seen_at_ns, direction, peer, frames, reason, note, train)
        self.tick(seen_at_ns)
        return is_taken

    @property
    def status(self) -> CaptureStatus:
        """The balance so far."""
        buffer, segment = self._buffer, self._segment
        written, skipped, offered = self._written, buffer.skipped, buffer.offered  # in this order no sighting is missed
        return CaptureStatus(
            offered=offered,
            written=written,
            skipped=skipped,
            waiting=offered - skipped - written,
            skips_recorded=self._skips_recorded,
            segment_count=self._segment_count,
            size_bytes=self._sealed_bytes + (segment.size_bytes if segment else 0),
            trouble=buffer.trouble,
        )

    # -- the disk's side

    def tick(self, now_ns: int) -> None:
        """Write the batches that are due, and seal the segment if it is large or old enough."""
        with self._disk:
            self._now_ns = now_ns
            last = self._buffer.offered  # sightings that come in meanwhile are written by the next tick
            while self._recorded < last and self._is_batch_due() and self._write_batch():
                pass
            self._roll()

    def flush(self, now_ns: int) -> None:
        """Write all that waits, due or not."""
        with self._disk:
            self._now_ns = now_ns
            self._write_all()

    def close(self, now_ns: int | None = None) -> CaptureStatus:
        """Write all that waits, seal the segment and give the final balance; what could not be written is skipped."""
        with self._disk:
            if not self._buffer.is_closed:
                self._buffer.is_closed = True
                self._now_ns = self._now_ns if now_ns is None else now_ns
                if not any(self._write_all() for _ in range(LAST_ATTEMPTS)):
                    self._buffer.give_up("disk_error", self._buffer.trouble)
                    self._write_all()
                self._seal_last()
                if not self._buffer.trouble:
                    self._remove_reserves()
        return self.status

    def _seal_last(self) -> None:
        segment, self._segment = self._segment, None
        if segment:
            self._seal(segment)

    def _remove_reserves(self) -> None:
        for reserve in self._reserves:
            with suppress(OSError):
                reserve.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_batch_due(self) -> bool:
        rows, size = self._buffer.waiting
        return is_batch_due(self._settings, rows, size, self._now_ns - self._buffer.oldest_ns)

    @property
    def _recorded(self) -> int:
        """How many sequence numbers the capture accounts for so far; numbers are written in order."""
        return self._written + self._skips_recorded

    def _write_all(self) -> bool:
        last = self._buffer.offered
        while self._recorded < last:
            if not self._write_batch():
                return False
        return True

    def _write_batch(self) -> bool:
        """Write the next batch; if the disk refuses, keep the rows, seal the segment and return False."""
        rows = self._buffer.take()
        try:
            parts = self._bytes.parts(rows)
        except (TypeError, ValueError, OverflowError) as error:
            self._buffer.give_up("not_frames", f"{error}")
            return True
        try:
            self._append(rows, parts)
        except OSError as error:
            self._buffer.trouble = error.strerror or f"{error}"
            self._buffer.put_back()
            self._mark_missing()
            return False
        self._roll()
        return True

    def _append(self, rows: list[Row], parts: list[bytes]) -> None:
        segment = self._segment or self._begin(rows[0][SEEN_AT])
        segment.append_parts(parts, self._summary(rows))
        if not self._has_reserves:
            self._keep_reserves()
        self._written += sighting_count(rows)
        self._skips_recorded += sum(row[SKIPPED] for row in rows)
        self._buffer.done()
        if self._settings.sync == Sync.BATCH:
            segment.sync()
        self._buffer.trouble = ""

    def _summary(self, rows: list[Row]) -> Summary:
        times = [row[SEEN_AT] for row in rows]
        rows_and_gaps = sum(row[TRAIN] or 1 for row in rows)
        nodes = {self._origin.node.hex(): self._origin.node_name}
        return Summary(rows_and_gaps, sum(row[SKIPPED] for row in rows), min(times), max(times), nodes)

    def _mark_missing(self) -> None:
        """Have the capture say which sightings the disk refuses, as long as it refuses them.

        The segment at hand is sealed behind the mark. Else a kill between the two would look like an end in order.
        """
        before = None
        if self._segment and not self._segment.is_marked:
            before, self._segment = self._segment, None
        is_told = self._recorded == self._buffer.offered or self._is_marked()  # all is written, and could not be synced
        if before and is_told:
            self._seal(before)
        elif before:
            self._sealed_bytes += before.size_bytes
            before.leave()

    def _is_marked(self) -> bool:
        """Mark a segment with what is missing, the segment at hand or the first reserve that can be one."""
        oldest_ns, note = self._buffer.oldest_ns, self._buffer.trouble[:MAX_NOTE_CHARACTERS]
        first = gap_row(self._recorded, oldest_ns, "disk_error", note, 1)
        batch = batch_from_rows(self._origin, gap_rows(first, self._buffer.offered, self._now_ns))
        for reserve in self._reserves:
            with suppress(OSError):
                segment = self._segment or self._begin(oldest_ns, reserve)
                segment.mark(batch)
                return True
        return False

    def _begin(self, opened_at_ns: int, reserve: Path | None = None) -> SegmentFile:
        self._number += 1
        self._has_reserves = False  # looked at again once something is written
        make_directory(self._directory, self._settings.file_mode)
        name = segment_name(opened_at_ns, self._origin.node, self._number)
        self._segment = SegmentFile(self._directory, name, self._now_ns, self._settings.file_mode, reserve)
        self._segment_count += 1
        return self._segment

    def _roll(self) -> None:
        segment = self._segment
        if (
            segment
            and not segment.is_marked
            and is_roll_due(self._settings, segment.size_bytes, self._now_ns - segment.opened_at_ns)
        ):
            self._segment = None
            self._seal(segment)

    def _seal(self, segment: SegmentFile) -> None:
        try:
            segment.seal(is_synced=self._settings.sync != Sync.NEVER)
        except OSError as error:
            self._buffer.trouble = error.strerror or f"{error}"
        self._sealed_bytes += segment.size_bytes
