"""Which sources a run has to read: those that are new, and those that are not what they were.

A source is known by its name; its fingerprint is a hash over its size, its first and its last bytes. A segment that was
open and has grown, or was sealed meanwhile, is therefore read again, and the files it came to are replaced. Sources
that are gone stay in the lake: captures may be removed once they are read.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from hopwire.capture.faults import Fault, FaultKind
from hopwire.capture.parts import parts_of
from hopwire.capture.segment import UNFINISHED_SUFFIX
from hopwire.capture.sources import Source, SourceKind, list_sources
from hopwire.capture.summary import INDEX_SUFFIX
from hopwire.errors import LakeError
from hopwire.lake.manifest import Manifest, StoredSource
from hopwire.lake.store import Run
from hopwire.lake.worker import Task

__all__ = ["Found", "find_sources", "groups_of", "tasks_of"]

EDGE_BYTES = 64 * 1024  # a segment begins with its first rows and ends with its last: what differs, differs there


class Found(NamedTuple):
    """A source and what it looks like at this moment."""

    source: Source
    stored: StoredSource


def find_sources(captures: Path | str) -> tuple[dict[str, Found], list[Fault]]:
    """Give what there is to read, by name, and the files that are something else."""
    captures = Path(captures)
    try:
        sources = list_sources(captures)
    except FileNotFoundError:
        raise LakeError(f"{captures}: is not there; name a directory of captures") from None
    found = {source.name: Found(source, _stored(source)) for source in sources}
    if not found:
        raise LakeError(f"{captures}: has no captures in it; a node writes them: Node(capture={str(captures)!r})")
    return found, _foreign(captures, sources)


def _foreign(captures: Path, sources: Iterable[Source]) -> list[Fault]:
    if not captures.is_dir():
        return []
    known = {source.path.name for source in sources}
    others = [path for path in sorted(captures.iterdir()) if path.is_file() and path.name not in known]
    return [
        Fault(path, FaultKind.FOREIGN, "is not a capture and was left alone", path.stat().st_size)
        for path in others
        if path.suffix not in (INDEX_SUFFIX, UNFINISHED_SUFFIX) and not path.name.startswith((".", "_"))
    ]


def _stored(source: Source) -> StoredSource:
    with open(source.path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(EDGE_BYTES)
        file.seek(max(size - EDGE_BYTES, 0))
        last = file.read(EDGE_BYTES)
    digest = blake2b(size.to_bytes(8, "little") + first + last, digest_size=16).hexdigest()
    return StoredSource(size, digest, is_open=source.is_open)


def tasks_of(found: Mapping[str, Found], run: Run, decoder: str, *, redecode: bool = False) -> list[Task]:
    """Give the sources that must be read: new ones and changed ones, or all if rows would come out otherwise."""
    before = run.before
    is_anew = redecode or before.decoder != decoder
    tasks = [
        Task(name, str(each.source.path.absolute()), each.source.kind, each.source.size_bytes, each.source.is_open)
        for name, each in found.items()
        if is_anew or name not in before.sources or before.sources[name].fingerprint != each.stored.fingerprint
    ]
    return tasks + (_from_bronze(before, run.lake, found) if is_anew else [])


def _from_bronze(before: Manifest, lake: Path, found: Container[str]) -> list[Task]:
    """Sources that are gone are read from what the lake has of them."""
    files = before.tables["bronze.sightings"].files if "bronze.sightings" in before.tables else ()
    return [
        Task(file.source, str((lake / file.path).absolute()), SourceKind.PARQUET, file.size_bytes)
        for file in files
        if file.source not in found
    ]


def groups_of(tasks: Iterable[Task], max_bytes: int) -> list[list[Task]]:
    """Part large sources and put small ones together; the largest come first, so that none is left to the end."""
    groups: list[list[Task]] = []
    room = 0
    parts = [part for task in tasks for part in _parts(task, max_bytes)]
    for task in sorted(parts, key=lambda task: (-task.size_bytes, task.name, task.begin)):
        if task.size_bytes > room:
            groups.append([])
            room = max_bytes
        groups[-1].append(task)
        room -= task.size_bytes
    return groups


def _parts(task: Task, max_bytes: int) -> list[Task]:
    """A task in parts, the bytes shared out evenly among them."""
    if task.size_bytes <= max_bytes:
        return [task]
    parts = parts_of(task.source, max_bytes)
    size = task.size_bytes // len(parts)
    return [msgspec.structs.replace(task, begin=part.begin, end=part.end, size_bytes=size) for part in parts]
