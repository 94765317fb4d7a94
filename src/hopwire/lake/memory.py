"""How much memory a build may take: asked early, so that it does not die late."""

from __future__ import annotations

import re
from pathlib import Path

from hopwire.errors import SettingsError

__all__ = ["MIN_FREE_BYTES", "choose_memory", "free_bytes"]

GB = 1024**3
MIN_FREE_BYTES = GB  # a JVM, two Python workers with their batches, and nothing to spare
MAX_DEFAULT_BYTES = 4 * GB  # more does not make a build on one machine faster
UNITS = {"k": 1024, "m": 1024**2, "g": GB, "t": 1024 * GB}


def choose_memory(asked: str | None, free: int | None) -> str:
    """Give the memory for Spark as Spark wants it said: what was asked for, or half of what is free."""
    if free is not None and free < MIN_FREE_BYTES:
        raise SettingsError(
            f"{free / GB:.1f} GB of memory are free, a build needs 1 GB: end something, or build elsewhere"
        )
    if asked is None:
        size = MAX_DEFAULT_BYTES if free is None else min(free // 2, MAX_DEFAULT_BYTES)
        return f"{size // UNITS['m']}m"
    found = re.fullmatch(r"(\d+)([kmgt])b?", asked.strip().lower())
    if found is None:
        raise SettingsError(f"--memory: found {asked!r:.40}, expected a size such as 4g or 800m")
    size = int(found[1]) * UNITS[found[2]]
    if size < GB // 2:
        raise SettingsError(f"--memory: found {asked}, Spark needs at least 512m")
    if free is not None and size > free:
        raise SettingsError(f"--memory: found {asked}, {free / GB:.1f} GB are free: ask for less, or end something")
    return f"{size // UNITS['m']}m"


def free_bytes(root: Path = Path("/")) -> int | None:
    """Give the memory that is free on this machine or in this container; None where the system does not say."""
    sizes = [_from_meminfo(root / "proc/meminfo"), _from_cgroup(root / "sys/fs/cgroup")]
    return min((size for size in sizes if size is not None), default=None)


def _from_meminfo(path: Path) -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) * 1024 if found else None


def _from_cgroup(place: Path) -> int | None:
    try:
        limit, used = ((place / name).read_text().strip() for name in ("memory.max", "memory.current"))
        stat = (place / "memory.stat").read_text()
    except OSError:
        return None
    cached = re.search(r"^inactive_file (\d+)$", stat, re.MULTILINE)  # the system gives it back when asked
    return None if limit == "max" else int(limit) - int(used) + (int(cached[1]) if cached else 0)
