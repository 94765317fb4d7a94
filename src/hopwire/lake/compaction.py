"""Compaction: many small files of a lake become few; no row changes, and no reader notices.

Every build adds files, and a build every minute makes 1,440 files a day in each table. Small files cost every reader.

| small files of a table, neighbours in time | what is done |
|---|---|
| two or more, of days before the last day of the table | they become few: most likely nothing more comes |
| more than 32, of the last day | the same |
| any other | nothing |

- A file is small if it has less than 16 MB. Neighbours are merged until they have 64 MB together, so a merged file is
  about one time, and is found by it. Example: a lake of a year with 10 kB a day has one file of the past in each table,
  and one with 50 MB a day has a file for each day.
- Rows stay in the order in which their files have them (`merging.py`).
- Whoever has to go on, as a follower does, merges some groups at a time (`most_bytes`), and the rest later. What is
  slow about it, to write the merged files, needs no lock, and is done by a child (`compaction_beside.py`).
- Files with rows of open flows are left alone: the next step replaces them.
- Files that the ingest writes belong to *parts*, and a source knows its parts by their names (`manifest.py`). So whole
  parts are merged, in all tables at once, and the sources are told. A part of a source that may grow is left alone.
- A compaction is a run like a build: new files that nobody sees, a commit for each table, then the manifest. If the
  compaction dies, the next run undoes its commits (`store.py`). Old manifests name the old files, which stay until they
  are forgotten (`retention.py`).

The trap: whoever changes a part also changes how much is read again if one of its sources changes. Sources that are
sealed do not change, so only they are put together.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import PurePosixPath
from typing import TypeVar

import msgspec
import pyarrow as pa

from hopwire.capture.sources import SUFFIXES, SourceKind
from hopwire.errors import LakeError
from hopwire.lake.delta_log import DATE
from hopwire.lake.manifest import Manifest, StoredFile, StoredRemoval, StoredSource, part_name
from hopwire.lake.merging import MINUTE, Merge, Merged, TableMerge, remove_merge, write_merge
from hopwire.lake.parquet_output import TableLayout
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import LakeRun, log_of, read_manifest, writing
from hopwire.lake.worker import INGESTED
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, RemotePath

__all__ = ["Compacted", "CompactionPlan", "compact", "plan_merges", "publish_merges"]

MAX_FILES = 32  # small ones of the last day of a table
SMALL_BYTES = 16 * MEBIBYTE
MERGED_BYTES = 64 * MEBIBYTE  # merged files are not larger by more than one small file
TIMES = ("seen_at_ns", "left_at_ns", "asked_at_ns", "started_at_ns", MINUTE)  # files are put in order by one of these


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    manifest: Manifest
    before: Mapping[str, int]  # how many files each table had that was changed
    after: Mapping[str, int]  # how many it has now
    has_more: bool = False  # whether files are left because so much was to be merged at most


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What is to be merged in a lake."""

    merges: Sequence[Merge]
    has_more: bool  # whether files are left because so much was to be merged at most
    removal: StoredRemoval  # what was removed from the lake so far


def compact(
    lake: Place | str,
    settings: LakeSettings | None = None,
    wait_seconds: float = 0.0,
    most_bytes: float = math.inf,
) -> Compacted:
    """Merge small files of a lake; if there are none, nothing is written. Another run is waited for so long.

    With `most_bytes` it ends behind the group of files that reaches so many, and says whether there are more.
    """
    settings = settings or LakeSettings()
    read_manifest(lake)  # a directory that is no lake is refused, and not made one
    with writing(lake, settings.file_mode, wait_seconds) as run:
        plan = plan_merges(run, most_bytes)
        return publish_merges(run, plan, [write_merge(each, settings) for each in plan.merges], settings)


def plan_merges(run: LakeRun, most_bytes: float = math.inf) -> CompactionPlan:
    """Say which files are to be merged."""
    run.refuse_days()
    planning = _Planning(run, most_bytes)
    merges = [*planning.of_tables(), *planning.of_parts()]  # most bytes last: they must not leave the others waiting
    return CompactionPlan(merges, planning.has_more, run.before.removal)


