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
SUMS = {"count": "sum", "first": "min", "last": "max", "size": "sum", "least": "min", "most": "max"}
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
    names = [*OF_PART, *(f"{name}_{kind}" for name, kind in SUMS.items())]
    return _in_order(names, sums.aggregate(list(SUMS.items())))


def _in_order(names: list[str], sums: pa.Table) -> pa.Table:
    columns: list[Any] = [sums[name].cast(each.type) for name, each in zip(names, PART_SCHEMA, strict=True)]
    return pa.table(columns, schema=PART_SCHEMA)


def contracts_of(parts: pa.Table) -> list[dict[str, Any]]:
    """Give a row for each contract in each partition; what an asker was told is no message."""
    said = parts.filter(pc.not_equal(parts["direction"], "told"))
    nodes = zip(said["node"].to_pylist(), said["node_name"].to_pylist(), strict=True)
    names = pa.array([name or node.hex() for node, name in nodes], pa.string())
    whole = pa.table(
        {
            **{name: said[name] for name in (*CONTRACT_KEY, *SUMS)},
            "dead": pc.if_else(pc.equal(said["direction"], "dead"), said["count"], 0),
            "senders": pc.if_else(pc.equal(said["direction"], "out"), names, None),
            "receivers": pc.if_else(pc.equal(said["direction"], "in"), names, None),
            "wire_formats": said["wire_format"],
        }
    )
    known = pc.CountOptions(mode="only_valid")
    lists = [(name, "distinct", known) for name in ("senders", "receivers", "wire_formats")]
    sums = whole.group_by(CONTRACT_KEY).aggregate([*SUMS.items(), ("dead", "sum"), *lists])
    return [_contract(row) for row in sums.to_pylist()]


def _contract(sums: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: sums[name] for name in CONTRACT_KEY},
        "sighting_count": sums["count_sum"],
        "first_seen_at_ns": sums["first_min"],
        "last_seen_at_ns": sums["last_max"],
        "senders": sorted(sums["senders_distinct"]),
        "receivers": sorted(sums["receivers_distinct"]),
        "dead_count": sums["dead_sum"],
        "wire_formats": sorted(sums["wire_formats_distinct"]),
        "mean_size_bytes": sums["size_sum"] / sums["count_sum"],
        "min_size_bytes": sums["least_min"],
        "max_size_bytes": sums["most_max"],
    }
