"""The same work for several things at once, in threads of this process.

Arrow, numpy, Parquet and delta-rs leave the interpreter alone while they work, so two threads use two cores. A thread
lives as long as one call: a process that forks between two calls, as Spark's workers do, leaves none behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hopwire.places import Place, RemotePath

__all__ = ["CORES", "at_once", "threads_for"]

Thing = TypeVar("Thing")
Made = TypeVar("Made")

CORES = min(os.cpu_count() or 1, 4)  # more threads wait for the interpreter, and not for cores
REQUESTS = 8  # threads that wait for the answers of a store


def threads_for(place: Place) -> int:
    """Give how many threads are worth their while at a place: a store lets each wait."""
    return REQUESTS if isinstance(place, RemotePath) else CORES


def at_once(work: Callable[[Thing], Made], things: Sequence[Thing], threads: int = CORES) -> list[Made]:
    """Do the same to all things, and give the results in order; the first error is raised when all have ended."""
    if len(things) < 2 or threads < 2:
        return [work(each) for each in things]
    with ThreadPoolExecutor(min(threads, len(things)), "hopwire-lake") as pool:
        return [each.result() for each in [pool.submit(work, each) for each in things]]
