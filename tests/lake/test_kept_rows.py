"""Rows that a step has written are there for the next step of the process, as long as the lake has their files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.lake.kept_rows import MAX_BYTES, keep_rows, kept_rows
from hopwire.lake.manifest import StoredFile

ROWS = pa.table({"number": [1, 2, 3]})
FILES = [StoredFile("date=2026-01-01/abc-1.parquet", 2, 100), StoredFile("date=2026-01-02/abc-1.parquet", 1, 100)]


def test_rows_of_a_part_are_kept_until_the_next_step() -> None:
    keep_rows({"abc-1": ROWS})
    assert kept_rows(FILES) is ROWS
    assert kept_rows(FILES[:1]) is None, "only the part as a whole"
    assert kept_rows([*FILES, StoredFile("abc-2.parquet", 1, 100)]) is None
    assert kept_rows([]) is None
    keep_rows({"abc-2": ROWS})
    assert kept_rows(FILES) is None


@pytest.mark.slow
def test_rows_that_are_too_large_are_not_kept() -> None:
    keep_rows({"abc-1": ROWS, "abc-2": pa.table({"bytes": [b"x" * (MAX_BYTES + 1)]})})
    assert kept_rows(FILES) is None
