"""The reader of a capture: which segments there are, and their rows by time and node.

Segments come in the order of their names, which is the order of their first rows. Within a segment, rows come as they
were written. A sealed segment is not opened if its index says that it has no rows that are asked for.

`follow_capture` goes on with rows that are written later. Each round lists the directory, and reads every segment from
where the last round stopped. A sealed segment that was read to its end is not opened again. The caller decides how long
to wait between two rounds. The last batch of an open segment waits for a later round if it tells only of a disk that
refused: a writer in front of a full disk writes such a batch anew as long as sightings wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from errno import ENOENT
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.arrow_stream import read_stream
from hopwire.capture.file_faults import Fault, FaultKind, refuse
from hopwire.capture.segment import OPEN_SUFFIX, SUFFIX, index_path, sealed_path
from hopwire.capture.segment_index import Summary, read_index
from hopwire.errors import CaptureError
from hopwire.model.sighting_batch import SCHEMA
from hopwire.places import Place, RemotePath, list_files, look_at, named_place

__all__ = [
    "HIDDEN",
    "Segment",
    "State",
    "Wanted",
    "follow_capture",
    "indexed",
    "list_segments",
    "read_capture",
    "segment_paths",
    "summed_up",
]

AnyPath: TypeAlias = Place | str
HIDDEN = (".", "_")  # how Spark and others mark files that are not to be read


class State(StrEnum):
    """The state of a segment, as its name and its end tell."""

    SEALED = "sealed"
    OPEN = "open"  # the writer is at work, or was killed between two batches
    CUT_OFF = "cut off"  # the file ends within a batch
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a capture."""

    path: Place
    state: State
    size_bytes: int
    summary: Summary
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are asked for; `until` is not included."""

    since: int | None
    until: int | None
    nodes: frozenset[bytes] | None
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        since: int | None,
        until: int | None,
        nodes: Collection[bytes] | None,
        columns: Sequence[str] | None,
    ) -> Wanted:
        """Give what a caller asks for, or refuse a column that does not exist."""
        for name in columns or ():
            if name not in SCHEMA.names:
                raise CaptureError(f"no column {name!r:.40}; there are {', '.join(SCHEMA.names)}")
        return cls(since, until, None if nodes is None else frozenset(nodes), tuple(columns or SCHEMA.names))

    def covers(self, summary: Summary | None) -> bool:
        """Tell whether a segment may have rows that are asked for; a segment without a summary may."""
        if summary is None:
            return True
        return summary.overlaps(self.since, self.until) and summary.has_any(self.nodes)

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give the rows and columns that are asked for."""
        if self.since is not None:
            batch = batch.filter(pc.greater_equal(batch.column("seen_at_ns"), self.since))
        if self.until is not None:
            batch = batch.filter(pc.less(batch.column("seen_at_ns"), self.until))
        if self.nodes is not None:
            batch = batch.filter(pc.is_in(batch.column("node"), pa.array(sorted(self.nodes), pa.binary())))
        return batch.select(self.columns)


def list_segments(directory: AnyPath) -> list[Segment]:
    """Give the segments of a directory, in the order of their names; a segment without an index is read to its end."""
    return [_segment(path) for path in segment_paths(directory)]


