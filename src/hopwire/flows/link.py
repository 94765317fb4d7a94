"""Sightings to hops: `pairs.py` says which belong together, `fates.py` what is known, here it becomes a table.

The sightings of one message must come together; any number of messages may, in any order. All of it is columns: there
is no loop over messages.

The trap: messages without an id that are equal in everything (`keys.py`) are told apart by their order only. Where one
of them is lost, it is the last that seems to be.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.flows.arrays import NO_TIME, Groups, Ints, nullable, one_array
from hopwire.flows.coverage import Coverage
from hopwire.flows.fates import FATE, fates_of, is_route_wrong, repeats_of
from hopwire.flows.hops import AWAITS, FATES, HOP_SCHEMA, REPEATS
from hopwire.flows.pairs import Pairs, Seen, paired, read_seen
from hopwire.flows.roles import roles_of
from hopwire.flows.rules import Rules

__all__ = ["SIGHTING_COLUMNS", "link"]

# fmt: off
SIGHTING_COLUMNS = (
    "message_key", "attempt", "message_id", "correlation_id", "node", "sequence", "seen_at_ns", "direction", "peer",
    "dead_reason", "wire_format", "identity", "version", "version_raw", "partition", "distribution", "hops",
    "ttl_ticks", "size_bytes", "trace_options", "route_count", "route_node", "receiver_identity",
    "receiver_node_identity", "callback_points", "callback_key", "callback_receiver_identity",
    "callback_receiver_node_identity", "signature", "verdict", "outcome_kind", "outcome_reason",
)
# fmt: on
FATE_NAMES = pa.array(list(FATES))
AS_THEY_ARE = (
    ("correlation_id", "correlation_id"),
    ("message_key", "message_key"),
    ("wire_format", "wire_format"),
    ("identity", "identity"),
    ("version", "version"),
    ("version_raw", "version_raw"),
    ("partition", "partition"),
    ("distribution", "distribution"),
    ("hop_count", "hops"),
    ("ttl_ticks", "ttl_ticks"),
    ("size_bytes", "size_bytes"),
    ("callback_key", "callback_key"),
    ("outcome_reason", "outcome_reason"),
    ("dead_reason", "dead_reason"),
)


def link(sightings: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Give the hops of all messages whose sightings these are."""
    if not len(sightings):
        return HOP_SCHEMA.empty_table()
    seen = read_seen(sightings, coverage)
    pairs = paired(seen)
    return _hops(sightings, seen, pairs, fates_of(seen, pairs, rules), rules)


def _hops(sightings: pa.Table, seen: Seen, pairs: Pairs, fate: Ints, rules: Rules) -> pa.Table:
    has_left, has_come = pairs.left >= 0, pairs.came >= 0
    rows = np.where(has_left, pairs.left, pairs.came)
    first = Groups(seen.key[rows], seen.at[rows]).first
    is_first = np.zeros(len(rows), dtype=np.bool_)
    is_first[first] = True
    left_at = np.where(has_left, seen.at[pairs.left], NO_TIME)
    came_at = np.where(has_come, seen.at[pairs.came], NO_TIME)
    source, target = seen.source[rows], np.where(has_come, seen.target[pairs.came], seen.target[rows])
    is_crossing = has_left & has_come
    clock = seen.coverage.clock
    taken = pa.array(rows)
    roles = roles_of(sightings)
    columns = {
        "flow_id": roles.flow_id.take(taken),
        "attempt": pa.array(seen.attempt[rows], pa.int32()),
        "crossing": pa.array(pairs.crossing, pa.int32()),
        "is_first": pa.array(is_first),
        "from_node": seen.nodes.take(pa.array(source)),
        "to_node": _targets(seen, target, fate),
        "fate": FATE_NAMES.take(pa.array(fate)),
        "left_at_ns": nullable(left_at),
        "arrived_at_ns": nullable(came_at),
        "left_sequence": nullable(np.where(has_left, seen.sequence[pairs.left], NO_TIME)),
        "arrived_sequence": nullable(np.where(has_come, seen.sequence[pairs.came], NO_TIME)),
        "latency_us": nullable(np.where(is_crossing, (came_at - left_at) // 1000, NO_TIME)),
        "is_corrected": pa.array(is_crossing & (clock[source] == clock[target])),
        "home_node": roles.home_node.take(taken),
        "home_receiver": roles.home_receiver.take(taken),
        "is_reply": pa.array(roles.is_reply[rows]),
        "awaits": pa.array(AWAITS).take(pa.array(roles.awaits[rows])),
        "outcome_kind": roles.outcome_kind.take(taken),
        "verdict": one_array(sightings["verdict"]).take(pa.array(np.where(has_come, pairs.came, rows))),
        "repeat": pa.array(REPEATS).take(pa.array(repeats_of(sightings, seen, pairs, rules))),
        "is_route_wrong": pa.array(is_route_wrong(sightings, rows, seen)),
    }
    columns |= {name: one_array(sightings[source]).take(taken) for name, source in AS_THEY_ARE}
    return pa.table([columns[name].cast(HOP_SCHEMA.field(name).type) for name in HOP_SCHEMA.names], schema=HOP_SCHEMA)


def _targets(seen: Seen, target: Ints, fate: Ints) -> pa.Array:
    names = seen.nodes.take(pa.array(target))
    return pc.if_else(pa.array(fate == FATE["dead"]), pa.scalar(b"", pa.binary()), names)
