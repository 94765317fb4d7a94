"""Which sources a run has to read: those that are new, and those that are not what they were.

What has the name of a source and cannot be opened is set aside with its reason: it ends no run. What the lake has of
it, the lake keeps.

A source is known by its name; its fingerprint is a hash over its size, its first and its last bytes. A segment that was
open and has grown, or was sealed meanwhile, is therefore read again, and the files it came to are replaced. Sources
that are gone stay in the lake: captures may be removed once they are read.

The trap: a file that only has the name of a source (`part-00000.parquet`) would take the place of its rows. So a file
is taken for the source of its name in three cases, and refused in all others:

| it | because |
|---|---|
| lies where the source lay | it was written anew |
| has its fingerprint | captures may be moved and copied |
| begins with its first bytes, and is no Parquet | segments and recordings grow at their end; Parquet is written once |
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from hopwire.capture.file_faults import Fault, FaultKind, refused
from hopwire.capture.segment import UNFINISHED_SUFFIX, sealed_path
from hopwire.capture.segment_index import INDEX_SUFFIX
from hopwire.capture.sources import HIDDEN, SUFFIXES, Source, SourceKind, kind_by_content, list_sources, parts_of
from hopwire.disk import is_regular, local_path, open_regular, shown_name
from hopwire.errors import LakeError
from hopwire.lake.manifest import Manifest, StoredSource
from hopwire.lake.store import LakeRun, inside
from hopwire.lake.worker import INGESTED, IngestTask

__all__ = ["FoundSource", "find_sources", "groups_of", "tasks_of"]

LEFT_ALONE = "is not a capture and was left alone"
EDGE_BYTES = 64 * 1024  # a segment begins with its first rows and ends with its last: what differs, differs there


class FoundSource(NamedTuple):
    """A source and what it looks like at this moment."""

    source: Source
    stored: StoredSource


def find_sources(captures: Path | str) -> tuple[dict[str, FoundSource], list[Fault]]:
    """Give what there is to read, by name, and what cannot be read or is something else."""
    place = local_path(captures)
    if not place.exists():
        raise LakeError(f"{captures}: is not there; name a directory of captures")
    if place.is_file() and kind_by_content(place) is None:
        raise LakeError(f"{captures}: is not a capture; expected an Arrow stream, Parquet or pcap")
    found: dict[str, FoundSource] = {}
    bad: list[Fault] = []
    for source in list_sources(place):
        each = _looked_at(source)
        if isinstance(each, Fault):
            bad.append(each)
        else:
            found[each.source.name] = each
    if not found and bad:
        first = f"{shown_name(bad[0].path.name)}: {bad[0].detail}"
        raise LakeError(f"{captures}: has no captures that can be read; {first}")
    if not found:
        raise LakeError(f"{captures}: has no captures in it; a node writes them: Node(capture={str(captures)!r})")
    return found, bad + _foreign(place)


def _looked_at(source: Source) -> FoundSource | Fault:
    """What a source looks like, or why it cannot be read."""
    try:
        source.name.encode()
    except UnicodeEncodeError:
        return Fault(source.path, FaultKind.UNSUITABLE, "its name is not UTF-8; rename it", source.size_bytes)
    if source.fault:
        return source.fault
    try:
        return _found(source)
    except OSError as error:
        return refused(source.path, error, source.size_bytes)


def _foreign(captures: Path) -> list[Fault]:
    """Files of other kinds; whatever ends as a source does is one, or will be at the next look."""
    if not captures.is_dir():
        return []
    files = [path for path in sorted(captures.iterdir()) if is_regular(path) and not path.name.startswith(HIDDEN)]
    return [
        Fault(path, FaultKind.FOREIGN, LEFT_ALONE, path.lstat().st_size)
        for path in files
        if path.suffix not in (*SUFFIXES, INDEX_SUFFIX, UNFINISHED_SUFFIX)
    ]


def _found(source: Source) -> FoundSource:
    try:
        return FoundSource(source, _stored(source))
    except FileNotFoundError:  # it was sealed a moment ago, which has changed its name
        (sealed,) = list_sources(sealed_path(source.path))
        return FoundSource(sealed, _stored(sealed))


def _stored(source: Source) -> StoredSource:
    with open_regular(source.path) as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(min(size, EDGE_BYTES))
        file.seek(max(size - EDGE_BYTES, 0))
        last = file.read(EDGE_BYTES)
    fingerprint = _hash(size.to_bytes(8, "little") + first + last)
    path = str(sealed_path(source.path.resolve()))
    return StoredSource(size, fingerprint, is_open=source.is_open, path=path, head=_hash(first))


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def tasks_of(
    found: Mapping[str, FoundSource], run: LakeRun, decoder: str, *, redecode: bool = False
) -> list[IngestTask]:
    """Give the sources that must be read: new ones and changed ones, or all if rows would come out otherwise."""
    before = run.before
    for name, each in found.items():
        if name in before.sources:
            _refuse_another(each, before.sources[name])
    is_anew = redecode or before.decoder != decoder
    broken = _broken(run)
    tasks = [
        IngestTask(
            name, str(each.source.path.absolute()), each.source.kind, each.source.size_bytes, each.source.is_open
        )
        for name, each in found.items()
        if is_anew or name in broken or _is_new(each, before)
    ]
    return tasks + (_from_bronze(before, run.lake, found) if is_anew else [])


def _is_new(found: FoundSource, before: Manifest) -> bool:
    known = before.sources.get(found.source.name)
    return known is None or known.fingerprint != found.stored.fingerprint


def _broken(run: LakeRun) -> set[str]:
    """The sources of which the lake has lost a file, or has it otherwise than it was written."""
    tables = [run.before.tables[name] for name in INGESTED if name in run.before.tables]
    return {file.source for table in tables for file in table.files if not run.has(file)}


def _refuse_another(found: FoundSource, known: StoredSource) -> None:
    """Refuse a file that only has the name of a source that the lake knows."""
    is_there = known.path in ("", found.stored.path)
    if is_there or found.stored.fingerprint == known.fingerprint or _has_grown(found.source, known):
        return
    remedy = "rename this one, or build another lake"
    raise LakeError(f"{found.source.path}: the lake has another file of this name, {known.path}; {remedy}")


def _has_grown(source: Source, known: StoredSource) -> bool:
    if source.kind == SourceKind.PARQUET:
        return False
    with open_regular(source.path) as file:
        return _hash(file.read(min(known.size_bytes, EDGE_BYTES))) == known.head


def _from_bronze(before: Manifest, lake: Path, found: Container[str]) -> list[IngestTask]:
    """Sources that are gone are read from what the lake has of them."""
    files = before.tables["bronze.sightings"].files if "bronze.sightings" in before.tables else ()
    return [
        IngestTask(file.source, str(inside(lake, file.path)), SourceKind.PARQUET, file.size_bytes)
        for file in files
        if file.source not in found
    ]


def groups_of(tasks: Iterable[IngestTask], max_bytes: int) -> list[list[IngestTask]]:
    """Part large sources and put small ones together; the largest come first, so that none is left to the end."""
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
    """A task in parts, the bytes shared out evenly among them."""
    if task.size_bytes <= max_bytes:
        return [task]
    try:
        parts = parts_of(task.source, max_bytes)
    except FileNotFoundError:
        return [task]  # sealed a moment ago; whoever reads it finds it under its new name, or says that it is gone
    size = task.size_bytes // len(parts)
    return [msgspec.structs.replace(task, begin=part.begin, end=part.end, size_bytes=size) for part in parts]
