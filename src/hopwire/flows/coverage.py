"""What the capture covers: which nodes wrote down what they saw, from when to when, and where they skipped.

A missing sighting means something only where a node was looking. A node is blind

- before its first sighting and after its last;
- while it skips sightings;
- as a sender, between its incarnations and for the patience after the end of each: an incarnation may have lived too
  shortly to write anything;
- as a receiver, about the end of an incarnation that did not close its capture: a node that is killed takes the
  sightings with it that it had not written yet.

B was killed at 10 s and is back at 20 s. As a sender B is blind from 10 s to 20 s; if it were back at 12 s, then until
15 s. As a receiver B is blind for messages that left between 5 s and 12 s (`hops.py`).

All times here are corrected to the reference clock (`clocks.py`). A clock that was set back between two incarnations
shows the same time twice. So a time of a clock whose offset changes is corrected by the offsets of its incarnation.

A clock that was set back is *doubtful* for the times that it shows twice, and for a minute before and after: nobody can
say which of the two a time was. Two things prove it. An incarnation, which is the time of a start, is later than the
first sighting. Or two incarnations of a node overlap, though a node lives one life after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints
from hopwire.flows.groups import NEVER, NO_TIME, Groups, number_codes, pack
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import OPEN, OVERHEARD
from hopwire.model.units import NS_PER_MINUTE, NS_PER_SECOND

__all__ = ["Coverage", "LifeSpan", "NodeCoverage", "Offset", "coverage_from_rows", "offsets_at"]

SET_BACK_NS = NS_PER_SECOND  # a clock that goes back by less may just be corrected
MOST_COUNTS = 2**16  # of moments, for all nodes: more take longer to make than to search for
SETTLING_NS = NS_PER_MINUTE  # until a clock that was set is known again: as long as a clock boots (`clocks.py`)


class Offset(NamedTuple):
    """How far a clock is ahead of the reference from one moment on; all times are by the clock itself.

    The clock is ahead by `offset_ns` at `at_ns`, and by more with each moment: by 20 us with each second, if the drift
    is 0.00002.
    """

    since_ns: int
    offset_ns: int
    drift: float = 0.0
    at_ns: int = 0


def offsets_at(known: Sequence[Offset], at: Ints) -> Ints:
    """Give the offset at each time; the first offset counts for all times before, too.

    The offsets are in order, and there is at least one.
    """
    numbers = [np.array(column) for column in zip(*known, strict=True)]
    row = np.maximum(np.searchsorted(numbers[0], at, side="right") - 1, 0)
    _, offset, drift, since = (column[row] for column in numbers)
    found: Ints = offset + np.rint(drift * (at - since)).astype(np.int64)
    return found


class LifeSpan(NamedTuple):
    """A time of one node in the capture, its incarnation, and how the incarnation ends: one of ENDINGS."""

    node: bytes
    first_ns: int
    last_ns: int
    incarnation: int = 0
    ending: str = OPEN


@dataclass(frozen=True)
class Coverage:
    """When the nodes were looking: their lives, when sightings are missing, and how wrong each clock is."""

    spans: Sequence[LifeSpan] = ()
    skips: Sequence[LifeSpan] = ()
    offsets_ns: dict[bytes, int] = field(default_factory=dict)
    clocks: dict[bytes, bytes] = field(default_factory=dict)  # the reference of each node
    changes: Mapping[bytes, Mapping[int, Sequence[Offset]]] = field(default_factory=dict)  # by node and incarnation
    doubts: Sequence[LifeSpan] = ()  # when a clock was set, and nobody knows how far it was ahead
    # the references of a node, if they change: incarnation, from when on by its own clock, which
    references: Mapping[bytes, Sequence[tuple[int, int, bytes]]] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> dict[bytes, tuple[int, int]]:
        """First and last sighting of every node that captures, corrected."""
        found: dict[bytes, tuple[int, int]] = {}
        for span in self.stretches[0]:
            begin, end = found.get(span.node, (span.first_ns, span.last_ns))
            found[span.node] = min(begin, span.first_ns), max(end, span.last_ns)
        return found

    @property
    def ends_ns(self) -> dict[bytes, int]:
        """When the last sighting of every node was, corrected."""
        return {node: end for node, (_, end) in self.nodes.items()}

    @cached_property
    def stretches(self) -> tuple[list[LifeSpan], list[LifeSpan], list[LifeSpan]]:
        """The spans, the skips and the doubts, corrected."""
        doubts = [*self.doubts, *_twice_shown(self.spans)]
        return self.corrected(self.spans), self.corrected(self.skips), self.corrected(doubts)

    def lives_ending(self, *endings: str) -> list[LifeSpan]:
        """Give the incarnations that have one of these endings, corrected."""
        return self.corrected(span for span in self.spans if span.ending in endings)

    @cached_property
    def blind(self) -> dict[bytes, list[tuple[LifeSpan, bool]]]:
        """When each node wrote nothing down, corrected: while it skipped, and after its last word before a kill.

        How long a node lives on after its last word is a rule; so such a time has no length here, and is marked.
        """
        found = defaultdict(list)
        for span in self.stretches[1]:
            found[span.node].append((span, False))
        for span in self.lives_ending(OPEN, OVERHEARD):
            found[span.node].append((span._replace(first_ns=span.last_ns), True))
        return dict(found)

    @cached_property
    def end_ns(self) -> int:
        """When the last sighting of all nodes was."""
        return max((end for _, end in self.nodes.values()), default=NO_TIME)

    def of(self, values: pa.Array) -> NodeCoverage:
        """Give the coverage of these nodes, which are rows of numbers from here on."""
        return NodeCoverage(self, values.to_pylist())

    def corrected(self, spans: Iterable[LifeSpan]) -> list[LifeSpan]:
        """Give the spans with corrected times."""
        return [self._corrected(span) for span in spans]

    def _corrected(self, span: LifeSpan) -> LifeSpan:
        at = np.array([span.first_ns, span.last_ns])
        if span.node in self.changes:
            at -= offsets_at(self.offsets_of(span.node, span.incarnation), at)
        else:
            at -= self.offsets_ns.get(span.node, 0)
        first_ns, last_ns = at.tolist()
        return span._replace(first_ns=first_ns, last_ns=last_ns)

    def offsets_of(self, node: bytes, incarnation: int) -> Sequence[Offset]:
        """Give the offsets of a clock that changes; an incarnation without any has those of the incarnation before."""
        lives = self.changes[node]
        return lives[max((life for life in lives if life <= incarnation), default=min(lives))]

    @property
    def most_ahead_ns(self) -> int:
        """The largest offset of any clock at any time, and at least 0.

        Clocks are ahead by 0.2 s, by 0.5 s at most, and behind by 3 s: 0.5 s.
        """
        most = max([0, *self.offsets_ns.values()])
        for span in self.spans:
            if span.node in self.changes:
                known = self.offsets_of(span.node, span.incarnation)
                begins = [each.since_ns for each in known if span.first_ns < each.since_ns < span.last_ns]
                times = [span.first_ns, *begins, *(at - 1 for at in begins), span.last_ns]
                most = max(most, int(offsets_at(known, np.array(times)).max()))
        return most


def _twice_shown(spans: Iterable[LifeSpan]) -> list[LifeSpan]:
    """Give the times that the clock of a node shows twice, by this clock, and the time until the clock is known again.

    A started at 100 s and sees its first message at 40 s: from 40 s to 160 s. A lives from 10 s to 90 s, and in its
    next life from 70 s to 200 s: from 10 s to 150 s, in both lives.
    """
    found: list[LifeSpan] = []
    latest: dict[bytes, LifeSpan] = {}  # the life of each node that goes on for longest, so far
    for span in sorted(spans, key=lambda span: (span.first_ns, span.last_ns, span.incarnation)):
        if span.first_ns < span.incarnation - SET_BACK_NS:
            found.append(span._replace(last_ns=span.incarnation + SETTLING_NS))
        before = latest.setdefault(span.node, span)
        if before.incarnation != span.incarnation and span.first_ns < before.last_ns - SET_BACK_NS:
            first, last = span.first_ns - SETTLING_NS, min(before.last_ns, span.last_ns) + SETTLING_NS
            found += [each._replace(first_ns=first, last_ns=last) for each in (before, span)]
        latest[span.node] = max(before, span, key=lambda each: each.last_ns)
    return found


class NodeCoverage:
    """The coverage of some nodes, which are numbers: their places in the list of nodes."""

    def __init__(self, coverage: Coverage, nodes: list[bytes]) -> None:
        known = coverage.nodes
        self._coverage = coverage
        self._nodes = nodes
        # a row without a name may be of any node
        self.captures: Bools = np.array([node != b"" and node in known for node in nodes], dtype=np.bool_)
        self.offset: Ints = _numbers(coverage.offsets_ns.get(node, 0) for node in nodes)
        self.begin: Ints = _numbers(known.get(node, (NO_TIME, NO_TIME))[0] for node in nodes)
        self.end: Ints = _numbers(known.get(node, (NO_TIME, NO_TIME))[1] for node in nodes)
        self._references = _References(coverage, nodes)
        number_of = {node: number for number, node in enumerate(nodes)}
        self._lives, self._skips, self._doubts = (_NodeRanges(number_of, each) for each in coverage.stretches)
        self._unclosed = _NodeRanges(number_of, coverage.lives_ending(OPEN, OVERHEARD))
        self._overheard = _NodeRanges(number_of, coverage.lives_ending(OVERHEARD))
        self._is_changing: Bools = np.array([node in coverage.changes for node in nodes], dtype=np.bool_)

    def corrected(self, node: Ints, incarnation: Ints, at: Ints) -> Ints:
        """Give times by the clocks of nodes as corrected times."""
        return at - self.offset_at(node, incarnation, at)

    def offset_at(self, node: Ints, incarnation: Ints, at: Ints) -> Ints:
        """Give how far the clocks of nodes are ahead, at times by these clocks."""
        offsets = self.offset[node]
        rows = np.flatnonzero(self._is_changing[node])
        groups = Groups(pack(node[rows], number_codes(incarnation[rows])))
        for places in np.split(groups.order, groups.starts[1:]) if len(rows) else ():
            own = rows[places]
            known = self._coverage.offsets_of(self._nodes[node[own[0]]], int(incarnation[own[0]]))
            offsets[own] = offsets_at(known, at[own])
        return offsets

    def has_one_clock(self, node: Ints, other: Ints, at: Ints) -> Bools:
        """Tell where the clocks of two nodes are known against each other at this time."""
        is_one: Bools = self._references.at(node, at) == self._references.at(other, at)
        return is_one

    def is_looking(self, node: Ints, at: Ints) -> Bools:
        """Tell where a node captures, and had begun to capture at this time."""
        has_begun: Bools = self.captures[node] & (self.begin[node] <= at)
        return has_begun

    def goes_on(self, node: Ints, at: Ints, rules: Rules) -> Bools:
        """Tell where a node was seen after this time, before its silence was too long.

        B is seen at 9 s and at 200 s: B goes on after 10 s. If B is next seen after 610 s, it does not. So what is said
        of 10 s is the same, whatever a capture says of times after 610 s.
        """
        return self._lives.overlap(node, at + 1, at + rules.silence_ns)

    def is_doubtful(self, node: Ints, at: Ints) -> Bools:
        """Tell where the clock of a node was set about this time, and nobody knows when exactly."""
        return self._doubts.overlap(node, at, at)

    def is_doubtful_within(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where the clock of a node was set between two times, or shows some of them twice."""
        return self._doubts.overlap(node, begin, end)

    def skips_within(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where a node skipped sightings between two times."""
        return self._skips.overlap(node, begin, end)

    def lives_at(self, node: Ints, at: Ints) -> Bools:
        """Tell where a node is within one of its incarnations."""
        return self._lives.overlap(node, at, at)

    def ended_within(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where an incarnation of a node ended between two times."""
        return self._lives.ended_within(node, begin, end)

    def broke_off_within(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where an incarnation of a node ended between two times without closing its capture."""
        return self._unclosed.ended_within(node, begin, end)

    def can_pass_unseen(self, source: Ints, target: Ints, begin: Ints, end: Ints, rules: Rules) -> Bools:
        """Tell where a message can have come from one node to another between two times, unseen by both.

        A is blind from 10 s to 12 s, and B from 16 s to 20 s. A message takes 5 s at most: B can have missed a message
        of A between 16 s and 17 s, and at no other time. A message that has to leave after 13 s is seen by A. A node
        that does not capture is always blind, and so is a node before its first sighting.
        """
        found: Bools = np.zeros(len(source), dtype=np.bool_)
        since = begin - rules.unwritten_ns  # whoever was killed may have written its last sighting before
        is_deaf = self.skips_within(target, begin, end) | self.broke_off_within(target, since, end)
        rows = np.flatnonzero(is_deaf | ~self.is_looking(target, begin))
        pairs = Groups(pack(source[rows], target[rows]))
        for places in np.split(pairs.order, pairs.starts[1:]) if len(rows) else ():
            own = rows[places]
            came, left = self._unseen_times(int(source[own[0]]), int(target[own[0]]), rules)
            begun = np.searchsorted(came, end[own], "right")  # times that begin until the end
            found[own] = (begun > 0) & (np.append(NO_TIME, left)[begun] >= begin[own])
        return found

    def _unseen_times(self, source: int, target: int, rules: Rules) -> tuple[Ints, Ints]:
        """When a message of one node can have come to the other, unseen by both.

        Two columns: from when on a message can have come, in order; and the latest time until which, of this row and of
        those before, a message can have left and come.
        """
        first, last = self._blind_times(target, rules.unwritten_ns)
        left_first, left_last = self._blind_times(source, rules.unwritten_ns)
        longest = (
            np.minimum(left_last, NEVER - rules.patience_ns) + rules.patience_ns
        )  # a message takes so long at most
        begin, end = np.searchsorted(longest, first, "left"), np.searchsorted(left_first, last, "right")
        count = np.maximum(end - begin, 0)
        row = np.repeat(np.arange(len(first)), count)
        other = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + begin[row]
        came, left = np.maximum(first[row], left_first[other]), np.minimum(last[row], left_last[other])
        order = np.argsort(came, kind="stable")
        return came[order], np.maximum.accumulate(left[order])

    def _blind_times(self, node: int, unwritten_ns: int) -> tuple[Ints, Ints]:
        """When a node wrote nothing down, from when to when: in order, and apart from one another."""
        if not self.captures[node]:
            return np.array([NO_TIME]), np.array([NEVER])
        found = self._coverage.blind.get(self._nodes[node], [])
        first = _numbers([NO_TIME, *(span.first_ns for span, _ in found)])
        last = _numbers([self.begin[node] - 1, *(span.last_ns + unwritten_ns * is_killed for span, is_killed in found)])
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        is_new = np.ones(len(first), dtype=np.bool_)
        is_new[1:] = first[1:] > last[:-1]
        return first[is_new], last[np.append(is_new[1:], True)[: len(first)]]

    def tells_all(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where a node wrote down everything that it saw between two times, its dead letters included."""
        is_blind = self.skips_within(node, begin, end) | self.broke_off_within(node, begin, end)
        is_complete: Bools = self.is_looking(node, begin) & ~is_blind & ~self._overheard.overlap(node, begin, end)
        return is_complete


class _References:
    """The reference of each node, which may change with time."""

    def __init__(self, coverage: Coverage, nodes: list[bytes]) -> None:
        names = set(coverage.clocks.values()) | {name for each in coverage.references.values() for *_, name in each}
        number_of = {name: number for number, name in enumerate(sorted(names))}
        self._last: Ints = _numbers(
            number_of[coverage.clocks[node]] if node in coverage.clocks else len(number_of) + place
            for place, node in enumerate(nodes)
        )
        self._changes: dict[int, tuple[Ints, Ints]] = {}
        begins = {(span.node, span.incarnation): span.first_ns for span in coverage.spans}
        for place, node in enumerate(nodes):
            if known := coverage.references.get(node):
                times = [(life, max(since, begins.get((node, life), 0))) for life, since, _ in known]
                spans = coverage.corrected(LifeSpan(node, since, since, life) for life, since in times)
                order = sorted(range(len(known)), key=lambda each: spans[each].first_ns)
                numbers = _numbers(number_of[known[each][2]] for each in order)
                self._changes[place] = _numbers(spans[each].first_ns for each in order), numbers

    def at(self, node: Ints, at: Ints) -> Ints:
        """Give the reference of each node at a time, as a number."""
        found = self._last[node]
        for place, (since, numbers) in self._changes.items():
            own = np.flatnonzero(node == place)
            found[own] = numbers[np.maximum(np.searchsorted(since, at[own], "right") - 1, 0)]
        return found


class _NodeRanges:
    """Times of nodes, from when to when, which are looked up for many rows at once."""

    def __init__(self, number_of: dict[bytes, int], spans: Iterable[LifeSpan]) -> None:
        known = [span for span in spans if span.node in number_of]
        nodes = _numbers(number_of[span.node] for span in known)
        self._firsts = _NodeTimes(len(number_of), nodes, _numbers(span.first_ns for span in known))
        self._lasts = _NodeTimes(len(number_of), nodes, _numbers(span.last_ns for span in known))

    def overlap(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where a node has a time that overlaps: more have begun until `end` than were over before `begin`."""
        return self._firsts.count(node, end, "right") > self._lasts.count(node, begin, "left")

    def ended_within(self, node: Ints, begin: Ints, end: Ints) -> Bools:
        """Tell where a time of a node ended between two times."""
        return self._lasts.count(node, end, "right") > self._lasts.count(node, begin, "left")


class _NodeTimes:
    """Moments of nodes, sorted: the node and the rank of the moment are one number.

    Where nodes and moments are few, the count at each such number is known beforehand. A look takes a third of the time
    of a search.
    """

    def __init__(self, node_count: int, nodes: Ints, times: Ints) -> None:
        self.times = np.unique(times)
        self.width = len(self.times) + 1
        self.places = np.sort(nodes * self.width + np.searchsorted(self.times, times))
        self.counts: Ints | None = None
        if node_count * self.width <= MOST_COUNTS:
            moments = np.bincount(self.places + 1, minlength=node_count * self.width)
            self.counts = np.cumsum(moments.reshape(node_count, self.width), axis=1).ravel()

    def count(self, node: Ints, at: Ints, side: Literal["left", "right"]) -> Ints:
        """Count the moments of a node before a time; `right` counts equal moments too."""
        if not len(self.times):
            return np.zeros(len(node), dtype=np.int64)
        place = node * self.width + np.searchsorted(self.times, at, side=side)
        if self.counts is not None:
            return self.counts.take(place)
        return np.searchsorted(self.places, place) - np.searchsorted(self.places, node * self.width)


def _numbers(values: Iterable[Any]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


# -- from rows


def coverage_from_rows(rows: pa.Table) -> Coverage:
    """Give when the nodes were looking, and how wrong their clocks are, from rows of clocks."""
    names = ["node", "offset_ns", "reference_node", "lives", "skips", "offsets", "doubts", "references"]
    found = rows.select(names).to_pylist()
    return Coverage(
        spans=_spans(found, "lives"),
        skips=_spans(found, "skips"),
        offsets_ns={row["node"]: row["offset_ns"] for row in found},
        clocks={row["node"]: row["reference_node"] for row in found},
        changes={row["node"]: _changes(row["offsets"]) for row in found if row["offsets"]},
        doubts=_spans(found, "doubts"),
        references={
            row["node"]: [tuple(each.values()) for each in row["references"]] for row in found if row["references"]
        },
    )


def _spans(rows: Iterable[dict[str, Any]], name: str) -> list[LifeSpan]:
    return [
        LifeSpan(row["node"], each["first_ns"], each["last_ns"], each["incarnation"], each.get("ending", OPEN))
        for row in rows
        for each in row[name] or ()
    ]


def _changes(offsets: Iterable[dict[str, Any]]) -> dict[int, list[Offset]]:
    found: dict[int, list[Offset]] = defaultdict(list)
    for each in offsets:
        found[each.pop("incarnation")].append(Offset(**each))
    return dict(found)
