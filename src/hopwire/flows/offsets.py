"""How far a clock is ahead, as it changes: a few moments, and straight lines between them.

Before the first moment and after the last the offset is as it is there. Where the line between two moments would be
steeper than any drift, the clock was set. Nobody knows when: the offset changes half-way, and times between the two are
doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from hopwire.columnar import Ints

__all__ = ["MAX_DRIFT", "Mark", "Offset", "Stretch", "offsets_at", "offsets_from_marks"]

MAX_NS = 2**63  # what a column can hold
MAX_DRIFT = 0.000_5  # as fast as systems slew a clock; a quartz is ten times better

Stretch: TypeAlias = tuple[int, int]  # from when to when


class Offset(NamedTuple):
    """How far a clock is ahead of the reference at one moment, by its own time."""

    at_ns: int
    offset_ns: int


class Mark(NamedTuple):
    """An offset that was measured, and how wrong that may be."""

    at_ns: int
    offset_ns: int
    error_ns: int


def offsets_at(known: Sequence[Offset], at: Ints) -> Ints:
    """Give the offset at each time; the moments are in order, and there is at least one."""
    times, offsets = (np.array(column, dtype=np.int64) for column in zip(*known, strict=True))
    right = np.clip(np.searchsorted(times, at, side="right"), 1, max(len(times) - 1, 1)) % len(times)
    left = np.maximum(right - 1, 0)
    share = np.clip((at - times[left]) / np.maximum(times[right] - times[left], 1), 0.0, 1.0)
    found: Ints = offsets[left] + np.rint((offsets[right] - offsets[left]) * share).astype(np.int64)
    return found


def offsets_from_marks(marks: Sequence[Mark]) -> tuple[tuple[Offset, ...], tuple[Stretch, ...]]:
    """Give the moments between which there are lines, and the stretches in which the clock was set.

    The first line and the last go on for as long as they are: what was measured is seldom at the ends.
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


def _is_set(one: Mark, other: Mark) -> bool:
    drift = MAX_DRIFT * abs(other.at_ns - one.at_ns)
    return abs(other.offset_ns - one.offset_ns) > drift + one.error_ns + other.error_ns


def _beyond(marks: Sequence[Mark]) -> list[Offset]:
    """The moment on the other side of the first of two marks, as far from it as the second."""
    if len(marks) < 2 or _is_set(*marks):
        return []
    one, other = marks
    beyond = Offset(2 * one.at_ns - other.at_ns, 2 * one.offset_ns - other.offset_ns)
    return [beyond] if all(abs(value) < MAX_NS for value in beyond) else []
