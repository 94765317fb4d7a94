"""`silver.closed_flows`: the flows that are final, as far as it seems, and what would open them again.

A step looks up the names of its flows here, by `flow_hash` alone: eight bytes for each flow of the lake. The times find
the files that have the rows of a flow (`lake/stored_flows.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Ints, ints, one_array
from hopwire.flows.closing import HorizonColumns, horizon_columns, latest_of_requests
from hopwire.flows.coverage import Coverage, offsets_at
from hopwire.flows.groups import NO_TIME, Groups
from hopwire.flows.rules import Rules
from hopwire.lake.tables import Column, Table, declare
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "ANY_TIME",
    "CLOSED_TABLE",
    "hashes_of",
    "index_of_part",
    "index_rows",
    "joined_index",
    "most_off_ns",
]

ANY_TIME = 2**62  # in older lakes: a flow that is too large for its tree looks at all times

# fmt: off
COLUMNS = (
    Column("flow_hash",        pa.int64(),  "a hash of flow_id"),
    Column("flow_id",          pa.binary(), "the flow"),
    Column("horizon_ns",       pa.int64(),  "the latest time that the verdict on the flow looks at, corrected"),
    Column("nodes",            pa.list_(pa.binary()), "the nodes that the verdict looks at"),
    Column("started_at_ns",    pa.int64(),  "the first time of its hops, corrected"),
    Column("ended_at_ns",      pa.int64(),  "the last time of its hops, corrected"),
    Column("first_seen_at_ns", pa.int64(),  "the first sighting by any clock, or earlier"),
    Column("last_seen_at_ns",  pa.int64(),  "the last sighting by any clock, or later"),
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


def hashes_of(flows: Iterable[bytes]) -> Ints:
    """Give a hash of each name of a flow."""
    digests = b"".join([blake2b(flow, digest_size=8).digest() for flow in flows])
    return np.frombuffer(digests, ">i8").astype(np.int64)


def most_off_ns(coverage: Coverage) -> int:
    """Give how far the clocks of nodes are wrong at most, at any time, and a second more."""
    most = max((abs(offset) for offset in coverage.offsets_ns.values()), default=0)
    for span in coverage.spans:
        if span.node in coverage.changes:
            known = coverage.offsets_of(span.node, span.incarnation)
            begins = [each.since_ns for each in known if span.first_ns < each.since_ns < span.last_ns]
            times = np.array([span.first_ns, *begins, *(at - 1 for at in begins), span.last_ns])
            most = max(most, int(np.abs(offsets_at(known, times)).max()))
    return most + NS_PER_SECOND


def index_rows(hops: pa.Table, known: HorizonColumns, off_ns: int) -> pa.Table:
    """Give the rows of flows, from all their hops and their horizons."""
    left, came = (ints(hops[name], NO_TIME) for name in ("left_at_ns", "arrived_at_ns"))
    begun = np.where(left == NO_TIME, came, np.where(came == NO_TIME, left, np.minimum(left, came)))
    seen = sum(ints(pc.is_valid(hops[name])) for name in ("left_sequence", "arrived_sequence"))
    flows = Groups(ints(pc.index_in(one_array(hops["flow_id"]), known.flows)))
    first, last = flows.least(begun), flows.most(np.maximum(left, came))
    columns = {
        "flow_hash": hashes_of(known.flows.to_pylist()),
        "flow_id": known.flows,
        "horizon_ns": known.until_ns,
        "nodes": known.nodes,
        "started_at_ns": first,
        "ended_at_ns": last,
        "first_seen_at_ns": first - off_ns,
        "last_seen_at_ns": last + off_ns,
        "sighting_count": flows.total(np.asarray(seen)),
    }
    order = pa.array(np.argsort(columns["flow_hash"], kind="stable"))
    return pa.table(columns, schema=CLOSED_TABLE.schema).take(order)


def index_of_part(hops: pa.Table, requests: pa.Table, rules: Rules, off_ns: int) -> pa.Table:
    """Give the row of a part of one flow: of some of its hops, or of some of its requests, or of both.

    The patience is added always: another part may have a message that was not seen to arrive.
    """
    if len(hops):
        known = horizon_columns(hops, requests, rules)
        return index_rows(hops, known._replace(until_ns=known.until_ns + rules.patience_ns), off_ns)
    flow, asked = requests["flow_id"][0].as_py(), ints(requests["asked_at_ns"])
    row = {
        "flow_hash": int(hashes_of([flow])[0]),
        "flow_id": flow,
        "horizon_ns": latest_of_requests(requests, rules),
        "nodes": [],
        "started_at_ns": int(asked.min()),
        "ended_at_ns": int(asked.max()),
        "first_seen_at_ns": int(asked.min()) - off_ns,
        "last_seen_at_ns": int(asked.max()) + off_ns,
        "sighting_count": 0,
    }
    return pa.Table.from_pylist([row], CLOSED_TABLE.schema)


def joined_index(parts: pa.Table) -> pa.Table:
    """Give the row of a flow, from the rows of its parts."""
    row = {name: parts[name][0].as_py() for name in ("flow_hash", "flow_id")}
    row |= {name: pc.min(parts[name]).as_py() for name in ("started_at_ns", "first_seen_at_ns")}
    row |= {name: pc.max(parts[name]).as_py() for name in ("horizon_ns", "ended_at_ns", "last_seen_at_ns")}
    row["nodes"] = sorted(pc.unique(pc.list_flatten(parts["nodes"])).to_pylist())
    row["sighting_count"] = pc.sum(parts["sighting_count"]).as_py()
    return pa.Table.from_pylist([row], CLOSED_TABLE.schema)
