"""Rows that go through files from tasks to tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from hopwire.disk import OWNER_ONLY
from hopwire.lake.exchange import parts_by, read_part, write_parts

ROWS = pa.table({"name": pa.array([b"a", b"b", None, b"a", b"c"]), "number": pa.array([1, 2, 3, 4, 5])})


def test_equal_rows_have_one_part_in_every_file() -> None:
    part = parts_by(1_000, ROWS["name"])
    assert part[0] == part[3]
    assert len(set(part.tolist())) == 4
    assert parts_by(1_000, ROWS["name"].slice(3))[0] == part[0]
    by_both = parts_by(1_000, np.array([7, 7, 7, 7, 7]), ROWS["name"])
    assert by_both[0] == by_both[3] != part[0]


def test_each_part_comes_back_from_all_files_once(tmp_path: Path) -> None:
    paths = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    part = np.array([0, 2, 2, 0, 1])
    for path in paths:
        write_parts(path, ROWS, part, 4, OWNER_ONLY)
        assert path.stat().st_mode & 0o777 == OWNER_ONLY
    assert read_part(paths, 0)["number"].to_pylist() == [1, 4, 1, 4]
    assert (
        read_part(paths, 2, ["number", "name"]).to_pylist()
        == [{"number": 2, "name": b"b"}, {"number": 3, "name": None}] * 2
    )
    assert read_part(paths, 3).num_rows == 0
    assert read_part(paths, 3).schema == ROWS.schema


def test_second_attempt_takes_the_place_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "0.arrow"
    for _ in range(2):
        write_parts(path, ROWS, np.zeros(5, dtype=np.int64), 1, OWNER_ONLY)
    assert read_part([path], 0) == ROWS
    assert list(tmp_path.iterdir()) == [path]
