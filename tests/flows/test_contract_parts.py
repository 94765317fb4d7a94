"""Sightings in, contracts out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hopwire.flows.contract_parts import CONTRACT_KEY, PART_SCHEMA, added_parts, contracts_of, parts_of


def sightings(*rows: tuple[bytes, str, int, int]) -> pa.Table:
    """A table of sightings: identity, direction, time and size."""
    same: dict[str, Any] = {"version": 1, "version_raw": None, "partition": b"", "node": b"A", "node_name": "anna"}
    made = [
        {**same, "identity": identity, "direction": direction, "wire_format": 6, "seen_at_ns": at, "size_bytes": size}
        for identity, direction, at, size in rows
    ]
    names = [*CONTRACT_KEY, "node", "node_name", "direction", "wire_format"]
    schema = pa.schema(
        [*(PART_SCHEMA.field(name) for name in names), ("seen_at_ns", pa.int64()), ("size_bytes", pa.int64())]
    )
    return pa.Table.from_pylist(made, schema)


def test_parts_of_two_captures_add_up() -> None:
    both = added_parts([parts_of(sightings((b"x", "out", 5, 10))), parts_of(sightings((b"x", "out", 7, 30)))])
    (row,) = contracts_of(both)
    assert (row["sighting_count"], row["first_seen_at_ns"], row["last_seen_at_ns"]) == (2, 5, 7)
    assert (row["min_size_bytes"], row["mean_size_bytes"], row["max_size_bytes"]) == (10, 20, 30)


def test_what_an_asker_was_told_is_no_message_of_a_contract() -> None:
    seen = sightings((b"x", "out", 5, 10), (b"x", "dead", 6, 10), (b"x", "told", 9, 3), (b"never said", "told", 9, 3))
    (row,) = contracts_of(parts_of(seen))
    assert (row["sighting_count"], row["dead_count"], row["last_seen_at_ns"]) == (2, 1, 6)
    assert (row["min_size_bytes"], row["mean_size_bytes"]) == (10, 10)
