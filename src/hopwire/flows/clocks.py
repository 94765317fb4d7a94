"""How wrong the clocks of the nodes are against one another, and how each clock is corrected.

Time is cut into windows of 10 s. What is known of the clocks is folded window by window: the crossings of a window
(`crossings.py`) change what was known before. So a window that comes later changes nothing that was corrected before,
and clocks come out the same however the captures were cut into steps. Each life of a node has a clock.

1. *Boot.* The first six windows in which a life is seen to cross are its boot. Until the boot is over, the clock is
   estimated anew with each window. The estimate at the end of the boot counts for all times of the life before. A
   capture of less than a minute has one estimate, from all its crossings.
2. *Islands.* Clocks that could be compared are an island, and are corrected to its reference. Islands are joined, the
   surest pair first and pairs that drift last; the smaller island moves. A-B within 1 ms, B-C within 2 ms and A-C
   within 9 ms: A-B are joined first, then C to B. A clock that could be compared with nobody is not corrected.
3. *Kept while not contradicted.* A clock has one offset until a crossing would take less than no time. Steady clocks
   have one steady estimate.
4. *Contradicted.* The clock that contradicts most others is to blame, and it alone is fitted anew to the others, by the
   crossings of the last 60 windows: one offset if that fits, else a straight line, else what fits the last windows. The
   new line counts from the crossing on that contradicted the old one.
5. *Set.* Where the new line is farther from the old one than any drift explains, the clock was set, and nobody knows
   when exactly. The times from the last crossing that fits the old line to the first that fits the new line are
   doubtful.
6. *A new life* has the clock of the life before, until its own crossings contradict this within its boot. Then the life
   is compared anew. Where only one direction is seen, nothing can be compared: a crossing that is too quick by more
   than any drift explains (0.3 s) leaves the life without a correction, and a smaller one changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.flows.coverage import LifeSpan, Offset
from hopwire.flows.crossings import (
    MAX_DRIFT,
    WINDOW_NS,
    ClockLine,
    Crossing,
    FittedLine,
    Life,
    TimeRange,
    bounds_of,
    fit,
    window_of,
)
from hopwire.flows.schemas import CLOCK_SCHEMA, REFERENCE, STRETCH
from hopwire.flows.spans import PlacedSpan, lives_of, skips_of
from hopwire.model.units import NS_PER_US

__all__ = [
    "BOOT_WINDOWS",
    "EVER_NS",
    "Clock",
    "ClockFold",
    "ClockVersion",
    "FoldParts",
    "clocks_from_crossings",
    "rows_from_clocks",
]

BOOT_WINDOWS = 6  # a minute: in a shorter time even a busy pair may have no quick crossing
RECENT_WINDOWS = 60  # ten minutes: long enough to tell a drift, short enough for a drift that changes with the heat
SLACK_NS = 50 * NS_PER_US  # a crossing may be so much too quick, before anybody moves: what reading a clock costs
BEYOND_DRIFT_NS = int(MAX_DRIFT * RECENT_WINDOWS * WINDOW_NS)  # farther off no drift brings a clock between two lives
EVER_NS = -(2**62)  # since when the first version of a clock counts


class ClockVersion(NamedTuple):
    """How far a clock is ahead from one time on, by the clock itself, until the next version."""

    since_ns: int
    line: ClockLine
    reference: bytes
    via: bytes = b""
    error_ns: int = 0


class _Estimate(NamedTuple):
    """What is known of a clock at the moment."""

    line: ClockLine
    island: Life
    via: bytes = b""
    error_ns: int = 0


class FoldParts(NamedTuple):
    """What is known of all clocks up to one window, as lists that can be written down."""

    nodes: list[bytes]
    window: int
    boots: list[tuple[Life, int]]
    now: list[tuple[Life, _Estimate]]
    versions: list[tuple[Life, list[ClockVersion]]]
    doubts: list[tuple[Life, list[TimeRange]]]
    recent: list[tuple[tuple[Life, Life], list[Crossing]]]
    missed: list[tuple[tuple[Life, Life], int]]
    messages: list[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of the clock of a node."""

    node: bytes
    reference_node: bytes
    offset_ns: int = 0
    is_corrected: bool = False
    via_node: bytes = b""
    error_ns: int | None = None
    crossing_count: int = 0
    offsets: Mapping[int, Sequence[Offset]] = field(default_factory=dict)  # by incarnation, if the offset changes
    doubts: Sequence[tuple[int, int, int]] = ()  # incarnation, from when, to when
    references: Sequence[tuple[int, int, bytes]] = ()  # incarnation, from when on, reference; if it changes


