"""How much a step takes in: batches of all captures in the order of time, up to a limit.

A step that took in everything there is would be as large as the captures are behind: after an hour of standing still it
would be an hour. So a step takes batches until it has enough, and the next step goes on there.

The order matters. A flow closes when all its nodes were seen after its end. If one node were read to its end before the
next is begun, all flows would be open meanwhile. Example with a limit of 2,000 sightings: A has batches of 1,000 that
end at 10 s, 20 s and 30 s, B has one that ends at 11 s. The step takes the first batch of A and that of B.

Within one segment batches stay in their order, also if the clock of the node was set back.

A lake knows how far it is by its manifest (`admit`), a stream of Spark by its offset (`admit_after`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import NamedTuple

from hopwire.capture.arrow_stream import BatchPlace, measure_stream
from hopwire.capture.sources import Source, SourceKind
from hopwire.lake.catalog import FoundSource, is_changed, may_go_on
from hopwire.lake.manifest import StoredSource

__all__ = ["Admitted", "ReadSource", "StepLimits", "admit", "admit_after"]

ROW_BYTES = 500  # of a sighting in a file whose rows are not counted beforehand, about


class StepLimits(NamedTuple):
    """What one step takes in, unless a single batch is larger."""

    rows: int
    size_bytes: int


class ReadSource(NamedTuple):
    """A source, and how far it was read."""

    source: Source
    position: int = 0
    is_known: bool = True  # whether it was read at all


@dataclass(frozen=True)
class Admitted:
    """What the next step reads."""

    ends: Mapping[str, int | None] = field(default_factory=dict)  # sources: the position to read up to; None is the end
    positions: Mapping[str, int] = field(default_factory=dict)  # sources: behind the last batch that is read
    row_count: int = 0  # sightings, about
    has_more: bool = False  # there is more to read behind it


def admit(found: Mapping[str, FoundSource], known: Mapping[str, StoredSource], limits: StepLimits) -> Admitted:
    """Choose what the next step of a lake reads: at least one batch, if there is one."""
    changed = {name: each.source for name, each in found.items() if is_changed(each, known.get(name))}
    return admit_after(
        (
            ReadSource(source, known[name].position if may_go_on(source, known.get(name)) else 0, name in known)
            for name, source in changed.items()
        ),
        limits,
    )


def admit_after(sources: Iterable[ReadSource], limits: StepLimits) -> Admitted:
    """Choose what is read next of sources that were read up to a position."""
    waiting = [_SourceNews(each) for each in sources]
    ends: dict[str, int | None] = {news.name: None for news in waiting if news.is_over and news.is_worth_reading}
    positions = {news.name: news.position for news in waiting if news.name in ends}
    heap = [(news.at_ns, news.name, news) for news in waiting if not news.is_over]
    heapify(heap)
    rows = size = 0
    while heap:
        _, name, news = heap[0]
        if rows and (rows + news.row_count > limits.rows or size + news.size_bytes > limits.size_bytes):
            return Admitted(ends, positions, rows, has_more=True)
        heappop(heap)
        rows, size = rows + news.row_count, size + news.size_bytes
        news.take()
        ends[name], positions[name] = None if news.is_over else news.position, news.position
        if not news.is_over:
            heappush(heap, (news.at_ns, name, news))
    return Admitted(ends, positions, rows)


class _SourceNews:
    """What a source has that was not read, batch after batch."""

    def __init__(self, read: ReadSource) -> None:
        self.name, self.position = read.source.name, read.position
        self._source, self._is_known = read.source, read.is_known
        self.at_ns = 0
        self._batches = self._measured()
        self._next: BatchPlace | None = None
        self._advance()

    def _measured(self) -> Iterator[BatchPlace]:
        """The batches up to the size that the source had when somebody looked."""
        source = self._source
        if source.kind == SourceKind.SEGMENT:
            return takewhile(lambda batch: batch.end <= source.size_bytes, measure_stream(source.path, self.position))
        return iter([BatchPlace(source.size_bytes, source.size_bytes // ROW_BYTES + 1, 0)])

    @property
    def is_over(self) -> bool:
        """Whether there is no further batch."""
        return self._next is None

    @property
    def is_worth_reading(self) -> bool:
        """Whether a source without a new batch says something new: the source itself, or that it is sealed."""
        return not (self._is_known and self._source.is_open)

    @property
    def row_count(self) -> int:
        """The sightings of the next batch."""
        return self._next.sighting_count if self._next else 0

    @property
    def size_bytes(self) -> int:
        """The size of the next batch."""
        return self._next.end - self.position if self._next else 0

    def take(self) -> None:
        """Take the next batch."""
        assert self._next is not None
        self.position = self._next.end
        self._advance()

    def _advance(self) -> None:
        self._next = next(self._batches, None)
        if self._next:
            self.at_ns = max(self.at_ns, self._next.seen_at_ns)
