"""Ports for tests that must know an address before anybody listens there.

The system chooses ports from 32768 upwards for whoever listens on port 0, and for the near end of whoever dials.
- A port from up there that was free a moment ago may belong to another process of the tests when it is needed.
- Whoever dials a free port up there again and again gets that very number for its own end one day, and talks to itself.
So these ports lie below.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import count

FIRST, COUNT = 20_000, 10_000
STEP = 101  # ports between two processes that were started one after the other


def free_port() -> int:
    """Give a port that nobody listens on; the same process does not get it twice."""
    return next(port for port in _numbers if _is_free(port))


def _candidates() -> Iterator[int]:
    return (FIRST + (os.getpid() * STEP + number) % COUNT for number in count())


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True


_numbers = _candidates()
