"""A disk of its own for one capture, which can be full at any time.

The disk is a tmpfs. It is full when its size is set to what is used, and has room when its size is set back. Needs
root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hopwire.model.units import MEBIBYTE
from tests.chaos.wires import NotPossibleError, run_tool

__all__ = ["SmallDisk", "mounted"]

ROOM_BYTES = 2048 * MEBIBYTE  # taken from memory only as far as it is used
TRIES = 20  # to set the size to what is used, while somebody writes
SLACK_BYTES = 64 * 1024


class SmallDisk:
    """A disk for one member."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Leave no room, or next to none."""
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

    def _resize(self, size_bytes: int) -> None:
        run_tool("mount", "-o", f"remount,size={max(size_bytes, SLACK_BYTES)}", str(self.path))


@contextmanager
def mounted(path: Path) -> Iterator[SmallDisk]:
    """Mount a disk at a new directory; raises NotPossibleError where the machine does not allow it."""
    path.mkdir(parents=True)
    run_tool("mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=0700", "tmpfs", str(path))
    try:
        yield SmallDisk(path)
    finally:
        with suppress(NotPossibleError):
            run_tool("umount", "--lazy", str(path))
