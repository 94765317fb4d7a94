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

What is forgotten, or is to go at once, may also be in files that a child of a follower writes at this moment
(`compaction_beside.py`). So if only the newest manifest stays, all files go that it lacks, however young they are: the
lock of the lake keeps other runs out. A store knows of no locks, and there files that are younger than the manifest
stay until they are old.

Nothing is looked for as long as fewer than `SWEEP` manifests are old, and fewer than stay: so not each step pays for
it. Manifests go last: if a run dies on the way, the next run goes on.

Only files whose names a run gives are removed. So whatever others put into the directories of a lake stays there. No
symlink is followed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from hopwire.errors import LakeError
from hopwire.lake.delta_log import DATE
from hopwire.lake.manifest import WRITTEN, Manifest
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import log_of, manifest_numbers, manifest_path, read_manifest
from hopwire.model.units import NS_PER_SECOND
from hopwire.places import (
    FoundFile,
    Place,
    RemotePath,
    list_below,
    list_directories,
    look_at,
    remove_empty,
    remove_files,
)

__all__ = ["forget_old"]

SWEEP = 10  # manifests that are removed together


def forget_old(lake: Place, settings: LakeSettings, *, is_now: bool = False) -> int:
    """Remove old manifests and the files that only they need; give how many files of rows were removed.

    With `is_now` only the newest manifest stays, and nothing is too young.
    """
    numbers = manifest_numbers(lake)
    if not numbers:
        return 0
    newest = read_manifest(lake, numbers[-1])
    is_erased = bool(newest.removal.erased) and numbers[0] < newest.removal.erased
    limit_ns = time.time_ns() - round(settings.keep_seconds * NS_PER_SECOND)
    old = numbers[:-1] if is_now else _old(lake, numbers, newest, settings.keep_snapshots, limit_ns)
    is_much = len(old) >= min(SWEEP, len(numbers) - len(old))
    is_due = is_now or is_erased or is_much or any(number < newest.removal.number for number in old)
    if not is_due:
        return 0
    first = next(number for number in numbers if number not in set(old))
    oldest = newest if first == newest.number else read_manifest(lake, first)
    begun_ns = _made_ns(lake, first)
    if not (is_now or is_erased):
        limit_ns = min(begun_ns, limit_ns)
    else:
        limit_ns = begun_ns if first < newest.number or isinstance(lake, RemotePath) else sys.maxsize
    removed = 0
    for name in sorted({*newest.tables, *oldest.tables, *_tables_on_disk(lake)}):
        removed += _sweep(lake, name, oldest, limit_ns)
        if name in oldest.tables:
            _forget_log(lake, name, oldest, is_exact=is_now or is_erased)
    remove_files(*(manifest_path(lake, number) for number in old))
    return removed


def _made_ns(lake: Place, number: int) -> int:
    found = look_at(manifest_path(lake, number))
    return found.modified_ns if found else 0


def _old(lake: Place, numbers: list[int], newest: Manifest, keep_snapshots: int, limit_ns: int) -> list[int]:
    """The manifests that go; a manifest goes only with all that are older."""
    removal = newest.removal
    found = []
    for place, number in enumerate(numbers[:-1]):
        is_past = _made_ns(lake, number) < limit_ns
        is_over = place < len(numbers) - keep_snapshots or number < removal.number
        if not (number < removal.erased or (is_past and is_over)):
            break
        found.append(number)
    return found


def _tables_on_disk(lake: Place) -> Iterator[str]:
    """The tables that a lake may have files of, also if no manifest names them yet."""
    for layer in ("bronze", "silver", "gold"):
        yield from (f"{layer}.{name}" for name in list_directories(lake / layer) if name.isidentifier())


def _sweep(lake: Place, name: str, oldest: Manifest, limit_ns: int) -> int:
    """Remove the files of a table that the oldest manifest lacks although they are older than the limit."""
    log = log_of(lake, name)
    try:
        stored = oldest.tables.get(name)
        named = {file.path for file in log.files(stored.version)} if stored else set()
    except LakeError:
        return 0  # a log that cannot be read: whoever reads the table is told; here nothing is removed
    old = [file.name for file in _written(log.place) if file.name not in named and file.modified_ns < limit_ns]
    remove_files(*(log.place / path for path in old))
    for day in {path.rpartition("/")[0] for path in old} - {""}:
        remove_empty(log.place / day)
    return len(old)


def _forget_log(lake: Place, name: str, oldest: Manifest, *, is_exact: bool) -> None:
    """Remove the files of a log that no version needs from the oldest manifest on."""
    log = log_of(lake, name)
    version = oldest.tables[name].version
    try:
        if is_exact:
            log.write_checkpoint(version)
        log.forget_before(version)
    except LakeError:
        return  # as above


def _written(place: Place) -> Iterator[FoundFile]:
    """The files below a table that a run has written."""
    for file in list_below(place):
        day, _, name = file.name.rpartition("/")
        is_in_table = not day or (day.startswith(f"{DATE}=") and "/" not in day)
        if is_in_table and not file.said and WRITTEN.fullmatch(name):
            yield file
