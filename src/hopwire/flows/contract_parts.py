"""What is said in the network, counted in parts that add up: the parts of two captures are the parts of both.

A part has the sightings of one contract in one partition at one node, of one direction and one wire format. There are
few parts, however many sightings there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["CONTRACT_KEY", "OF_MESSAGES", "PART_SCHEMA", "added_parts", "contracts_of", "parts_of"]

CONTRACT_KEY = ["identity", "version", "version_raw", "partition"]
OF_PART = [*CONTRACT_KEY, "node", "node_name", "direction", "wire_format"]
OF_MESSAGES = (*OF_PART, "seen_at_ns", "size_bytes")  # the columns of messages that are counted
PART_SCHEMA = pa.schema(
    [
        ("identity", pa.binary()),
        ("version", pa.int32()),
        ("version_raw", pa.binary()),
        ("partition", pa.binary()),
        ("node", pa.binary()),
        ("node_name", pa.string()),
        ("direction", pa.string()),
        ("wire_format", pa.int8()),
        ("count", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("size", pa.int64()),
        ("least", pa.int64()),
        ("most", pa.int64()),
    ]
)


def parts_of(messages: pa.Table) -> pa.Table:
    """Count sightings of messages."""
    sums = messages.group_by(OF_PART).aggregate(
        [
            ([], "count_all"),
            ("seen_at_ns", "min"),
            ("seen_at_ns", "max"),
            ("size_bytes", "sum"),
            ("size_bytes", "min"),
            ("size_bytes", "max"),
        ]
    )
    made = ("count_all", "seen_at_ns_min", "seen_at_ns_max", "size_bytes_sum", "size_bytes_min", "size_bytes_max")
    return _in_order([*OF_PART, *made], sums)


def added_parts(parts: Iterable[pa.Table]) -> pa.Table:
    """Add parts up."""
    sums = pa.concat_tables([PART_SCHEMA.empty_table(), *parts]).group_by(OF_PART)
    kinds = {"count": "sum", "first": "min", "last": "max", "size": "sum", "least": "min", "most": "max"}
    return _in_order(
        [*OF_PART, *(f"{name}_{kind}" for name, kind in kinds.items())], sums.aggregate(list(kinds.items()))
    )


def _in_order(names: list[str], sums: pa.Table) -> pa.Table:
    columns: list[Any] = [sums[name].cast(each.type) for name, each in zip(names, PART_SCHEMA, strict=True)]
    return pa.table(columns, schema=PART_SCHEMA)


def contracts_of(parts: pa.Table) -> list[dict[str, Any]]:
    """Give a row for each contract in each partition; what an asker was told is no message."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for part in parts.filter(pc.not_equal(parts["direction"], "told")).to_pylist():
        key = tuple(part[name] for name in CONTRACT_KEY)
        row = rows.setdefault(key, dict(zip(CONTRACT_KEY, key, strict=True)) | _nothing(part))
        _add(row, part)
    for row in rows.values():
        row["mean_size_bytes"] = row.pop("size") / row["sighting_count"]
        row |= {name: sorted(row[name]) for name in ("senders", "receivers", "wire_formats")}
    return list(rows.values())


def _nothing(part: dict[str, Any]) -> dict[str, Any]:
    return {
        "sighting_count": 0,
        "first_seen_at_ns": part["first"],
        "last_seen_at_ns": part["last"],
        "senders": set(),
        "receivers": set(),
        "dead_count": 0,
        "wire_formats": set(),
        "size": 0,
        "min_size_bytes": part["least"],
        "max_size_bytes": part["most"],
    }


def _add(row: dict[str, Any], part: dict[str, Any]) -> None:
    row["sighting_count"] += part["count"]
    row["first_seen_at_ns"] = min(row["first_seen_at_ns"], part["first"])
    row["last_seen_at_ns"] = max(row["last_seen_at_ns"], part["last"])
    row["size"] += part["size"]
    row["min_size_bytes"] = min(row["min_size_bytes"], part["least"])
    row["max_size_bytes"] = max(row["max_size_bytes"], part["most"])
    row["wire_formats"].add(part["wire_format"])
    name = part["node_name"] or part["node"].hex()
    match part["direction"]:
        case "out":
            row["senders"].add(name)
        case "in":
            row["receivers"].add(name)
        case "dead":
            row["dead_count"] += part["count"]
