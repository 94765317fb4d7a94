"""Which sightings a source has of a node, by their numbers, and which sightings are missing.

A node numbers its sightings from 0 in each incarnation. Its capture has every number: on a row of its own, or among the
numbers that a row says were skipped. So a number that is in no source was lost with a file, or with a part of a file. A
number that is in two sources is there twice because a file is there twice.

| sources of A in one incarnation | what is concluded |
|---|---|
| 0 to 499, 500 to 999 | complete |
| 0 to 499, 700 to 999 | 200 numbers are missing; A is blind from its sighting 499 to its sighting 700 |
| 0 to 999, 500 to 999 at the same times | the numbers from 500 on are there twice |

- `spans_from_batch` sums up some rows of a source. `joined_spans` joins the sums of batches, and of parts of a source.
- `placed` lays the spans of all sources side by side, and finds what is missing between them.
- `first_shared` finds numbers that two sources have.
- Numbers that do not rise within a source are not the numbers of a node, and prove nothing: `is_numbered`.

The trap: gaps that begin in the same second are one gap. Otherwise a disk that cannot follow would make as many gaps as
there are sightings. So some of the numbers within a gap may be there; `skipped` and `missing` count only numbers that
are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints, ints
from hopwire.flows.coverage import LifeSpan
from hopwire.flows.groups import Groups, codes, equal_text, number_codes, pack
from hopwire.flows.schemas import OPEN, OVERHEARD
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "Gap",
    "PlacedSpan",
    "SharedNumbers",
    "SourceSpan",
    "first_shared",
    "joined_spans",
    "lives_of",
    "placed",
    "skips_of",
    "spans_from_batch",
    "spans_in_order",
]

EVER_NS = 0  # when a gap begins that lies in front of everything that is known of a node
MAX_SEQUENCE = 2**48  # a million each second for nine years; a larger number is none, so that sums stay in bounds


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that are missing, and when: from the sighting before, or the row that says so, to the next sighting."""

    first: int
    last: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """What one source has of one incarnation of a node; times are by the clock of the node."""

    segment: str
    node: bytes
    incarnation: int
    node_name: str
    first_sequence: int
    last_sequence: int
    first_seen_at_ns: int
    last_seen_at_ns: int
    sighting_count: int
    skipped: int = 0  # numbers that the node says it skipped
    missing: int = 0  # numbers between the first and the last that nobody accounts for
    is_numbered: bool = True
    gaps: tuple[Gap, ...] = ()
    ending: str = OPEN  # how the source ends: one of ENDINGS

    @property
    def life(self) -> tuple[bytes, int]:
        """The node and its incarnation."""
        return self.node, self.incarnation

    def without_numbers(self) -> SourceSpan:
        """Give the same span, whose numbers prove nothing."""
        return replace(self, missing=0, is_numbered=False, gaps=())


class PlacedSpan(NamedTuple):
    """A span beside the spans of other sources."""

    span: SourceSpan
    missing_before: int  # numbers in front of the span that are in no source
    gaps: tuple[Gap, ...]  # the gaps of the span, and the gap in front of it


class SharedNumbers(NamedTuple):
    """Numbers that two sources have."""

    one: SourceSpan
    other: SourceSpan
    first: int
    last: int


# -- one source


def spans_from_batch(batch: pa.RecordBatch, segment: str) -> list[SourceSpan]:
    """Give the spans of some rows of a capture, one for each incarnation of a node."""
    (node,), nodes = codes(batch.column("node"))
    incarnation = ints(batch.column("incarnation"))
    groups = Groups(pack(node, number_codes(incarnation)))
    names = batch.column("node_name")
    is_skip = equal_text(batch.column("direction"), "skipped")
    sequence, at, skipped = (ints(batch.column(name)) for name in ("sequence", "seen_at_ns", "skipped"))
    spans = []
    for rows in np.split(groups.order, groups.starts[1:]) if len(batch) else ():
        first, last = rows[0], rows[-1]
        start = segment, nodes[node[first]].as_py(), int(incarnation[first]), names[last].as_py()
        span = SourceSpan(*start, 0, 0, 0, 0, 0)
        spans.append(_summed_up(span, sequence[rows], at[rows], skipped[rows], is_skip[rows]))
    return spans


