from __future__ import annotations

from pathlib import Path

import pytest

from hopwire.errors import SettingsError
from hopwire.lake.memory import GB, choose_memory, free_bytes


@pytest.mark.parametrize(
    ("asked", "free", "chosen"),
    [
        (None, 6 * GB, "3072m"),
        (None, 64 * GB, "4096m"),
        (None, None, "4096m"),
        ("2g", 6 * GB, "2048m"),
        ("800M", 6 * GB, "800m"),
    ],
)
def test_memory_is_what_was_asked_for_or_half_of_what_is_free(asked: str | None, free: int | None, chosen: str) -> None:
    assert choose_memory(asked, free) == chosen


@pytest.mark.parametrize(
    ("asked", "free", "fault"),
    [
        (None, GB // 2, "0.5 GB of memory are free, a build needs 1 GB: end something, or build elsewhere"),
        ("8g", 4 * GB, "--memory: found 8g, 4.0 GB are free: ask for less, or end something"),
        ("lots", 4 * GB, "--memory: found 'lots', expected a size such as 4g or 800m"),
        ("100m", 4 * GB, "--memory: found 100m, Spark needs at least 512m"),
    ],
)
def test_too_little_memory_is_refused_with_the_remedy(asked: str | None, free: int, fault: str) -> None:
    with pytest.raises(SettingsError) as caught:
        choose_memory(asked, free)
    assert str(caught.value) == fault


def test_container_has_less_than_its_machine(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) is None
    for name, text in {
        "proc/meminfo": "MemTotal: 9 kB\nMemAvailable:  8388608 kB\n",
        "sys/fs/cgroup/memory.max": f"{4 * GB}\n",
        "sys/fs/cgroup/memory.current": f"{3 * GB}\n",
        "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GB}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert free_bytes(tmp_path) == 2 * GB
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert free_bytes(tmp_path) == 8 * GB
