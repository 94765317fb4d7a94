"""Sightings as batches: one declaration, one schema."""

from __future__ import annotations

import pyarrow as pa

from hopwire.capture import SCHEMA, Direction, Sighting, batch_from_sightings, sightings_from_batch

ROW = Sighting(b"a", "A", 1, 7, 5, Direction.DEAD, b"b", [b"", b"x"], "no_route", "nobody knows b")
GAP = Sighting(b"a", "A", 1, 8, 6, Direction.SKIPPED, b"", [], "too_slow", "", 3)


def test_the_schema_follows_from_the_record() -> None:
    assert tuple(SCHEMA.names) == Sighting._fields
    assert SCHEMA.field("frames").type == pa.list_(pa.binary())
    assert SCHEMA.field("seen_at_ns").type == pa.int64()


def test_sightings_become_a_batch_and_come_back() -> None:
    batch = batch_from_sightings([ROW, GAP])
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert sightings_from_batch(batch) == [ROW, GAP]
    assert batch_from_sightings([]).num_rows == 0


def test_no_column_is_ever_null() -> None:
    assert all(column.null_count == 0 for column in batch_from_sightings([ROW, GAP]))
