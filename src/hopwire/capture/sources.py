"""One door to everything that holds sightings: which files there are, and their rows as batches of the capture.

| kind | files | rows |
|---|---|---|
| `segment` | `.arrows`, `.open.arrows` | as they were written |
| `parquet` | `.parquet` | frames, and the other columns of a sighting as far as they are there; see `parquet.py` |
| `pcap` | `.pcap`, `.pcapng` | messages of ZeroMQ between two addresses; see `recording/sightings.py` |

In a directory, the name of a file tells its kind. For a file that the user names, its first bytes tell the kind. A
`Source` is a small value that can be sent to another process and read there. What is wrong with a file is told to
`on_fault`, and the rows that can be read are given all the same. A symlink, a directory or a device that has the name
of a source is a source with a `fault` and without rows: it is never opened. Only a symlink that the user names is
followed.

`parts_of` cuts a large source into parts, so that several workers can read it at a time. A part is a `Source` too:

| kind | a part is |
|---|---|
| `segment` | some batches, from one position in the file to another; only the heads of batches are read to find them |
| `parquet` | some row groups, from one number to another |
| `pcap` | the whole file: where a message begins is known only after reading all before it |

The parts of a source have all its rows, each row once, in the order of the source. Where a batch is damaged, the rest
of its part is lost; other parts are not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from errno import ENOENT
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from hopwire.capture.arrow_stream import read_head, read_stream
from hopwire.capture.file_faults import Fault, FaultKind, refuse, refused
from hopwire.capture.parquet import MAGIC as PARQUET_MAGIC
from hopwire.capture.parquet import read_table
from hopwire.capture.parquet_footer import read_footer
from hopwire.capture.reader import HIDDEN, Segment, State, Wanted, indexed, segment_paths, summed_up
from hopwire.capture.recording.pcap import MAGICS as PCAP_MAGICS
from hopwire.capture.recording.sightings import read_pcap
from hopwire.capture.segment import END, OPEN_SUFFIX, SUFFIX, sealed_path
from hopwire.capture.segment_index import Summary
from hopwire.disk import open_regular
from hopwire.errors import CaptureError
from hopwire.places import FoundFile, Place, RemotePath, list_files, look_at, named_place, open_file

__all__ = [
    "Source",
    "SourceKind",
    "kind_by_content",
    "list_sources",
    "name_fault",
    "parts_of",
    "read_placed",
    "read_source",
    "survey",
]

AnyPath: TypeAlias = Place | str
OnFault: TypeAlias = Callable[[Fault], None]


class SourceKind(StrEnum):
    """What kind of file it is."""

    SEGMENT = "segment"
    PARQUET = "parquet"
    PCAP = "pcap"


@dataclass(frozen=True, slots=True)
class Source:
    """One file that holds sightings."""

    path: Place
    kind: SourceKind
    size_bytes: int
    is_open: bool = False  # the writer may be at work: later the file may have more rows
    summary: Summary | None = field(default=None, hash=False)  # rows, times and nodes, where there is an index
    begin: int = 0  # where a part begins: a position in a segment, a row group of Parquet
    end: int | None = None  # where a part ends; None is the end of the file
    fault: Fault | None = None  # why the file cannot be opened
    version: str = ""  # of a file in a store: changes with its content

    @property
    def name(self) -> str:
        """The name that the file has once it is sealed: the same in every directory and at any time."""
        return sealed_path(self.path).name


def name_fault(source: Source) -> Fault | None:
    """Say what is wrong with the name of a source where a table is to have it; None if nothing is."""
    try:
        source.name.encode()
    except UnicodeEncodeError:
        return Fault(source.path, FaultKind.UNSUITABLE, "its name is not UTF-8; rename it", source.size_bytes)
    return None


# fmt: off
SUFFIXES = {
    SUFFIX:     SourceKind.SEGMENT,
    ".parquet": SourceKind.PARQUET,
    ".pcap":    SourceKind.PCAP,
    ".pcapng":  SourceKind.PCAP,
}
MAGICS = {
    END[:4]: SourceKind.SEGMENT,
    PARQUET_MAGIC: SourceKind.PARQUET,
    **dict.fromkeys(PCAP_MAGICS, SourceKind.PCAP),
}
# fmt: on
MAGIC_BYTES = 4


def list_sources(path: AnyPath, *, is_summed_up: bool = True) -> tuple[Source, ...]:
    """Give the sources of a directory in the order of their names, or the file itself; only indexes are read.

    In a store, each index costs a request: whoever does not need them leaves them out (`is_summed_up=False`).
    """
    path = named_place(path)
    if isinstance(path, RemotePath):
        return _remote_sources(path, is_summed_up)
    if not path.is_dir():
        path = path.resolve() if path.is_symlink() and path.exists() else path
        return (_source(path, kind_by_content(path) or SUFFIXES.get(path.suffix, SourceKind.SEGMENT)),)
    others = [kind for kind in SUFFIXES if kind != SUFFIX]
    files: list[Place] = [file for file in path.iterdir() if file.suffix in others and not file.name.startswith(HIDDEN)]
    files += segment_paths(path)
    return tuple(
        _source(file, SUFFIXES[file.suffix]) for file in sorted(files, key=lambda file: sealed_path(file).name)
    )


def _remote_sources(place: RemotePath, is_summed_up: bool) -> tuple[Source, ...]:
    """The sources in a place of a store, by one listing; or the one object that is named."""
    files = {each.name: each for each in list_files(place)}
    if not files:
        if (found := look_at(place)) is None:
            raise FileNotFoundError(ENOENT, "is not there", str(place))
        kind = kind_by_content(place) or SUFFIXES.get(place.suffix, SourceKind.SEGMENT)
        return (_remote_source(place, kind, found, is_summed_up),)
    names = {name for name in files if (place / name).suffix in SUFFIXES and not name.startswith(HIDDEN)}
    chosen = {sealed_path(place / name).name: name for name in sorted(names, key=lambda name: OPEN_SUFFIX not in name)}
    return tuple(
        _remote_source(place / name, SUFFIXES[(place / name).suffix], files[name], is_summed_up)
        for _, name in sorted(chosen.items())
    )


def _remote_source(place: RemotePath, kind: SourceKind, found: FoundFile, is_summed_up: bool) -> Source:
    summary = indexed(place, found.size_bytes) if is_summed_up else None
    is_open = place.name.endswith(OPEN_SUFFIX)
    return Source(place, kind, found.size_bytes, is_open, summary, version=found.version)


def kind_by_content(path: AnyPath) -> SourceKind | None:
    """Tell by its first bytes what kind of source a file is; None if it is no source. The user has named the file."""
    with open_file(named_place(path), is_named=True) as file:
        return MAGICS.get(file.read(MAGIC_BYTES))


def survey(source: Source) -> Segment:
    """Sum up the rows of a source; a source without an index is read to its end."""
    if source.summary is not None:
        return Segment(source.path, State.SEALED, source.size_bytes, source.summary)
    return summed_up(
        source.path, source.size_bytes, lambda on_fault: (batch for batch, _ in _batches(source, on_fault))
    )


def read_source(
    source: Source,
    *,
    since: int | None = None,
    until: int | None = None,
    nodes: Collection[bytes] | None = None,
    columns: Sequence[str] | None = None,
    on_fault: OnFault = refuse,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a source in batches of `SCHEMA`: seen from `since` on and before `until`, by one of the nodes.

    With `columns` a batch has only these columns, in this order. The options are those of `read_capture`.
    """
    wanted = Wanted.of(since, until, nodes, columns)
    return _read(source, wanted, on_fault)


