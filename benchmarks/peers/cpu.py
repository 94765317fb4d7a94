"""The processor time of whole sessions of processes: of what a busy machine does to a measurement, it sees the least.
And how busy the machine is while we ourselves do nothing.

Linux alone tells it; elsewhere it is 0.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

__all__ = ["busy_cores", "cpu_seconds"]

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SESSION, USER, SYSTEM = 3, 11, 12  # fields of /proc/<pid>/stat behind the name of the program
WATCH_SECONDS = 1.0
IDLE, IO_WAIT, STOLEN = 3, 4, 7  # fields of the first line of /proc/stat; what is stolen, other machines had


def cpu_seconds(sessions: Collection[int]) -> float:
    """Give what all processes of some sessions have used so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[SESSION]) in sessions:
            ticks += int(fields[USER]) + int(fields[SYSTEM])
    return ticks / TICKS_PER_SECOND


def busy_cores() -> float:
    """Watch the machine for a second; give how many of its cores are busy. Unlike the load, it forgets what we did."""
    begin, busy = time.perf_counter(), _busy_ticks()
    time.sleep(WATCH_SECONDS)
    return (_busy_ticks() - busy) / TICKS_PER_SECOND / (time.perf_counter() - begin)


def _busy_ticks() -> int:
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    except OSError:  # not Linux
        return 0
    ticks = list(map(int, fields[: STOLEN + 1]))
    return sum(ticks) - ticks[IDLE] - ticks[IO_WAIT]
