"""Compaction: many small files of a lake become few; no row changes, and no reader notices.

Every build adds files, and a build every minute makes 1,440 files a day in each table. Small files cost every reader.

| small files of a table, neighbours in time | what is done |
|---|---|
| two or more, of days before the last day of the table | they become few: most likely nothing more comes |
| more than 32, of the last day | the same |
| any other | nothing |

- A file is small if it has less than 16 MB. Neighbours are merged until they have 64 MB together, so a merged file is
  about one time, and is found by it. Example: a lake of a year with 10 kB a day has one file of the past in each table,
  and one with 50 MB a day has a file for each day. Rows are sorted by day, and those of a day by flow.
- Whoever has to go on, as a follower does, merges some groups at a time (`most_bytes`), and the rest later.
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
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import TypeVar

import msgspec
import pyarrow as pa

from hopwire.capture.sources import SUFFIXES, SourceKind
from hopwire.errors import LakeError
from hopwire.lake.delta_log import DATE
from hopwire.lake.manifest import Manifest, StoredFile, StoredSource, part_name
from hopwire.lake.parquet_output import TableLayout, TableOutput
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import UNREADABLE, LakeRun, dataset_of, log_of, read_manifest, writing
from hopwire.lake.worker import INGESTED
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place

__all__ = ["Compacted", "compact"]

MAX_FILES = 32  # small ones of the last day of a table
SMALL_BYTES = 16 * MEBIBYTE
MERGED_BYTES = 64 * MEBIBYTE  # merged files are not larger by more than one small file; so memory is bounded
BATCH_ROWS = 65_536
# fmt: off
SORTED_BY = {  # the order of the rows of a merged file; rows of other tables keep theirs
    "bronze.sightings":  ("node", "incarnation", "sequence"),
    "silver.messages":   ("correlation_id", "seen_at_ns"),
    "silver.quarantine": ("node", "incarnation", "sequence"),
    "silver.hops":       ("flow_id", "left_at_ns"),
    "gold.requests":     ("flow_id", "asked_at_ns"),
    "gold.flows":        ("flow_id",),
    "gold.links":        ("minute", "from_node", "to_node"),
    "gold.latencies":    ("minute", "identity"),
    "gold.security":     ("minute", "sender"),
}
# fmt: on
TIMES = ("seen_at_ns", "left_at_ns", "asked_at_ns", "started_at_ns", "minute")  # files are put in order by one of these


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    manifest: Manifest
    before: Mapping[str, int]  # how many files each table had that was changed
    after: Mapping[str, int]  # how many it has now
    has_more: bool = False  # whether files are left because so much was to be merged at most


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
        run.refuse_days()
        compaction = _Compaction(run, settings, most_bytes)
        compaction.merge_tables()
        sources = compaction.merge_parts()  # last: they are most of the bytes, and must not leave the others waiting
        before = {name: run.before.tables[name].file_count for name in run.tables}
        after = {name: change.stored.file_count for name, change in run.tables.items()}
        manifest = run.before
        if run.tables:
            manifest = run.publish(sources, run.before.decoder, run.before.domains)
            forget_old(run.lake, settings)
    return Compacted(manifest, before, after, compaction.has_more)


class _Compaction:
    """One compaction on its way."""

    def __init__(self, run: LakeRun, settings: LakeSettings, most_bytes: float) -> None:
        self._run, self._settings = run, settings
        self._count = 0
        self._left_bytes = most_bytes
        self.has_more = False

    # -- tables whose files stand alone

    def merge_tables(self) -> None:
        """Merge the files of all tables that the ingest does not write."""
        for name in self._run.before.tables:
            if name not in INGESTED:
                self._merge_table(name)

    def _merge_table(self, name: str) -> None:
        for some in self._crowded(name, self._closed(name)):
            for group in self._afforded(some):
                self._run.swap(name, group, self._merged(name, group, self._new_part()))

    def _closed(self, name: str) -> list[StoredFile]:
        """The files of a table without those of open flows."""
        step = self._run.before.tables[name].step
        open_part = step.open_part if step else ""
        return [file for file in self._run.files(name) if file.part != open_part]

    # -- tables of the ingest, whose files are parts of sources

    def merge_parts(self) -> Mapping[str, StoredSource]:
        """Merge parts of sealed sources in all tables that have them; give the sources, which know their new parts."""
        sources = self._run.before.sources
        names = [name for name in INGESTED if name in self._run.before.tables]
        files = {name: self._run.files(name) for name in names}
        crowded = {file.part for name in names for some in self._crowded(name, files[name]) for file in some}
        growing = {part for source in sources.values() if _may_grow(source) for part in source.parts}
        known = {part for source in sources.values() for part in source.parts}
        parts = self._parts_in_time(files, (crowded & known) - growing)
        renamed: dict[str, str] = {}
        for group in self._afforded(parts):
            new = self._new_part()
            old = {part.name for part in group}
            for name in names:
                own = [file for file in files[name] if file.part in old]
                self._run.swap(name, own, self._merged(name, own, new))
            renamed |= dict.fromkeys(old, new)
        return {name: _with_parts(source, renamed) for name, source in sources.items()}

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
            if self._left_bytes <= 0:
                self.has_more = True
                return
            yield group

    def _crowded(self, name: str, files: Iterable[StoredFile]) -> Iterator[list[StoredFile]]:
        """The small files of a table that are to be merged, neighbours in time together, by the table above."""
        begins, ends = self._begins(name), self._run.ranges_before(name, DATE)
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
        rows = log_of(self._run.lake, name).statistics(self._run.before.tables[name].version)
        column = next((f"min.{time}" for time in TIMES if f"min.{time}" in rows.column_names), None)
        if column is None:
            return {}
        times = rows[column].cast(pa.int64()).to_pylist()
        return {path: at or 0 for path, at in zip(rows["path"].to_pylist(), times, strict=True)}

    def _merged(self, name: str, files: Sequence[StoredFile], part: str) -> list[StoredFile]:
        """Write the rows of files into one file."""
        if not files:
            return []
        run, schema = self._run, self._run.schema(name)
        self._left_bytes -= sum(file.size_bytes for file in files)
        for file in files:
            if not run.has(name, file):
                raise LakeError(f"{name}: {file.path} is not as it was written; build the lake again, then compact it")
        known = INGESTED.get(name)
        layout = TableLayout(schema, (), None, *((known.dictionaries, known.searched) if known else ()))
        output = TableOutput(run.place(name), part, layout, self._settings, is_one_file=True)
        try:
            rows = dataset_of(log_of(run.lake, name).place, files, schema).to_table()
        except UNREADABLE as error:
            raise LakeError(f"{name}: {files[0].path} or its neighbours cannot be read ({error})") from None
        if order := [column for column in (DATE, *SORTED_BY.get(name, ())) if column in schema.names]:
            rows = rows.sort_by([(column, "ascending") for column in order])
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            output.add_stored(batch)
        return output.close()

    def _new_part(self) -> str:
        self._count += 1
        return part_name(self._run.name, self._count)


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
