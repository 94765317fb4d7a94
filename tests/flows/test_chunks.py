"""Chunks: whatever the batches, groups come whole; a group that is too large comes in part, with a summary."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.flows.chunks import GroupChunk, Summariser, pieces, whole_chunks

COUNT = Summariser(
    of=lambda rows: pa.table({"count": [len(rows)]}),
    added=lambda counts: pa.table({"count": [pc.sum(counts["count"]).as_py()]}),
)


def chunks(groups: list[int], batch_rows: int, max_rows: int, chunk_rows: int) -> list[GroupChunk]:
    keys = [b"%06d" % number for number, size in enumerate(groups) for _ in range(size)]
    table = pa.table({"key": pa.array(keys, pa.binary()), "row": range(len(keys))})
    return list(whole_chunks(table.to_batches(batch_rows), ["key"], max_rows, COUNT, chunk_rows))


@pytest.mark.slow
@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 12), st.integers(1, 25), st.integers(1, 40))
def test_every_group_is_in_one_chunk(groups: list[int], batch_rows: int, max_rows: int, chunk_rows: int) -> None:
    found: dict[bytes, int] = {}
    rest: dict[bytes, int] = {}
    for chunk in chunks(groups, batch_rows, max_rows, chunk_rows):
        counts = {row["values"]: row["counts"] for row in pc.value_counts(chunk.rows["key"]).to_pylist()}
        assert not found.keys() & counts.keys()
        found |= counts
        if chunk.more is not None:
            (key,) = counts
            rest[key] = chunk.more["count"][0].as_py()
    assert found == {b"%06d" % number: min(size, max_rows) for number, size in enumerate(groups)}
    assert rest == {b"%06d" % number: size - max_rows for number, size in enumerate(groups) if size > max_rows}


def test_small_groups_are_taken_together_up_to_a_size() -> None:
    sizes = [len(chunk.rows) for chunk in chunks([3] * 10, batch_rows=4, max_rows=100, chunk_rows=10)]
    assert sum(sizes) == 30
    assert max(sizes) <= 14


def test_giant_is_held_only_in_part() -> None:
    (giant, small) = chunks([10_000, 2], batch_rows=100, max_rows=50, chunk_rows=60)
    assert (len(giant.rows), giant.more is not None and giant.more["count"][0].as_py()) == (50, 9_950)
    assert (len(small.rows), small.more) == (2, None)


def test_key_may_have_several_columns() -> None:
    table = pa.table({"a": pa.array([b"x", b"x", b"y"]), "b": [1, 2, 2]})
    assert [len(chunk.rows) for chunk in whole_chunks(table.to_batches(1), ["a", "b"], 10, COUNT, 1)] == [1, 1, 1]


@pytest.mark.slow
@given(st.lists(st.integers(1, 30), max_size=20), st.integers(1, 12), st.integers(1, 25), st.integers(1, 40))
def test_pieces_are_whole_groups_unless_they_are_cut(
    groups: list[int], batch_rows: int, max_rows: int, chunk_rows: int
) -> None:
    keys = [b"%06d" % number for number, size in enumerate(groups) for _ in range(size)]
    table = pa.table({"key": pa.array(keys, pa.binary()), "row": pa.array(range(len(keys)), pa.int64())})
    found = list(pieces(table.to_batches(batch_rows), ["key"], max_rows, chunk_rows))
    assert [row for piece in found for row in piece.rows["row"].to_pylist()] == list(range(len(keys)))
    for piece, following in pairwise(found):
        is_parted = piece.rows["key"][-1] == following.rows["key"][0]
        assert piece.is_cut or not is_parted
    assert all(len(piece.rows) <= max(max_rows, chunk_rows) + 2 * batch_rows for piece in found)
