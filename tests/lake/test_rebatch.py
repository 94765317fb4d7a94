from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.lake.rebatch import rebatched


def batch(*sizes: int) -> pa.RecordBatch:
    frames = pa.array([[bytes(size // 2), bytes(size - size // 2)] for size in sizes], pa.list_(pa.binary()))
    return pa.RecordBatch.from_arrays([pa.array(sizes, pa.int64()), frames], ["size", "frames"])


def rows_of(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [each.column("size").to_pylist() for each in batches]


def test_small_batches_are_put_together() -> None:
    assert rows_of(list(rebatched([batch(1, 2), batch(3), batch(4, 5)], 3, 10_000))) == [[1, 2, 3], [4, 5]]


def test_large_batch_is_cut_by_rows() -> None:
    assert rows_of(list(rebatched([batch(*range(7))], 3, 10_000))) == [[0, 1, 2], [3, 4, 5], [6]]


def test_giant_row_comes_alone() -> None:
    cut = rows_of(list(rebatched([batch(10, 10, 90_000, 10, 10)], 100, 10_000)))
    assert [90_000] in cut
    assert [size for each in cut for size in each] == [10, 10, 90_000, 10, 10]


@pytest.mark.parametrize("start", [0, 3])
def test_slices_are_cut_by_their_own_bytes(start: int) -> None:
    whole = batch(5000, 5000, 5000, 6000, 6000, 6000)
    pieces = list(rebatched([whole.slice(start)], 100, 9_000))
    assert rows_of(pieces) == [[size] for size in whole.column("size").to_pylist()[start:]]


def test_nothing_gives_nothing() -> None:
    assert list(rebatched([], 10, 10)) == []
