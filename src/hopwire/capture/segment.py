"""One file of a capture while it is written: an Arrow IPC stream that grows by whole batches.

    20260131T120000.000000000Z-node-000001.open.arrows    while it is written, and after a crash
    20260131T120000.000000000Z-node-000001.json           its index, written before the name below appears
    20260131T120000.000000000Z-node-000001.arrows         sealed: the file will never change again

A batch is given to the operating system in one piece. If the write fails half-way, the file is cut back to its last
whole batch. The owner then seals the segment and begins another: a segment never goes on after an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from errno import EEXIST
from pathlib import Path
from typing import Any

import pyarrow as pa

from hopwire.capture.records import RECORDS
from hopwire.capture.segment_index import INDEX_SUFFIX, SegmentIndex, Summary
from hopwire.capture.times import compact_time
from hopwire.disk import OWNER_ONLY, create_file

__all__ = ["END", "OPEN_SUFFIX", "SUFFIX", "SegmentFile", "index_path", "sealed_path", "segment_name"]

SUFFIX = ".arrows"
OPEN_SUFFIX = ".open.arrows"
UNFINISHED_SUFFIX = ".unfinished"  # an index that is being written; no reader looks at it
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # the mark at the end of an Arrow stream
MAX_NODE_CHARACTERS = 40  # leaves room for everything else in a file name


def segment_name(opened_at_ns: int, node: bytes, number: int) -> str:
    """Give the name of a segment without its suffix; names sort by time."""
    text = node.decode("ascii", "replace")
    safe = text if re.fullmatch(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*", text) else node.hex()
    return f"{compact_time(opened_at_ns)}-{safe[:MAX_NODE_CHARACTERS]}-{number:06d}"


def sealed_path(path: Path) -> Path:
    """Give the name that an open segment will have."""
    return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SUFFIX) if path.name.endswith(OPEN_SUFFIX) else path


def index_path(path: Path) -> Path:
    """Give the name of the index of a segment."""
    return path.with_name(sealed_path(path).name.removesuffix(SUFFIX) + INDEX_SUFFIX)


class SegmentFile:
    """A segment that is being written; every method may raise an OSError."""

    def __init__(self, directory: Path, name: str, opened_at_ns: int, file_mode: int = OWNER_ONLY) -> None:
        self.path = directory / (name + OPEN_SUFFIX)
        self.opened_at_ns = opened_at_ns
        self.size_bytes = 0
        self.summary = Summary()
        self._file_mode = file_mode
        if os.path.lexists(sealed_path(self.path)):
            raise FileExistsError(EEXIST, "a segment of that name is there already", str(self.path))
        self._fd = create_file(self.path, file_mode, os.O_APPEND)
        try:
            self._write(RECORDS.serialize())
        except OSError:
            os.close(self._fd)
            with suppress(OSError):
                self.path.unlink()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Write a batch of records, whole or not at all."""
        self._write(batch.serialize())
        self.summary = self.summary.plus(batch)

    def _write(self, data: Any) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size_bytes)
            raise
        self.size_bytes += len(data)

    def sync(self) -> None:
        """Have the disk keep what was written."""
        os.fsync(self._fd)

    def seal(self, is_synced: bool) -> None:
        """Close the file and give it its final name; if the renaming fails, the file is closed and keeps its name."""
        sync: Callable[[int], None] = os.fsync if is_synced else _leave
        try:
            if os.fstat(self._fd).st_size != self.size_bytes:
                return  # an earlier write failed and the file could not be cut back; readers will say so
            self._write(END)
            sync(self._fd)
            with suppress(OSError):  # a disk without room for the index can still rename the segment
                index = SegmentIndex.of(self.size_bytes, self.summary)
                _write_index(index_path(self.path), index, sync, self._file_mode)
            self.path.rename(sealed_path(self.path))
            _sync_directory(self.path.parent, sync)
        finally:
            os.close(self._fd)


def _leave(_: int) -> None:
    """Let the operating system write when it likes to."""


def _write_index(path: Path, index: SegmentIndex, sync: Callable[[int], None], file_mode: int) -> None:
    unfinished = path.with_name(path.name.removesuffix(INDEX_SUFFIX) + UNFINISHED_SUFFIX)
    unfinished.unlink(missing_ok=True)  # left by a process that died; of a symlink only the link goes
    try:
        with os.fdopen(create_file(unfinished, file_mode), "wb") as file:
            file.write(index.to_json())
            file.flush()
            sync(file.fileno())
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _sync_directory(directory: Path, sync: Callable[[int], None]) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        sync(fd)
    finally:
        os.close(fd)
