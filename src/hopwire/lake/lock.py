"""One run at a time: a lock on a file, which the system takes back when its holder ends, however it ends.

The file stays; its text says who holds it, for the error of the one that has to wait.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hopwire.disk import NO_FOLLOW, NO_WAIT, OWNER_ONLY, not_regular
from hopwire.errors import LakeError

__all__ = ["held"]

try:
    import fcntl
except ImportError:  # on Windows two runs at once are the user's own business
    fcntl = None  # type: ignore[assignment]


@contextmanager
def held(path: Path, lake: Path) -> Iterator[None]:
    """Hold the lock; a LakeError names who has it."""
    with _opened(path) as file:
        try:
            if fcntl:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            raise LakeError(f"{lake}: is being built by {holder}; wait for it, or end it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _opened(path: Path) -> TextIO:
    """Open the lock, or make it; a symlink to elsewhere, or something that is no file, is refused."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW | NO_WAIT, OWNER_ONLY)
    if said := not_regular(os.fstat(handle).st_mode):
        os.close(handle)
        raise LakeError(f"{path}: {said}; remove it")
    return os.fdopen(handle, "a+", encoding="utf-8", errors="replace")
