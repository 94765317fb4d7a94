"""A capture as it grows: what is there, then what comes, each row once.

Each round lists the directory and reads every segment on from where the last round stopped. A sealed segment that was
read to its end is not opened again. How long a round waits for the next is up to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from hopwire.capture.arrow_stream import read_stream
from hopwire.capture.file_faults import Fault, FaultKind, refuse
from hopwire.capture.reader import Wanted, indexed, segment_paths
from hopwire.capture.segment import OPEN_SUFFIX, sealed_path

__all__ = ["follow_capture"]


def follow_capture(
    directory: Path | str,
    wait: Callable[[], bool],
    *,
    since: int | None = None,
    until: int | None = None,
    nodes: Collection[bytes] | None = None,
    columns: Sequence[str] | None = None,
    on_fault: Callable[[Fault], None] = refuse,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a capture and go on with what is written later, round after round, until `wait` says no.

    Rows are chosen as in `read_capture`; a batch that is not whole yet is no fault here, it comes in a later round.
    """
    following = _Following(Wanted.of(since, until, nodes, columns), on_fault)
    return following.rounds(Path(directory), wait)


class _Following:
    """How far each segment was read; segments go by the name that they have or will have when sealed."""

    def __init__(self, wanted: Wanted, on_fault: Callable[[Fault], None]) -> None:
        self._wanted = wanted
        self._on_fault = on_fault
        self._positions: dict[Path, int] = {}
        self._finished: set[Path] = set()

    def rounds(self, directory: Path, wait: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
        goes_on = True
        while goes_on:
            for path in segment_paths(directory):
                if sealed_path(path) not in self._finished:
                    yield from self._news(path)
            goes_on = wait()

    def _news(self, path: Path) -> Iterator[pa.RecordBatch]:
        segment = sealed_path(path)
        faults: list[Fault] = []
        if self._wanted.covers(indexed(path)):
            for batch, end in read_stream(path, faults.append, self._positions.get(segment, 0)):
                self._positions[segment] = end
                rows = self._wanted.rows(batch)
                if rows.num_rows:
                    yield rows
        is_hopeless = any(fault.kind != FaultKind.CUT_OFF for fault in faults)
        if is_hopeless or not path.name.endswith(OPEN_SUFFIX):
            self._finished.add(segment)
            for fault in faults:
                self._on_fault(fault)
