"""What Arrow raises for files that are damaged or gone, and how this is said in short."""

from __future__ import annotations

import pyarrow as pa

from hopwire.report.words import cut

__all__ = ["UNREADABLE", "in_short"]

UNREADABLE = (OSError, ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError)
REASON_LENGTH = 300


def in_short(error: Exception) -> str:
    """Give the reason why a file cannot be read, without the details that Arrow adds."""
    if isinstance(error, FileNotFoundError):
        return "it is not there"
    return cut((str(error).splitlines() or [type(error).__name__])[0], REASON_LENGTH)