def read_placed(
    source: Source, on_fault: OnFault = refuse, together_bytes: int = 0
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give the rows of a source in batches, each with the position behind it; 0 where a source is read whole only.

    Small batches of a source that is sealed become one of at most `together_bytes`.
    """
    return _batches(source, on_fault, 0 if source.is_open else together_bytes)


def _read(source: Source, wanted: Wanted, on_fault: OnFault) -> Iterator[pa.RecordBatch]:
    if not wanted.covers(source.summary):
        return
    for batch, _ in _batches(source, on_fault):
        rows = wanted.rows(batch)
        if rows.num_rows:
            yield rows


def _batches(source: Source, on_fault: OnFault, together_bytes: int = 0) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give the batches of a source with their positions; what the system refuses is a fault of this source alone."""
    if source.fault:
        return on_fault(source.fault)
    try:
        yield from READERS[source.kind](source, on_fault, together_bytes)
    except FileNotFoundError:
        raise  # the file is gone: the list of sources is no longer right
    except OSError as error:
        on_fault(refused(source.path, error, source.size_bytes))


def _read_segment(source: Source, on_fault: OnFault, together_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    return read_stream(source.path, on_fault, source.begin, source.end, together_bytes)


def _read_table(source: Source, on_fault: OnFault, _: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    return ((batch, 0) for batch in read_table(source.path, on_fault, source.begin, source.end))


def _read_pcap(source: Source, on_fault: OnFault, _: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    return ((batch, 0) for batch in read_pcap(source.path, on_fault))


READERS: dict[SourceKind, Callable[[Source, OnFault, int], Iterator[tuple[pa.RecordBatch, int]]]] = {
    SourceKind.SEGMENT: _read_segment,
    SourceKind.PARQUET: _read_table,
    SourceKind.PCAP: _read_pcap,
}


def _source(path: Place, kind: SourceKind) -> Source:
    found = look_at(path)
    if found is None:
        path = sealed_path(path)
        found = look_at(path)
    if found is None:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path))
    if found.said:
        return Source(path, kind, 0, fault=Fault(path, FaultKind.NOT_REGULAR, found.said))
    return Source(path, kind, found.size_bytes, path.name.endswith(OPEN_SUFFIX), indexed(path, found.size_bytes))


# -- a large source in parts


def parts_of(source: Source, max_bytes: int) -> list[Source]:
    """Give a source in parts of about `max_bytes`; a source that is not larger, or cannot be cut, stays whole."""
    find = END_FINDERS.get(source.kind)
    if find is None or source.size_bytes <= max_bytes or source.fault or isinstance(source.path, RemotePath):
        return [source]  # to find the batches of a segment in a store takes a request for each
    ends = list(_spaced(find(source.path), max_bytes, source.begin, source.end))
    begins = [source.begin, *ends]
    return [replace(source, begin=begin, end=end) for begin, end in zip(begins, [*ends, source.end], strict=True)]


def _spaced(ends: Iterable[tuple[int, int]], max_bytes: int, first: int, until: int | None) -> Iterator[int]:
    """Choose the ends of parts among the ends of batches; what follows the last end is a part too."""
    begin, last = 0, None
    for end, size in ends:
        if end <= first:  # of a source that is a part itself
            begin = size
            continue
        if until is not None and end >= until:
            return
        if last is not None and size - begin > max_bytes:
            yield last[0]
            begin = last[1]
        last = end, size


# -- where batches end: as the reader of the kind counts, and in bytes


def _batch_ends(path: Path) -> Iterator[tuple[int, int]]:
    with open_regular(path) as file:
        size = file.seek(0, 2)
        position = 0
        file.seek(position)
        while position < size and (head := read_head(file)) is not None:
            position += head.size_bytes
            file.seek(position)
            yield position, position


def _row_group_ends(path: Path) -> Iterator[tuple[int, int]]:
    try:
        with open_regular(path) as file:
            groups = read_footer(file)
    except (CaptureError, OSError):
        return  # the reader of the source says what is wrong
    size = 0
    for number, group in enumerate(groups):
        size += group.size_bytes
        yield number + 1, size


END_FINDERS: dict[SourceKind, Callable[[Path], Iterator[tuple[int, int]]]] = {
    SourceKind.SEGMENT: _batch_ends,
    SourceKind.PARQUET: _row_group_ends,
}
