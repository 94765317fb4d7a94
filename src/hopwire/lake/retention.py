"""What a lake forgets: old manifests, and files that no manifest names any more.

The last `keep_snapshots` manifests stay, and all that are younger than `keep_seconds`. A file stays as long as a
version that such a manifest names has it. Files of runs that died are named by none, and go when they are that old.

Only files whose names a run gives are removed. So whatever others put into the directories of a lake stays there. No
symlink is followed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from hopwire.disk import is_regular
from hopwire.errors import LakeError
from hopwire.lake.delta_log import DATE
from hopwire.lake.manifest import WRITTEN
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import log_of, manifest_numbers, manifest_path, read_manifest

__all__ = ["forget_old"]


def forget_old(lake: Path, settings: LakeSettings) -> int:
    """Remove old manifests and the files that only they name; give how many files were removed.

    Nothing is looked for as long as no manifest is old.
    """
    limit = time.time() - settings.keep_seconds
    old = [
        number
        for number in manifest_numbers(lake)[: -settings.keep_snapshots]
        if manifest_path(lake, number).lstat().st_mtime < limit
    ]
    if not old:
        return 0
    tables = {name for number in old for name in read_manifest(lake, number).tables}
    for number in old:
        manifest_path(lake, number).unlink()
    kept = [read_manifest(lake, number) for number in manifest_numbers(lake)]
    tables.update(name for manifest in kept for name in manifest.tables)
    removed = 0
    for name in sorted(tables):
        versions = {manifest.tables[name].version for manifest in kept if name in manifest.tables}
        removed += _sweep(lake, name, versions, limit)
    return removed


def _sweep(lake: Path, name: str, versions: set[int], limit: float) -> int:
    log = log_of(lake, name)
    try:
        named = {file.path for version in versions for file in log.files(version)}
    except LakeError:
        return 0  # a log that cannot be read: whoever reads the table is told; here nothing is removed
    old = [path for path in _written(log.place) if path not in named and _is_older(log.place / path, limit)]
    for path in old:
        (log.place / path).unlink(missing_ok=True)
    return len(old)


def _written(place: Path) -> Iterator[str]:
    """The files below a table that a run has written."""
    if not place.is_dir():
        return
    for name in os.listdir(place):
        day = place / name
        if name.startswith(f"{DATE}=") and day.is_dir() and not day.is_symlink():
            yield from (f"{name}/{file}" for file in os.listdir(day) if WRITTEN.fullmatch(file))
        elif WRITTEN.fullmatch(name):
            yield name


def _is_older(path: Path, limit: float) -> bool:
    return is_regular(path) and path.lstat().st_mtime < limit
