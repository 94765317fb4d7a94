"""Crossings: messages that tell how far two clocks differ, and what can be concluded from several of them.

By the two clocks, a crossing from A to B takes its travel time plus how far B is ahead of A. A message never takes less
than no time. So each crossing to B is an upper bound of how far B is ahead, and each crossing from B a lower bound.

| quickest A to B | quickest B to A | what is concluded |
|---|---|---|
| 501 ms | -499 ms | B is ahead by 499 ms to 501 ms: by 500 ms, give or take 1 ms |
| 2 ms | 3 ms | B is ahead by -3 ms to 2 ms: the clocks may be right, and are left alone |
| -400 ms | -300 ms | at least 300 ms and at most -400 ms, which cannot be: the error changes with time |

- A crossing counts only if it cannot be mistaken: the message has one departure and one arrival until the end of the
  window of the crossing. A message without an id and without a flow may be equal to others, and does not count.
- The window of a crossing is the later one of the windows of its two times, each by its own clock. Only the quickest
  crossing of a window counts, for each pair of lives and each direction.
- An error that changes evenly is a straight line between the bounds: the line that is farthest from all of them.
- If no line fits, the clock was set. The longest run of windows up to the last that a line fits is after that.

What must change with these rules: `lake/silver/clocks.py`, which finds the quickest crossings on Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.groups import Groups, codes, equal_text, has_bytes, number_codes, pack
from hopwire.model.names import NO_CORRELATION
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "MAX_DRIFT",
    "WINDOW_NS",
    "ClockBounds",
    "ClockLine",
    "Crossing",
    "CrossingColumns",
    "FittedLine",
    "Life",
    "TimeRange",
    "bounds_of",
    "crossings_of",
    "fit",
    "quickest",
    "quickest_crossings",
    "window_of",
]

MAX_DRIFT = 0.000_5  # as fast as systems slew a clock; a quartz is ten times better
WINDOW_NS = 10 * NS_PER_SECOND  # even a quiet pair has a beat each way within it; a quartz drifts by less than 1 ms
OF_CROSSINGS = [  # the columns of sightings that crossings are made of
    "message_key", "correlation_id", "message_id", "callback_key", "node", "peer", "direction", "seen_at_ns",
    "incarnation", "attempt",
]  # fmt: skip
ROUNDS = 50  # of the search for a drift: each leaves two thirds of what there is to search

TimeRange: TypeAlias = tuple[int, int]  # from when to when
Life: TypeAlias = tuple[bytes, int]  # a node, and the number of an incarnation


class Crossing(NamedTuple):
    """The quickest crossing from one node to another in one window, by their own clocks."""

    from_node: bytes
    to_node: bytes
    quickest_ns: int
    messages: int = 1
    left_at_ns: int = 0
    from_incarnation: int = 0
    to_incarnation: int = 0
    window: int = 0

    @property
    def came_at_ns(self) -> int:
        """When the message arrived, by the clock of the node where it arrived."""
        return self.left_at_ns + self.quickest_ns

    @property
    def ends(self) -> tuple[Life, Life]:
        """The life that the message left, and the life that it came to."""
        return (self.from_node, self.from_incarnation), (self.to_node, self.to_incarnation)


def window_of(crossing: Crossing) -> int:
    """Give the window of a crossing, to sort by."""
    return crossing.window


def quickest_crossings(sightings: pa.Table) -> list[Crossing]:
    """Give the quickest crossing for each pair of lives in each window, of sightings such as `link` takes."""
    return CrossingColumns.of(sightings).quickest().all()


def quickest(crossings: Iterable[Crossing]) -> list[Crossing]:
    """Give the quickest crossing for each pair of lives in each window, with the number of messages of all."""
    found: dict[tuple[object, ...], Crossing] = {}
    messages: Counter[tuple[object, ...]] = Counter()
    for each in crossings:
        source, target, took, count, left, *lives_and_window = each
        place = (source, target, *lives_and_window)
        messages[place] += count
        known = found.get(place)
        if known is None or (took, left) < (known.quickest_ns, known.left_at_ns):
            found[place] = each
    return [each._replace(messages=messages[place]) for place, each in found.items()]


def crossings_of(sightings: pa.Table) -> list[Crossing]:
    """Give all crossings that count."""
    return CrossingColumns.of(sightings).all()


@dataclass(frozen=True, slots=True)
class CrossingColumns:
    """All crossings that count, as columns in the order of Crossing; nodes are numbers.

    A step has some ten thousand crossings, and asks for few of them one by one.
    """

    nodes: list[bytes]
    columns: tuple[Ints, ...]

    @classmethod
    def of(cls, sightings: pa.Table) -> CrossingColumns:
        """Give the crossings of sightings such as `link` takes."""
        return _crossings(sightings)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def window(self) -> Ints:
        """The window of each crossing."""
        return self.columns[-1]

    def where(self, mask: Bools) -> CrossingColumns:
        """Give the crossings that the mask marks."""
        return CrossingColumns(self.nodes, tuple(column[mask] for column in self.columns))

    def without(self, others: Counter[Crossing]) -> CrossingColumns:
        """Give the crossings but for some, each as often as it is named."""
        if not others:
            return self
        left, is_kept = Counter(others), np.ones(len(self), dtype=np.bool_)
        for number, each in enumerate(self.all()):
            if left[each]:
                left[each] -= 1
                is_kept[number] = False
        return self.where(is_kept)

    def all(self) -> list[Crossing]:
        """Give each crossing."""
        source, target, *numbers = (column.tolist() for column in self.columns)
        names = ([self.nodes[code] for code in end] for end in (source, target))
        return list(map(Crossing, *names, *numbers))

    def quickest(self) -> CrossingColumns:
        """Give the quickest crossing for each pair of lives in each window, with the number of messages of all."""
        source, target, took, messages, left, *lives, window = self.columns
        numbers = [number_codes(column) for column in (*lives, window)]
        pairs = Groups(pack(source, target, *numbers), took, left)
        first = tuple(column[pairs.first] for column in self.columns)
        return CrossingColumns(self.nodes, (*first[:3], pairs.total(messages), *first[4:]))

    @classmethod
    def joined(cls, parts: Sequence[CrossingColumns]) -> CrossingColumns:
        """Give the crossings of all parts; each part has numbers of its own for nodes."""
        nodes = sorted({node for each in parts for node in each.nodes})
        number_of = {node: number for number, node in enumerate(nodes)}
        renamed = []
        for each in parts:
            numbers = np.array([number_of[node] for node in each.nodes], dtype=np.int64)
            renamed.append((*(numbers[end] for end in each.columns[:2]), *each.columns[2:]))
        none = np.zeros(0, dtype=np.int64)
        columns = zip(*renamed, strict=True) if parts else [[none] for _ in Crossing._fields]
        return cls(nodes, tuple(np.concatenate(column) for column in columns))


def _crossings(sightings: pa.Table) -> CrossingColumns:
    rows = sightings.select(OF_CROSSINGS)
    can_tell = _can_tell(rows)
    rows = rows if can_tell.all() else rows.filter(pa.array(can_tell))
    (key,), _ = codes(rows["message_key"])
    (flow,), _ = codes(rows["correlation_id"])
    key = pack(key, flow, number_codes(ints(rows["callback_key"])))  # a message that changes its flow is another
    (node, peer), nodes = codes(rows["node"], rows["peer"])
    is_in, at, incarnation = equal_text(rows["direction"], "in"), ints(rows["seen_at_ns"]), ints(rows["incarnation"])
    source, target = np.where(is_in, peer, node), np.where(is_in, node, peer)
    way = pack(key, ints(rows["attempt"]), source, target)
    out, came = _single(way, is_in, at // WINDOW_NS, at)
    took, window = at[came] - at[out], np.maximum(at[out], at[came]) // WINDOW_NS
    columns = (source[out], target[out], took, np.ones_like(took), at[out], incarnation[out], incarnation[came], window)
    return CrossingColumns(nodes.to_pylist(), columns)


def _can_tell(sightings: pa.Table) -> Bools:
    """Tell which sightings are of messages that are no others: they have an id, a flow or a callback key."""
    has_flow = ~bools(pc.is_in(one_array(sightings["correlation_id"]), pa.array(NO_CORRELATION, pa.binary())))
    has_name: Bools = has_flow | has_bytes(sightings["message_id"]) | (ints(sightings["callback_key"]) != 0)
    return has_name & (equal_text(sightings["direction"], "in") | equal_text(sightings["direction"], "out"))


def _single(way: Ints, is_in: Bools, window: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Give the departure and the arrival of each way with one of each, until the end of the later one's window."""
    groups = Groups(way, at)
    firsts = groups.first_where(~is_in), groups.first_where(is_in)
    end = np.maximum(*(np.where(first >= 0, window[first], 0) for first in firsts))
    is_until = window <= end[groups.of]
    is_single = (groups.total(is_until) == 2) & (groups.total(is_until & is_in) == 1)
    is_single &= (firsts[0] >= 0) & (firsts[1] >= 0)
    return firsts[0][is_single], firsts[1][is_single]


