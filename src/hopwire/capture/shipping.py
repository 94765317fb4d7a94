"""Sealed segments go to another place, such as a bucket, while a node is at work: by a thread, one after the other.

| what happens | what follows |
|---|---|
| a segment is sealed | its index goes first, then the segment; a note in the directory says that it is there |
| the place refuses, or cannot be reached | said once; tried again after 1 s, 2 s, 4 s, up to every 60 s |
| the node stops | the last segment is sealed, and what waits is shipped, for `STOP_SECONDS` at most |
| the node starts again | what is sealed and has no note is shipped, whoever wrote it |
| a node was killed | its last segment stays open for ever, and is shipped as it is: nobody holds its lock any more |

Nothing here touches the network of the node, and nothing is raised. Sealed segments never change, so to ship one twice
is harmless. The place alone says whether a segment is there whole: an object appears at its last byte.

The trap: the note is written behind the segment. A process that dies between the two finds the segment there, by its
size, and only writes the note.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from hopwire.capture.segment import OPEN_SUFFIX, SUFFIX, index_path, is_left_behind
from hopwire.disk import OWNER_ONLY, NotRegular, open_or_create, open_regular
from hopwire.errors import CaptureError, HopwireError
from hopwire.model.units import NS_PER_SECOND
from hopwire.places import Place, list_files, look_at, place_of, upload

__all__ = ["STOP_SECONDS", "SegmentShipper", "ShipStatus"]

LOOK_SECONDS = 2.0  # between two looks at the directory
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 60.0  # after a refusal; twice as long each time
STOP_SECONDS = 10.0  # for what waits, when the node stops
LEFT_SECONDS = 60.0  # an open segment that was written to since has a writer, whatever its lock says
TELL_SECONDS = 600.0  # between two lines about the same trouble
NOTES = ".shipped"  # a line for each segment that was shipped: its size, and where it is now
MAX_NOTES_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class ShipStatus:
    """How shipping stands, in segments."""

    place: str
    shipped: int  # since the start
    size_bytes: int  # of what was shipped
    waiting: int  # sealed and not shipped, at the last look
    failed: int  # attempts, since the start
    trouble: str  # why the last attempt failed; empty if it did not


class SegmentShipper:
    """Ships the sealed segments of one directory; `start` begins a thread, `step` is what the thread does."""

    def __init__(
        self,
        directory: Path,
        place: Place | str,
        *,
        keep_shipped: bool = True,
        tell: Callable[[str], None] = lambda line: None,
        file_mode: int = OWNER_ONLY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._place = directory, place_of(place)
        if self._place == directory:
            raise CaptureError(
                f"{directory}: segments are shipped to another place; name one, such as s3://bucket/path"
            )
        self._is_kept, self._tell, self._file_mode = keep_shipped, tell, file_mode
        self._monotonic = monotonic
        self._shipped = self._bytes = self._failed = self._waiting = 0
        self._trouble, self._told_at = "", 0.0
        self._known = self._read_notes()
        self._is_ending, self._wake = False, Event()
        self._until: float | None = None
        self._thread = Thread(target=self._run, name="hopwire-ship", daemon=True)

    @property
    def status(self) -> ShipStatus:
        """How shipping stands."""
        where = str(self._place)
        return ShipStatus(where, self._shipped, self._bytes, self._waiting, self._failed, self._trouble)

    # -- the thread

    def start(self) -> None:
        """Begin to ship."""
        self._thread.start()

    def stop(self, seconds: float = STOP_SECONDS) -> ShipStatus:
        """Ship what waits, for so long at most, and end; what is left is shipped after the next start."""
        self._until = self._monotonic() + seconds
        self._is_ending = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        if self._waiting and self._trouble:
            self._tell(f"{self._waiting} segments are not shipped and wait for the next start: {self._trouble}")
        return self.status

    def abandon(self) -> None:
        """Ship nothing more, as if the process had been killed."""
        self._until = 0.0
        self._is_ending = True
        self._wake.set()

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            is_last = self._is_ending
            is_fine = self.step()
            if is_last and (is_fine or self._is_over()):
                return
            pause = FIRST_PAUSE_SECONDS if is_fine else min(2 * pause, LONGEST_PAUSE_SECONDS)
            rest = FIRST_PAUSE_SECONDS if is_last else LOOK_SECONDS if is_fine else pause
            if self._wake.wait(rest):
                self._wake.clear()
                pause = FIRST_PAUSE_SECONDS

    def _is_over(self) -> bool:
        return self._until is not None and self._monotonic() >= self._until

    # -- one look

    def step(self) -> bool:
        """Ship everything that waits, the oldest first; tells whether nothing was refused."""
        try:
            waiting = self._look()
            self._waiting = len(waiting)
            for path in waiting:
                if self._is_over():
                    return True
                self._ship(path)
                self._waiting -= 1
        except (HopwireError, OSError) as error:
            self._refused(error)
            return False
        if self._trouble:
            self._tell(f"segments are shipped to {self._place} again")
        self._trouble = ""
        return True

    def _look(self) -> list[Path]:
        """The segments that are not shipped: sealed ones, and those that a dead process has left open."""
        found = []
        for file in list_files(self._directory):
            if file.said or not file.name.endswith(SUFFIX):
                continue
            path = self._directory / file.name
            is_old = time.time_ns() - file.modified_ns > LEFT_SECONDS * NS_PER_SECOND
            is_ready = not file.name.endswith(OPEN_SUFFIX) or (is_old and is_left_behind(path))
            if is_ready and self._known.get(file.name) != file.size_bytes:
                found.append(path)
        return found

    def _ship(self, path: Path) -> None:
        try:
            size = path.lstat().st_size
            there = look_at(self._place / path.name)
            if there is None or there.size_bytes != size:
                index = index_path(path)
                if not path.name.endswith(OPEN_SUFFIX) and index.is_file():
                    upload(index, self._place / index.name)
                upload(path, self._place / path.name)
        except (FileNotFoundError, NotRegular):
            if not os.path.lexists(path):
                return  # somebody has removed it, or another process has shipped it and removed it
            raise
        self._note(path.name, size)
        self._shipped += 1
        self._bytes += size
        if not self._is_kept:
            path.unlink(missing_ok=True)
            index_path(path).unlink(missing_ok=True)

    def _refused(self, error: Exception) -> None:
        self._failed += 1
        line = " ".join(str(error).split())[:300]
        now = self._monotonic()
        if not self._trouble or now - self._told_at >= TELL_SECONDS:
            self._tell(f"{self._waiting} segments wait to be shipped, and are tried again: {line}")
            self._told_at = now
        self._trouble = line

    # -- notes

    def _read_notes(self) -> dict[str, int]:
        """The segments that were shipped to this place, by name, with their sizes."""
        known = {}
        with suppress(OSError, UnicodeDecodeError), open_regular(self._directory / NOTES) as file:
            for line in file.read(MAX_NOTES_BYTES).decode().splitlines():
                size, _, where = line.partition(" ")
                name = where.rpartition("/")[2]
                if size.isdigit() and where == str(self._place / name):
                    known[name] = int(size)
        return known

    def _note(self, name: str, size: int) -> None:
        self._known[name] = size
        with suppress(OSError):  # without a note the segment is looked for at the next start, and found
            handle = open_or_create(self._directory / NOTES, os.O_WRONLY | os.O_APPEND, self._file_mode)
            try:
                os.write(handle, f"{size} {self._place / name}\n".encode())
            finally:
                os.close(handle)