def _summed_up(span: SourceSpan, sequence: Ints, at: Ints, skipped: Ints, is_skip: Bools) -> SourceSpan:
    sequence = np.clip(sequence, -MAX_SEQUENCE, MAX_SEQUENCE)
    width = np.where(is_skip, np.clip(skipped, 0, MAX_SEQUENCE), 1)
    ends = sequence + width
    following, following_at = np.append(sequence[1:], ends[-1]), np.append(at[1:], at[-1])
    lack = following - ends
    whole = replace(
        span,
        first_sequence=int(sequence.min()),
        last_sequence=int(ends.max()) - 1,
        first_seen_at_ns=int(at.min()),
        last_seen_at_ns=int(at.max()),
        sighting_count=int((~is_skip).sum()),
        skipped=int(width[is_skip].sum()),
        missing=int(lack.sum()),
    )
    if sequence[0] < 0 or (lack < 0).any() or ends[-1] > MAX_SEQUENCE:
        return whole.without_numbers()
    rows = np.flatnonzero(is_skip | (lack > 0))
    firsts, lasts = np.where(is_skip, sequence, ends)[rows], following[rows] - 1
    begins, finishes = np.minimum(at, following_at)[rows], np.maximum(at, following_at)[rows]
    found = map(Gap, firsts.tolist(), lasts.tolist(), begins.tolist(), finishes.tolist())
    return replace(whole, gaps=tuple(_thinned(found)))


def joined_spans(spans: Iterable[SourceSpan]) -> list[SourceSpan]:
    """Join the spans of the same incarnation in the same source, in the order in which they come."""
    found: dict[tuple[str, bytes, int], SourceSpan] = {}
    for span in spans:
        key = span.segment, span.node, span.incarnation
        found[key] = _joined(found[key], span) if key in found else span
    return list(found.values())


def _joined(one: SourceSpan, other: SourceSpan) -> SourceSpan:
    lack = other.first_sequence - one.last_sequence - 1
    both = SourceSpan(
        one.segment,
        one.node,
        one.incarnation,
        other.node_name,
        min(one.first_sequence, other.first_sequence),
        max(one.last_sequence, other.last_sequence),
        min(one.first_seen_at_ns, other.first_seen_at_ns),
        max(one.last_seen_at_ns, other.last_seen_at_ns),
        one.sighting_count + other.sighting_count,
        one.skipped + other.skipped,
        one.missing + other.missing + lack,
        ending=_ending(one.ending, other.ending),
    )
    if lack < 0 or not (one.is_numbered and other.is_numbered):
        return both.without_numbers()
    seam = _thinned((*one.gaps[-1:], *_between(one, other), *other.gaps))
    return replace(both, gaps=(*one.gaps[:-1], *seam))


def _ending(one: str, other: str) -> str:
    """Give how two parts of one source end together: overheard if one part is, else as the later part ends.

    A source that was open when its first part was read may have been closed since.
    """
    return OVERHEARD if OVERHEARD in (one, other) else other


def _between(one: SourceSpan, other: SourceSpan) -> list[Gap]:
    """Give the gap between two spans, if there is a gap; a gap at the end of the first span is a part of it."""
    is_open = bool(one.gaps) and one.gaps[-1].last == one.last_sequence
    if not is_open and other.first_sequence == one.last_sequence + 1:
        return []
    begin = one.gaps[-1].first_ns if is_open else one.last_seen_at_ns
    times = sorted((begin, other.first_seen_at_ns))
    return [Gap(one.last_sequence + 1, other.first_sequence - 1, *times)]


def _thinned(gaps: Iterable[Gap]) -> list[Gap]:
    """Make one gap of gaps that follow one another and begin in the same second."""
    found: list[Gap] = []
    for gap in gaps:
        before = found[-1] if found else None
        if before and before.first_ns // NS_PER_SECOND == gap.first_ns // NS_PER_SECOND:
            times = min(before.first_ns, gap.first_ns), max(before.last_ns, gap.last_ns)
            found[-1] = Gap(before.first, max(before.last, gap.last), *times)
        else:
            found.append(gap)
    return found