# -- lines


class ClockLine(NamedTuple):
    """How far a clock is ahead: by `offset_ns` at one moment by the clock itself, and by more with each moment."""

    at_ns: int = 0
    offset_ns: int = 0
    drift: float = 0.0

    def at(self, time_ns: int) -> int:
        """Give how far the clock is ahead at this time by the clock itself."""
        return self.offset_ns + round(self.drift * (time_ns - self.at_ns)) if self.drift else self.offset_ns

    def plus(self, other: ClockLine) -> ClockLine:
        """Give the sum of two lines."""
        return ClockLine(other.at_ns, self.at(other.at_ns) + other.offset_ns, self.drift + other.drift)


class ClockBounds(NamedTuple):
    """Bounds of how far one clock is ahead: by the clock itself, when and how far at most, or at least."""

    at_ns: Ints
    ahead_ns: Ints
    is_upper: Bools
    window: Ints

    def where(self, mask: Bools) -> ClockBounds:
        """Give the bounds that the mask marks."""
        return ClockBounds(self.at_ns[mask], self.ahead_ns[mask], self.is_upper[mask], self.window[mask])


class FittedLine(NamedTuple):
    """A line between bounds, how wrong it may be, and since which window it holds."""

    line: ClockLine
    error_ns: int
    since_window: int


