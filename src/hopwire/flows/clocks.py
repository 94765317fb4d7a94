"""How wrong the clocks of the nodes are against one another, and how each clock is corrected.

1. `crossings.py` compares two clocks. The pairs of clocks that could be compared are joined to trees, the surest pair
   first. Nodes A, B and C compare as A-B within 1 ms, B-C within 2 ms and A-C within 9 ms: the tree is A-B-C.
2. The reference of a tree is the clock with most pairs: B. All other clocks of the tree are corrected to the reference,
   along the tree. A node that could be compared with nobody is not corrected, and its row says so.
3. A clock has one offset for all times, until its crossings contradict this. One offset is the surest: all messages are
   its evidence.
4. If the crossings contradict one offset, each incarnation of the node gets a clock of its own, because the node may
   have started anew with another time. An incarnation that was compared with no other node has the clock of the
   incarnation before.
5. If an incarnation still contradicts itself, its clock drifts or was set. The offset is measured window by window,
   with straight lines between the measurements. A clock is ahead by 10 ms at 100 s and by 20 ms at 200 s: by 15 ms
   at 150 s.
6. Where a line would be steeper than any drift, the clock was set, and nobody knows when. The offset jumps half-way.
   The times between the two measurements are doubtful. A clock is ahead by 0 s at 0 s and by 30 s at 100 s: its offset
   jumps at 50 s, and times from 0 s to 100 s are doubtful.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.flows.coverage import LifeSpan, Offset, offsets_at
from hopwire.flows.crossings import MAX_DRIFT, ClockPair, Crossing, Life, TimeRange, compared, contradicted, moved
from hopwire.flows.schemas import CLOCK_SCHEMA, STRETCH
from hopwire.flows.spans import PlacedSpan, lives_of, skips_of

__all__ = ["Clock", "MeasuredOffset", "clocks_from_crossings", "offsets_from_measured", "rows_from_clocks"]

MAX_NS = 2**63  # more than a column can hold
ALL_LIVES = 0  # in place of an incarnation, where all incarnations of a node have one clock

ClockTree = dict[Life, list[ClockPair]]


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of one clock."""

    node: bytes
    reference_node: bytes
    offset_ns: int = 0
    is_corrected: bool = False
    via_node: bytes = b""
    error_ns: int | None = None
    crossing_count: int = 0
    offsets: Mapping[int, Sequence[Offset]] = field(default_factory=dict)  # by incarnation, if the offset changes
    doubts: Sequence[tuple[int, int, int]] = ()  # incarnation, from when, to when


class _Corrected(NamedTuple):
    """How one clock is corrected to the reference; times are by the clock itself."""

    reference: Life
    offsets: tuple[Offset, ...] = (Offset(0, 0),)
    doubts: tuple[TimeRange, ...] = ()
    via: Life | None = None
    error_ns: int = 0
    messages: int = 0


def clocks_from_crossings(nodes: Iterable[bytes], crossings: Iterable[Crossing]) -> list[Clock]:
    """Give the clock of every node, from the quickest crossings of each pair in each direction.

    One crossing each way, without incarnation and window, is enough for clocks that are not contradicted.
    """
    known = set(nodes)
    crossings = [each for each in crossings if each.from_node in known and each.to_node in known]
    changing = contradicted(crossings)
    lives = {(node, ALL_LIVES) for node in known - changing}
    ways: dict[tuple[Life, Life], tuple[list[Crossing], list[Crossing]]] = defaultdict(lambda: ([], []))
    for each in crossings:
        a = each.from_node, each.from_incarnation if each.from_node in changing else ALL_LIVES
        b = each.to_node, each.to_incarnation if each.to_node in changing else ALL_LIVES
        ways[min(a, b), max(a, b)][a > b].append(each)
        lives |= {a, b}
    pairs = [compared(a, b, *both) for (a, b), both in ways.items() if all(both)]
    tree = _tree(sorted(lives), _surest_first([pair for pair in pairs if pair], changing))
    found: dict[bytes, dict[int, _Corrected]] = defaultdict(dict)
    for (node, incarnation), clock in sorted(_corrected(tree).items(), key=lambda item: item[0]):
        found[node][incarnation] = clock
    between = [pair for pairs in tree.values() for pair in pairs if pair.a[0] != pair.b[0]]
    joined = {life[0] for pair in between for life in (pair.a, pair.b)}
    return [_clock(node, found[node], node in joined) for node in sorted(known)]


def _surest_first(pairs: list[ClockPair], changing: set[bytes]) -> list[ClockPair]:
    """Sort pairs by their error; pairs of clocks that change come last, and the longest comparison first among them."""

    def place(pair: ClockPair) -> tuple[bool, int, int, Life, Life]:
        is_changing = pair.a[0] in changing or pair.b[0] in changing
        return is_changing, -pair.windows if is_changing else 0, pair.error_ns, pair.a, pair.b

    return sorted(pairs, key=place)


def _tree(lives: list[Life], pairs: list[ClockPair]) -> ClockTree:
    """Join clocks by pairs, without circles, and give the pairs of each clock.

    The incarnations of a node are joined last, for those that no other node can tell of.
    """
    root = {life: life for life in lives}
    tree: ClockTree = {life: [] for life in lives}

    def find(life: Life) -> Life:
        while root[life] != life:
            root[life] = root[root[life]]
            life = root[life]
        return life

    same = [ClockPair(one, other, 0) for one, other in pairwise(lives) if one[0] == other[0]]
    for pair in (*pairs, *same):
        if find(pair.a) != find(pair.b):
            root[find(pair.a)] = find(pair.b)
            tree[pair.a].append(pair)
            tree[pair.b].append(pair)
    return tree


