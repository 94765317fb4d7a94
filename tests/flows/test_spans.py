"""Spans: which numbers a source has, which are missing, and which are there twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.capture import Sighting, batch_from_sightings
from hopwire.flows.coverage import LifeSpan
from hopwire.flows.spans import (
    Gap,
    SourceSpan,
    first_shared,
    joined_spans,
    lives_of,
    placed,
    skips_of,
    spans_from_batch,
)

SECOND = 1_000_000_000


def seen(*numbers: int, node: bytes = b"A", incarnation: int = 1) -> list[Sighting]:
    """Sightings of these numbers, one each second."""
    return [Sighting(node, "anna", incarnation, each, each * SECOND, "in", b"", (b"x",)) for each in numbers]


def skip(number: int, count: int, node: bytes = b"A") -> Sighting:
    return Sighting(node, "anna", 1, number, number * SECOND, "skipped", b"", (), "too_slow", "", count)


def spans(*sightings: Sighting, segment: str = "s", rows: int = 1000) -> list[SourceSpan]:
    """The spans of a source that is read in batches."""
    batches = [batch_from_sightings(sightings[start : start + rows]) for start in range(0, len(sightings), rows)]
    return joined_spans(span for batch in batches for span in spans_from_batch(batch, segment))


def span(*sightings: Sighting, **more: Any) -> SourceSpan:
    (found,) = spans(*sightings, **more)
    return found


def test_complete_source_is_one_span() -> None:
    assert span(*seen(3, 4, 5)) == SourceSpan("s", b"A", 1, "anna", 3, 5, 3 * SECOND, 5 * SECOND, 3)
    assert spans_from_batch(batch_from_sightings([]), "s") == []


def test_nodes_and_incarnations_are_told_apart() -> None:
    found = spans(*seen(0, 1), *seen(7, node=b"B"), *seen(0, 1, 2, incarnation=2), *seen(2))
    assert [(each.node, each.incarnation, each.last_sequence, each.sighting_count) for each in found] == [
        (b"A", 1, 2, 3),
        (b"A", 2, 2, 3),
        (b"B", 1, 7, 1),
    ]


def test_numbers_that_are_not_there_are_a_gap_from_the_sighting_before_to_the_one_behind() -> None:
    found = span(*seen(0, 1, 5, 6, 9))
    assert (found.sighting_count, found.missing, found.skipped) == (5, 5, 0)
    assert found.gaps == (Gap(2, 4, SECOND, 5 * SECOND), Gap(7, 8, 6 * SECOND, 9 * SECOND))


def test_numbers_that_were_skipped_are_a_gap_from_the_row_that_says_so() -> None:
    found = span(*seen(0, 1), skip(2, 3), *seen(5))
    assert (found.sighting_count, found.missing, found.skipped) == (3, 0, 3)
    assert found.gaps == (Gap(2, 4, 2 * SECOND, 5 * SECOND),)


def test_gap_at_the_end_is_open_until_the_next_source() -> None:
    one, two = span(*seen(0), skip(1, 9)), span(*seen(10, 11), segment="t")
    assert (one.last_sequence, one.gaps) == (9, (Gap(1, 9, SECOND, SECOND),))
    assert [each.missing_before for each in placed([one, two])] == [0, 0]
    assert LifeSpan(b"A", SECOND, 10 * SECOND, 1) in skips_of(placed([two, one]))


def test_open_gap_goes_on_from_its_own_begin() -> None:
    late = skip(6, 3)._replace(seen_at_ns=2 * SECOND)  # the clock was set back, from 5 s to 2 s
    one, two = span(*seen(4, 5), late), span(*seen(9), segment="t")
    assert one.last_seen_at_ns == 5 * SECOND
    assert placed([one, two])[1].gaps == (Gap(9, 8, 2 * SECOND, 9 * SECOND),)
    assert span(*seen(4, 5), late, *seen(9), rows=1).gaps == (Gap(6, 8, 2 * SECOND, 9 * SECOND),)


def test_gaps_of_one_second_are_one() -> None:
    rows = [Sighting(b"A", "", 1, 2 * each, SECOND + each, "in", b"", (b"x",)) for each in range(1000)]
    found = span(*rows, rows=7)
    assert found.missing == 999
    assert found.gaps == (Gap(1, 1997, SECOND, SECOND + 999),)


def test_clock_that_is_set_back_does_not_turn_a_gap_around() -> None:
    one, two = seen(5)[0], seen(9)[0]._replace(seen_at_ns=SECOND)
    assert span(one, two).gaps == (Gap(6, 8, SECOND, 5 * SECOND),)


@pytest.mark.parametrize("numbers", [(0, 0), (3, 1, 2), (-5, -4)])
def test_numbers_that_do_not_rise_prove_nothing(numbers: tuple[int, ...]) -> None:
    for rows in (1, 1000):
        found = span(*seen(*numbers, 9), rows=rows)
        assert (found.is_numbered, found.gaps, found.missing, found.sighting_count) == (False, (), 0, len(numbers) + 1)
        assert placed([found])[0].missing_before == 0
        assert first_shared([found, replace(found, segment="t")]) is None


@pytest.mark.parametrize("number", [2**48, 2**62, 2**63 - 1, -(2**63)])
def test_numbers_beyond_all_bounds_prove_nothing_and_do_no_harm(number: int) -> None:
    for rows in ([*seen(0), *seen(number)], [*seen(0, 1), skip(2, number)], [skip(0, number), skip(1, number)]):
        for size in (1, 1000):
            found = span(*(row._replace(seen_at_ns=number) for row in rows), rows=size)
            assert all(abs(value) <= 2**50 for value in (found.skipped, found.missing, found.first_sequence))
            assert found.is_numbered == (number < 0 and rows[1].sequence >= 0)
            assert placed([found])[0].missing_before == 0


# what a node may write: sightings and skips, some of which are lost
ROWS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=60)


def written(rows: list[tuple[int, bool]]) -> list[Sighting]:
    """Rows as a node writes them; those that are marked are lost."""
    found, number = [], 0
    for skipped, is_lost in rows:
        row = skip(number, skipped) if skipped else seen(number)[0]
        found += [] if is_lost else [row]
        number += skipped or 1
    return found


@pytest.mark.slow
@given(ROWS, st.integers(1, 60), st.integers(1, 60))
def test_batches_and_parts_tell_the_same_as_the_whole(rows: list[tuple[int, bool]], size: int, cut: int) -> None:
    kept = written(rows)
    if kept:
        whole = span(*kept)
        assert span(*kept, rows=size) == whole
        assert joined_spans([*spans(*kept[:cut]), *spans(*kept[cut:])]) == [whole]
        numbers = whole.last_sequence - whole.first_sequence + 1
        assert numbers == whole.sighting_count + whole.skipped + whole.missing


@pytest.mark.slow
@given(ROWS, st.lists(st.integers(1, 59), max_size=4))
def test_what_is_missing_between_sources_is_what_is_missing_in_one(
    rows: list[tuple[int, bool]], cuts: list[int]
) -> None:
    kept = written(rows)
    if not kept:
        return
    bounds = sorted({0, *(cut for cut in cuts if cut < len(kept)), len(kept)})
    sources = [span(*kept[begin:end], segment=f"{begin}") for begin, end in pairwise(bounds)]
    whole = placed([span(*kept)])
    found = placed(reversed(sources))
    assert (
        sum(each.span.missing + each.missing_before for each in found)
        == whole[0].span.missing + whole[0].missing_before
    )
    covered = [
        {n for skip in skips_of(each) for n in range(skip.first_ns // SECOND, skip.last_ns // SECOND + 1)}
        for each in (whole, found)
    ]
    assert covered[0] == covered[1]
    assert lives_of(found) == lives_of(whole)
    assert first_shared(sources) is None


def test_source_that_is_not_there_is_missing_in_front_of_the_next() -> None:
    sources = [span(*seen(0, 1), segment="1"), span(*seen(6, 7), segment="3"), span(*seen(4, node=b"B"), segment="x")]
    found = placed(sources)
    assert [(each.span.segment, each.missing_before) for each in found] == [("1", 0), ("3", 4), ("x", 4)]
    assert skips_of(found) == [LifeSpan(b"A", SECOND, 6 * SECOND, 1), LifeSpan(b"B", 0, 4 * SECOND, 1)]


def test_incarnation_that_does_not_begin_with_0_is_blind_since_the_one_before() -> None:
    sources = [span(*seen(0, 1)), span(*seen(9, incarnation=2))]
    assert skips_of(placed(sources)) == [LifeSpan(b"A", SECOND, 9 * SECOND, 2)]
    assert lives_of(placed(sources)) == [LifeSpan(b"A", 0, SECOND, 1), LifeSpan(b"A", 9 * SECOND, 9 * SECOND, 2)]


def test_copy_is_found_whole_or_in_part() -> None:
    one = span(*seen(*range(10)), segment="one")
    for numbers, shared in ((range(10), (0, 9)), (range(4), (0, 3)), (range(7, 20), (7, 9)), (range(10, 20), None)):
        other = span(*seen(*numbers), segment="other")
        found = first_shared([other, one])
        assert (found and (found.first, found.last)) == shared
    assert first_shared([one, span(*seen(*range(10), incarnation=2)), span(*seen(*range(10), node=b"B"))]) is None


def test_same_numbers_at_other_times_are_of_somebody_who_counts_anew() -> None:
    one = span(*seen(*range(10)), segment="one")
    other = span(*(row._replace(seen_at_ns=row.seen_at_ns + 10 * SECOND) for row in seen(*range(10))), segment="other")
    assert first_shared([one, other]) is None


def test_copy_that_is_damaged_is_found_by_what_is_left_of_it() -> None:
    one, other = span(*seen(*range(20)), segment="one"), span(*seen(0, 1, 17, 18), segment="other")
    found = first_shared([one, other])
    assert found is not None
    assert {found.one.segment, found.other.segment} == {"one", "other"}
    assert (found.first, found.last) == (0, 1)


def test_sources_that_have_the_numbers_between_those_of_others_are_no_copies() -> None:
    ins, outs = span(*seen(0, 2, 4, 6), segment="in"), span(*seen(1, 3, 5, 7), segment="out")
    assert first_shared([ins, outs]) is None
    assert [each.missing_before for each in placed([ins, outs])] == [0, 0]


def test_long_source_does_not_hide_a_copy() -> None:
    sparse = span(*seen(0, 50), segment="sparse")
    one, other = span(*seen(10, 11), segment="one"), span(*seen(11, 12), segment="other")
    found = first_shared([sparse, one, other])
    assert found is not None
    assert (found.one.segment, found.other.segment) == ("one", "other")


def test_spans_are_of_a_batch_as_it_is_read() -> None:
    batch = batch_from_sightings(seen(*range(8)))
    sliced = pa.RecordBatch.from_arrays(batch.slice(2, 3).columns, schema=batch.schema)
    (found,) = spans_from_batch(sliced, "s")
    assert (found.first_sequence, found.last_sequence) == (2, 4)