def fit(bounds: ClockBounds, slack_ns: int = 0) -> FittedLine | None:
    """Give the line that fits most windows up to the last; None if nothing fits the last, or one side is missing.

    A window that contradicts itself is left out. The bounds may be missed by the slack.
    """
    bounds = bounds.where(~_is_odd(bounds, slack_ns))
    windows = np.unique(bounds.window)
    found, fits, fails = None, 0, len(windows) + 1  # how many of the last windows are known to fit, and to fail
    count = len(windows)
    while fits < count < fails:
        since = int(windows[len(windows) - count])
        line = _fitted(bounds.where(bounds.window >= since), slack_ns)
        if line is None:
            fails = count
        else:
            found, fits = FittedLine(*line, since), count
        count = (fits + fails) // 2
    return found


def _is_odd(bounds: ClockBounds, slack_ns: int) -> Bools:
    """Tell which bounds are of a window whose quickest crossings no clock that only drifts can show."""
    groups = Groups(bounds.window)
    least = groups.least(bounds.ahead_ns, bounds.is_upper)
    most = groups.most(bounds.ahead_ns, ~bounds.is_upper)
    width = groups.most(bounds.at_ns) - groups.least(bounds.at_ns)
    has_both = groups.has(bounds.is_upper) & groups.has(~bounds.is_upper)
    is_odd = has_both & (np.where(has_both, most, 0) - np.where(has_both, least, 0) > MAX_DRIFT * width + 2 * slack_ns)
    return np.asarray(is_odd[groups.of])


def _fitted(bounds: ClockBounds, slack_ns: int) -> tuple[ClockLine, int] | None:
    upper, lower = bounds.where(bounds.is_upper), bounds.where(~bounds.is_upper)
    if not len(upper.at_ns) or not len(lower.at_ns):
        return None
    most, least = int(upper.ahead_ns.min()), int(lower.ahead_ns.max())
    middle = int(bounds.at_ns.min()) + int(np.ptp(bounds.at_ns)) // 2
    if least <= most + 2 * slack_ns:
        offset = 0 if least <= 0 <= most else (least + most) // 2
        return ClockLine(middle, offset), abs(most - least) // 2
    times = (upper.at_ns - middle).astype(np.float64), (lower.at_ns - middle).astype(np.float64)

    def ends(drift: float) -> tuple[float, float]:
        return float((upper.ahead_ns - drift * times[0]).min()), float((lower.ahead_ns - drift * times[1]).max())

    def room(drift: float) -> float:
        most, least = ends(drift)
        return most - least

    low, high = -MAX_DRIFT, MAX_DRIFT
    for _ in range(ROUNDS):  # the room has one summit
        one, other = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, other) if room(one) >= room(other) else (one, high)
    drift = (low + high) / 2
    if room(drift) < -2 * slack_ns:
        return None
    return ClockLine(middle, round(sum(ends(drift)) / 2), drift), round(abs(room(drift)) / 2)


def bounds_of(life: Life, crossings: Sequence[tuple[Crossing, ClockLine]], own: ClockLine) -> ClockBounds:
    """Give the bounds of how far the clock of a life is ahead of its line, from crossings with lines of the others."""
    at: list[int] = []
    ahead: list[int] = []
    is_upper: list[bool] = []
    window: list[int] = []
    for each, other in crossings:
        is_to = each.ends[1] == life
        mine, theirs = (each.came_at_ns, each.left_at_ns) if is_to else (each.left_at_ns, each.came_at_ns)
        at.append(mine)
        ahead.append(mine - own.at(mine) - (theirs - other.at(theirs)))
        is_upper.append(is_to)
        window.append(each.window)
    times, bounds, windows = (np.array(column, dtype=np.int64) for column in (at, ahead, window))
    return ClockBounds(times, bounds, np.array(is_upper, dtype=np.bool_), windows)
