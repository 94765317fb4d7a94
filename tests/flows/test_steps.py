"""The law of steps: the same tables, row for row, however captures are cut into steps, in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.flows.rules import Rules
from hopwire.flows.steps import ALONE, ClosedFlows, FlowTables, JudgedParts, StepState, begin, step
from tests.flows.networks import Network, SourcePart
from tests.flows.story import SIGHTINGS


def after(steps: Iterable[list[SourcePart]], share: JudgedParts = ALONE) -> StepState:
    """What is known after some steps."""
    state = begin(SIGHTINGS, Rules())
    for parts in steps:
        rows = pa.concat_tables([each.sightings for each in parts])
        state = step(state, rows, [span for each in parts for span in each.spans], share)
    return state


def tables_of(state: StepState) -> FlowTables:
    """All rows: of closed flows, and of open flows as far as they are known."""
    assert isinstance(state.closed, ClosedFlows)
    return state.closed.tables.plus(state.open)


def rows_of(state: StepState) -> dict[str, list[str]]:
    """All rows of all tables, sorted."""
    tables = tables_of(state)
    found = {"hops": tables.hops, "requests": tables.requests, "flows": tables.flows, "sightings": tables.sightings}
    return {name: sorted(map(str, table.to_pylist())) for name, table in (found | {"clocks": state.clocks}).items()}


def in_time(parts: list[SourcePart]) -> list[SourcePart]:
    return sorted(parts, key=lambda part: part.spans[0].last_seen_at_ns)


def assert_same(found: StepState, expected: StepState) -> None:
    one, other = rows_of(found), rows_of(expected)
    for name in other:
        assert set(one[name]) - set(other[name]) == set(), name
        assert one[name] == other[name], name


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 8)
@given(st.integers(0, 10**6), st.integers(1, 20), st.booleans())
def test_any_cutting_in_any_order_gives_the_same_rows(seed: int, count: int, is_in_time: bool) -> None:
    chance = Random(seed)
    network = Network(chance, minutes=chance.choice((2, 6, 15)))
    parts = network.parts(chance.randrange(0, 6))
    expected = after([parts])
    parts = in_time(parts) if is_in_time else chance.sample(parts, len(parts))
    size = -(-len(parts) // count)
    assert_same(after([parts[first : first + size] for first in range(0, len(parts), size)]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_flows_that_are_judged_in_parts_are_the_same(count: int) -> None:
    chance = Random(count)
    parts = in_time(Network(chance, minutes=2).parts(3))
    sizes: list[int] = []

    def one_by_one(work: Callable[[Any], Any], some: Sequence[Any]) -> list[Any]:
        sizes.append(len(some))
        return [work(part) for part in some]

    shared = after([parts[:4], parts[4:]], JudgedParts(count, one_by_one, least_rows=1))
    assert_same(shared, after([parts]))
    assert max(sizes) == count
