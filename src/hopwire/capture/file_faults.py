"""What can be wrong with a file of a capture, in one line each.

| kind | is the reader's own business |
|---|---|
| `cut_off` | yes: every whole batch was read, the rest is what a crash or a live writer leaves |
| `gap` | yes: packets are missing in a recording of the network, and with them the messages they carried |
| `unreadable` | yes: connections in a recording of the network that carry no messages, or none that can be read |
| all others | no: nothing could be read, and someone should look |

`not_a_regular_file` is what lies in a directory under the name of a source and is a symlink, a directory, a FIFO, a
socket or a device. Nothing of it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hopwire.disk import NotRegular
from hopwire.errors import CaptureError

__all__ = ["Fault", "FaultKind", "refuse", "refused"]


class FaultKind(StrEnum):
    """The kinds of fault."""

    CUT_OFF = "cut_off"
    GAP = "gap"
    UNREADABLE = "unreadable"
    FOREIGN = "foreign"  # not a capture at all
    UNSUITABLE = "unsuitable"  # a capture, but not one that this reader understands
    NOT_REGULAR = "not_a_regular_file"
    REFUSED = "refused"  # the system does not let it be read


@dataclass(frozen=True, slots=True)
class Fault:
    """One file and what is wrong with it."""

    path: Path
    kind: FaultKind
    detail: str
    size_bytes: int = 0  # of what is not read

    @property
    def is_serious(self) -> bool:
        """Whether someone should look."""
        return self.kind not in (FaultKind.CUT_OFF, FaultKind.GAP, FaultKind.UNREADABLE)

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


def refused(path: Path, error: OSError, size_bytes: int = 0) -> Fault:
    """Give what the system says of a file as a fault of the file."""
    words = error.strerror or " ".join(str(error).split())
    if isinstance(error, NotRegular):
        return Fault(path, FaultKind.NOT_REGULAR, words)
    return Fault(path, FaultKind.REFUSED, f"cannot be read: {words:.200}", size_bytes)


def refuse(fault: Fault) -> None:
    """Raise what is not the reader's own business."""
    if fault.is_serious:
        raise CaptureError(str(fault))
