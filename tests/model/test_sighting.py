"""The record: one declaration, one schema, one version."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.capture import SCHEMA, Direction, Sighting, batch_from_sightings, sightings_from_batch
from hopwire.errors import CaptureError
from hopwire.model.sighting import ORIGIN_NAMES, VERSION_KEY, Origin, batch_from_rows, check_schema

ROW = Sighting(b"a", "A", 1, 7, 5, Direction.DEAD, b"b", [b"", b"x"], "no_route", "nobody knows b")
GAP = Sighting(b"a", "A", 1, 8, 6, Direction.SKIPPED, b"", [], "too_slow", "", 3)


def test_the_schema_follows_from_the_record() -> None:
    assert tuple(SCHEMA.names) == Sighting._fields
    assert SCHEMA.field("frames").type == pa.list_(pa.binary())
    assert SCHEMA.field("seen_at_ns").type == pa.int64()
    assert Sighting._fields[: len(ORIGIN_NAMES)] == ORIGIN_NAMES


def test_sightings_become_a_batch_and_come_back() -> None:
    batch = batch_from_sightings([ROW, GAP])
    assert batch.schema.equals(SCHEMA, check_metadata=True)
    assert sightings_from_batch(batch) == [ROW, GAP]
    assert batch_from_sightings([]).num_rows == 0


def test_no_column_is_ever_null() -> None:
    assert all(column.null_count == 0 for column in batch_from_sightings([ROW, GAP]))


def test_rows_of_one_origin_are_the_same_batch() -> None:
    batch = batch_from_rows(Origin(b"a", "A", 1), [ROW[3:], GAP[3:]])
    assert batch.equals(batch_from_sightings([ROW, GAP]))


# fmt: off
REFUSED = [
    (SCHEMA.with_metadata({VERSION_KEY: "2.0"}),          "is a capture of version 2.0, expected 1 or older"),
    (SCHEMA.with_metadata({VERSION_KEY: "new"}),          "has the version b'new', expected one such as 1.0"),
    (SCHEMA.with_metadata({}),                            "is an Arrow stream, but not a capture"),
    (SCHEMA.remove(SCHEMA.get_field_index("peer")),       "has no column peer, which a capture has"),
    (SCHEMA.set(0, pa.field("node", pa.string())),        "has column node as string, expected binary"),
]
# fmt: on


@pytest.mark.parametrize(("schema", "line"), REFUSED, ids=range(len(REFUSED)))
def test_another_schema_is_refused_in_one_line(schema: pa.Schema, line: str) -> None:
    with pytest.raises(CaptureError) as caught:
        check_schema(schema)
    assert str(caught.value) == line


def test_a_column_more_is_no_reason_to_refuse() -> None:
    check_schema(SCHEMA.append(pa.field("more", pa.int8())).with_metadata({VERSION_KEY: "1.1"}))
