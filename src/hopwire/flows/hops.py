"""Sightings to hops: what became of each crossing of a message from one node to another.

`matching.py` says which departure belongs to which arrival. Where one of the two is missing, the *fate* says what is
known. The first rule that fits gives the fate; patience is 5 s and `unwritten_ns` is 2 s, as in `rules.py`.

A left at 10.0 s for B, and B has no sighting of the message:

| rule | fate |
|---|---|
| B does not capture, or its first sighting is after 10.0 s | `unwitnessed` |
| B skipped sightings between 5.0 s and 15.0 s | `unwitnessed` |
| the clock of A is doubtful at 10.0 s, or that of B between 5.0 s and 15.0 s | `unwitnessed` |
| B has no sighting between 15.0 s and 615.0 s | `in_flight`: the capture ended too early |
| a life of B ended between 8.0 s and 15.0 s and was not closed | `unwitnessed`: B may have seen it and not written it |
| none of these | `lost` |

B sees at 10.0 s a message from A, and no departure is left for this arrival:

| rule | fate |
|---|---|
| A does not capture, or skipped sightings between 5.0 s and 15.0 s | `unsent` |
| A has no life at 10.0 s, or a life of A ended between 5.0 s and 10.0 s | `unsent`, see below |
| the first sighting of A is after 5.0 s; after 10.0 s, if A was seen to send the message to B | `unsent`, see below |
| A was seen to send the message to B | `duplicate`: it arrived more often than it left |
| the clock of B is doubtful at 10.0 s, or that of A between 5.0 s and 15.0 s | `unsent` |
| none of these | `foreign`: a stranger used the name of A |

See below: a message with an id that A was seen to send to B is a `duplicate` all the same. Without an id, the arrival
may be another, equal message.

An arrival without a departure may also be a *repeat* of an arrival before. B saw the message at 10.0 s from A:

| arrival | repeat |
|---|---|
| B sees the message from A again at 10.3 s | `duplicate`: within the window of 1 s, from the same node |
| B sees it from A at 12.0 s, or from C at 10.3 s; the signature is the same | `replayed` |
| B sees it from A at 12.0 s, not signed; it has an id, or its fate is `duplicate` | `duplicate` |
| B sees it from A at 12.0 s, not signed; it has no id, and its fate is `unsent` | none: an equal message |
| C sees it at 10.5 s with the same signature, for one receiver, and it counts no more hops than at B | `replayed` |
| C sees it at 10.5 s, and it counts one hop more than at B | none: a router passed it on |

A gateway to a partner network is two nodes in one process. What crosses from the one to the other is seen to leave and
to arrive as between any two nodes, and the note of the sighting is the key of the message that it becomes there.

A sighting of direction `local` is a hop from a node to itself, which left and arrived at the same time. A sighting of
direction `dead` or `told` is a hop that goes nowhere.

The sightings of one message must come together; any number of messages may, in any order. Where a message has more
sightings than fit, they may come in pieces by time (`link_piece`).

The trap: messages without an id that are equal in everything (`keys.py`) are told apart by order and time only. Each of
them that leaves where the first began counts as a message.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, binary_from_rows, bools, ints, one_array
from hopwire.flows.coverage import Coverage
from hopwire.flows.groups import (
    NO_TIME,
    Groups,
    codes,
    equal_text,
    filled_forward,
    has_bytes,
    is_control,
    nullable,
    pack,
)
from hopwire.flows.keys import KEY_BYTES
from hopwire.flows.matching import Matches, SightingColumns, match, minutes_of, read_sightings
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import AWAITS, FATE, FATE_NAMES, HOP_SCHEMA, REPEATS, in_schema
from hopwire.model.names import KINO_EXCEPTION, KINO_RECEIPT, NO_CORRELATION, RECEIPT, STREAM
from hopwire.model.units import NS_PER_US

__all__ = ["FLOW_ID", "SIGHTING_COLUMNS", "flow_names", "link", "link_piece", "with_flow_ids"]

# fmt: off
SIGHTING_COLUMNS = (
    "message_key", "attempt", "message_id", "correlation_id", "node", "incarnation", "sequence", "seen_at_ns",
    "direction", "peer", "dead_reason", "dead_note", "wire_format", "identity", "version", "version_raw", "partition",
    "distribution", "hops", "ttl_ticks", "size_bytes", "trace_options", "route_count", "route_node",
    "receiver_identity", "receiver_node_identity", "callback_points", "callback_key", "callback_receiver_identity",
    "callback_receiver_node_identity", "signature", "verdict", "outcome_kind", "outcome_reason",
)
# fmt: on
COPIED = {  # columns of a hop that are columns of its departure, or of its arrival where leaving was not seen
    "correlation_id": "correlation_id",
    "message_key": "message_key",
    "wire_format": "wire_format",
    "identity": "identity",
    "version": "version",
    "version_raw": "version_raw",
    "partition": "partition",
    "distribution": "distribution",
    "hop_count": "hops",
    "ttl_ticks": "ttl_ticks",
    "size_bytes": "size_bytes",
    "callback_key": "callback_key",
    "outcome_reason": "outcome_reason",
}
FLOW_ID = "flow_id"
TRACE_ROUTING = 1
WITH_HOME_NODE = 5  # from this format on, a question names the node that its answer goes to
RECEIPTS = pa.array([RECEIPT, KINO_RECEIPT], pa.binary())
STREAMS = pa.array([STREAM], pa.binary())
NOT_ANSWERS = pa.array([RECEIPT, STREAM, KINO_RECEIPT, KINO_EXCEPTION], pa.binary())
NO_FLOW = pa.array(NO_CORRELATION, pa.binary())
EMPTY = pa.scalar(b"", pa.binary())
KEY_NOTE = f"^[0-9a-f]{{{2 * KEY_BYTES}}}$"


def link(sightings: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Give the hops of all messages whose sightings these are."""
    return link_piece(sightings, coverage, rules, is_cut=False)[0]