# -- all sources


def placed(spans: Iterable[SourceSpan]) -> list[PlacedSpan]:
    """Give all spans by node, incarnation and number, with what is missing between them."""
    found: list[PlacedSpan] = []
    for _, of_node in groupby(spans_in_order(spans), key=lambda span: span.node):
        since_ns = EVER_NS
        for _, of_life in groupby(of_node, key=lambda span: span.incarnation):
            life = list(of_life)
            found += _placed_life(life, since_ns)
            since_ns = max(span.last_seen_at_ns for span in life)
    return found


def spans_in_order(spans: Iterable[SourceSpan]) -> list[SourceSpan]:
    """Give spans by node, incarnation and number."""
    return sorted(spans, key=_place)


def _place(span: SourceSpan) -> tuple[bytes, int, int, str]:
    return span.node, span.incarnation, span.first_sequence, span.segment


def _placed_life(spans: Iterable[SourceSpan], since_ns: int) -> Iterator[PlacedSpan]:
    """Place the spans of one incarnation; the incarnation before it ended at `since_ns`."""
    before: SourceSpan | None = None
    for span in spans:
        if not span.is_numbered:
            yield PlacedSpan(span, 0, ())
            continue
        front: list[Gap] = []
        if before is None and span.first_sequence > 0:
            front = [Gap(0, span.first_sequence - 1, *sorted((since_ns, span.first_seen_at_ns)))]
        elif before is not None and span.first_sequence > before.last_sequence:
            front = _between(before, span)
        yield PlacedSpan(span, sum(gap.last - gap.first + 1 for gap in front), (*front, *span.gaps))
        before = span if before is None or span.last_sequence > before.last_sequence else before


def lives_of(known: Iterable[PlacedSpan]) -> list[LifeSpan]:
    """Give the incarnations of all nodes, in the order of `placed`."""
    found = []
    for (node, incarnation), each in groupby((span for span, _, _ in known), key=lambda span: span.life):
        spans = list(each)
        first, last = min(span.first_seen_at_ns for span in spans), max(span.last_seen_at_ns for span in spans)
        ending = max(spans, key=lambda span: (span.last_sequence, span.last_seen_at_ns)).ending
        found.append(LifeSpan(node, first, last, incarnation, ending))
    return found


def skips_of(known: Iterable[PlacedSpan]) -> list[LifeSpan]:
    """Give from when to when sightings are missing."""
    return [LifeSpan(span.node, gap.first_ns, gap.last_ns, span.incarnation) for span, _, gaps in known for gap in gaps]


def first_shared(spans: Iterable[SourceSpan]) -> SharedNumbers | None:
    """Find numbers of an incarnation that are in two sources for certain, if there are any."""
    numbered = sorted((span for span in spans if span.is_numbered), key=_place)
    for _, of_life in groupby(numbered, key=lambda span: span.life):
        reaching: list[SourceSpan] = []
        for span in of_life:
            reaching = [each for each in reaching if each.last_sequence >= span.first_sequence]
            for each in reaching:
                if shared := _shared(each, span):
                    return shared
            reaching.append(span)
    return None


def _shared(one: SourceSpan, other: SourceSpan) -> SharedNumbers | None:
    """Give the first numbers that both spans have, outside of the gaps of either.

    The same sightings have the same times. The same numbers at other times are of somebody who counts anew.
    """
    if one.first_seen_at_ns > other.last_seen_at_ns or other.first_seen_at_ns > one.last_seen_at_ns:
        return None
    first, last = other.first_sequence, min(one.last_sequence, other.last_sequence)
    for gap in sorted((*one.gaps, *other.gaps), key=lambda gap: gap.first):
        if gap.first > first:
            last = min(last, gap.first - 1)
            break
        first = max(first, gap.last + 1)
    return SharedNumbers(one, other, first, last) if first <= last else None