def _corrected(tree: ClockTree) -> dict[Life, _Corrected]:
    """Correct all clocks of a tree to the clock that has most pairs in it."""
    found: dict[Life, _Corrected] = {}
    for start in sorted(tree, key=lambda life: (-len(tree[life]), life)):
        if start in found:
            continue
        found[start] = _Corrected(start)
        waiting = [start]
        while waiting:
            life = waiting.pop()
            for pair in (each.seen_from(life) for each in tree[life]):
                if pair.b not in found:
                    found[pair.b] = _followed(found[life], pair)
                    waiting.append(pair.b)
    return found


def _followed(known: _Corrected, pair: ClockPair) -> _Corrected:
    """Correct clock b of a pair, where clock a is corrected already."""
    ahead = pair.ahead_ns
    offsets = tuple(Offset(at + ahead, offset + ahead) for at, offset in known.offsets)
    doubts = moved((*known.doubts, *pair.doubts), ahead)
    if pair.moments:
        base = offsets_at(known.offsets, np.array([each.a_ns for each in pair.moments]))
        moments = zip(pair.moments, base.tolist(), strict=True)
        offsets, more = offsets_from_measured(
            [MeasuredOffset(m.b_ns, offset + m.ahead_ns, m.error_ns) for m, offset in moments]
        )
        doubts = (*doubts, *more)
    return _Corrected(known.reference, offsets, doubts, pair.a, known.error_ns + pair.error_ns, pair.messages)


def _clock(node: bytes, lives: Mapping[int, _Corrected], is_corrected: bool) -> Clock:
    """Give what is known of the clock of a node; each of its incarnations may have a clock of its own."""
    values = sorted(offset for each in lives.values() for _, offset in each.offsets)
    via = [each.via[0] for each in lives.values() if each.via and each.via[0] != node]
    return Clock(
        node,
        next(iter(lives.values())).reference[0],
        median_low(values),
        is_corrected,
        next(iter(via), b""),
        max(each.error_ns for each in lives.values()) if is_corrected else None,
        sum(each.messages for each in lives.values()),
        {life: each.offsets for life, each in lives.items()} if values[0] < values[-1] else {},
        tuple((life, *doubt) for life, each in lives.items() for doubt in each.doubts),
    )


# -- offsets that change


class MeasuredOffset(NamedTuple):
    """An offset that was measured, and how wrong the offset may be."""

    at_ns: int
    offset_ns: int
    error_ns: int


def offsets_from_measured(marks: Sequence[MeasuredOffset]) -> tuple[tuple[Offset, ...], tuple[TimeRange, ...]]:
    """Give the moments between which the offset is a straight line, and the times in which the clock was set.

    The first and the last line are drawn out to twice their length, because the ends of a capture are seldom measured.
    A clock is ahead by 1 ms at 100 s and by 3 ms at 300 s: the line goes on to 5 ms at 500 s, and stays there.
    """
    marks = sorted(marks)
    ends = _beyond(marks[:2]), _beyond(marks[:-3:-1])
    offsets = [*ends[0], *(Offset(each.at_ns, each.offset_ns) for each in marks), *ends[1]]
    doubts = []
    for one, other in pairwise(marks):
        if _is_set(one, other):
            middle = (one.at_ns + other.at_ns) // 2
            offsets += [Offset(middle, one.offset_ns), Offset(middle + 1, other.offset_ns)]
            doubts.append((one.at_ns, other.at_ns))
    return tuple(sorted(offsets, key=lambda offset: offset.at_ns)), tuple(doubts)


def _is_set(one: MeasuredOffset, other: MeasuredOffset) -> bool:
    drift = MAX_DRIFT * abs(other.at_ns - one.at_ns)
    return abs(other.offset_ns - one.offset_ns) > drift + one.error_ns + other.error_ns


def _beyond(marks: Sequence[MeasuredOffset]) -> list[Offset]:
    """Give the moment as far beyond the first of two measurements as the second is away; none if the clock was set."""
    if len(marks) < 2 or _is_set(*marks):
        return []
    one, other = marks
    beyond = Offset(2 * one.at_ns - other.at_ns, 2 * one.offset_ns - other.offset_ns)
    return [beyond] if all(abs(value) < MAX_NS for value in beyond) else []


# -- rows


def rows_from_clocks(known: Iterable[PlacedSpan], clocks: Iterable[Clock]) -> pa.Table:
    """Give clocks as rows, each with what the sources have of its node."""
    of_node = {node: list(each) for node, each in groupby(known, key=lambda each: each.span.node)}
    return pa.Table.from_pylist([_row(of_node[clock.node], clock) for clock in clocks], CLOCK_SCHEMA)


def _row(known: list[PlacedSpan], clock: Clock) -> dict[str, Any]:
    spans, lives = [each.span for each in known], lives_of(known)
    return {name: getattr(clock, name) for name in clock.__slots__} | {
        "node_name": spans[-1].node_name,
        "first_seen_at_ns": min(life.first_ns for life in lives),
        "last_seen_at_ns": max(life.last_ns for life in lives),
        "sighting_count": sum(span.sighting_count for span in spans),
        "skipped": sum(span.skipped for span in spans),
        "missing": sum(span.missing + missing_before for span, missing_before, _ in known),
        "lives": [_stretch(life) | {"ending": life.ending} for life in lives],
        "skips": [_stretch(skip) for skip in skips_of(known)],
        "offsets": [{"incarnation": life} | at._asdict() for life, each in clock.offsets.items() for at in each],
        "doubts": [dict(zip(STRETCH.names, doubt, strict=True)) for doubt in clock.doubts],
    }


def _stretch(span: LifeSpan) -> dict[str, int]:
    return {"incarnation": span.incarnation, "first_ns": span.first_ns, "last_ns": span.last_ns}
