"""Two clocks, compared by the messages that cross between them.

By the two clocks, a crossing from A to B takes its travel time plus the error between the clocks. A crossing from B to
A takes its travel time minus the error. The quickest crossing each way is hardly longer than the travel time. So half
the difference of the two is the error, and half their sum says how wrong this error may be.

| quickest A to B | quickest B to A | what is concluded |
|---|---|---|
| 501 ms | -499 ms | B is ahead by 500 ms, give or take 1 ms |
| 2 ms | 3 ms | nothing arrives before it left: the clocks may be right, and are left alone |
| -400 ms | -300 ms | there and back in -700 ms, which cannot be: the error changes with time |

- A crossing counts only if it cannot be mistaken: the message has one departure and one arrival.
- Clocks that may be right are left alone, because a correction by less than its own error would make quick crossings
  negative.
- An error that changes with time is told window by window. The quickest crossings of a window, one each way, give the
  error at the middle of their times; this is exact for an error that changes evenly. One crossing leaves A at 10.0 s,
  the other arrives at A at 30.0 s: together they tell the error at 20.0 s.
- A window is doubtful if even a clock that drifts could not show the times of its two crossings.

What must change with these rules: `lake/silver/clocks.py`, which finds the quickest crossings on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low
from typing import NamedTuple, TypeAlias

from hopwire.flows.coverage import LifeSpan
from hopwire.model.units import NS_PER_MINUTE

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
MAX_WINDOWS = 200  # of the longest incarnation: enough to follow a drift, few enough for each pair of nodes
MIN_WINDOW_NS = NS_PER_MINUTE  # in a shorter window even a busy pair may have no quick crossing

TimeRange: TypeAlias = tuple[int, int]  # from when to when
Life: TypeAlias = tuple[bytes, int]  # a node, and the number of an incarnation or of all its incarnations


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


class Moment(NamedTuple):
    """What one window tells of two clocks: how far b is ahead of a, and when, by the clock of each."""

    a_ns: int
    b_ns: int
    ahead_ns: int
    error_ns: int


class ClockPair(NamedTuple):
    """Two clocks that were compared."""

    a: Life
    b: Life
    ahead_ns: int  # how far b is ahead of a; the median, if this changes
    error_ns: int = 0
    messages: int = 0
    windows: int = 0  # windows in which both directions are known
    moments: tuple[Moment, ...] = ()  # if ahead_ns changes
    doubts: tuple[TimeRange, ...] = ()  # by the clock of a

    def seen_from(self, life: Life) -> ClockPair:
        """Give the same pair, turned such that this clock is a."""
        if life == self.a:
            return self
        moments = tuple(Moment(each.b_ns, each.a_ns, -each.ahead_ns, each.error_ns) for each in self.moments)
        doubts = moved(self.doubts, self.ahead_ns)
        return self._replace(a=self.b, b=self.a, ahead_ns=-self.ahead_ns, moments=moments, doubts=doubts)


def moved(stretches: Iterable[TimeRange], ahead_ns: int) -> tuple[TimeRange, ...]:
    """Give the same times by a clock that is ahead by this much."""
    return tuple((first + ahead_ns, last + ahead_ns) for first, last in stretches)


# -- crossings


def window_width(lives: Iterable[LifeSpan]) -> int:
    """Give how long a window is: a 200th of the longest incarnation, and at least a minute."""
    longest = max((life.last_ns - life.first_ns for life in lives), default=0)
    return max(longest // MAX_WINDOWS, MIN_WINDOW_NS)


def contradicted(crossings: Iterable[Crossing]) -> set[bytes]:
    """Give the nodes whose clocks have an error that changes with time: there and back takes less than nothing."""
    quickest: dict[tuple[bytes, bytes], int] = {}
    for each in crossings:
        way = each.from_node, each.to_node
        quickest[way] = min(each.quickest_ns, quickest.get(way, each.quickest_ns))
    both = [(a, b) for a, b in quickest if (b, a) in quickest]
    return {node for a, b in both if quickest[a, b] + quickest[b, a] < 0 for node in (a, b)}


# -- pairs


def compared(a: Life, b: Life, there: list[Crossing], back: list[Crossing]) -> ClockPair | None:
    """Compare two clocks: by all crossings, if one error explains them; else by the windows that are possible."""
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
    """Give the time from one crossing to the other, by the clock of the node that `there` left."""
    return min(there.left_at_ns, back.came_at_ns), max(there.left_at_ns, back.came_at_ns)


def _is_possible(there: Crossing, back: Crossing) -> bool:
    """Tell whether a clock that drifts between the two crossings may show their times."""
    begin, end = _between(there, back)
    return there.quickest_ns + back.quickest_ns >= -MAX_DRIFT * (end - begin)


def _steady(a: Life, b: Life, there: Iterable[Crossing], back: Iterable[Crossing]) -> ClockPair | None:
    """Give two clocks whose error is the same at all times; None if one error cannot explain the crossings."""
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
