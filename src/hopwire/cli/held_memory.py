"""A process that makes step after step keeps the memory of one step for the next.

Each step takes some hundred megabytes in large pieces, and gives them back. By default the allocators of Arrow and of
the system return such pieces to the kernel at once, or after some milliseconds. Then the kernel clears each page anew
for the next step: a tenth to a fifth of what a step costs. So a process that does nothing else keeps what it has. It is
not larger than in its largest step.

The trap: Arrow's allocator reads its settings when it is loaded. Afterwards it is too late.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["hold_memory"]

STEPPING = ["lake", "follow"]  # the command that makes step after step
DELAY, DELAY_MS = "MIMALLOC_PURGE_DELAY", 100_000  # after which Arrow's allocator gives back what is free
# options of glibc's malloc, by their numbers in malloc.h
TRIM_THRESHOLD, KEPT_BYTES = -1, 2**30  # that are free and not given back
MMAP_THRESHOLD, PIECE_BYTES = -3, 2**25  # a larger piece is given back at once; malloc takes no larger number


def hold_memory(arguments: Sequence[str]) -> None:
    """Let the process of a command that steps keep memory that is free, as far as its allocators can do so."""
    if list(arguments[:2]) != STEPPING:
        return
    os.environ.setdefault(DELAY, str(DELAY_MS))
    with suppress(AttributeError, OSError, TypeError):  # another system, another malloc
        set_option = ctypes.CDLL(None).mallopt
        set_option(TRIM_THRESHOLD, KEPT_BYTES)
        set_option(MMAP_THRESHOLD, PIECE_BYTES)
