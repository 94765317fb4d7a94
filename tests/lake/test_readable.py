"""Columns for people: right beside the exact ones, in every table."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from hopwire.lake.readable import DERIVED, readable_batch, readable_columns
from hopwire.lake.tables import Column, Table, all_tables

NAMES = {b"\x01\xff": "anna", b"plain": ""}
TABLE = Table(
    "gold.t",
    (),
    (),
    (
        Column("flow_id", pa.binary(), "x"),
        Column("from_node", pa.binary(), "x"),
        Column("left_at_ns", pa.int64(), "x"),
        Column("arrived_at_ns", pa.int64(), "x"),
        Column("nodes", pa.list_(pa.binary()), "x"),
        Column("message_key", pa.binary(), "x"),
    ),
    "One.",
    dated_by=("left_at_ns", "arrived_at_ns"),
)
DAY = 86_400 * 10**9


def rows(*values: tuple[object, ...]) -> list[dict[str, object]]:
    names = TABLE.schema.names
    batch = pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True)) for row in values], TABLE.schema)
    found: list[dict[str, object]] = readable_batch(batch, TABLE.stored_schema, TABLE.dated_by, NAMES).to_pylist()
    return found


def test_bytes_have_text_and_nodes_have_names() -> None:
    one, two, three = rows(
        (b"order-1", b"\x01\xff", 0, 0, [b"plain", b"\x01\xff"], b"\x00\xab"),
        (b"\xff\x00", b"plain", 0, 0, [], b""),
        (None, b"", 0, 0, None, None),
    )
    assert (one["flow"], one["from_name"], one["node_names"], one["message"]) == (
        "order-1", "anna", ["plain", "anna"], "00ab"
    )  # fmt: skip
    assert (two["flow"], two["from_name"], two["node_names"]) == ("0xff00", "plain", [])
    assert (three["flow"], three["from_name"], three["node_names"], three["message"]) == (None, "", None, None)


def test_text_that_a_terminal_would_obey_becomes_hex() -> None:
    (one,) = rows((b"\x1b[31m", b"x", 0, 0, [], b""))
    assert one["flow"] == "0x1b5b33316d"


def test_times_are_cut_off_to_microseconds_and_the_day_is_in_utc() -> None:
    at = datetime(2026, 1, 31, 23, 59, 59, 999_999, UTC)
    ns = 1_769_903_999_999_999_999
    one, two, three, four = rows(
        (b"", b"", ns, None, [], b""),
        (b"", b"", None, ns + 1, [], b""),
        (b"", b"", -1, 0, [], b""),
        (b"", b"", None, None, [], b""),
    )
    assert (one["left_at"], one["arrived_at"], one["date"]) == (at, None, date(2026, 1, 31))
    assert (two["left_at"], two["date"]) == (None, date(2026, 2, 1))
    assert (three["left_at"], three["date"]) == (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), date(1969, 12, 31))
    assert four["date"] is None


@pytest.mark.parametrize("name", all_tables())
def test_no_table_has_bytes_or_times_that_people_cannot_read(name: str) -> None:
    table = all_tables()[name]
    stored = [column.name for column in table.stored_columns]
    assert len(set(stored)) == len(stored)
    for column in table.columns:
        if column.name.endswith("_at_ns") or column.name.endswith("_node"):
            assert column.name in DERIVED, column.name
            assert DERIVED[column.name].name in stored


def test_columns_that_are_names_already_have_no_others_beside_them() -> None:
    names = [column.name for column in readable_columns((Column("receivers", pa.list_(pa.string()), "x"),))]
    assert names == ["receivers"]


def test_hex_of_some_rows_of_a_column_is_theirs() -> None:
    keys = pa.array([b"\x00\xff", b"", b"ab", b"\x10"]).slice(1, 3)
    schema = pa.schema([("message", pa.string()), ("message_key", pa.binary())])
    rows = readable_batch(pa.record_batch([keys], names=["message_key"]), schema, (), {})
    assert rows.column("message").to_pylist() == ["", "6162", "10"]
