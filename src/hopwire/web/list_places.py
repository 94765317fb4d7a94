"""Where a page of a list lies: the flows are counted by time and by duration before they are listed.

The chart above a list has counted the flows of each stretch of time and of each bar of durations, exactly. So the
stretches in which a page begins and ends are known, and only the flows of these stretches are sorted:

    the latest first; stretches have 120, 40 and 300 flows; a page has 50
    page 3 has the flows 100 to 149: they lie in the first and the second stretch, 100 flows from the beginning
    page 5 has the flows 200 to 249: they lie in the third stretch, 40 flows from its beginning
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

__all__ = ["ListPlace", "place_of"]


class ListPlace(NamedTuple):
    """The stretches that a page lies in, and how many flows of the list stand before the first of them."""

    first: int
    last: int
    before: int


def place_of(counts: Iterable[tuple[int, int]], begin: int, size: int) -> ListPlace | None:
    """Give where the rows from `begin` on lie; stretches and their counts come in the order of the list."""
    stretches = [(key, count) for key, count in counts if count]
    behind = list(accumulate(count for _, count in stretches))
    if not behind or begin >= behind[-1]:
        return None
    first = next(place for place, end in enumerate(behind) if end > begin)
    last = next((place for place, end in enumerate(behind) if end >= begin + size), len(behind) - 1)
    return ListPlace(stretches[first][0], stretches[last][0], behind[first] - stretches[first][1])