def read_capture(
    paths: AnyPath | Iterable[AnyPath],
    *,
    since: int | None = None,
    until: int | None = None,
    nodes: Collection[bytes] | None = None,
    columns: Sequence[str] | None = None,
    on_fault: Callable[[Fault], None] = refuse,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of directories and files: seen from `since` on and before `until`, by one of the nodes.

    What is wrong with a file is told to `on_fault`. By default a file that is no capture raises a CaptureError, and a
    file that is cut off is read as far as it goes. The files are listed once, at the moment of the call.
    """
    wanted = Wanted.of(since, until, nodes, columns)
    given = [paths] if isinstance(paths, str | Path | RemotePath) else paths
    files = [file for path in given for file in segment_paths(path)]
    return _read(files, wanted, on_fault)


def _read(files: list[Place], wanted: Wanted, on_fault: Callable[[Fault], None]) -> Iterator[pa.RecordBatch]:
    for path in files:
        if wanted.covers(indexed(path)):
            for batch, _ in read_stream(path, on_fault):
                rows = wanted.rows(batch)
                if rows.num_rows:
                    yield rows


def segment_paths(path: AnyPath) -> list[Place]:
    """Give the segments of a directory in the order of their names, or the file itself."""
    path = named_place(path)
    if isinstance(path, RemotePath):
        names = {each.name for each in list_files(path) if _is_segment(each.name)}
        if not names and look_at(path) is None:
            raise FileNotFoundError(ENOENT, "is not there", str(path))
        return _once(path, names) if names else [path]
    if not path.is_dir():
        path.stat()  # raises FileNotFoundError if there is no such file
        return [path.resolve() if path.is_symlink() else path]  # a symlink that is named means the file it points to
    # A segment that is renamed while the directory is read may be missed, or be seen under both names: so read the
    # directory twice, and take each segment once.
    names = {entry.name for _ in range(2) for entry in path.iterdir() if _is_segment(entry.name)}
    return _once(path, names)


def _is_segment(name: str) -> bool:
    return name.endswith(SUFFIX) and not name.startswith(HIDDEN)


def _once(place: Place, names: set[str]) -> list[Place]:
    """The segments of these names in the order of time; a sealed segment stands for the open one of its name."""
    sealed = {name for name in names if not name.endswith(OPEN_SUFFIX)}
    once = {sealed_path(place / name).name: place / name for name in (*(names - sealed), *sealed)}
    return [file for _, file in sorted(once.items())]


def indexed(path: Place, size_bytes: int | None = None) -> Summary | None:
    """Give the summary in the index of a sealed segment, if there is an index; the size may be known already."""
    if path.name.endswith(OPEN_SUFFIX) or not path.name.endswith(SUFFIX):
        return None
    if size_bytes is None:
        found = look_at(path)
        if found is None or found.said:
            return None
        size_bytes = found.size_bytes
    index = read_index(index_path(path), size_bytes)
    return index.summary if index else None


def _segment(path: Place) -> Segment:
    found = look_at(path)
    if found is None:
        path = sealed_path(path)
        found = look_at(path)
    if found is None:
        raise FileNotFoundError(ENOENT, "is not there", str(path))
    if found.said:
        return Segment(path, State.UNREADABLE, 0, Summary(), Fault(path, FaultKind.NOT_REGULAR, found.said))
    size, summary = found.size_bytes, indexed(path, found.size_bytes)
    if summary is not None:
        return Segment(path, State.SEALED, size, summary)
    return summed_up(path, size, lambda on_fault: (batch for batch, _ in read_stream(path, on_fault)))


def summed_up(
    path: Place, size_bytes: int, read: Callable[[Callable[[Fault], None]], Iterable[pa.RecordBatch]]
) -> Segment:
    """Read a file to its end, and sum up its rows; of several faults the first is given."""
    faults: list[Fault] = []
    summary = Summary()
    for batch in read(faults.append):
        summary = summary.plus(batch)
    return Segment(path, _state(path, faults), size_bytes, summary, next(iter(faults), None))


def _state(path: Place, faults: list[Fault]) -> State:
    if any(fault.is_serious for fault in faults):
        return State.UNREADABLE
    if any(fault.kind == FaultKind.CUT_OFF for fault in faults):
        return State.CUT_OFF
    return State.OPEN if path.name.endswith(OPEN_SUFFIX) else State.SEALED


# -- a capture as it grows


def follow_capture(
    directory: AnyPath,
    wait: Callable[[], bool],
    *,
    since: int | None = None,
    until: int | None = None,
    nodes: Collection[bytes] | None = None,
    columns: Sequence[str] | None = None,
    on_fault: Callable[[Fault], None] = refuse,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a capture and go on with what is written later, round after round, until `wait` says no.

    Rows are chosen as in `read_capture`. A batch that is not whole yet is no fault here: it comes in a later round.
    """
    following = _Following(Wanted.of(since, until, nodes, columns), on_fault)
    return following.rounds(named_place(directory), wait)


class _Following:
    """How far each segment was read; a segment is known by the name that it has, or will have, when sealed."""

    def __init__(self, wanted: Wanted, on_fault: Callable[[Fault], None]) -> None:
        self._wanted = wanted
        self._on_fault = on_fault
        self._positions: dict[Place, int] = {}
        self._finished: set[Place] = set()

    def rounds(self, directory: Place, wait: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        goes_on = True
        while goes_on:
            for path in segment_paths(directory):
                if sealed_path(path) not in self._finished:
                    yield from self._news(path)
            goes_on = wait()

    def _news(self, path: Place) -> Iterator[pa.RecordBatch]:
        segment = sealed_path(path)
        faults: list[Fault] = []
        if self._wanted.covers(indexed(path)):
            news = read_stream(path, faults.append, self._positions.get(segment, 0))
            for batch, end in _settled(news) if path.name.endswith(OPEN_SUFFIX) else news:
                self._positions[segment] = end
                rows = self._wanted.rows(batch)
                if rows.num_rows:
                    yield rows
        is_finished = any(fault.is_serious for fault in faults) or not path.name.endswith(OPEN_SUFFIX)
        if is_finished:
            self._finished.add(segment)
        for fault in faults:
            if is_finished or fault.kind != FaultKind.CUT_OFF:  # what is cut off may be whole in the next round
                self._on_fault(fault)


def _settled(batches: Iterable[tuple[pa.RecordBatch, int]]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give the batches without those at the end that tell only of a disk that refused."""
    waiting: list[tuple[pa.RecordBatch, int]] = []
    for batch, end in batches:
        waiting.append((batch, end))
        if not pc.all(pc.equal(batch.column("reason"), "disk_error")).as_py():
            yield from waiting
            waiting = []
