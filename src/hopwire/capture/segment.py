"""One file of a capture while it is written: an Arrow IPC stream that grows by whole batches.

    20260131T120000.000000000Z-node-000001.open.arrows    while it is written, and after a crash
    20260131T120000.000000000Z-node-000001.json           its index, written before the name below appears
    20260131T120000.000000000Z-node-000001.arrows         sealed: the file will never change again

A batch is given to the operating system in one piece. If the write fails half-way, the file is cut back to its last
whole batch. The owner then seals the segment and begins another: a segment never goes on after an error.

    .node.reserve, .node.reserve-2, ...                   room for the first bytes of a segment, kept for a full disk

A segment can also be made of a reserve, where the disk has no room for a new file. Such a segment has
room for its schema and for a few rows that tell what is missing: `mark` writes them, as often as they change, behind
what was appended. The next batch takes the place of the mark. A process that is killed leaves the mark behind.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import EDQUOT, EEXIST, EFBIG, ENOSPC
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from hopwire.capture.records import RECORDS
from hopwire.capture.segment_index import INDEX_SUFFIX, SegmentIndex, Summary
from hopwire.capture.times import compact_time
from hopwire.disk import OWNER_ONLY, create_file, open_for_update, open_regular
from hopwire.places import RemotePath

try:
    import fcntl
except ImportError:  # Windows: nobody tells whether a segment has a writer
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "END",
    "OPEN_SUFFIX",
    "SUFFIX",
    "SegmentFile",
    "index_path",
    "is_left_behind",
    "keep_reserve",
    "reserve_paths",
    "sealed_path",
    "segment_name",
]

AnyPlace = TypeVar("AnyPlace", Path, RemotePath, Path | RemotePath)

SUFFIX = ".arrows"
OPEN_SUFFIX = ".open.arrows"
UNFINISHED_SUFFIX = ".unfinished"  # an index that is being written; no reader looks at it
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # the mark at the end of an Arrow stream
RESERVE_SUFFIX = ".reserve"
NO_ROOM = frozenset({ENOSPC, EDQUOT, EFBIG})
RESERVE_COUNT = 4  # each life that is killed while the disk is full leaves a mark in one of them
RESERVE_BYTES = 4096  # a block of most disks; the schema and a mark take two thirds of it
MAX_PARTS = 1000  # buffers of one write; Linux takes 1,024
MAX_NODE_CHARACTERS = 40  # leaves room for everything else in a file name


def segment_name(opened_at_ns: int, node: bytes, number: int) -> str:
    """Give the name of a segment without its suffix; names sort by time."""
    return f"{compact_time(opened_at_ns)}-{_safe_name(node)}-{number:06d}"


def _safe_name(node: bytes) -> str:
    text = node.decode("ascii", "replace")
    safe = text if re.fullmatch(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*", text) else node.hex()
    return safe[:MAX_NODE_CHARACTERS]


def reserve_paths(directory: Path, node: bytes) -> list[Path]:
    """Give the names of the reserves of a node, which its next life finds again."""
    names = ["", *(f"-{number}" for number in range(2, RESERVE_COUNT + 1))]
    return [directory / f".{_safe_name(node)}{RESERVE_SUFFIX}{name}" for name in names]


def keep_reserve(path: Path, file_mode: int = OWNER_ONLY) -> None:
    """Take room from the disk for later, if that was not done before; an OSError says that there is no room."""
    if os.path.lexists(path):
        if _is_reserve(path.lstat()):
            return
        path.unlink()  # half a reserve, or something else that somebody has put there
    fd = create_file(path, file_mode)
    try:
        is_whole = os.write(fd, b"\n" * RESERVE_BYTES) == RESERVE_BYTES
    except OSError:
        is_whole = False
    finally:
        os.close(fd)
    if not is_whole:
        path.unlink()
        raise OSError(ENOSPC, "no room for a reserve", str(path))


def _is_reserve(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size == RESERVE_BYTES


def sealed_path(path: AnyPlace) -> AnyPlace:
    """Give the name that an open segment will have."""
    return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SUFFIX) if path.name.endswith(OPEN_SUFFIX) else path


def index_path(path: AnyPlace) -> AnyPlace:
    """Give the name of the index of a segment."""
    return path.with_name(sealed_path(path).name.removesuffix(SUFFIX) + INDEX_SUFFIX)


def is_left_behind(path: Path) -> bool:
    """Tell whether an open segment has no writer any more: a writer holds a lock, which the system frees at its end."""
    if fcntl is None:
        return False
    try:
        with open_regular(path) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _hold(fd: int) -> None:
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SegmentFile:
    """A segment that is being written; every method may raise an OSError."""

    def __init__(
        self,
        directory: Path,
        name: str,
        opened_at_ns: int,
        file_mode: int = OWNER_ONLY,
        reserve: Path | None = None,
    ) -> None:
        self.path = directory / (name + OPEN_SUFFIX)
        self.opened_at_ns = opened_at_ns
        self.size_bytes = 0
        self.summary = Summary()
        self.is_marked = False
        self._file_mode = file_mode
        if any(map(os.path.lexists, (self.path, sealed_path(self.path)))):
            raise FileExistsError(EEXIST, "a segment of that name is there already", str(self.path))
        self._fd = _taken(reserve, self.path, file_mode) if reserve else create_file(self.path, file_mode)
        _hold(self._fd)
        try:
            self._write([RECORDS.serialize()])
            os.ftruncate(self._fd, self.size_bytes)  # of a reserve the first block stays, and has room for a mark
        except OSError:
            os.close(self._fd)
            with suppress(OSError):
                self.path.unlink()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Write a batch of records, whole or not at all."""
        self.append_parts([batch.serialize()], Summary().plus(batch))

    def append_parts(self, parts: Sequence[Any], summary: Summary) -> None:
        """Write the bytes of a batch, whole or not at all; the summary is that of its rows."""
        if self.is_marked:
            self._unmark(sum(map(len, parts)))
        self._write(parts)
        self.is_marked = False
        self.summary = self.summary.joined(summary)

    def mark(self, batch: pa.RecordBatch) -> None:
        """Write a batch that is valid until the next batch takes its place."""
        self.is_marked = True
        os.lseek(self._fd, self.size_bytes, os.SEEK_SET)
        os.ftruncate(self._fd, self.size_bytes + os.write(self._fd, batch.serialize()))

    def _unmark(self, size_bytes: int) -> None:
        """Take the mark away, if so many bytes have room: as long as the disk is full the mark has to stay."""
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._fd, self.size_bytes, size_bytes)
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise
                # else the disk cannot tell: then the batch is tried without asking
        os.ftruncate(self._fd, self.size_bytes)

    def _write(self, parts: Sequence[Any]) -> None:
        size = sum(map(len, parts))
        try:
            taken = _write_at(self._fd, parts, self.size_bytes)
            while taken < size:
                rest = memoryview(b"".join(parts))[taken:]
                taken += _write_at(self._fd, [rest], self.size_bytes + taken)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.size_bytes)
            raise
        self.size_bytes += size

    def sync(self) -> None:
        """Have the disk keep what was written."""
        os.fsync(self._fd)

    def leave(self) -> None:
        """Close the file under the name that it has while it is written: readers take its owner for killed."""
        os.close(self._fd)

    def seal(self, is_synced: bool) -> None:
        """Close the file and give it its final name; if the renaming fails, the file is closed and keeps its name."""
        sync: Callable[[int], None] = os.fsync if is_synced else _leave
        try:
            if self.is_marked:
                return  # readers find the mark, and see that the segment was never sealed
            if os.fstat(self._fd).st_size != self.size_bytes:
                return  # an earlier write failed and the file could not be cut back; readers will say so
            self._write([END])
            sync(self._fd)
            with suppress(OSError):  # a disk without room for the index can still rename the segment
                index = SegmentIndex.of(self.size_bytes, self.summary)
                _write_index(index_path(self.path), index, sync, self._file_mode)
            self.path.rename(sealed_path(self.path))
            _sync_directory(self.path.parent, sync)
        finally:
            os.close(self._fd)


def _write_at(fd: int, parts: Sequence[Any], position: int) -> int:
    """Write parts in one call, and give how many bytes the system took of them."""
    if len(parts) > MAX_PARTS or not hasattr(os, "pwritev"):
        parts = [b"".join(parts)]
    if hasattr(os, "pwritev"):
        return os.pwritev(fd, parts, position)
    os.lseek(fd, position, os.SEEK_SET)
    return os.write(fd, parts[0])


def _taken(reserve: Path, path: Path, file_mode: int) -> int:
    """Give a reserve the name of a segment, and open it; of several processes one has it.

    Others may be able to write to the directory: something that is no file of its own is not written to.
    """
    fd = open_for_update(reserve)
    try:
        found = os.fstat(fd)
        if not _is_reserve(found):
            raise FileExistsError(EEXIST, "a reserve must be a file of one name and of its size", str(reserve))
        reserve.rename(path)
        if not os.path.samestat(found, path.lstat()):
            raise FileExistsError(EEXIST, "another process has taken the reserve", str(reserve))
        if hasattr(os, "fchmod"):
            os.fchmod(fd, file_mode)
    except OSError:
        os.close(fd)
        raise
    return fd


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
