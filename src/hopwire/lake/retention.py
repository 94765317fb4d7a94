"""What a lake forgets: old manifests, files that no manifest needs any more, and logs of versions that nobody names.

| manifest | stays |
|---|---|
| one of the last `keep_snapshots`, or younger than `keep_seconds` | yes |
| older than the last expiry (`expiry.py`) | for `keep_seconds`, however few there are |
| older than the last time that something was forgotten (`forgetting.py`) | no |

A file of rows stays if the oldest manifest that stays names a version that has it, or if the file is younger than that
manifest: runs follow one another, so a file that is older and that this version lacks was taken out before, or belongs
to a run that died. A file that is younger than `keep_seconds` stays in any case.

Of the log of a table, everything before the newest checkpoint goes that the oldest manifest can be read from.

Nothing is looked for as long as fewer than `SWEEP` manifests are old, and fewer than stay: so not each step pays for
it. Manifests go last: if a run dies on the way, the next run goes on.

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
from hopwire.lake.manifest import WRITTEN, Manifest
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import log_of, manifest_numbers, manifest_path, read_manifest

__all__ = ["forget_old"]

SWEEP = 10  # manifests that are removed together


def forget_old(lake: Path, settings: LakeSettings, *, is_now: bool = False) -> int:
    """Remove old manifests and the files that only they need; give how many files of rows were removed.

    With `is_now` only the newest manifest stays, and nothing is too young.
    """
    numbers = manifest_numbers(lake)
    if not numbers:
        return 0
    newest = read_manifest(lake, numbers[-1])
    is_erased = bool(newest.removal.erased) and numbers[0] < newest.removal.erased
    limit = time.time() - settings.keep_seconds
    old = numbers[:-1] if is_now else _old(lake, numbers, newest, settings.keep_snapshots, limit)
    is_much = len(old) >= min(SWEEP, len(numbers) - len(old))
    is_due = is_now or is_erased or is_much or any(number < newest.removal.number for number in old)
    if not is_due:
        return 0
    first = next(number for number in numbers if number not in set(old))
    oldest = newest if first == newest.number else read_manifest(lake, first)
    begun = manifest_path(lake, first).lstat().st_mtime
    removed = 0
    for name in sorted({*newest.tables, *oldest.tables, *_tables_on_disk(lake)}):
        removed += _sweep(lake, name, oldest, begun if is_now or is_erased else min(begun, limit))
        if name in oldest.tables:
            _forget_log(lake, name, oldest, is_exact=is_now or is_erased)
    for number in old:
        manifest_path(lake, number).unlink(missing_ok=True)
    return removed


def _old(lake: Path, numbers: list[int], newest: Manifest, keep_snapshots: int, limit: float) -> list[int]:
    """The manifests that go; a manifest goes only with all that are older."""
    removal = newest.removal
    found = []
    for place, number in enumerate(numbers[:-1]):
        is_past = manifest_path(lake, number).lstat().st_mtime < limit
        is_over = place < len(numbers) - keep_snapshots or number < removal.number
        if not (number < removal.erased or (is_past and is_over)):
            break
        found.append(number)
    return found


def _tables_on_disk(lake: Path) -> Iterator[str]:
    """The tables that a lake may have files of, also if no manifest names them yet."""
    for layer in ("bronze", "silver", "gold"):
        place = lake / layer
        if place.is_dir() and not place.is_symlink():
            yield from (f"{layer}.{name}" for name in os.listdir(place) if name.isidentifier())


def _sweep(lake: Path, name: str, oldest: Manifest, limit: float) -> int:
    """Remove the files of a table that the oldest manifest lacks although they are older than the limit."""
    log = log_of(lake, name)
    try:
        stored = oldest.tables.get(name)
        named = {file.path for file in log.files(stored.version)} if stored else set()
    except LakeError:
        return 0  # a log that cannot be read: whoever reads the table is told; here nothing is removed
    old = [path for path in _written(log.place) if path not in named and _is_older(log.place / path, limit)]
    for path in old:
        (log.place / path).unlink(missing_ok=True)
    for day in {path.rpartition("/")[0] for path in old} - {""}:
        if not os.listdir(log.place / day):
            (log.place / day).rmdir()
    return len(old)


def _forget_log(lake: Path, name: str, oldest: Manifest, *, is_exact: bool) -> None:
    """Remove the files of a log that no version needs from the oldest manifest on."""
    log = log_of(lake, name)
    version = oldest.tables[name].version
    try:
        if is_exact:
            log.write_checkpoint(version)
        log.forget_before(version)
    except LakeError:
        return  # as above


def _written(place: Path) -> Iterator[str]:
    """The files below a table that a run has written."""
    if not place.is_dir() or place.is_symlink():
        return
    for name in os.listdir(place):
        day = place / name
        if name.startswith(f"{DATE}=") and day.is_dir() and not day.is_symlink():
            yield from (f"{name}/{file}" for file in os.listdir(day) if WRITTEN.fullmatch(file))
        elif WRITTEN.fullmatch(name):
            yield name


def _is_older(path: Path, limit: float) -> bool:
    return is_regular(path) and path.lstat().st_mtime < limit
