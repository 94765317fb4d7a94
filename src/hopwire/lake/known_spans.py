"""The spans of a run: which numbers each source has, in order and beside one another.

A lake of a year has some thousand sources, and each step looks at the spans of all of them, in several places. They are
made of rows once, and laid side by side once. Spans that a run has written stay in memory for the next run of the
process. Which spans count is said by the lake alone: they are found by the names of their files, which are never given
twice, and only where the lake has these files.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.flows.spans import PlacedSpan, SourceSpan, placed
from hopwire.lake.bronze.spans import SPANS_TABLE, rows_from_spans, spans_from_rows
from hopwire.lake.parquet_output import write_rows
from hopwire.lake.store import LakeRun

__all__ = ["KnownSpans", "put_spans", "spans_of"]

MAX_KEPT = 100_000  # spans of all lakes together: some 100 MB

_kept: dict[tuple[str, ...], KnownSpans] = {}  # by their files; of each lake those of its last run


@dataclass(frozen=True)
class KnownSpans:
    """The spans of all sources, and the rows that they are."""

    spans: Sequence[SourceSpan]
    rows: pa.Table

    @cached_property
    def placed(self) -> list[PlacedSpan]:
        """All spans by node, incarnation and number, with what is missing between them."""
        return placed(self.spans)

    @cached_property
    def node_names(self) -> dict[bytes, str]:
        """The names of nodes: the last that each had."""
        return {span.node: span.node_name for span, _, _ in self.placed if span.node_name}

    @property
    def last_seen_at_ns(self) -> int:
        """The last sighting of all sources, by the clock of its node; 0 if there is none."""
        return pc.max(self.rows["last_seen_at_ns"]).as_py() or 0

    def without(self, segments: Container[str]) -> KnownSpans:
        """Give the spans of all other sources."""
        is_kept = [span.segment not in segments for span in self.spans]
        spans = [span for span, each in zip(self.spans, is_kept, strict=True) if each]
        return KnownSpans(spans, self.rows.filter(pa.array(is_kept, pa.bool_())))

    def also(self, spans: Sequence[SourceSpan]) -> KnownSpans:
        """Give these spans and some more."""
        return KnownSpans([*self.spans, *spans], pa.concat_tables([self.rows, rows_from_spans(spans)]))


def spans_of(run: LakeRun) -> KnownSpans:
    """Give the spans of a lake as they are at this moment of a run."""
    kept = _kept.get(_files(run))
    if kept is not None and run.is_whole(SPANS_TABLE.name):
        return kept
    schema = SPANS_TABLE.schema
    is_there = SPANS_TABLE.name in run.before.tables or SPANS_TABLE.name in run.tables
    rows = run.rows(SPANS_TABLE.name).select(schema.names) if is_there else schema.empty_table()
    found = KnownSpans(spans_from_rows(rows), rows)
    _keep(_files(run), found)
    return found


def put_spans(run: LakeRun, basis: str, known: KnownSpans) -> None:
    """Let bronze.spans have these spans."""
    write_rows(run, SPANS_TABLE, basis, known.rows.combine_chunks())
    _keep(_files(run), known)


def _files(run: LakeRun) -> tuple[str, ...]:
    return tuple(map(str, run.paths(SPANS_TABLE.name)))


def _keep(files: tuple[str, ...], known: KnownSpans) -> None:
    """Keep spans in place of those that the same lake had, and those of other lakes while there is room."""
    if not files:
        return
    place = files[0].rpartition("/")[0]
    others = [(each, spans) for each, spans in _kept.items() if each[0].rpartition("/")[0] != place]
    _kept.clear()
    left = MAX_KEPT
    for each, spans in ((files, known), *others):  # the last lake first
        left -= len(spans.spans)
        if left >= 0:
            _kept[each] = spans
