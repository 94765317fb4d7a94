"""What a lake takes in of the rows of a capture: not what is too old, and not what was forgotten.

| row | counted as | its number |
|---|---|---|
| seen before the time that the lake is kept from (`expiry.py`) | expired | skipped: its node is blind there |
| of a flow that was forgotten (`forgetting.py`) | forgotten | stays: the node was looking |
| of a node that was forgotten, or about it | forgotten | unknown: the lake does not know the node |
| any other | taken in | stays |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools
from hopwire.flows.spans import Gap, SourceSpan, joined_spans, spans_from_batch
from hopwire.lake.bronze.forgotten import ForgottenNotes

__all__ = ["Intake", "TakenRows"]

NUMBER = ("node", "incarnation", "sequence")


class TakenRows(NamedTuple):
    """Rows that are taken in, the spans of them and of rows that were too old, and how many rows were not."""

    batch: pa.RecordBatch
    spans: list[SourceSpan]
    expired: int = 0
    forgotten: int = 0


class Intake(msgspec.Struct, frozen=True):
    """What a lake does not take in."""

    before_ns: int = 0
    notes: ForgottenNotes = ForgottenNotes()

    def take(self, whole: pa.RecordBatch, segment: str) -> TakenRows:
        """Give the rows of a capture that are taken in, before they are decoded."""
        is_forgotten = self.notes.of_nodes(whole)
        known = whole.filter(pa.array(~is_forgotten)) if is_forgotten.any() else whole
        is_old = pc.less(known.column("seen_at_ns"), self.before_ns)
        count = len(whole) - len(known)
        if not is_old.true_count:
            return TakenRows(known, spans_from_batch(known, segment), forgotten=count)
        old, batch = known.filter(is_old), known.filter(pc.invert(is_old))
        spans = joined_spans([*_unseen(spans_from_batch(old, segment)), *spans_from_batch(batch, segment)])
        return TakenRows(batch, spans, len(old), count)

    def without_forgotten(self, batch: pa.RecordBatch, messages: pa.RecordBatch) -> pa.RecordBatch:
        """Give the rows of a capture without those whose messages were forgotten."""
        is_forgotten = self.notes.of_messages(messages)
        if not is_forgotten.any():
            return batch
        gone = set(_numbers(messages.filter(pa.array(is_forgotten))))
        is_kept: Bools = np.fromiter((number not in gone for number in _numbers(batch)), np.bool_, len(batch))
        return batch.filter(pa.array(is_kept))


def _numbers(batch: pa.RecordBatch) -> Iterator[tuple[bytes, int, int]]:
    return zip(*(batch.column(name).to_pylist() for name in NUMBER), strict=True)


def _unseen(spans: Iterable[SourceSpan]) -> Iterator[SourceSpan]:
    """Give the spans of rows that are not taken in: as if the node had skipped them, so that it counts as blind."""
    for span in spans:
        gap = Gap(span.first_sequence, span.last_sequence, span.first_seen_at_ns, span.last_seen_at_ns)
        gaps = (gap,) if span.is_numbered else ()
        yield replace(span, sighting_count=0, skipped=span.sighting_count + span.skipped, gaps=gaps)
