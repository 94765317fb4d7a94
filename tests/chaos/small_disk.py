"""A disk of its own for one capture, which can be full at any time.

The disk is a tmpfs. It is full when its size is set to what is used, and has room when its size is set back. Needs
root.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hopwire.capture.segment import OPEN_SUFFIX, SUFFIX
from hopwire.capture.segment_index import INDEX_SUFFIX
from hopwire.model.units import MEBIBYTE
from tests.chaos.wires import NotPossibleError, run_tool

__all__ = ["SmallDisk", "mounted"]

ROOM_BYTES = 2048 * MEBIBYTE  # taken from memory only as far as it is used; more than a member writes between two trips
TRIES = 20  # to set the size to what is used, while somebody writes
SLACK_BYTES = 64 * 1024
PAGE_BYTES = 4096  # a size of 0 would be no limit


class SmallDisk:
    """A disk for one member."""

    def __init__(self, path: Path, archive: Path | None = None) -> None:
        self.path, self._archive = path, archive

    def fill(self) -> None:
        """Leave no room, or next to none; what can be moved to the archive is moved first."""
        self.ship()
        for tried in range(TRIES):
            found = os.statvfs(self.path)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            try:
                self._resize(used + tried * SLACK_BYTES)
            except NotPossibleError:
                if tried == TRIES - 1:
                    raise
            else:
                return

    def free(self) -> None:
        """Give room again."""
        self._resize(ROOM_BYTES)

    def ship(self) -> None:
        """Move to the archive what nobody writes to any more, so that the disk is full only when it should be.

        The last open segment may be that of a member at work. All others were sealed, or were left by a life before.
        """
        if self._archive is None:
            return
        segments = sorted(self.path.glob(f"*{SUFFIX}"))
        at_work = [path for path in segments if path.name.endswith(OPEN_SUFFIX)][-1:]
        for path in [*(each for each in segments if each not in at_work), *self.path.glob(f"*{INDEX_SUFFIX}")]:
            shutil.move(path, self._archive)

    def _resize(self, size_bytes: int) -> None:
        run_tool("mount", "-o", f"remount,size={max(size_bytes, PAGE_BYTES)}", str(self.path))


@contextmanager
def mounted(path: Path, archive: Path | None = None) -> Iterator[SmallDisk]:
    """Mount a disk at a new directory; raises NotPossibleError where the machine does not allow it."""
    path.mkdir(parents=True)
    run_tool("mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=0700", "tmpfs", str(path))
    try:
        yield SmallDisk(path, archive)
    finally:
        with suppress(NotPossibleError):
            run_tool("umount", "--lazy", str(path))
