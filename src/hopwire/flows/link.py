"""Sightings to hops: `pairs.py` says which belong together, `fates.py` what is known, here it becomes a table.

The sightings of one message must come together; any number of messages may, in any order. All of it is columns: there
is no loop over messages.

Where a message has more sightings than fit, they may come in pieces by time (`link_piece`): what lies near the end of a
piece waits for the next.

The trap: messages without an id that are equal in everything (`keys.py`) are told apart by order and time only. Each
that leaves where the first of them began counts as one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.arrays import NO_TIME, Groups, nullable, pack
from hopwire.flows.coverage import Coverage
from hopwire.flows.fates import FATE, fates_of, is_route_wrong, repeats_of
from hopwire.flows.hops import AWAITS, FATES, HOP_SCHEMA, REPEATS
from hopwire.flows.pairs import Pairs, Seen, paired, read_seen
from hopwire.flows.roles import roles_of
from hopwire.flows.rules import Rules

__all__ = ["SIGHTING_COLUMNS", "link", "link_piece"]

# fmt: off
SIGHTING_COLUMNS = (
    "message_key", "attempt", "message_id", "correlation_id", "node", "incarnation", "sequence", "seen_at_ns",
    "direction", "peer", "dead_reason", "wire_format", "identity", "version", "version_raw", "partition",
    "distribution", "hops", "ttl_ticks", "size_bytes", "trace_options", "route_count", "route_node",
    "receiver_identity", "receiver_node_identity", "callback_points", "callback_key", "callback_receiver_identity",
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
    return link_piece(sightings, coverage, rules, is_cut=False)[0]


def link_piece(sightings: pa.Table, coverage: Coverage, rules: Rules, is_cut: bool) -> tuple[pa.Table, pa.Table]:
    """Give the hops, and if more of the last message follows, the sightings of it that are to come again with that."""
    if not len(sightings):
        return HOP_SCHEMA.empty_table(), sightings
    seen = read_seen(sightings, coverage)
    pairs = paired(seen, rules)
    is_late = _is_late(sightings, seen, coverage, rules) if is_cut else np.zeros(len(seen.key), dtype=np.bool_)
    waits = (is_late[pairs.left] & (pairs.left >= 0)) | (is_late[pairs.came] & (pairs.came >= 0))
    rows = np.concatenate([pairs.left[waits], pairs.came[waits]])
    pairs = pairs.where(~waits)
    hops = _hops(sightings, seen, pairs, fates_of(seen, pairs, rules), rules)
    return hops, sightings.take(pa.array(np.sort(rows[rows >= 0])))


def _is_late(sightings: pa.Table, seen: Seen, coverage: Coverage, rules: Rules) -> Bools:
    """Tell which sightings of the last message are so near the end of the piece that their partners may follow.

    Pieces are cut by the clocks of the nodes: what one that is ahead saw comes later.
    """
    last = int(ints(sightings["seen_at_ns"])[-1]) - coverage.most_ahead_ns
    is_late: Bools = (seen.key == seen.key[-1]) & (seen.at > last - rules.patience_ns)
    return is_late


def _hops(sightings: pa.Table, seen: Seen, pairs: Pairs, fate: Ints, rules: Rules) -> pa.Table:
    has_left, has_come = pairs.left >= 0, pairs.came >= 0
    rows = np.where(has_left, pairs.left, pairs.came)
    left_at = np.where(has_left, seen.at[pairs.left], NO_TIME)
    came_at = np.where(has_come, seen.at[pairs.came], NO_TIME)
    source, target = seen.source[rows], np.where(has_come, seen.target[pairs.came], seen.target[rows])
    is_crossing = has_left & has_come
    taken = pa.array(rows)
    roles = roles_of(sightings)
    repeat = repeats_of(sightings, seen, pairs, fate, rules)
    columns = {
        "flow_id": roles.flow_id.take(taken),
        "attempt": pa.array(seen.attempt[rows], pa.int32()),
        "crossing": pa.array(pairs.crossing, pa.int32()),
        "is_first": pa.array(_is_first(sightings, seen, rows, fate, repeat)),
        "from_node": seen.nodes.take(pa.array(source)),
        "to_node": _targets(seen, target, fate),
        "fate": FATE_NAMES.take(pa.array(fate)),
        "left_at_ns": nullable(left_at),
        "arrived_at_ns": nullable(came_at),
        "left_incarnation": nullable(np.where(has_left, seen.incarnation[pairs.left], NO_TIME)),
        "left_sequence": nullable(np.where(has_left, seen.sequence[pairs.left], NO_TIME)),
        "arrived_incarnation": nullable(np.where(has_come, seen.incarnation[pairs.came], NO_TIME)),
        "arrived_sequence": nullable(np.where(has_come, seen.sequence[pairs.came], NO_TIME)),
        "latency_us": nullable(np.where(is_crossing, (came_at - left_at) // 1000, NO_TIME)),
        "is_corrected": pa.array(is_crossing & _is_corrected(seen, source, left_at, target, came_at)),
        "home_node": roles.home_node.take(taken),
        "home_receiver": roles.home_receiver.take(taken),
        "is_reply": pa.array(roles.is_reply[rows]),
        "awaits": pa.array(AWAITS).take(pa.array(roles.awaits[rows])),
        "outcome_kind": roles.outcome_kind.take(taken),
        "verdict": one_array(sightings["verdict"]).take(pa.array(np.where(has_come, pairs.came, rows))),
        "repeat": pa.array(REPEATS).take(pa.array(repeat)),
        "is_route_wrong": pa.array(is_route_wrong(sightings, rows, seen)),
    }
    columns |= {name: one_array(sightings[source]).take(taken) for name, source in AS_THEY_ARE}
    return pa.table([columns[name].cast(HOP_SCHEMA.field(name).type) for name in HOP_SCHEMA.names], schema=HOP_SCHEMA)


def _is_corrected(seen: Seen, source: Ints, left_at: Ints, target: Ints, came_at: Ints) -> Bools:
    """Tell where two clocks are known against each other, and none of them was set about then."""
    cover = seen.coverage
    is_doubtful = cover.is_doubtful(source, left_at) | cover.is_doubtful(target, came_at)
    is_known: Bools = (cover.clock[source] == cover.clock[target]) & ~is_doubtful
    return is_known


def _is_first(sightings: pa.Table, seen: Seen, rows: Ints, fate: Ints, repeat: Ints) -> Bools:
    """Tell with which hops a message begins: the first of a key, and of equal messages all that go the same way.

    The number of hops is the same too: a message that goes in circles is one.
    """
    groups = Groups(seen.key[rows], seen.at[rows])
    first = groups.first
    is_first = np.zeros(len(rows), dtype=np.bool_)
    is_first[first] = True
    has_id = bools(pc.greater(pc.binary_length(one_array(sightings["message_id"])), 0))[rows]
    is_again = (repeat > 0) | (fate == FATE["duplicate"]) | (fate == FATE["foreign"])
    way = pack(seen.source[rows], seen.target[rows], ints(sightings["hops"])[rows], fate == FATE["dead"])
    is_first |= ~has_id & ~is_again & (way == way[first][groups.of])
    return is_first


def _targets(seen: Seen, target: Ints, fate: Ints) -> pa.Array:
    names = seen.nodes.take(pa.array(target))
    return pc.if_else(pa.array(fate == FATE["dead"]), pa.scalar(b"", pa.binary()), names)
