"""Matching: which departure belongs to which arrival, where messages are equal and some are missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.hops import link, link_piece
from hopwire.flows.matching import _by_time
from hopwire.flows.rules import Rules
from tests.flows.story import BEGIN, SECOND, Story

A, B, C = b"A", b"B", b"C"
BEAT = {"correlation_id": b"", "identity": b"beat"}


def beats(count: int, lost: Iterable[int] = (), twice: Iterable[int] = ()) -> Story:
    """A node says the same every second; it takes 2 ms."""
    story = Story(seconds=count + 60)
    for number in range(count):
        story.out(A, B, number * 1000, b"beat", **BEAT)
        if number not in lost:
            story.came(B, A, number * 1000 + 2, b"beat", **BEAT)
        if number in twice:
            story.came(B, A, number * 1000 + 5, b"beat", **BEAT)
    return story


def fates(story: Story) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for hop in story.hops().sort_by("left_at_ns").to_pylist():
        at = hop["left_at_ns"] if hop["left_at_ns"] is not None else hop["arrived_at_ns"]
        found.setdefault((at - BEGIN) // SECOND, []).append(hop["fate"])
    return found


def test_those_that_are_lost_are_lost_where_they_were_lost() -> None:
    found = fates(beats(60, lost=range(20, 25)))
    assert {second for second, fate in found.items() if fate == ["lost"]} == set(range(20, 25))
    assert all(fate == ["arrived"] for second, fate in found.items() if not 20 <= second < 25)
    latencies = beats(60, lost=range(20, 25)).hops()["latency_us"].drop_null()
    assert set(latencies.to_pylist()) == {2000}


def test_one_that_comes_twice_is_a_duplicate_where_it_came() -> None:
    found = fates(beats(30, twice={11}))
    assert found[11] == ["arrived", "duplicate"]
    assert all(fate == ["arrived"] for second, fate in found.items() if second != 11)


def test_order_alone_decides_where_clocks_are_not_known_against_each_other() -> None:
    story = Story(seconds=7200)
    for second in (10, 20):
        story.out(A, B, second * 1000, b"m").came(B, A, (second + 3600) * 1000, b"m")
    apart = link(story.sightings, replace(story.coverage, clocks={A: A, B: B}), Rules())
    assert apart["fate"].to_pylist() == ["arrived", "arrived"]
    assert "arrived" not in story.hops()["fate"].to_pylist(), "with one clock, nothing takes an hour"


def test_of_many_on_their_way_at_a_time_only_one_is_lost() -> None:
    story = Story(seconds=60)
    for number in range(200):
        story.out(A, B, number, b"tick", **BEAT)
        if number != 100:
            story.came(B, A, number + 10, b"tick", **BEAT)
    hops = story.hops()
    assert sorted(hops["fate"].to_pylist()) == ["arrived"] * 199 + ["lost"]
    assert set(hops["latency_us"].drop_null().to_pylist()) <= {9000, 10000}


def test_equal_messages_are_as_many_as_left_where_they_began() -> None:
    story = beats(10, lost={3}, twice={5})
    for number in range(10):
        story.hop(A, C, number * 1000 + 1, number * 1000 + 3, b"beat", **BEAT)  # the same to another
    assert sum(story.hops()["is_first"].to_pylist()) == 10


def test_message_that_goes_in_circles_is_one() -> None:
    story = Story()
    for number in range(6):
        ends = (A, B) if number % 2 == 0 else (B, A)
        story.hop(*ends, number * 2, number * 2 + 1, b"m", hops=number + 1)
    assert sum(story.hops()["is_first"].to_pylist()) == 1


times = st.lists(st.integers(0, 40), max_size=7).map(sorted)


@given(times, times)
def test_as_many_as_possible_belong_together_and_none_for_too_long(left: list[int], came: list[int]) -> None:
    rules = Rules(patience_ns=10, clock_slack_ns=1)
    found = _by_time(np.array(left, dtype=np.int64), np.array(came, dtype=np.int64), rules)
    pairs = [(left[d], came[a]) for d, a in enumerate(found.tolist()) if a >= 0]
    assert all(-1 <= b - a <= 10 for a, b in pairs)
    taken = [a for a in found.tolist() if a >= 0]
    assert taken == sorted(set(taken)), "in the order of both, each once"
    assert len(pairs) == most_pairs(left, came)


def most_pairs(left: list[int], came: list[int]) -> int:
    """The largest number of pairs, by trying all choices of departures and arrivals."""
    for size in range(min(len(left), len(came)), 0, -1):
        for some in combinations(left, size):
            for others in combinations(came, size):
                if all(-1 <= b - a <= 10 for a, b in zip(some, others, strict=True)):
                    return size
    return 0


@pytest.mark.slow
@given(st.lists(st.sampled_from(["arrives", "lost", "twice", "slow"]), min_size=30, max_size=60), st.integers(5, 40))
def test_pieces_give_the_hops_of_the_whole(fortunes: list[str], piece_rows: int) -> None:
    story = Story(seconds=200)
    for number, fortune in enumerate(fortunes):
        at = number * 700
        story.out(A, B, at, b"beat", **BEAT)
        for delay in {"arrives": [3], "lost": [], "twice": [3, 4], "slow": [2500]}[fortune]:
            story.came(B, A, at + delay, b"beat", **BEAT)
    sightings = story.sightings.sort_by("seen_at_ns")
    pieces = [sightings.slice(start, piece_rows) for start in range(0, len(sightings), piece_rows)]
    parts, waiting = [], sightings.slice(0, 0)
    for piece in pieces:
        hops, waiting = link_piece(pa.concat_tables([waiting, piece]), story.coverage, Rules(), is_cut=True)
        parts.append(hops)
    parts.append(link(waiting, story.coverage, Rules()))
    found = pa.concat_tables(parts)
    seen = found["left_sequence"].drop_null().to_pylist(), found["arrived_sequence"].drop_null().to_pylist()
    whole = link(sightings, story.coverage, Rules())
    wanted = whole["left_sequence"].drop_null().to_pylist(), whole["arrived_sequence"].drop_null().to_pylist()
    assert [sorted(each) for each in seen] == [sorted(each) for each in wanted], "every sighting in one hop"
    arrived, expected = (each["fate"].to_pylist().count("arrived") for each in (found, whole))
    assert arrived == expected or (arrived < expected and "twice" in fortunes), (
        "a late copy is not taken for a lost one"
    )
