"""Which sources a run has to read: new sources, and sources that have changed.

A source that cannot be opened is set aside with its reason, and the run goes on. The lake keeps the rows that it has of
such a source.

A source is known by its name. Its fingerprint is a hash over its size, its first and its last bytes. A source that has
changed is read again, and its new files replace the old ones. A segment that has grown, or that was sealed meanwhile,
is read from where the last run ended (`StoredSource.position`), if its first bytes are the same: its new rows get files
beside the old ones. A source that is gone stays in the lake: captures may be removed once they are read.

The trap: two files may have the same name (`part-00000.parquet`), and the rows of the second would replace the rows of
the first. So a file is taken for the source of its name in three cases, and refused in all others:

| the file | because |
|---|---|
| lies where the source lay | a source may be written anew |
| has the fingerprint of the source | captures may be moved and copied |
| begins with the first bytes of the source, and is no Parquet | segments and recordings grow; Parquet is written once |
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from hopwire.capture.file_faults import Fault, FaultKind, refused
from hopwire.capture.reader import HIDDEN
from hopwire.capture.segment import UNFINISHED_SUFFIX, sealed_path
from hopwire.capture.segment_index import INDEX_SUFFIX
from hopwire.capture.sources import SUFFIXES, Source, SourceKind, kind_by_content, list_sources, name_fault, parts_of
from hopwire.disk import shown_name
from hopwire.errors import LakeError
from hopwire.lake.bronze.forgotten import FORGOTTEN, forgotten_name
from hopwire.lake.bronze.sources import LEFT_ALONE
from hopwire.lake.manifest import EDGE_BYTES, Manifest, StoredSource, hash_of_bytes
from hopwire.lake.store import LakeRun
from hopwire.lake.worker import INGESTED, IngestTask, head_of
from hopwire.places import Place, RemotePath, is_empty, list_files, look_at, open_file, place_of, read_range

__all__ = ["FoundSource", "find_sources", "groups_of", "is_changed", "may_go_on", "tasks_of"]

SIGHTINGS = "bronze.sightings"


class FoundSource(NamedTuple):
    """A source and what it looks like at this moment."""

    source: Source
    stored: StoredSource


def find_sources(
    captures: Place | str, known: Mapping[str, StoredSource] | None = None
) -> tuple[dict[str, FoundSource], list[Fault]]:
    """Give the sources by name, and a fault for each file that cannot be read or is no source.

    A source in a store that is `known`, and has the version that it had, is not opened.
    """
    place = place_of(captures)
    if not _is_there(place):
        raise LakeError(f"{captures}: is not there; name a directory of captures")
    if _is_file(place) and kind_by_content(place) is None:
        raise LakeError(f"{captures}: is not a capture; expected an Arrow stream, Parquet or pcap")
    found: dict[str, FoundSource] = {}
    bad: list[Fault] = []
    for source in list_sources(place, is_summed_up=False):
        each = _looked_at(source, (known or {}).get(source.name))
        if isinstance(each, Fault):
            bad.append(each)
        else:
            found[each.source.name] = each
    if not found and bad:
        first = f"{shown_name(bad[0].path.name)}: {bad[0].detail}"
        raise LakeError(f"{captures}: has no captures that can be read; {first}")
    if not found:
        raise LakeError(f"{captures}: has no captures in it; {_where_else(place)}")
    return found, bad + _foreign(place)


def _where_else(place: Place) -> str:
    """Say where captures may be: in a directory below, as a simulated network has them, or yet to be written."""
    if not isinstance(place, RemotePath):
        below = sorted(each for each in place.iterdir() if each.is_dir()) if place.is_dir() else []
        if found := next((each for each in below if list_sources(each)), None):
            return f"they are in {found}"
    return f"a node writes them: hopwire node --capture {place}, or Node(capture=...)"


def _is_there(place: Place) -> bool:
    return not is_empty(place) or look_at(place) is not None if isinstance(place, RemotePath) else place.exists()


def _is_file(place: Place) -> bool:
    return look_at(place) is not None if isinstance(place, RemotePath) else place.is_file()


def _looked_at(source: Source, known: StoredSource | None = None) -> FoundSource | Fault:
    """A source as it is at this moment, or why the source cannot be read."""
    if unnamed := name_fault(source):
        return unnamed
    if source.fault:
        return source.fault
    if known and source.version and (known.path, known.version) == (_lies_at(source.path), source.version):
        return FoundSource(source, known)
    try:
        return _found(source)
    except OSError as error:
        return refused(source.path, error, source.size_bytes)


def _foreign(captures: Place) -> list[Fault]:
    """Files of other kinds; a file that has the ending of a source is a source, or will be at the next look."""
    files = [each for each in list_files(captures) if not each.said and not each.name.startswith(HIDDEN)]
    return [
        Fault(captures / each.name, FaultKind.FOREIGN, LEFT_ALONE, each.size_bytes)
        for each in files
        if (captures / each.name).suffix not in (*SUFFIXES, INDEX_SUFFIX, UNFINISHED_SUFFIX)
    ]


def _found(source: Source) -> FoundSource:
    try:
        return FoundSource(source, _stored(source))
    except FileNotFoundError:  # the segment was sealed a moment ago, which has changed its name
        (sealed,) = list_sources(sealed_path(source.path))
        return FoundSource(sealed, _stored(sealed))


def _stored(source: Source) -> StoredSource:
    size, first, last = _edges(source)
    fingerprint = hash_of_bytes(size.to_bytes(8, "little") + first + last)
    path = _lies_at(source.path)
    return StoredSource(
        size, fingerprint, is_open=source.is_open, path=path, head=hash_of_bytes(first), version=source.version
    )


def _edges(source: Source) -> tuple[int, bytes, bytes]:
    """The size of a source, its first and its last bytes."""
    if isinstance(source.path, RemotePath):
        size = source.size_bytes
        first = read_range(source.path, 0, min(size, EDGE_BYTES))
        return size, first, first if size <= EDGE_BYTES else read_range(source.path, size - EDGE_BYTES, size)
    with open_file(source.path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        first = file.read(min(size, EDGE_BYTES))
        file.seek(max(size - EDGE_BYTES, 0))
        return size, first, file.read(EDGE_BYTES)


def _lies_at(path: Place) -> str:
    """Where a source lies, by the name that it has once it is sealed."""
    return str(sealed_path(path if isinstance(path, RemotePath) else path.resolve()))


def tasks_of(
    found: Mapping[str, FoundSource],
    run: LakeRun,
    decoder: str,
    *,
    redecode: bool = False,
    ends: Mapping[str, int | None] | None = None,
) -> list[IngestTask]:
    """Give the sources that must be read: new and changed sources, or all sources if the decoder has changed.

    `ends` says up to where segments are read in this run; None is the end of the file.
    """
    before = run.before
    gone = {name: source for name, source in before.sources.items() if name.startswith(FORGOTTEN)}
    found = {name: each for name, each in found.items() if not (gone and _is_forgotten(each, gone))}
    for name, each in found.items():
        if name in before.sources:
            _refuse_another(each, before.sources[name])
    is_anew = redecode or before.decoder != decoder
    broken = _broken(run)
    changed = {
        name for name, each in found.items() if is_anew or name in broken or is_changed(each, before.sources.get(name))
    }
    again = set(before.sources) if is_anew else broken
    more = {name for name in changed - again if may_go_on(found[name].source, before.sources.get(name))}
    wanted = _with_sharers({*(changed - more), *(before.sources if is_anew else ())}, before)
    cut = {name for name in wanted if _is_cut(found.get(name), before.sources.get(name))} - broken
    until = {name: end for name, end in (ends or {}).items() if name in more - wanted or name not in before.sources}
    positions = {name: before.sources[name].position for name in more - wanted}
    tasks = [
        _task(found[name].source, until.get(name), positions.get(name, 0))
        for name in found
        if name not in cut and (name in wanted or name in more)
    ]
    return tasks + _from_bronze(run, wanted.difference(found) | cut)


def _is_forgotten(found: FoundSource, known: Mapping[str, StoredSource]) -> bool:
    """Whether a file is one of the sources that were forgotten, by its name or by its bytes."""
    is_known = any(source.fingerprint == found.stored.fingerprint for source in known.values())
    return forgotten_name(found.source.name) in known or is_known


def _is_cut(found: FoundSource | None, known: StoredSource | None) -> bool:
    """Whether rows of a source have left the lake: then the lake knows what stays of the rows that it has read."""
    if found is None or known is None or not known.is_cut:
        return False
    return found.stored.fingerprint == known.fingerprint or may_go_on(found.source, known)


def _task(source: Source, end: int | None, position: int = 0) -> IngestTask:
    size = max((end or source.size_bytes) - position, 0)
    is_partial, is_more = end is not None, position > 0
    path = str(place_of(source.path))
    return IngestTask(
        source.name,
        path,
        source.kind,
        size,
        source.is_open,
        position,
        end,
        is_more=is_more,
        is_partial=is_partial,
    )


def may_go_on(source: Source, known: StoredSource | None) -> bool:
    """Tell whether a source is a segment of which the lake has the beginning, so that only the rest has to be read.

    A FileNotFoundError says that the segment was sealed a moment ago, or is gone: who looks again finds out. To read it
    as a whole would be to read all others that share files with it, which is most of a lake.
    """
    if known is None or not known.position or source.kind != SourceKind.SEGMENT:
        return False
    return source.size_bytes >= known.position and _has_grown(source, known)


def _with_sharers(names: set[str], before: Manifest) -> set[str]:
    """The sources of these names and all sources that share a file with one of them: files are replaced whole."""
    if before.sources.keys().isdisjoint(names):
        return set(names)
    sharers: dict[str, list[str]] = defaultdict(list)
    for name, source in before.sources.items():
        for part in source.parts:
            sharers[part].append(name)
    wanted, waiting = set(names), list(names)
    for name in waiting:  # the list grows by the sources that share a file
        for part in before.sources[name].parts if name in before.sources else ():
            for other in sharers.pop(part, ()):
                if other not in wanted:
                    wanted.add(other)
                    waiting.append(other)
    return wanted


def is_changed(found: FoundSource, known: StoredSource | None) -> bool:
    """Tell whether a source has changed; a segment may be sealed by its name alone, with the same bytes as before."""
    if known is None or known.fingerprint != found.stored.fingerprint:
        return True
    return known.is_open and not found.stored.is_open


def _broken(run: LakeRun) -> set[str]:
    """The sources of which the lake has lost a file, or has a file that has changed since it was written."""
    lost = {file.part for table in INGESTED for file in run.files(table) if not run.has(table, file)}
    return {name for name, source in run.before.sources.items() if not lost.isdisjoint(source.parts)} if lost else set()


def _refuse_another(found: FoundSource, known: StoredSource) -> None:
    """Refuse a file that has the name of a source of the lake, and is another file."""
    is_there = known.path in ("", found.stored.path)
    if is_there or found.stored.fingerprint == known.fingerprint or _has_grown(found.source, known):
        return
    remedy = "rename this one, or build another lake"
    raise LakeError(f"{found.source.path}: the lake has another file of this name, {known.path}; {remedy}")


def _has_grown(source: Source, known: StoredSource) -> bool:
    if source.kind == SourceKind.PARQUET:
        return False
    return head_of(source.path, known.position or known.size_bytes) == known.head


def _from_bronze(run: LakeRun, names: Iterable[str]) -> list[IngestTask]:
    """Sources that are gone are read from bronze.sightings."""
    files = defaultdict(list)
    for file, path in zip(run.files(SIGHTINGS), run.paths(SIGHTINGS), strict=True):
        files[file.part].append((path, file.size_bytes))
    return [
        IngestTask(name, str(path), SourceKind.PARQUET, size, is_own=True)
        for name in sorted(names)
        for part in run.before.sources[name].parts
        for path, size in files[part]
    ]


def groups_of(tasks: Iterable[IngestTask], max_bytes: int) -> list[list[IngestTask]]:
    """Part large sources and put small sources together; the largest come first, so that no core waits for them."""
    groups: list[list[IngestTask]] = []
    room = 0
    parts = [part for task in tasks for part in _parts(task, max_bytes)]
    for task in sorted(parts, key=lambda task: (-task.size_bytes, task.name, task.begin)):
        if not groups or task.size_bytes > room:
            groups.append([])
            room = max_bytes
        groups[-1].append(task)
        room -= task.size_bytes
    return groups


def _parts(task: IngestTask, max_bytes: int) -> list[IngestTask]:
    """A task in parts; each part is taken to have the same number of bytes."""
    if task.size_bytes <= max_bytes:
        return [task]
    try:
        parts = parts_of(task.source, max_bytes)
    except FileNotFoundError:
        return [task]  # the segment was sealed a moment ago; the worker finds its new name, or says that it is gone
    size = task.size_bytes // len(parts)
    return [msgspec.structs.replace(task, begin=part.begin, end=part.end, size_bytes=size) for part in parts]
