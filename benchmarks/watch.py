"""The memory and the CPU time of this process and all that it has started, while something runs.

The trap: a process whose parent ignores the end of its children leaves its CPU time to nobody. Spark's daemon is such a
parent, and ends workers that had nothing to do for a minute. So what such a process had used at the last look at it
stays counted; what it used since, at most a quarter of a second, is lost.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["ALL", "JVM", "WORKERS", "CpuTime", "Peak", "Watch", "watched"]

LOOK_SECONDS = 0.25  # a look costs a few milliseconds
DRIVER, JVM, WORKERS, ALL = "driver", "JVM", "Python workers", "all"


class Peak(Counter[str]):
    """The most bytes that were seen of each kind of process, and of all at one time."""

    def look(self) -> None:
        """Take a sample."""
        now = Counter[str]()
        for process, kind in _processes(os.getpid()).items():
            now[kind] += _bytes(process)
        now[ALL] = sum(now.values())
        self |= now


class CpuTime:
    """The CPU time that this process and all below it have used, also those that have ended meanwhile."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}  # of each process at the last look, by its number and its start
        self._unheard: set[tuple[int, int]] = set()  # processes whose end their parent ignores

    def look(self) -> None:
        """See what each process has used; who has ended is in the time of its parent, or stays as it was."""
        now = {}
        for process in _processes(os.getpid()):
            if found := _stat(process):
                now[process, found.start] = found.ticks
                if _ignores_children(found.parent):
                    self._unheard.add((process, found.start))
        self._ticks = {each: ticks for each, ticks in self._ticks.items() if each in self._unheard} | now

    def seconds(self) -> float:
        """Take a look, and give the seconds until now."""
        self.look()
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")


class Watch:
    """What was seen while something ran."""

    def __init__(self) -> None:
        self.peak = Peak()
        self.cpu_seconds = 0.0


@contextmanager
def watched() -> Iterator[Watch]:
    """Meanwhile take samples of this process and all below it."""
    watch, time, ended = Watch(), CpuTime(), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            watch.peak.look()
            time.look()

    before = time.seconds()
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield watch
    finally:
        ended.set()
        watcher.join()
        watch.cpu_seconds = time.seconds() - before


class _Stat(NamedTuple):
    parent: int
    ticks: int  # of CPU time: its own, and that of children whose end it has heard of
    start: int  # a later process with the same number has another


def _stat(process: int) -> _Stat | None:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return None
    return _Stat(int(fields[1]), sum(map(int, fields[11:15])), int(fields[19]))


def _ignores_children(process: int) -> bool:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    ignored = next((int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:")), 0)
    return bool(ignored >> (signal.SIGCHLD - 1) & 1)


def _processes(top: int) -> dict[int, str]:
    """Give the process and all below it: this one is the driver, Java is Java, whatever else is below is a worker."""
    found, waiting = {top: DRIVER}, [top]
    while waiting:
        for process in _children(waiting.pop()):
            found[process] = JVM if _name(process) == "java" else WORKERS
            waiting.append(process)
    return found


def _children(process: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        return [int(word) for thread in threads for word in (thread / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return []


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def _bytes(process: int) -> int:
    """Its share of the memory: pages that several processes have in common are counted once in the sum."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)
