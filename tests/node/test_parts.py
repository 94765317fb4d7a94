"""Parts of a stream: put in order, counted, bounded."""

from __future__ import annotations

from hopwire.errors import Timeout
from hopwire.node.demand import WINDOW_BYTES, WINDOW_PARTS, Demand
from hopwire.node.parts import Ending, StreamParts
from tests.node.stories import Number


def taken(parts: StreamParts) -> list[int]:
    found = []
    while parts:
        part = parts.pop()
        assert isinstance(part, Number)
        found.append(part.value)
    return found


def test_part_waits_for_those_before_it() -> None:
    parts = StreamParts()
    assert parts.put(2, Number(2), 1) == ""
    assert parts.settle() is None
    assert (taken(parts), parts.missing()) == ([], 1)
    assert parts.put(1, Number(1), 1) == ""
    assert parts.settle() is None
    assert (taken(parts), parts.missing()) == ([1, 2], 0)


def test_end_comes_behind_the_last_part() -> None:
    parts, error = StreamParts(), Timeout("timed_out")
    assert parts.put(3, Ending(error), 0) == ""
    assert parts.put(1, Number(1), 1) == ""
    assert parts.settle() is None
    assert parts.put(2, Number(2), 1) == ""
    ending = parts.settle()
    assert ending is not None
    assert ending.error is error
    assert taken(parts) == [1, 2]


def test_part_that_came_before_is_a_duplicate() -> None:
    parts = StreamParts()
    assert parts.put(1, Number(1), 1) == ""
    assert parts.put(1, Number(1), 1) == "duplicate"
    parts.settle()
    assert parts.put(1, Number(1), 1) == "duplicate"
    assert taken(parts) == [1]


def test_more_than_a_window_is_refused_and_its_end_is_not() -> None:
    parts = StreamParts()
    for number in range(1, WINDOW_PARTS + 1):
        assert parts.put(number, Number(number), 1) == ""
    assert parts.put(WINDOW_PARTS + 1, Number(0), 1) == "queue_full"
    assert parts.put(WINDOW_PARTS + 1, Ending(), 0) == ""
    assert parts.settle() is not None
    large = StreamParts()
    assert large.put(1, Number(1), 2 * WINDOW_BYTES) == ""  # a part that is larger than the window passes alone
    assert large.put(2, Number(2), 1) == "queue_full"


def test_demand_is_said_after_each_half_of_a_window() -> None:
    parts = StreamParts()
    said = []
    for number in range(1, WINDOW_PARTS + 1):
        parts.put(number, Number(number), 10)
        parts.settle()
        parts.pop()
        said.append(parts.demand())
    half = WINDOW_PARTS // 2
    assert [each for each in said if each] == [Demand(half, 10 * half), Demand(2 * half, 20 * half)]
    assert said[half - 1] is not None
    parts.put(WINDOW_PARTS + 1, Number(0), WINDOW_BYTES // 2)
    parts.settle()
    parts.pop()
    assert parts.demand() == Demand(WINDOW_PARTS + 1, 10 * WINDOW_PARTS + WINDOW_BYTES // 2)
