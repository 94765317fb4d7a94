"""The identity that a node keeps across restarts: in a file beside its capture, under its name.

A node that comes back under another identity is another node for everybody who reads the capture: messages of the first
node seem lost there, though the second node answered them. So a node with a capture and a name remembers its identity.

The file is locked while the node lives. A second node of the same name, at the same time, beside the same capture, gets
an identity of its own, and is told to take a name of its own.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from hopwire.disk import local_path, make_directory, open_or_create
from hopwire.errors import CaptureError, SettingsError
from hopwire.node.node_checks import MAX_IDENTITY_BYTES

__all__ = ["KeptIdentity"]

log = logging.getLogger("hopwire.node")
MAX_BYTES = 300
NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")


class KeptIdentity:
    """The file with the identity of one node, open and locked."""

    def __init__(self, directory: str | Path, name: str) -> None:
        where = local_path(directory)
        try:
            make_directory(where)
        except OSError as error:
            raise CaptureError(f"{where}: no capture can be written here: {error.strerror}") from None
        safe = NOT_IN_A_FILE_NAME.sub(lambda found: f"%{ord(found[0]):x}", name)[:200]
        self._path = where / f".{safe}.identity"
        self._file = -1

    def read(self, new: bytes) -> bytes:
        """Give the identity of the node's last life, or the new one, which is kept from now on."""
        try:
            file = open_or_create(self._path, os.O_RDWR)
        except OSError as error:
            raise SettingsError(f"cannot keep the identity in {self._path}: {error.strerror}") from None
        if not _is_locked(file):
            os.close(file)
            text = "another node of this name captures into the same directory and has %s: give each node its own name"
            log.warning(text, self._path.name, extra={"hopwire_event": "same_name"})
            return new
        self._file = file
        kept = os.read(file, MAX_BYTES)
        if not kept:
            self._keep(new)
        elif len(kept) > MAX_IDENTITY_BYTES or kept[:1] == b"\0":
            self.close()
            raise SettingsError(f"{self._path} keeps the identity of a node, found other bytes: remove it")
        return kept or new

    def _keep(self, new: bytes) -> None:
        try:
            os.write(self._file, new)
            os.fsync(self._file)
        except OSError as error:
            self.close()
            raise SettingsError(f"cannot keep the identity in {self._path}: {error.strerror}") from None

    def close(self) -> None:
        """Let another node have the identity."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _is_locked(file: int) -> bool:
    """Lock a file for this process; False says that another has it."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
