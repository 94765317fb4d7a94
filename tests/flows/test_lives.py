"""Lives of nodes: how they ended, and whether the node came back."""

from __future__ import annotations

from typing import Any

from hopwire.flows.lives import lives_from_clocks
from hopwire.flows.schemas import CLOCK_SCHEMA
from tests.flows.story import BEGIN, SECOND

import pyarrow as pa  # isort: skip


def clock(node: bytes, name: str, *lives: tuple[int, int, str], offset_s: int = 0) -> dict[str, Any]:
    """A node with its lives, in seconds from the begin."""
    spans = [
        {
            "incarnation": number,
            "first_ns": BEGIN + (first + offset_s) * SECOND,
            "last_ns": BEGIN + (last + offset_s) * SECOND,
            "ending": ending,
        }
        for number, (first, last, ending) in enumerate(lives)
    ]
    made: dict[str, Any] = dict.fromkeys(CLOCK_SCHEMA.names)
    made |= {"node": node, "node_name": name, "lives": spans, "skips": [], "offsets": [], "doubts": []}
    return made | {"offset_ns": offset_s * SECOND, "reference_node": node, "references": []}


def lives_of(*clocks: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = lives_from_clocks(pa.Table.from_pylist(list(clocks), CLOCK_SCHEMA)).to_pylist()
    return [
        (row["node"], row["ending"], row["back_as_node"], row["away_us"] and row["away_us"] // 1_000_000)
        for row in rows
    ]


def test_node_that_was_killed_and_came_back_has_two_lives() -> None:
    found = lives_of(clock(b"A", "a", (0, 100, "open")), clock(b"B", "b", (1, 50, "open"), (56, 100, "open")))
    assert found == [(b"A", "running", None, None), (b"B", "died", b"B", 6), (b"B", "running", None, None)]


def test_node_that_came_back_under_another_identity_is_the_same_by_its_name() -> None:
    found = lives_of(
        clock(b"A", "a", (0, 100, "closed")), clock(b"B", "b", (1, 50, "open")), clock(b"C", "b", (53, 90, "open"))
    )
    assert found == [(b"A", "stopped", None, None), (b"B", "died", b"C", 3), (b"C", "died", None, None)]


def test_nodes_without_names_are_not_taken_for_each_other() -> None:
    found = lives_of(clock(b"A", "", (0, 50, "open")), clock(b"B", "", (60, 100, "open")))
    assert found == [(b"A", "died", None, None), (b"B", "running", None, None)]


def test_times_of_lives_are_corrected() -> None:
    found = lives_of(clock(b"A", "a", (0, 100, "open")), clock(b"B", "b", (1, 99, "open"), offset_s=3600))
    assert found == [(b"A", "running", None, None), (b"B", "running", None, None)]
