"""Where a page of a list lies: the flows are counted by time and by duration before they are listed.

The chart above a list has counted the flows of each stretch of time and of each bar of durations, exactly. So the
stretches in which a page begins and ends are known, and only the flows of these stretches are sorted:

    the latest first; stretches have 120, 40 and 300 flows; a page has 50
    page 3 has the flows 100 to 149: they lie in the first and the second stretch, 100 flows from the beginning
    page 5 has the flows 200 to 249: they lie in the third stretch, 40 flows from its beginning

A filter that leaves flows out is read in one pass: beside the counts it gives the head of the list, which is what the
first flows are sorted by, and their files. Flows that are sorted by the same value may stand in any order there. So a
page takes all flows between its first and its last value, and leaves out those before it:

    the head has 9, 7, 7, 7, 5, 3; a page has two flows
    page 2 has two of the three flows with 7, and the first of the three belongs to page 1
    page 3 has 5 and 3, unless the list goes on: then there may be more flows with 3
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

__all__ = ["HeadPlace", "HeadRow", "ListPlace", "place_in_head", "place_of"]


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


class HeadRow(NamedTuple):
    """One flow of the head of a list: what it is sorted by, and the file that has it."""

    value: int | None
    file: str


class HeadPlace(NamedTuple):
    """The values between which a page lies, how many flows with them stand before the page, and the files of all."""

    low: int
    high: int
    before: int
    files: frozenset[str]


def place_in_head(head: Sequence[HeadRow], is_whole: bool, begin: int, size: int) -> HeadPlace | None:
    """Give where the rows from `begin` on lie, or nothing if the head does not tell; a whole head is the whole list."""
    shown = head[begin : begin + size]
    if not shown or (not is_whole and shown[-1].value == head[-1].value):
        return None
    first, last = shown[0].value, shown[-1].value
    if first is None or last is None:
        return None
    low, high = sorted((first, last))
    alike = [place for place, row in enumerate(head) if row.value is not None and low <= row.value <= high]
    return HeadPlace(low, high, begin - alike[0], frozenset(head[place].file for place in alike))