def publish_merges(run: LakeRun, plan: CompactionPlan, done: Sequence[Merged], settings: LakeSettings) -> Compacted:
    """Put merged files in place of others, as far as the lake still has these; the rest is removed."""
    renamed: dict[str, str] = {}
    for each in done:
        if plan.removal != run.before.removal or not _is_as_planned(run, each):
            remove_merge(each.merge)
            continue
        run.adopt(each.merge.part)
        for table in each.merge.tables:
            _make_young(table.place, each.new[table.name])
            run.swap(table.name, table.old, each.new[table.name])
        renamed |= dict.fromkeys(each.merge.old_parts, each.merge.part)
    before = {name: run.before.tables[name].file_count for name in run.tables}
    after = {name: change.stored.file_count for name, change in run.tables.items()}
    manifest = run.before
    if run.tables:
        sources = {name: _with_parts(source, renamed) for name, source in run.before.sources.items()}
        manifest = run.publish(sources, run.before.decoder, run.before.domains)
        forget_old(run.lake, settings)
    return Compacted(manifest, before, after, plan.has_more)


def _make_young(place: Place, files: Iterable[StoredFile]) -> None:
    """Give files the time of now: retention removes what is older than a manifest that does not name it.

    A child writes files at 10:00, a step publishes a manifest at 10:01, and the next one names the files at 10:02.
    """
    if isinstance(place, RemotePath):  # there merges are written in the turn: no manifest comes between
        return
    for file in files:
        os.utime(place / file.path, follow_symlinks=False)


def _is_as_planned(run: LakeRun, done: Merged) -> bool:
    """Tell whether the lake has the files that were merged, no others of their parts, and the new ones."""
    for table in done.merge.tables:
        planned = {file.path for file in table.old}
        parts = done.merge.old_parts
        there = {file.path for file in run.files(table.name) if file.path in planned or file.part in parts}
        if there != planned or not all(run.has(table.name, file) for file in done.new[table.name]):
            return False
    return True


