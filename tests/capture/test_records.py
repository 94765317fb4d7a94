"""The records of a file: their schema, and which files are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hopwire.capture import SCHEMA, Direction, Sighting, batch_from_sightings
from hopwire.capture.records import (
    ORIGIN_NAMES,
    RECORDS,
    Origin,
    batch_from_rows,
    check_schema,
    records_from_sightings,
)
from hopwire.errors import CaptureError
from hopwire.model.sighting_batch import VERSION_KEY

ROW = Sighting(b"a", "A", 1, 7, 5, Direction.DEAD, b"b", [b"", b"x"], "no_route", "nobody knows b")
GAP = Sighting(b"a", "A", 1, 8, 6, Direction.SKIPPED, b"", [], "too_slow", "", 3)


def test_a_record_is_a_sighting_and_the_length_of_its_train() -> None:
    assert RECORDS.names == [*SCHEMA.names, "train"]
    assert Sighting._fields[: len(ORIGIN_NAMES)] == ORIGIN_NAMES


def test_rows_of_one_origin_are_the_same_batch() -> None:
    batch = batch_from_rows(Origin(b"a", "A", 1), [(*ROW[3:], 0), (*GAP[3:], 0)])
    assert batch.equals(records_from_sightings(batch_from_sightings([ROW, GAP])))
    assert batch.schema.equals(RECORDS, check_metadata=True)


# fmt: off
REFUSED = [
    (SCHEMA.with_metadata({VERSION_KEY: "4.0"}),          "is a capture of version 4.0, expected 3 or older"),
    (SCHEMA.with_metadata({VERSION_KEY: "new"}),          "has the version b'new', expected one such as 3.0"),
    (SCHEMA.with_metadata({VERSION_KEY: "2.0"}),          "has no column train, which a capture has"),
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
    more = pa.field("more", pa.int8())
    assert check_schema(SCHEMA.append(more).with_metadata({VERSION_KEY: "1.1"})) == SCHEMA
    assert check_schema(RECORDS.append(more).with_metadata({VERSION_KEY: "2.1"})) == RECORDS


def test_the_first_number_of_the_version_says_whether_there_are_trains() -> None:
    assert check_schema(RECORDS.with_metadata({VERSION_KEY: "1.0"})) == SCHEMA
    assert check_schema(RECORDS.with_metadata({VERSION_KEY: "2"})) == RECORDS