def link_piece(sightings: pa.Table, coverage: Coverage, rules: Rules, is_cut: bool) -> tuple[pa.Table, pa.Table]:
    """Give the hops of a piece, and the sightings that must come again in front of the next piece.

    Sightings come again only if the piece is cut: more sightings of its last message follow. A hop waits for the next
    piece if one of its sightings is late: its partner may follow.
    """
    if not len(sightings):
        return HOP_SCHEMA.empty_table(), sightings
    sightings = with_flow_ids(sightings, coverage, rules)
    seen = read_sightings(sightings, coverage)
    is_late = _is_late(sightings, seen, coverage, rules) if is_cut else np.zeros(len(seen.key), dtype=np.bool_)
    (flow,), _ = codes(sightings[FLOW_ID])
    seen = seen._replace(key=pack(seen.key, flow))  # a message that changes its flow is another message
    matches = match(seen, rules)
    waits = (is_late[matches.left] & (matches.left >= 0)) | (is_late[matches.came] & (matches.came >= 0))
    rows = np.concatenate([matches.left[waits], matches.came[waits]])
    matches = matches.where(~waits)
    hops = _hops(sightings, seen, matches, _fates(seen, matches, rules), rules)
    return hops, sightings.drop_columns([FLOW_ID]).take(pa.array(np.sort(rows[rows >= 0])))


