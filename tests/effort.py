"""How long one turn of a loop may work: as long as so much work that is known takes here and now.

A time of the processor is no measure: on a machine that is busy the same work takes twice as long, or three times.
"""

from __future__ import annotations

import time

KNOWN_STEPS = 100_000
LONG_TURN = 100  # times the known work: 0.3 s on a quiet machine; a turn without limits takes seconds


def known_work() -> float:
    """Give the time of the processor that a known piece of work takes now."""
    began, total = time.thread_time(), 0
    for number in range(KNOWN_STEPS):
        total += number
    return time.thread_time() - began


def is_long(turn: float) -> bool:
    """Tell whether one turn of a loop, in time of the processor, did far more than its share."""
    return turn > LONG_TURN * known_work()
