"""The memory and the CPU time of this process and all that it has started, while something runs."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ALL", "JVM", "WORKERS", "Peak", "cpu_seconds", "watched"]

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


@contextmanager
def watched() -> Iterator[Peak]:
    """Meanwhile take samples of this process and all below it."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_SECONDS):
            peak.look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def cpu_seconds() -> float:
    """Give the CPU time that this process and all below it have used, also of those that have ended."""
    return sum(map(_ticks, _processes(os.getpid()))) / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> int:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile, and its time is in that of its parent
        return 0
    return sum(map(int, fields[11:15]))


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