def with_flow_ids(sightings: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Give sightings with the flow of each; the sightings of one message must come together."""
    if FLOW_ID in sightings.column_names:
        return sightings
    flow_id = flow_names(sightings)
    is_alone = bools(pc.equal(flow_id, one_array(sightings["message_key"]))) & ~has_bytes(sightings["message_id"])
    if is_alone.any():
        minute = minutes_of(read_sightings(sightings, coverage), is_alone, rules)
        named = pc.binary_join_element_wise(flow_id, binary_from_rows(minute.astype(">i8")), EMPTY)
        flow_id = pc.if_else(pa.array(is_alone), named, flow_id)
    return sightings.append_column(FLOW_ID, flow_id)


def flow_names(sightings: pa.Table) -> pa.Array:
    """Give the flow of each sighting, without the minute of equal messages: sightings of other names never meet."""
    flow = one_array(sightings["correlation_id"])
    rows = np.flatnonzero(bools(pc.is_in(flow, NO_FLOW)))
    if not len(rows):
        return flow
    places = np.arange(len(flow))
    places[rows] = len(flow) + np.arange(len(rows))
    named = _Roles(sightings.take(pa.array(rows)).combine_chunks()).flow_id
    return pa.concat_arrays([flow, one_array(named)]).take(pa.array(places))


def _is_late(sightings: pa.Table, seen: SightingColumns, coverage: Coverage, rules: Rules) -> Bools:
    """Tell which sightings of the last message are so near the end of the piece that their partners may follow.

    Pieces are cut by the clocks of the nodes, and a clock may be ahead. A piece ends at 100.0 s, no clock is ahead by
    more than 0.5 s, patience is 5 s: sightings after 89.5 s are late. Twice the patience is for equal messages that are
    cut into minutes: what belongs to the minute before is decided by the patience after its end.
    """
    last = int(ints(sightings["seen_at_ns"])[-1]) - coverage.most_ahead_ns
    is_late: Bools = (seen.key == seen.key[-1]) & (seen.at > last - 2 * rules.patience_ns)
    return is_late


def _hops(sightings: pa.Table, seen: SightingColumns, matches: Matches, fate: Ints, rules: Rules) -> pa.Table:
    has_left, has_come = matches.left >= 0, matches.came >= 0
    rows = np.where(has_left, matches.left, matches.came)
    is_local, is_told = fate == FATE["local"], fate == FATE["told"]
    left_at = np.where(has_left, seen.at[matches.left], NO_TIME)
    came_at = np.where(has_come, seen.at[matches.came], np.where(is_local, left_at, NO_TIME))
    source, target = seen.source[rows], np.where(has_come, seen.target[matches.came], seen.target[rows])
    is_crossing = has_left & (has_come | is_local)
    taken = pa.array(rows)
    roles = _Roles(sightings)
    repeat = _repeats(sightings, seen, matches, fate, rules)
    columns = {
        FLOW_ID: one_array(sightings[FLOW_ID]).take(taken),
        "attempt": pa.array(seen.attempt[rows], pa.int32()),
        "crossing": pa.array(matches.crossing, pa.int32()),
        "is_first": pa.array(_is_first(sightings, seen, rows, fate, repeat)),
        "from_node": seen.nodes.take(pa.array(source)),
        "to_node": pc.if_else(pa.array(is_told | (fate == FATE["dead"])), EMPTY, seen.nodes.take(pa.array(target))),
        "fate": FATE_NAMES.take(pa.array(fate)),
        "left_at_ns": nullable(left_at),
        "arrived_at_ns": nullable(came_at),
        "left_incarnation": nullable(np.where(has_left, seen.incarnation[matches.left], NO_TIME)),
        "left_sequence": nullable(np.where(has_left, seen.sequence[matches.left], NO_TIME)),
        "arrived_incarnation": nullable(np.where(has_come, seen.incarnation[matches.came], NO_TIME)),
        "arrived_sequence": nullable(np.where(has_come, seen.sequence[matches.came], NO_TIME)),
        "latency_us": nullable(np.where(is_crossing, (came_at - left_at) // NS_PER_US, NO_TIME)),
        "is_corrected": pa.array(is_crossing & _is_corrected(seen, source, left_at, target, came_at)),
        "home_node": roles.home_node.take(taken),
        "home_receiver": roles.home_receiver.take(taken),
        "is_reply": pa.array(roles.is_reply[rows]),
        "awaits": pa.array(AWAITS).take(pa.array(roles.awaits[rows])),
        "outcome_kind": roles.outcome_kind.take(taken),
        "is_insisted": pa.array(roles.is_insisted[rows]),
        "is_control": is_control(one_array(sightings["identity"])).take(taken),
        **_words(sightings, seen, taken),
        "verdict": one_array(sightings["verdict"]).take(pa.array(np.where(has_come, matches.came, rows))),
        "repeat": pa.array(REPEATS).take(pa.array(repeat)),
        "is_route_wrong": pa.array(_is_route_wrong(sightings, seen)[rows]),
        "becomes": _becomes(sightings, seen).take(taken),
    }
    columns |= {name: one_array(sightings[source]).take(taken) for name, source in COPIED.items()}
    return in_schema(HOP_SCHEMA, columns)


def _is_corrected(seen: SightingColumns, source: Ints, left_at: Ints, target: Ints, came_at: Ints) -> Bools:
    """Tell where two clocks are known against each other, and neither was set about the time of the hop."""
    cover = seen.coverage
    is_doubtful = cover.is_doubtful(source, left_at) | cover.is_doubtful(target, came_at)
    is_known: Bools = cover.has_one_clock(source, target, left_at) & ~is_doubtful
    return is_known


def _is_first(sightings: pa.Table, seen: SightingColumns, rows: Ints, fate: Ints, repeat: Ints) -> Bools:
    """Tell with which hops a message begins: the first of a key, and of equal messages all that go the same way.

    The same way means the same two nodes and the same number of hops. A message that goes in circles comes the same
    way with more hops, and is one message.
    """
    groups = Groups(seen.key[rows], seen.at[rows])
    first = groups.first
    is_first = np.zeros(len(rows), dtype=np.bool_)
    is_first[first] = True
    is_again = (repeat > 0) | (fate == FATE["duplicate"]) | (fate == FATE["foreign"])
    is_told = fate == FATE["told"]
    way = pack(seen.source[rows], seen.target[rows], ints(sightings["hops"])[rows], fate == FATE["dead"])
    is_first |= ~seen.has_id[rows] & ~is_again & (way == way[first][groups.of])
    found: Bools = is_first & ~is_told
    return found


def _words(sightings: pa.Table, seen: SightingColumns, taken: pa.Array) -> dict[str, pa.Array]:
    """Give why dead letters went no further, and what askers were told: the error, and its reason.

    The text of an error begins with its reason: `timed_out: no answer to shop.pay v1 in 2 s`.
    """
    reason, note = (one_array(sightings[name]) for name in ("dead_reason", "dead_note"))
    if not seen.is_told.any():
        nothing = pa.repeat("", len(taken))
        return {"dead_reason": reason.take(taken), "told": nothing, "told_reason": nothing}
    is_told = pa.array(seen.is_told)
    code = pc.struct_field(pc.extract_regex(note, r"^(?P<code>\w+)(?::|$)"), "code")
    found = {
        "dead_reason": pc.if_else(is_told, "", reason),
        "told": pc.if_else(is_told, reason, ""),
        "told_reason": pc.if_else(is_told, pc.fill_null(code, ""), ""),
    }
    return {name: column.take(taken) for name, column in found.items()}


def _is_within_gateway(sightings: pa.Table, seen: SightingColumns) -> Bools:
    is_key = pc.match_substring_regex(one_array(sightings["dead_note"]), KEY_NOTE)
    found: Bools = bools(pc.fill_null(is_key, False)) & ~seen.is_lone
    return found


def _becomes(sightings: pa.Table, seen: SightingColumns) -> pa.Array:
    """Give the key of the message that each message becomes within a gateway; empty for all others."""
    note = one_array(sightings["dead_note"])
    rows = np.flatnonzero(_is_within_gateway(sightings, seen))
    places = np.full(len(note), len(rows))
    places[rows] = np.arange(len(rows))
    keys = [bytes.fromhex(text) for text in note.take(pa.array(rows)).to_pylist()]
    return pa.array([*keys, b""], pa.binary()).take(pa.array(places))


# -- the fate of a hop, its repeat, its trace


def _fates(seen: SightingColumns, matches: Matches, rules: Rules) -> Ints:
    """Give the fate of each hop: a number of FATES."""
    fate = np.full(len(matches.left), FATE["arrived"])
    left_only, came_only = np.flatnonzero(matches.came < 0), np.flatnonzero(matches.left < 0)
    fate[left_only] = _fates_of_departures(seen, matches.left[left_only], rules)
    fate[came_only] = _fates_of_arrivals(seen, matches.came[came_only], matches.has_departures[came_only], rules)
    for where, name in ((seen.is_dead, "dead"), (seen.is_local, "local"), (seen.is_told, "told")):
        fate[where[matches.left] & (matches.left >= 0)] = FATE[name]
    return fate


def _fates_of_departures(seen: SightingColumns, rows: Ints, rules: Rules) -> Ints:
    """Give the fate of each departure without an arrival, by the first table of this module."""
    cover, target, at = seen.coverage, seen.target[rows], seen.at[rows]
    is_blind = ~cover.captures[target] | (at < cover.begin[target])
    is_blind |= cover.skips_within(target, at - rules.patience_ns, at + rules.patience_ns)
    is_blind |= _is_unsure(seen, seen.source[rows], target, at, rules)
    is_at_end = ~cover.goes_on(target, at + rules.patience_ns, rules)
    is_unwritten = cover.broke_off_within(target, at - rules.unwritten_ns, at + rules.patience_ns)
    return np.select(
        [is_blind, is_at_end, is_unwritten],
        [FATE[name] for name in ("unwitnessed", "in_flight", "unwitnessed")],
        FATE["lost"],
    )


def _fates_of_arrivals(seen: SightingColumns, rows: Ints, has_departures: Bools, rules: Rules) -> Ints:
    """Give the fate of each arrival without a departure, by the second table of this module."""
    cover, source, at = seen.coverage, seen.source[rows], seen.at[rows]
    is_blind = ~cover.captures[source]
    is_blind |= cover.skips_within(source, at - rules.patience_ns, at + rules.patience_ns)
    left = np.where(has_departures, at, at - rules.patience_ns)  # a message that nobody saw leave may have left before
    is_outside = (left < cover.begin[source]) | ~cover.lives_at(source, at)
    is_outside |= cover.ended_within(source, at - rules.patience_ns, at)
    is_unsent = is_blind | (is_outside & ~(has_departures & seen.has_id[rows]))  # without an id it may be another
    is_unsent |= ~has_departures & _is_unsure(seen, seen.target[rows], source, at, rules)
    return np.where(is_unsent, FATE["unsent"], np.where(has_departures, FATE["duplicate"], FATE["foreign"]))


def _is_unsure(seen: SightingColumns, node: Ints, other: Ints, at: Ints, rules: Rules) -> Bools:
    """Tell where the clock of a node is doubtful at a time, or the clock of the other node about this time."""
    cover = seen.coverage
    is_other = cover.is_doubtful_within(other, at - rules.patience_ns, at + rules.patience_ns)
    return cover.is_doubtful(node, at) | is_other


def _repeats(sightings: pa.Table, seen: SightingColumns, matches: Matches, fate: Ints, rules: Rules) -> Ints:
    """Tell for each hop whether its arrival repeats one before, by the third table of this module.

    Gives a number of REPEATS.
    """
    repeat = np.zeros(len(matches.left), dtype=np.int64)
    over = np.flatnonzero(matches.left < 0)
    if not len(over):
        return repeat
    (signature,), values = codes(sightings["signature"])
    is_signed = has_bytes(values)[signature]
    came = matches.came[over]
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
    is_copied &= ~_is_within_gateway(sightings, seen)[came]
    repeat[over[~is_again & is_copied]] = 2
    return repeat


def _arrivals_before(seen: SightingColumns, number: Ints) -> Ints:
    """Give for each arrival the last before it of the same message, attempt and number; -1 where there is none."""
    rows = np.flatnonzero(seen.is_in)
    groups = Groups(pack(seen.key[rows], seen.attempt[rows], number[rows]), seen.at[rows], seen.sequence[rows])
    before = np.full(len(seen.key), -1)
    before[rows] = np.append(rows, -1)[filled_forward(groups, np.ones(len(rows), dtype=np.bool_))]
    return before


def _is_route_wrong(sightings: pa.Table, seen: SightingColumns) -> Bools:
    """Tell where the trace of a unicast message does not end with the node that the message left, or is too short.

    A message from B that counts 2 hops names its routers as `A B`. The trace `A C` does not end with B, and the trace
    `B` has fewer routers than hops. A message without a trace is not wrong. Nor is a message within a
    gateway: no router passed it on.
    """
    (router, source), values = codes(sightings["route_node"], seen.nodes.take(pa.array(seen.source)))
    is_traced = (ints(sightings["trace_options"]) & TRACE_ROUTING) > 0
    is_traced &= (ints(sightings["distribution"]) == 0) & ~seen.is_lone & ~_is_within_gateway(sightings, seen)
    count = ints(sightings["route_count"])
    is_elsewhere = has_bytes(values)[router] & (router != source)
    is_wrong: Bools = is_traced & (is_elsewhere | (count < ints(sightings["hops"])))
    return is_wrong


# -- the role of a message in its flow


class _Roles:
    """The part that each message plays in its flow: request, answer, outcome, or none of them.

    - A *reply* names a receiver. Either the receiver is its callback receiver and its contract is one of its callback
      points, or the message is an outcome, an exception or a receipt.
    - The *home* of a message is the receiver, and the node, that an answer goes to. The home of a reply is its
      receiver. The home of every other message is its callback receiver. V3 and V4 carry no callback key, and no node
      of a callback receiver. A reply in V3 or V4 may name the node of its receiver; this node is not a part of its
      home, or the reply would belong to another request than its question.
    - A message *awaits* a stream of answers if a callback point says so. Else it awaits an answer if any callback
      point is neither a receipt nor the exception that the original always adds. Else it awaits a receipt, if a
      callback point is one. Else it awaits nothing. The node that takes a message removes the receipt from the callback
      points.
    - Whoever asks *insists* if the message has an id and a callback point is a receipt: it is sent until it is taken.
    - The *flow* of a message is its correlation id. The original writes an id of zeros into one-way and service
      messages, which is no id. Such a message belongs to the flow of its home and callback key. Without a callback key
      it is a flow of its own, named by its message key; without a message id, also by the minute in which the message
      left, because there may be equal ones at any time (`matching.py`).
    """

    def __init__(self, messages: pa.Table) -> None:
        self._messages = messages
        is_point, wants_answer, wants_receipt, wants_stream = _points(messages)
        kind = pc.fill_null(one_array(messages["outcome_kind"]), "")
        self.outcome_kind = pc.if_else(pc.equal(one_array(messages["identity"]), KINO_RECEIPT), "received", kind)
        self.is_reply = self._is_reply(is_point)
        self.is_insisted = wants_receipt & has_bytes(messages["message_id"])
        self.awaits = np.select([wants_stream, wants_answer, wants_receipt], [3, 2, 1], 0)  # of AWAITS
        rows = pa.array(np.where(self.is_reply, 0, len(messages)) + np.arange(len(messages)))
        named = self._chained("receiver_node_identity", "callback_receiver_node_identity").take(rows)
        has_node = ints(messages["wire_format"]) >= WITH_HOME_NODE
        self.home_node = named if has_node.all() else pc.if_else(pa.array(has_node), named, EMPTY)
        self.home_receiver = self._chained("receiver_identity", "callback_receiver_identity").take(rows)
        self.flow_id = self._flow_id()

    def _chained(self, *names: str) -> pa.Array:
        return pa.concat_arrays([one_array(self._messages[name]) for name in names])

    def _is_reply(self, is_point: Bools) -> Bools:
        messages = self._messages
        (to, home), values = codes(messages["receiver_identity"], messages["callback_receiver_identity"])
        is_addressed = has_bytes(values)[to]
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


def _points(messages: pa.Table) -> tuple[Bools, Bools, Bools, Bools]:
    """Tell whether a message is one of its callback points, and whether it wants an answer, a receipt, a stream."""
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

    def any_of(where: Bools) -> Bools:
        return np.bincount(rows[where], minlength=len(messages)) > 0

    is_stream = bools(pc.is_in(parts["identity"], STREAMS))
    return any_of(is_same), any_of(is_answer), any_of(is_receipt), any_of(is_stream)