@dataclass
class _Planning:
    """A plan on its way."""

    run: LakeRun
    left_bytes: float
    has_more: bool = False
    _count: int = field(default=0, init=False)

    # -- tables whose files stand alone

    def of_tables(self) -> Iterator[Merge]:
        """Merge the files of all tables that the ingest does not write."""
        for name in self.run.before.tables:
            if name not in INGESTED:
                for some in self._crowded(name, self._closed(name)):
                    for group in self._afforded(some):
                        yield Merge(self._new_part(), [self._table(name, group)])

    def _closed(self, name: str) -> list[StoredFile]:
        """The files of a table without those of open flows."""
        step = self.run.before.tables[name].step
        open_part = step.open_part if step else ""
        return [file for file in self.run.files(name) if file.part != open_part]

    # -- tables of the ingest, whose files are parts of sources

    def of_parts(self) -> Iterator[Merge]:
        """Merge parts of sealed sources in all tables that have them."""
        sources = self.run.before.sources
        names = [name for name in INGESTED if name in self.run.before.tables]
        files = {name: self.run.files(name) for name in names}
        crowded = {file.part for name in names for some in self._crowded(name, files[name]) for file in some}
        growing = {part for source in sources.values() if _may_grow(source) for part in source.parts}
        known = {part for source in sources.values() for part in source.parts}
        for group in self._afforded(self._parts_in_time(files, (crowded & known) - growing)):
            old = {part.name for part in group}
            own = {name: [file for file in files[name] if file.part in old] for name in names}
            yield Merge(self._new_part(), [self._table(name, some) for name, some in own.items() if some], old)

    def _parts_in_time(self, files: Mapping[str, Sequence[StoredFile]], wanted: Collection[str]) -> list[_SourceRows]:
        sizes: dict[str, int] = defaultdict(int)
        begins: dict[str, int] = {}
        for name, some in files.items():
            known = self._begins(name)
            for file in some:
                if file.part in wanted:
                    sizes[file.part] = max(sizes[file.part], file.size_bytes)
                    at = known.get(file.path, 0)
                    begins[file.part] = min(begins.get(file.part, at), at)
        small = (part for part, size in sizes.items() if size < SMALL_BYTES)
        return [_SourceRows(part, sizes[part]) for part in sorted(small, key=lambda part: (begins[part], part))]

    # -- files

    def _afforded(self, files: Sequence[_Sized]) -> Iterator[list[_Sized]]:
        """Neighbours that are merged, group by group, until as many bytes are merged as may be."""
        for group in _groups(files):
            if self.left_bytes <= 0:
                self.has_more = True
                return
            yield group

    def _crowded(self, name: str, files: Iterable[StoredFile]) -> Iterator[list[StoredFile]]:
        """The small files of a table that are to be merged, neighbours in time together, by the table above."""
        begins, ends = self._begins(name), self.run.ranges_before(name, DATE)
        ordered = sorted(files, key=lambda file: (begins.get(file.path, 0), file.path))
        last = max((ends[file.path][1] for file in ordered if file.path in ends), default=0)
        past = {path for path, (_, day) in ends.items() if day < last}
        runs = [list(some) for is_small, some in groupby(ordered, _is_small) if is_small]
        others = [[file for file in some if file.path not in past] for some in runs]
        yield from ([file for file in some if file.path in past] for some in runs)
        if sum(map(len, others)) > MAX_FILES:
            yield from others

    def _begins(self, name: str) -> dict[str, int]:
        """The first time of each file of a table, as far as statistics tell."""
        rows = log_of(self.run.lake, name).statistics(self.run.before.tables[name].version)
        column = next((f"min.{time}" for time in TIMES if f"min.{time}" in rows.column_names), None)
        if column is None:
            return {}
        times = rows[column].cast(pa.int64()).to_pylist()
        return {path: at or 0 for path, at in zip(rows["path"].to_pylist(), times, strict=True)}

    def _table(self, name: str, files: Sequence[StoredFile]) -> TableMerge:
        self.left_bytes -= sum(file.size_bytes for file in files)
        for file in files:
            if not self.run.has(name, file):
                raise LakeError(f"{name}: {file.path} is not as it was written; build the lake again, then compact it")
        known = INGESTED.get(name)
        layout = TableLayout(self.run.schema(name), (), None, *((known.dictionaries, known.searched) if known else ()))
        return TableMerge(name, self.run.place(name), layout, files)

    def _new_part(self) -> str:
        self._count += 1
        return part_name(self.run.name, self._count)


@dataclass(frozen=True, slots=True)
class _SourceRows:
    """A part of sources, and the size of its largest file."""

    name: str
    size_bytes: int


_Sized = TypeVar("_Sized", StoredFile, _SourceRows)


def _is_small(file: StoredFile) -> bool:
    return file.size_bytes < SMALL_BYTES


def _groups(files: Sequence[_Sized]) -> Iterator[list[_Sized]]:
    """Neighbours that are merged: as many as have the size of a merged file together, and at least two."""
    group: list[_Sized] = []
    for file in files:
        group.append(file)
        if len(group) > 1 and sum(each.size_bytes for each in group) >= MERGED_BYTES:
            yield group
            group = []
    if len(group) > 1:
        yield group


def _may_grow(source: StoredSource) -> bool:
    is_recording = SUFFIXES.get(PurePosixPath(source.path).suffix) == SourceKind.PCAP
    return (source.is_open and not source.position) or is_recording


def _with_parts(source: StoredSource, renamed: Mapping[str, str]) -> StoredSource:
    parts = tuple(dict.fromkeys(renamed.get(part, part) for part in source.parts))
    return source if parts == source.parts else msgspec.structs.replace(source, parts=parts)
