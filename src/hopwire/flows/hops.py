"""Sightings to hops: `pairs.py` says which belong together, `fates.py` what is known, here it becomes a table.

The sightings of one message must come together; any number of messages may, in any order. All of it is columns: there
is no loop over messages.

Where a message has more sightings than fit, they may come in pieces by time (`link_piece`): what lies near the end of a
piece waits for the next.

The trap: messages without an id that are equal in everything (`keys.py`) are told apart by order and time only. Each
that leaves where the first of them began counts as one.


What is known of a hop: its fate, whether its arrival came before, whether its trace is right.

What is missing is judged by the coverage of the node that should have seen it (`FATES` in `hops.py`). An arrival too
many is a duplicate, or replayed: signed, and not soon after the first or from another peer; or at another node, though
it is for one and has come no further: a router on the way would have counted its hop.


What part a message plays in its flow: request, answer, outcome, or none of them.

- A *reply* names a receiver, and either that is its callback receiver and its contract is one of the callback points,
  or it is an outcome, an exception or a receipt.
- The *home* of a message is where an answer to it goes: receiver and node. A reply has it as its receiver, all others
  as their callback data. Formats V3 and V4 carry no node and no callback key.
- What a message *awaits*: an answer, if any callback point is neither a receipt nor the exception that the original
  always adds; else a receipt, if that is a point; else nothing. The node that takes a message removes the receipt.
- The *flow* of a message is its correlation id. The original gives its one-way and service messages an id of zeros,
  which is none: these belong to the flow of their callback key, or else each message key is a flow of its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, binary_from_rows, bools, ints, one_array
from hopwire.flows.coverage import Coverage
from hopwire.flows.groups import NO_TIME, Groups, codes, equal_text, filled_forward, nullable, pack
from hopwire.flows.matching import Matches, SightingColumns, match, read_sightings
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import AWAITS, FATES, HOP_SCHEMA, REPEATS
from hopwire.model.names import KINO_EXCEPTION, KINO_RECEIPT, NO_CORRELATION, RECEIPT

__all__ = [
    "FATE",
    "SIGHTING_COLUMNS",
    "Roles",
    "fates_of",
    "is_route_wrong",
    "link",
    "link_piece",
    "repeats_of",
    "roles_of",
]

# -- hops


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
    seen = read_sightings(sightings, coverage)
    pairs = match(seen, rules)
    is_late = _is_late(sightings, seen, coverage, rules) if is_cut else np.zeros(len(seen.key), dtype=np.bool_)
    waits = (is_late[pairs.left] & (pairs.left >= 0)) | (is_late[pairs.came] & (pairs.came >= 0))
    rows = np.concatenate([pairs.left[waits], pairs.came[waits]])
    pairs = pairs.where(~waits)
    hops = _hops(sightings, seen, pairs, fates_of(seen, pairs, rules), rules)
    return hops, sightings.take(pa.array(np.sort(rows[rows >= 0])))


def _is_late(sightings: pa.Table, seen: SightingColumns, coverage: Coverage, rules: Rules) -> Bools:
    """Tell which sightings of the last message are so near the end of the piece that their partners may follow.

    Pieces are cut by the clocks of the nodes: what one that is ahead saw comes later.
    """
    last = int(ints(sightings["seen_at_ns"])[-1]) - coverage.most_ahead_ns
    is_late: Bools = (seen.key == seen.key[-1]) & (seen.at > last - rules.patience_ns)
    return is_late


def _hops(sightings: pa.Table, seen: SightingColumns, pairs: Matches, fate: Ints, rules: Rules) -> pa.Table:
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


def _is_corrected(seen: SightingColumns, source: Ints, left_at: Ints, target: Ints, came_at: Ints) -> Bools:
    """Tell where two clocks are known against each other, and none of them was set about then."""
    cover = seen.coverage
    is_doubtful = cover.is_doubtful(source, left_at) | cover.is_doubtful(target, came_at)
    is_known: Bools = (cover.clock[source] == cover.clock[target]) & ~is_doubtful
    return is_known


def _is_first(sightings: pa.Table, seen: SightingColumns, rows: Ints, fate: Ints, repeat: Ints) -> Bools:
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


def _targets(seen: SightingColumns, target: Ints, fate: Ints) -> pa.Array:
    names = seen.nodes.take(pa.array(target))
    return pc.if_else(pa.array(fate == FATE["dead"]), pa.scalar(b"", pa.binary()), names)


# -- fates


FATE = {name: number for number, name in enumerate(FATES)}
TRACE_ROUTING = 1


def fates_of(seen: SightingColumns, pairs: Matches, rules: Rules) -> Ints:
    """Give the fate of each hop: a number of FATES."""
    fate = np.full(len(pairs.left), FATE["arrived"])
    left_only, came_only = np.flatnonzero(pairs.came < 0), np.flatnonzero(pairs.left < 0)
    fate[left_only] = _fate_of_departures(seen, pairs.left[left_only], rules)
    fate[came_only] = _fate_of_arrivals(seen, pairs.came[came_only], pairs.has_departures[came_only], rules)
    fate[seen.is_dead[pairs.left] & (pairs.left >= 0)] = FATE["dead"]
    return fate


def _fate_of_departures(seen: SightingColumns, rows: Ints, rules: Rules) -> Ints:
    cover, target, at = seen.coverage, seen.target[rows], seen.at[rows]
    is_blind = ~cover.captures[target] | (at < cover.begin[target])
    is_blind |= cover.skips_within(target, at - rules.patience_ns, at + rules.patience_ns)
    is_at_end = at >= cover.end[target] - rules.patience_ns
    is_unwritten = cover.broke_off_within(target, at - rules.unwritten_ns, at + rules.patience_ns)
    return np.select(
        [is_blind, is_at_end, is_unwritten],
        [FATE[name] for name in ("unwitnessed", "in_flight", "unwitnessed")],
        FATE["lost"],
    )


def _fate_of_arrivals(seen: SightingColumns, rows: Ints, has_departures: Bools, rules: Rules) -> Ints:
    cover, source, at = seen.coverage, seen.source[rows], seen.at[rows]
    is_blind = ~cover.captures[source]
    is_blind |= cover.skips_within(source, at - rules.patience_ns, at + rules.patience_ns)
    left = np.where(has_departures, at, at - rules.patience_ns)  # one that was never seen to leave may have left before
    is_outside = (left < cover.begin[source]) | ~cover.lives_at(source, at)
    is_outside |= cover.ended_within(source, at - rules.patience_ns, at)
    is_unsent = is_blind | (is_outside & ~(has_departures & seen.has_id[rows]))  # equal ones may be others
    return np.where(is_unsent, FATE["unsent"], np.where(has_departures, FATE["duplicate"], FATE["foreign"]))


def repeats_of(sightings: pa.Table, seen: SightingColumns, pairs: Matches, fate: Ints, rules: Rules) -> Ints:
    """Tell for each hop whether its arrival came before: a number of REPEATS."""
    repeat = np.zeros(len(pairs.left), dtype=np.int64)
    over = np.flatnonzero(pairs.left < 0)
    if not len(over):
        return repeat
    (signature,), values = codes(sightings["signature"])
    is_signed = bools(pc.greater(pc.binary_length(values), 0))[signature]
    came = pairs.came[over]
    earlier = _arrivals_before(seen, seen.target)[came]
    is_again = earlier >= 0
    is_soon = (seen.at[came] - seen.at[earlier] <= rules.duplicate_window_ns) & (
        seen.source[came] == seen.source[earlier]
    )
    is_same = is_signed[came] & (signature[came] == signature[earlier])
    is_sure = (fate[over] == FATE["duplicate"]) | seen.has_id[came] | is_same | is_soon
    repeat[over] = np.where(is_again & is_sure, np.where(is_same & ~is_soon, 2, 1), 0)
    is_unicast = ints(sightings["distribution"])[came] == 0
    elsewhere = _arrivals_before(seen, signature)[came]
    hops = ints(sightings["hops"])
    is_copied = (elsewhere >= 0) & is_signed[came] & is_unicast & (hops[came] <= hops[elsewhere])
    repeat[over[~is_again & is_copied]] = 2
    return repeat


def _arrivals_before(seen: SightingColumns, number: Ints) -> Ints:
    """Give for each arrival the last one before it of the same message, attempt and number, -1 where there is none."""
    rows = np.flatnonzero(seen.is_in)
    groups = Groups(pack(seen.key[rows], seen.attempt[rows], number[rows]), seen.at[rows], seen.sequence[rows])
    before = np.full(len(seen.key), -1)
    before[rows] = np.append(rows, -1)[filled_forward(groups, np.ones(len(rows), dtype=np.bool_))]
    return before


def is_route_wrong(sightings: pa.Table, rows: Ints, seen: SightingColumns) -> Bools:
    """Tell where a traced unicast message names another router last than the node it left, or too few of them."""
    (router, source), values = codes(sightings["route_node"], seen.nodes.take(pa.array(seen.source)))
    is_named = bools(pc.greater(pc.binary_length(values), 0))[router]
    is_traced = (ints(sightings["trace_options"]) & TRACE_ROUTING) > 0
    is_traced &= (ints(sightings["distribution"]) == 0) & ~seen.is_dead
    count = ints(sightings["route_count"])
    is_wrong: Bools = is_traced & ((is_named & (router != source)) | (count < ints(sightings["hops"])))
    return is_wrong[rows]


# -- roles


RECEIPTS = pa.array([RECEIPT, KINO_RECEIPT], pa.binary())
NOT_ANSWERS = pa.array([RECEIPT, KINO_RECEIPT, KINO_EXCEPTION], pa.binary())
NO_FLOW = pa.array(NO_CORRELATION, pa.binary())
EMPTY = pa.scalar(b"", pa.binary())


class Roles:
    """The parts that messages play, row by row."""

    def __init__(self, messages: pa.Table) -> None:
        self._messages = messages
        is_point, wants_answer, wants_receipt = _points(messages)
        self.outcome_kind = _outcome_kind(messages)
        self.is_reply = self._is_reply(is_point)
        self.awaits = np.where(wants_answer, 2, np.where(wants_receipt, 1, 0))  # of AWAITS
        rows = pa.array(np.where(self.is_reply, 0, len(messages)) + np.arange(len(messages)))
        self.home_node = _chained(messages, "receiver_node_identity", "callback_receiver_node_identity").take(rows)
        self.home_receiver = _chained(messages, "receiver_identity", "callback_receiver_identity").take(rows)
        self.flow_id = self._flow_id()

    def _is_reply(self, is_point: Bools) -> Bools:
        messages = self._messages
        (to, home), values = codes(messages["receiver_identity"], messages["callback_receiver_identity"])
        is_addressed = bools(pc.greater(pc.binary_length(values), 0))[to]
        is_reply: Bools = is_addressed & (((to == home) & is_point) | ~equal_text(self.outcome_kind, ""))
        return is_reply

    def _flow_id(self) -> pa.Array:
        messages = self._messages
        flow = one_array(messages["correlation_id"])
        has_none = pc.is_in(flow, NO_FLOW)
        if not pc.any(has_none).as_py():
            return flow
        key = ints(messages["callback_key"]).astype(">i8")
        of_key = pc.binary_join_element_wise(self.home_receiver, binary_from_rows(key), EMPTY)
        has_key = pc.and_(pa.array(key != 0), pc.greater(pc.binary_length(self.home_receiver), 0))
        return pc.if_else(has_none, pc.if_else(has_key, of_key, one_array(messages["message_key"])), flow)


def roles_of(messages: pa.Table) -> Roles:
    """Tell what part each message plays."""
    return Roles(messages)


def _chained(messages: pa.Table, *names: str) -> pa.Array:
    return pa.concat_arrays([one_array(messages[name]) for name in names])


def _outcome_kind(messages: pa.Table) -> pa.Array:
    kind = pc.fill_null(one_array(messages["outcome_kind"]), "")
    is_receipt = pc.equal(one_array(messages["identity"]), KINO_RECEIPT)
    return pc.if_else(is_receipt, "received", kind)


def _points(messages: pa.Table) -> tuple[Bools, Bools, Bools]:
    """Tell whether a message is one of its callback points, whether it wants an answer, and whether a receipt."""
    lists = one_array(messages["callback_points"])
    points = lists.flatten()
    rows = np.repeat(np.arange(len(messages)), ints(pc.list_value_length(lists)))
    parts = dict(zip((field.name for field in points.type), points.flatten(), strict=True))
    is_same = np.ones(len(points), dtype=np.bool_)
    for name in ("identity", "version_raw", "partition"):
        (of_message, of_point), _ = codes(messages[name], parts[name])
        is_same &= of_message[rows] == of_point
    is_same &= ints(messages["version"], -1)[rows] == ints(parts["version"], -1)
    is_receipt = bools(pc.is_in(parts["identity"], RECEIPTS))
    is_answer = ~bools(pc.is_in(parts["identity"], NOT_ANSWERS))
    return tuple(_any(len(messages), rows[mask]) for mask in (is_same, is_answer, is_receipt))  # type: ignore[return-value]


def _any(size: int, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Bools:
    found = np.zeros(size, dtype=np.bool_)
    found[rows] = True
    return found
