"""What can be wrong with a file that holds sightings. A fault that is not serious only tells how far a file was read.

| kind | serious | what it means |
|---|---|---|
| `cut_off` | no | every whole batch was read; a crash or a writer at work left the rest |
| `gap` | no | packets are missing in a recording of the network, and with them their messages |
| `unreadable` | no | trains of a capture, or connections of a recording, carry no messages that can be read |
| all others | yes | nothing could be read, and someone should look |

`not_a_regular_file` is a symlink, a directory, a FIFO, a socket or a device that has the name of a source. It is never
opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hopwire.disk import NotRegular
from hopwire.errors import CaptureError
from hopwire.places import Place

__all__ = ["Fault", "FaultKind", "refuse", "refused"]


class FaultKind(StrEnum):
    """The kinds of fault."""

    CUT_OFF = "cut_off"
    GAP = "gap"
    UNREADABLE = "unreadable"
    FOREIGN = "foreign"  # not a capture at all
    UNSUITABLE = "unsuitable"  # a capture that this reader does not understand
    NOT_REGULAR = "not_a_regular_file"
    REFUSED = "refused"  # the operating system does not let the file be read


@dataclass(frozen=True, slots=True)
class Fault:
    """One file and what is wrong with it."""

    path: Place
    kind: FaultKind
    detail: str
    size_bytes: int = 0  # of what is not read

    @property
    def is_serious(self) -> bool:
        """Whether someone should look."""
        return self.kind not in (FaultKind.CUT_OFF, FaultKind.GAP, FaultKind.UNREADABLE)

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


def refused(path: Place, error: OSError, size_bytes: int = 0) -> Fault:
    """Give an error of the operating system as a fault of the file."""
    words = error.strerror or " ".join(str(error).split())
    if isinstance(error, NotRegular):
        return Fault(path, FaultKind.NOT_REGULAR, words)
    return Fault(path, FaultKind.REFUSED, f"cannot be read: {words:.200}", size_bytes)


def refuse(fault: Fault) -> None:
    """Raise a CaptureError if the fault is serious."""
    if fault.is_serious:
        raise CaptureError(str(fault))