def clocks_from_crossings(
    nodes: Iterable[bytes], crossings: Iterable[Crossing], base: ClockFold | None = None
) -> list[Clock]:
    """Give the clock of every node, from the quickest crossings of each window, and from what was known before."""
    fold = base.copy() if base else ClockFold()
    fold.nodes |= set(nodes)
    fold.add(each for each in crossings if base is None or each.window > base.window)
    return fold.clocks()


class ClockFold:
    """What is known of all clocks up to one window."""

    def __init__(self, nodes: Iterable[bytes] = ()) -> None:
        self.nodes = set(nodes)
        self.window = 0  # the last window that was added
        self._boots: dict[Life, int] = {}  # the last window of the boot of each life
        self._now: dict[Life, _Estimate] = {}
        self._versions: dict[Life, list[ClockVersion]] = defaultdict(list)
        self._doubts: dict[Life, list[TimeRange]] = defaultdict(list)
        self._recent: dict[tuple[Life, Life], list[Crossing]] = defaultdict(list)
        self._missed: dict[tuple[Life, Life], int] = {}  # by how much crossings may be too quick, as was seen before
        self._messages: dict[bytes, int] = defaultdict(int)

    def copy(self) -> ClockFold:
        """Give a fold that goes on by itself."""
        other = ClockFold(self.nodes)
        other.window = self.window
        for name in ("_boots", "_now", "_missed", "_messages"):
            getattr(other, name).update(getattr(self, name))
        for name in ("_versions", "_doubts", "_recent"):
            getattr(other, name).update((key, list(each)) for key, each in getattr(self, name).items())
        return other

    def parts(self) -> FoldParts:
        """Give all that is known as lists, in the order in which it became known."""
        own = (getattr(self, f"_{name}").items() for name in FoldParts._fields[2:])
        return FoldParts(sorted(self.nodes), self.window, *map(list, own))

    @classmethod
    def from_parts(cls, parts: FoldParts) -> ClockFold:
        """Give the fold whose parts these are."""
        fold = cls(parts.nodes)
        fold.window = parts.window
        for name in FoldParts._fields[2:]:
            getattr(fold, f"_{name}").update(getattr(parts, name))
        return fold

    def add(self, crossings: Iterable[Crossing]) -> None:
        """Take in the crossings of later windows."""
        known = [each for each in crossings if each.from_node in self.nodes and each.to_node in self.nodes]
        known = sorted(each for each in known if each.from_node != each.to_node)
        for window, each in groupby(sorted(known, key=window_of), key=window_of):
            self._add_window(window, list(each))

    def _add_window(self, window: int, crossings: list[Crossing]) -> None:
        self.window = window
        booted = [life for life in self._now if self._boots[life] < window and not self._versions[life]]
        for life in booted:
            self._put(life, EVER_NS)
            for ends in self._ways_of(life):
                if self._now.keys() >= set(ends):
                    self._missed[ends] = max(0, -min(map(self._took, self._recent[ends])))
        for each in crossings:
            ways = self._recent[each.ends]
            ways.append(each)
            while ways[0].window <= window - RECENT_WINDOWS:
                ways.pop(0)
            for life in each.ends:
                self._messages[life[0]] += each.messages
                self._boots.setdefault(life, window + BOOT_WINDOWS - 1)
        settled = {life: now for life, now in self._now.items() if self._boots[life] < window}
        self._now = dict(settled)  # in one order in every process, since the estimates are carried to the next step
        booting = sorted(self._boots.keys() - settled.keys())
        for life in booting:
            self._now[life] = self._inherited(life) or _Estimate(ClockLine(), life)
        if booting or any(self._now[each.ends[0]].island != self._now[each.ends[1]].island for each in crossings):
            self._join()
        self._mend([each for each in crossings if settled.keys() >= {*each.ends}])
        for life, before in settled.items():
            if self._now[life].island != before.island:
                self._put(life, window * WINDOW_NS)

    def _put(self, life: Life, since_ns: int) -> None:
        """Write down what is known of a clock as the version from a time on."""
        now = self._now[life]
        known = [each for each in self._versions[life] if each.since_ns < since_ns]
        self._versions[life] = [*known, ClockVersion(since_ns, now.line, now.island[0], now.via, now.error_ns)]

    # -- islands

    def _inherited(self, life: Life) -> _Estimate | None:
        """Give the clock of the life before, unless the crossings of this life contradict it."""
        before = max((each for each in self._now if each[0] == life[0] and each[1] < life[1]), default=None)
        if before is None:
            return None
        estimate = self._now[before]
        others = self._crossings_of(life, estimate.island)
        bounds = bounds_of(life, others, estimate.line)
        can_compare = bounds.is_upper.any() and not bounds.is_upper.all()
        slack = SLACK_NS if can_compare else estimate.error_ns + BEYOND_DRIFT_NS
        is_missed = (bounds.ahead_ns < -slack) & bounds.is_upper | (bounds.ahead_ns > slack) & ~bounds.is_upper
        return None if is_missed.any() else estimate

    def _crossings_of(self, life: Life, island: Life) -> list[tuple[Crossing, ClockLine]]:
        """Give the recent crossings of a life with an island, each with the line of the other end."""
        found = []
        for one, other in self._ways_of(life):
            far = other if one == life else one
            if far in self._now and self._now[far].island == island:
                found += [(each, self._now[far].line) for each in self._recent[one, other]]
        since = self.window - RECENT_WINDOWS
        return [(each, line) for each, line in found if each.window > since]

    def _ways_of(self, life: Life) -> list[tuple[Life, Life]]:
        return sorted(ends for ends in self._recent if life in ends)

    def _join(self) -> None:
        """Join islands that can be compared, the surest pair first."""
        pairs = sorted({(min(ends), max(ends)) for ends in self._recent if ends[::-1] in self._recent})
        found = []
        for a, b in pairs:
            if a in self._now and b in self._now and self._now[a].island != self._now[b].island:
                fitted = self._compared(a, b)
                if fitted:
                    found.append((fitted.line.drift != 0.0, fitted.error_ns, a, b))
        for *_, a, b in sorted(found):
            one, other = self._now[a].island, self._now[b].island
            if one == other:
                continue
            if self._place(one) > self._place(other):
                a, b, one, other = b, a, other, one
            fitted = self._compared(a, b)
            if fitted:
                self._move(other, a, fitted, self._now[a].error_ns + fitted.error_ns)

    def _place(self, island: Life) -> tuple[int, Life]:
        """Give the place of an island among others: large islands first."""
        return -sum(each.island == island for each in self._now.values()), island

    def _compared(self, a: Life, b: Life) -> FittedLine | None:
        """Give how far b is ahead of a, beyond what is known of both."""
        line = self._now[a].line
        crossings = [(each, line) for ends in ((a, b), (b, a)) for each in self._recent[ends]]
        return fit(bounds_of(b, crossings, self._now[b].line))

    def _move(self, island: Life, a: Life, fitted: FittedLine, error_ns: int) -> None:
        """Join an island to the island of a."""
        for life in [life for life, each in self._now.items() if each.island == island]:
            line = self._now[life].line.plus(fitted.line)
            self._now[life] = _Estimate(line, self._now[a].island, a[0], error_ns)

    # -- contradictions

    def _mend(self, crossings: list[Crossing]) -> None:
        """Fit clocks anew that a crossing contradicts, each at most once."""
        tried: set[Life] = set()
        while blame := self._blamed([each for each in crossings if self._is_contradicted(each)], tried):
            life, since_ns = blame
            tried.add(life)
            self._refit(life, since_ns)
        for each in crossings:
            missed = max(0, -self._took(each))
            if tried.intersection(each.ends):
                self._missed[each.ends] = missed
            else:
                self._missed.setdefault(each.ends, missed)

    def _took(self, crossing: Crossing) -> int:
        """Give how long a crossing took, by corrected clocks."""
        one, other = (self._now[end].line for end in crossing.ends)
        return crossing.quickest_ns + one.at(crossing.left_at_ns) - other.at(crossing.came_at_ns)

    def _is_contradicted(self, crossing: Crossing) -> bool:
        one, other = (self._now[end] for end in crossing.ends)
        if one.island != other.island:
            return False
        missed = self._missed.get(crossing.ends, one.error_ns + other.error_ns)
        return self._took(crossing) < -missed - SLACK_NS

    def _blamed(self, crossings: list[Crossing], tried: set[Life]) -> tuple[Life, int] | None:
        """Give the life that contradicts most others, and since when, by its own clock."""
        others: dict[Life, set[Life]] = defaultdict(set)
        since: dict[Life, int] = {}
        for each in crossings:
            for life, other in (each.ends, each.ends[::-1]):
                others[life].add(other)
                since[life] = min(_time_of(life, each), since.get(life, _time_of(life, each)))

        def place(life: Life) -> tuple[int, int, bool, Life]:
            return len(others[life]), len(self._versions[life]), life != self._now[life].island, life

        found = [life for life in others if not tried.intersection(others[life] | {life})]
        if not found:
            return None
        worst = max(found, key=place)
        return worst, since[worst]

    def _refit(self, life: Life, since_ns: int) -> None:
        """Fit the clock of a life to the clocks of its island, and leave it as it is if nothing fits."""
        now = self._now[life]
        crossings = self._crossings_of(life, now.island)
        errors = [self._now[far].error_ns for ends in self._ways_of(life) for far in ends if far != life]
        fitted = fit(bounds_of(life, crossings, ClockLine()), SLACK_NS + min(errors, default=0))
        times = sorted(_time_of(life, each) for each, _ in crossings)
        before = max((at for at in times if at < since_ns), default=since_ns)
        if fitted is None or not self._holds(life, fitted, crossings):
            self._doubts[life].append((before, max(times)))
            return
        gap = abs(fitted.line.at(since_ns) - now.line.at(since_ns))
        if gap > MAX_DRIFT * 2 * WINDOW_NS + fitted.error_ns + now.error_ns:
            agreed = [_time_of(life, each) for each, _ in crossings if each.window < fitted.since_window]
            last = max(agreed, default=since_ns)
            self._doubts[life].append((min(since_ns, last), max(since_ns - 1, last)))
        self._now[life] = _Estimate(fitted.line, now.island, now.via, fitted.error_ns)
        self._put(life, since_ns)

    def _holds(self, life: Life, fitted: FittedLine, crossings: list[tuple[Crossing, ClockLine]]) -> bool:
        """Tell whether a line holds for the last window too, give or take its error."""
        last = bounds_of(life, [(each, line) for each, line in crossings if each.window == self.window], fitted.line)
        missed = np.where(last.is_upper, -last.ahead_ns, last.ahead_ns)
        return bool((missed <= 2 * (fitted.error_ns + SLACK_NS)).all())

    # -- clocks

    @property
    def booting(self) -> set[bytes]:
        """The nodes whose clock may change with each window: of their first life the boot is not over.

        A later life has the clock of the life before, as long as nothing contradicts it.
        """
        first: dict[bytes, int] = {}
        for node, incarnation in self._boots:
            first[node] = min(incarnation, first.get(node, incarnation))
        return {node for (node, life), last in self._boots.items() if last >= self.window and life == first[node]}

    def versions(self) -> dict[Life, list[ClockVersion]]:
        """Give the versions of all clocks; of a life that still boots, what is known at the moment."""
        found = {life: list(each) for life, each in self._versions.items() if each}
        for life, now in self._now.items():
            if life not in found:
                found[life] = [ClockVersion(EVER_NS, now.line, now.island[0], now.via, now.error_ns)]
        return found

    def clocks(self) -> list[Clock]:
        """Give the clock of every node."""
        versions = self.versions()
        references = {node: sum(v[-1].reference == node for v in versions.values()) for node in self.nodes}
        found = []
        for node in sorted(self.nodes):
            lives = {life: each for (owner, life), each in sorted(versions.items()) if owner == node}
            doubts = [
                (life, *each) for (owner, life), some in sorted(self._doubts.items()) if owner == node for each in some
            ]
            found.append(_clock(node, lives, doubts, self._messages[node], references[node]))
        return found


