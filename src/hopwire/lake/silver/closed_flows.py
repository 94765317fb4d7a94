"""`silver.closed_flows`: the flows that are final, as far as it seems, and what would open them again.

A step looks up the names of its flows here, by `flow_hash` alone: eight bytes for each flow of the lake. The times find
the files that have the rows of a flow (`lake/stored_flows.py`).
"""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa

from hopwire.lake.tables import Column, Table, declare

__all__ = ["CLOSED_TABLE", "hash_of_flow"]

# fmt: off
COLUMNS = (
    Column("flow_hash",        pa.int64(),  "a hash of flow_id"),
    Column("flow_id",          pa.binary(), "the flow"),
    Column("horizon_ns",       pa.int64(),  "the latest time that the verdict on the flow looks at, corrected"),
    Column("nodes",            pa.list_(pa.binary()), "the nodes that the verdict looks at"),
    Column("started_at_ns",    pa.int64(),  "the first time of its hops, corrected"),
    Column("ended_at_ns",      pa.int64(),  "the last time of its hops, corrected"),
    Column("first_seen_at_ns", pa.int64(),  "the first sighting, by the clock of its node"),
    Column("last_seen_at_ns",  pa.int64(),  "the last sighting, by the clock of its node"),
    Column("sighting_count",   pa.int64(),  "sightings"),
)
# fmt: on

CLOSED_TABLE = declare(
    Table(
        "silver.closed_flows",
        key=("flow_id",),
        reads=("silver.hops", "gold.requests"),
        columns=COLUMNS,
        meaning="One flow that is final, as far as it seems: until when its verdict looks, and at which nodes.",
        dated_by=("horizon_ns",),
    )
)


def hash_of_flow(flow_id: bytes) -> int:
    """Give a hash of the name of a flow."""
    return int.from_bytes(blake2b(flow_id, digest_size=8).digest(), signed=True)
