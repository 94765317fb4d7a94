"""Two clocks, compared by the messages that cross between them.

A message that crosses from A to B takes, by the two clocks, its travel time plus the error between them; from B to A
the travel time minus that error. The quickest crossing each way is hardly more than the travel time, so half the
difference of the two is the error, and half their sum bounds how wrong that is.

- Only crossings count that cannot be mistaken: messages with one departure and one arrival.
- Where nothing arrives before it left, in either direction, the clocks may be right, and are left alone: a correction
  by less than its own error would make quick crossings negative.
- There and back in less than no time cannot be: then the error is not the same at all times. It is told window by
  window: the quickest crossings of a window, one each way, give the error at the middle of their times, exactly so if
  it changes evenly. A window in which even a drift could not explain them is doubtful.

What must change with it: `lake/gold/clocks.py` finds the same crossings on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low
from typing import NamedTuple, TypeAlias

from hopwire.flows.coverage import LifeSpan
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "MAX_DRIFT",
    "ClockPair",
    "Crossing",
    "Life",
    "TimeRange",
    "compared",
    "contradicted",
    "moved",
    "window_width",
]

MAX_DRIFT = 0.000_5  # as fast as systems slew a clock; a quartz is ten times better
MAX_WINDOWS = 200  # in the longest incarnation: enough to follow a drift, few enough for each pair of nodes
MIN_WINDOW_NS = 60 * NS_PER_SECOND  # in less even a busy pair may have no quick crossing

TimeRange: TypeAlias = tuple[int, int]  # from when to when
Life: TypeAlias = tuple[bytes, int]  # a node and one of its incarnations, or a number for all


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
        """When it arrived, by the clock there."""
        return self.left_at_ns + self.quickest_ns


class Moment(NamedTuple):
    """What one window tells of a pair: how far b is ahead of a, at a time by both clocks."""

    a_ns: int
    b_ns: int
    ahead_ns: int
    error_ns: int


class ClockPair(NamedTuple):
    """Two clocks that were compared."""

    a: Life
    b: Life
    ahead_ns: int  # how far the clock of b is ahead of that of a; the middle, if that changes
    error_ns: int = 0
    messages: int = 0
    windows: int = 0  # in which both directions are known
    moments: tuple[Moment, ...] = ()  # if it changes
    doubts: tuple[TimeRange, ...] = ()  # by the clock of a

    def seen_from(self, life: Life) -> ClockPair:
        """Give the same such that this clock is a."""
        if life == self.a:
            return self
        moments = tuple(Moment(each.b_ns, each.a_ns, -each.ahead_ns, each.error_ns) for each in self.moments)
        doubts = moved(self.doubts, self.ahead_ns)
        return self._replace(a=self.b, b=self.a, ahead_ns=-self.ahead_ns, moments=moments, doubts=doubts)


def moved(stretches: Iterable[TimeRange], ahead_ns: int) -> tuple[TimeRange, ...]:
    """Give stretches of time by a clock that is so far ahead."""
    return tuple((first + ahead_ns, last + ahead_ns) for first, last in stretches)


# -- crossings


def window_width(lives: Iterable[LifeSpan]) -> int:
    """Give how long a window is, by the longest incarnation."""
    longest = max((life.last_ns - life.first_ns for life in lives), default=0)
    return max(longest // MAX_WINDOWS, MIN_WINDOW_NS)


def contradicted(crossings: Iterable[Crossing]) -> set[bytes]:
    """Give the nodes whose clocks cannot be wrong by the same at all times."""
    quickest: dict[tuple[bytes, bytes], int] = {}
    for each in crossings:
        way = each.from_node, each.to_node
        quickest[way] = min(each.quickest_ns, quickest.get(way, each.quickest_ns))
    both = [(a, b) for a, b in quickest if (b, a) in quickest]
    return {node for a, b in both if quickest[a, b] + quickest[b, a] < 0 for node in (a, b)}


# -- pairs


def compared(a: Life, b: Life, there: list[Crossing], back: list[Crossing]) -> ClockPair | None:
    """Compare two clocks: by all crossings if these agree, else by the windows that do not contradict themselves."""
    ways, ways_back = _by_window(there), _by_window(back)
    windows = [(ways[window], ways_back[window]) for window in sorted(ways.keys() & ways_back.keys())]
    good = [window for window in windows if _is_possible(*window)]
    doubts: tuple[TimeRange, ...] = ()
    pair = _steady(a, b, there, back)
    if pair is None and good:
        doubts = tuple(_between(*window) for window in windows if not _is_possible(*window))
        one, other = zip(*good, strict=True)
        pair = _steady(a, b, one, other) or _unsteady(a, b, good)
    if pair is None:
        return None
    messages = sum(each.messages for each in (*there, *back))
    return pair._replace(messages=messages, windows=len(windows), doubts=doubts)


def _by_window(crossings: list[Crossing]) -> dict[int, Crossing]:
    slowest_first = sorted(crossings, key=_quickest, reverse=True)
    return {each.window: each for each in slowest_first}


def _quickest(crossing: Crossing) -> int:
    return crossing.quickest_ns


def _between(there: Crossing, back: Crossing) -> TimeRange:
    """From the one crossing to the other, by the clock of the node that the first left."""
    return min(there.left_at_ns, back.came_at_ns), max(there.left_at_ns, back.came_at_ns)


def _is_possible(there: Crossing, back: Crossing) -> bool:
    """Whether a clock that drifts from the one crossing to the other may show these times."""
    begin, end = _between(there, back)
    return there.quickest_ns + back.quickest_ns >= -MAX_DRIFT * (end - begin)


def _steady(a: Life, b: Life, there: Iterable[Crossing], back: Iterable[Crossing]) -> ClockPair | None:
    """Two clocks that differ by the same at all times; nothing if they cannot."""
    one, other = (min(ways, key=_quickest).quickest_ns for ways in (there, back))
    if one + other < 0:
        return None
    is_plausible = one >= 0 and other >= 0
    return ClockPair(a, b, 0 if is_plausible else (one - other) // 2, (one + other) // 2)


def _unsteady(a: Life, b: Life, windows: list[tuple[Crossing, Crossing]]) -> ClockPair:
    moments = tuple(_moment(*window) for window in windows)
    ahead = median_low(each.ahead_ns for each in moments)
    return ClockPair(a, b, ahead, max(each.error_ns for each in moments), moments=moments)


def _moment(there: Crossing, back: Crossing) -> Moment:
    return Moment(
        (there.left_at_ns + back.came_at_ns) // 2,
        (there.came_at_ns + back.left_at_ns) // 2,
        (there.quickest_ns - back.quickest_ns) // 2,
        abs(there.quickest_ns + back.quickest_ns) // 2,
    )
