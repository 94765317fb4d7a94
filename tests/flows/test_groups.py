"""The moves that judging is made of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.groups import (
    NO_TIME,
    Groups,
    codes,
    filled_forward,
    in_order,
    nullable,
    order_by,
    other_places,
    pack,
)

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5), st.booleans()), max_size=30)


def test_columns_that_are_coded_together_can_be_compared_and_null_is_empty() -> None:
    (one, other), values = codes(pa.array([b"a", None, b"b"]), pa.chunked_array([[b"b"], [b""]]))
    assert [values[i].as_py() for i in one] == [b"a", b"", b"b"]
    assert [values[i].as_py() for i in other] == [b"b", b""]
    assert (one[2], one[1]) == (other[0], other[1])
    (texts,), words = codes(pa.array([None, "x"], pa.string()))
    assert [words[i].as_py() for i in texts] == ["", "x"]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 4)), min_size=1))
def test_packed_numbers_are_equal_and_sorted_as_their_parts_are(rows: list[tuple[int, int, int]]) -> None:
    packed = pack(*(np.array(column) for column in zip(*rows, strict=True)))
    by_number = [rows[i] for i in np.argsort(packed, kind="stable")]
    assert by_number == sorted(rows)
    assert len(set(packed.tolist())) == len(set(rows))


def test_numbers_that_do_not_fit_are_packed_all_the_same() -> None:
    huge = np.array([0, 2**60, 2**60, 7])
    packed = pack(huge, huge, huge)
    assert len(set(packed.tolist())) == 3
    assert packed[1] == packed[2]


@pytest.mark.slow
@given(ROWS)
def test_groups_reduce_as_loops_do(rows: list[tuple[int, int, bool]]) -> None:
    number, value = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    where = np.array([row[2] for row in rows], dtype=np.bool_)
    groups = Groups(number, value)
    names = sorted({row[0] for row in rows})
    chosen = [[row[1] for row in rows if row[0] == name and row[2]] for name in names]
    assert len(groups) == len(names)
    assert groups.sizes.tolist() == [sum(row[0] == name for row in rows) for name in names]
    assert groups.total(np.where(where, value, 0)).tolist() == list(map(sum, chosen))
    assert groups.has(where).tolist() == list(map(bool, chosen))
    least, most = groups.least(value, where), groups.most(value, where)
    for i, values in enumerate(chosen):
        if values:
            assert (least[i], most[i]) == (min(values), max(values))
            assert value[groups.first_where(where)[i]] == min(values)
            assert value[groups.last_where(where)[i]] == max(values)
        else:
            assert groups.first_where(where)[i] == groups.last_where(where)[i] == -1


@pytest.mark.slow
@given(ROWS, st.booleans())
def test_rows_of_a_group_come_by_the_further_columns_also_if_their_order_is_known(
    rows: list[tuple[int, int, bool]], is_sorted: bool
) -> None:
    number, value = (
        np.array([row[i] for row in (sorted(rows) if is_sorted else rows)], dtype=np.int64) for i in (0, 1)
    )
    expected = sorted(range(len(rows)), key=lambda row: (number[row], value[row]))
    known = np.argsort(value, kind="stable")
    for groups in (Groups(number, value), Groups(number, order=known)):
        assert groups.order.tolist() == expected
        assert number[groups.first].tolist() == sorted(set(number.tolist()))


NUMBERS = st.sampled_from([0, 1, 2, -1, 2**40, 2**40 + 1, 1_700_000_000_000_000_000, NO_TIME, 2**63 - 1])


@given(st.lists(st.tuples(*(st.one_of(st.integers(0, 2), NUMBERS) for _ in range(5))), max_size=30), st.integers(1, 5))
def test_rows_come_by_all_columns_and_equal_rows_as_they_came(rows: list[tuple[int, ...]], width: int) -> None:
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(width)]
    assert order_by(*columns).tolist() == sorted(range(len(rows)), key=lambda row: rows[row][:width])


@given(ROWS)
def test_fill_forward_finds_the_last_before(rows: list[tuple[int, int, bool]]) -> None:
    number, value = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    groups = Groups(number, value)
    found = filled_forward(groups, np.array([row[2] for row in rows], dtype=np.bool_))
    order = groups.order.tolist()
    for place, row in enumerate(order):
        before = [other for other in order[:place] if rows[other][0] == rows[row][0] and rows[other][2]]
        assert found[row] == (before[-1] if before else -1)


def test_times_that_are_none_are_null() -> None:
    assert nullable(np.array([5, NO_TIME])).to_pylist() == [5, None]


PLACED = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, "x", "y"])), max_size=12)


@given(PLACED, PLACED)
def test_places_are_other_where_a_row_is_more_often_there_than_before(
    before: list[tuple[int, str | None]], after: list[tuple[int, str | None]]
) -> None:
    schema = pa.schema([("place", pa.int64()), ("text", pa.string())])
    old, new = (pa.table([[row[i] for row in rows] for i in range(2)], schema=schema) for rows in (before, after))
    place = np.array([row[0] for row in (*before, *after)], dtype=np.int64)
    other = {row[0] for row in {*before, *after} if before.count(row) != after.count(row)}
    assert sorted(place[other_places(old, new, place)].tolist()) == sorted(other)


VALUES = st.one_of(
    st.none(), st.binary(max_size=3), st.sampled_from([b"12345678", b"12345678a", b"\xff" * 9, b"a" * 8])
)


@given(st.lists(st.tuples(st.integers(0, 1), VALUES, st.integers(0, 1), VALUES, st.integers(0, 1)), max_size=30))
def test_rows_of_bytes_and_numbers_come_in_order_with_nulls_last(rows: list[tuple[int | bytes | None, ...]]) -> None:
    kinds = (pa.int64(), pa.binary(), pa.int64(), pa.binary(), pa.int64())
    table = pa.table({str(i): pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)})
    expected = sorted(rows, key=lambda row: [(each is None, b"" if each is None else each) for each in row])
    assert [tuple(row.values()) for row in in_order(table, *"01234").to_pylist()] == expected