def _offset(version: ClockVersion) -> Offset:
    """Give a version as a row has it; a line without drift begins anywhere."""
    line = version.line
    return Offset(max(version.since_ns, 0), line.offset_ns, line.drift, line.at_ns if line.drift else 0)


def _time_of(life: Life, crossing: Crossing) -> int:
    return crossing.came_at_ns if crossing.ends[1] == life else crossing.left_at_ns


def _clock(
    node: bytes,
    lives: Mapping[int, Sequence[ClockVersion]],
    doubts: Sequence[tuple[int, int, int]],
    messages: int,
    follower_count: int,
) -> Clock:
    if not lives:
        return Clock(node, node)
    all_versions = [each for versions in lives.values() for each in versions]
    last = all_versions[-1]
    is_corrected = last.reference != node or follower_count > len(lives)
    offsets = {life: tuple(map(_offset, versions)) for life, versions in lives.items()}
    values = sorted(each.offset_ns for some in offsets.values() for each in some)
    is_steady = values[0] == values[-1] and not any(each.line.drift for each in all_versions)
    via = [each.via for each in all_versions if each.via]
    references = [(life, each.since_ns, each.reference) for life, versions in lives.items() for each in versions]
    return Clock(
        node,
        last.reference,
        median_low(values),
        is_corrected,
        next(iter(via), b""),
        max(each.error_ns for each in all_versions) if is_corrected else None,
        messages,
        {} if is_steady else offsets,
        tuple(doubts),
        tuple(references) if len({each.reference for each in all_versions}) > 1 else (),
    )


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
        "references": [dict(zip(REFERENCE.names, each, strict=True)) for each in clock.references],
    }


def _stretch(span: LifeSpan) -> dict[str, int]:
    return {"incarnation": span.incarnation, "first_ns": span.first_ns, "last_ns": span.last_ns}
