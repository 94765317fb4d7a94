"""What is odd about a flow: the kinds, and how each kind is found among its hops and requests.

A kind is a row in `KINDS` and a function in `FINDERS` that marks hops or requests. Each mark becomes a finding with the
message, the node and a detail. A message has one finding of a kind, however often the kind shows; of `missing_capture`
a node has one.

What the original does by design is not odd:

- a broadcast inflates hops and routing with each peer: the hops and the routing of broadcasts are not looked at;
- a reply copies the routing of its request, and counts its hops anew;
- the callback point of a receipt is removed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.coverage import Coverage
from hopwire.flows.groups import NEVER, NO_TIME, Groups, codes, equal_text, has_bytes, lists_of_groups, pack
from hopwire.flows.hop_columns import HopColumns
from hopwire.flows.rules import Rules, deadlines
from hopwire.flows.schemas import FINDING_TYPE, NO_CROSSINGS

__all__ = ["KINDS", "Known", "find"]

# fmt: off
KINDS = {
    # kind                what is odd
    "hop_lost":           "the message left for a node and never arrived there, whatever became of the flow",
    "told_otherwise":     "what the asker of the request was told contradicts what its messages tell",
    "hop_loop":           "the message came back to a node that had sent it, or was stopped by the hop limit",
    "route_disagrees":    "the trace of routers does not end with the sender, or is shorter than the hops",
    "handled_after_ttl":  "something followed from the message although it arrived after its time",
    "reply_to_nobody":    "the reply answers a question that nobody was seen to ask",
    "unknown_version":    "the question arrived and nobody handles its version, while other versions are answered",
    "callback_unreached": "an answer left its node, and none came home",
    "duplicate":          "the message arrived more often than it was sent",
    "replayed":           "a signed message arrived again, later or from another node",
    "retransmitted":      "the sender sent it again by itself",
    "foreign_sender":     "the message arrived in the name of a node that never sent it there",
    "missing_capture":    "the node takes part, and saw too little to tell",
    "key_reused":         "several questions of the flow have one callback key",
}
# fmt: on
NOBODY_HANDLES = "receiver_does_not_handle"
Contract: TypeAlias = tuple[bytes, int | None, bytes | None]  # identity, version, version_raw


class Known(NamedTuple):
    """What a judge of flows must know beside the flows at hand."""

    coverage: Coverage
    rules: Rules
    answered: Collection[Contract] = ()  # the contracts of requests that were answered somewhere


class _Flows(NamedTuple):
    hops: HopColumns
    requests: pa.Table
    parent: Ints  # of each hop: the number of another, -1 for a root
    known: Known


class _FindingColumns(NamedTuple):
    """Findings of one kind, as columns."""

    flow_id: pa.Array
    message_key: pa.Array
    node: pa.Array
    detail: pa.Array
    at: pa.Array  # when the hop began, or the request was asked


def find(hops: HopColumns, requests: pa.Table, parent: Ints, known: Known) -> pa.Array:
    """Give the findings of each flow, as lists in the order of the flows of the hops.

    Findings of one kind come in the order of time, whatever order the hops have.
    """
    flows = _Flows(hops, requests, parent, known)
    found = [(kind, columns) for kind, finder in FINDERS.items() if len((columns := finder(flows)).flow_id)]
    no_bytes, no_text, no_number = (pa.array([], kind) for kind in (pa.binary(), pa.string(), pa.int64()))
    flow = pa.concat_arrays([no_bytes, *(columns.flow_id for _, columns in found)])
    parts = {
        "kind": pa.concat_arrays([no_text, *(pa.repeat(kind, len(columns.flow_id)) for kind, columns in found)]),
        "message_key": pa.concat_arrays([no_bytes, *(columns.message_key for _, columns in found)]),
        "node": pa.concat_arrays([no_bytes, *(columns.node for _, columns in found)]),
        "detail": pa.concat_arrays([no_text, *(columns.detail for _, columns in found)]),
    }
    number = ints(pc.index_in(flow, hops.flows), -1)
    places = {
        "number": pa.array(number),
        "kind": pa.concat_arrays(
            [no_number, *(pa.repeat(place, len(each.at)) for place, (_, each) in enumerate(found))]
        ),
        "at": pa.concat_arrays([no_number, *(columns.at for _, columns in found)]),
        **{name: parts[name] for name in ("message_key", "node", "detail")},
    }
    order = ints(pc.sort_indices(pa.table(places), [(name, "ascending") for name in places]))
    order = order[number[order] >= 0]
    items = pa.StructArray.from_arrays([parts[field.name] for field in FINDING_TYPE], fields=list(FINDING_TYPE))
    return lists_of_groups(number[order], items.take(pa.array(order)), len(hops.flows))


# -- marks to findings


def _of_hops(flows: _Flows, where: Bools, detail: pa.Array | str = "", node: Ints | None = None) -> _FindingColumns:
    """Give a finding for each message that has a marked hop.

    The first marked hop of a message names the node: where the message arrived, or else the node that it left.
    """
    hops = flows.hops
    rows = np.flatnonzero(where)
    if node is None:
        node = np.where(hops.is_dead | (hops.reached == NO_TIME), hops.source, hops.target)
    rows = rows[Groups(pack(hops.flow[rows], hops.key[rows]), hops.begun[rows]).first]
    return _of_rows(flows, rows, detail, node)


def _of_rows(flows: _Flows, rows: Ints, detail: pa.Array | str, node: Ints) -> _FindingColumns:
    hops, taken = flows.hops, pa.array(rows)
    text = pa.repeat(detail, len(rows)) if isinstance(detail, str) else detail.take(taken)
    names = hops.nodes.take(pa.array(node[rows]))
    at = pa.array(hops.begun[rows])
    return _FindingColumns(hops["flow_id"].take(taken), hops["message_key"].take(taken), names, text, at)


def _of_requests(flows: _Flows, where: Bools, node: str, detail: pa.Array | None = None) -> _FindingColumns:
    rows = flows.requests.filter(pa.array(where))
    flow_id, message_key, names, at = (
        one_array(rows[name]) for name in ("flow_id", "message_key", node, "asked_at_ns")
    )
    return _FindingColumns(flow_id, message_key, names, pa.repeat("", len(rows)) if detail is None else detail, at)


# -- a function for each kind


def _hop_lost(flows: _Flows) -> _FindingColumns:
    """The node is the one that the message left, and the detail says where it went."""
    hops = flows.hops
    goals = pa.array([f"to {node.decode(errors='backslashreplace')}" for node in hops.nodes.to_pylist()], pa.string())
    return _of_hops(flows, hops.has_fate("lost"), goals.take(pa.array(hops.target)), hops.source)


def _told_otherwise(flows: _Flows) -> _FindingColumns:
    where = bools(flows.requests["is_told_otherwise"])
    rows = flows.requests.filter(pa.array(where))
    words = ("told ", one_array(rows["told"]), ", the messages say ", one_array(rows["outcome"]))
    return _of_requests(flows, where, "home_node", pc.binary_join_element_wise(*words, ""))


def _hop_loop(flows: _Flows) -> _FindingColumns:
    """A unicast message arrives at a node after it left this node, and counts more hops than when it left.

    B sends the message on at 10.000 s with 1 hop, C sends it back, and B sees it at 10.004 s with 3 hops: a loop. A
    message that ended for the hop limit, or counts more hops than the limit, is a loop too.
    """
    hops = flows.hops
    is_unicast = ints(hops["distribution"]) == 0
    is_arrival = is_unicast & (hops.reached != NO_TIME) & ~hops.is_again
    is_crossing = ~hops.has_fate(*NO_CROSSINGS)
    is_arrival &= is_crossing
    is_departure = is_unicast & (hops.left != NO_TIME) & is_crossing
    attempt, hop_count = ints(hops["attempt"]), ints(hops["hop_count"])
    twice = np.append(np.arange(len(hops)), np.arange(len(hops)))
    groups = Groups(pack(hops.flow[twice], hops.key[twice], attempt[twice], np.append(hops.source, hops.target)))
    departures = np.append(is_departure, np.zeros_like(is_departure))
    here = groups.of[len(hops) :]
    departed_at = groups.least(hops.begun[twice], departures)[here]
    departed_hops = groups.least(hop_count[twice], departures)[here]
    came_back = is_arrival & (hops.reached > departed_at)
    came_back &= hop_count > departed_hops  # an equal message of another handler counts no more hops
    is_stopped = hops.is_dead & equal_text(hops["dead_reason"], "hop_limit")
    is_over = is_unicast & (hop_count > flows.known.rules.hop_limit)
    return _of_hops(flows, came_back | is_stopped | is_over)


def _route_disagrees(flows: _Flows) -> _FindingColumns:
    return _of_hops(flows, bools(flows.hops["is_route_wrong"]), node=flows.hops.source)


def _handled_after_ttl(flows: _Flows) -> _FindingColumns:
    """A message arrives after its time to live, and something follows from it.

    A leaves at 10.0 s with a time to live of 1 s, B sees the message at 11.5 s and sends another because of it. Not so
    if the message ended at B as a dead letter.
    """
    hops = flows.hops
    deadline = np.where(hops.left != NO_TIME, deadlines(hops.begun, ints(hops["ttl_ticks"])), NEVER)
    messages = Groups(pack(hops.flow, hops.key))
    is_message = ~(hops.is_dead | hops.is_told)
    deadline = messages.least(deadline, is_message)[messages.of]
    is_late = (hops.came > deadline) & ~hops.is_reply & ~hops.is_again
    has_child = np.zeros(len(hops), dtype=np.bool_)
    has_child[flows.parent[(flows.parent >= 0) & is_message]] = True
    here = pack(np.append(hops.key, hops.key), np.append(hops.target, hops.source))
    ended = np.isin(here[: len(hops)], here[len(hops) :][hops.is_dead])
    return _of_hops(flows, is_late & has_child & ~ended)


def _reply_to_nobody(flows: _Flows) -> _FindingColumns:
    """A reply has the home and the callback key of no question, though the node at home was looking.

    The node must have been looking since before the flow began, and about the time of the reply.
    """
    hops = flows.hops
    rows = np.flatnonzero(hops.has_home)
    if not len(rows):
        return _of_hops(flows, np.zeros(len(hops), dtype=np.bool_))
    asked = Groups(hops.request[rows], hops.begun[rows])
    is_orphan = ~asked.has(~hops.is_reply[rows])
    cover = flows.known.coverage.of(hops.nodes)
    begun = Groups(hops.flow)
    started = begun.least(hops.begun)[begun.of]
    is_watched = ~(hops.is_dead | hops.is_told) & cover.captures[hops.target] & (started > cover.begin[hops.target])
    patience = flows.known.rules.patience_ns
    is_watched &= ~cover.skips_within(hops.target, hops.begun - patience, hops.begun + patience)
    last = asked.last_where(is_watched[rows])
    return _of_rows(flows, rows[last[is_orphan & (last >= 0)]], "", hops.target)


def _unknown_version(flows: _Flows) -> _FindingColumns:
    requests = flows.requests
    answered = set(flows.known.answered)
    identities = {identity for identity, _, _ in answered}
    is_unhandled = bools(requests["is_unhandled"])
    rows = requests.filter(pa.array(is_unhandled)).select(["identity", "version", "version_raw"]).to_pylist()
    is_unknown = [
        row["identity"] in identities and (row["identity"], row["version"], row["version_raw"]) not in answered
        for row in rows
    ]
    where = is_unhandled.copy()
    where[is_unhandled] = np.array(is_unknown, dtype=np.bool_)
    of_hops = _of_hops(flows, equal_text(flows.hops["dead_reason"], NOBODY_HANDLES))
    of_requests = _of_requests(flows, where, "reached_node")
    return _once(_FindingColumns(*(pa.concat_arrays(parts) for parts in zip(of_hops, of_requests, strict=True))))


def _once(found: _FindingColumns) -> _FindingColumns:
    """Keep the first finding of each message."""
    (flow,), _ = codes(found.flow_id)
    (key,), _ = codes(found.message_key)
    if not len(flow):
        return found
    rows = pa.array(Groups(pack(flow, key)).first)
    return _FindingColumns(*(column.take(rows) for column in found))


def _callback_unreached(flows: _Flows) -> _FindingColumns:
    return _of_requests(flows, bools(flows.requests["is_callback_unreached"]), "home_node")


def _key_reused(flows: _Flows) -> _FindingColumns:
    return _of_requests(flows, bools(flows.requests["is_reused"]), "home_node")


def _duplicate(flows: _Flows) -> _FindingColumns:
    return _of_hops(flows, equal_text(flows.hops["repeat"], "duplicate"))


def _replayed(flows: _Flows) -> _FindingColumns:
    return _of_hops(flows, equal_text(flows.hops["repeat"], "replayed"))


def _retransmitted(flows: _Flows) -> _FindingColumns:
    hops = flows.hops
    attempts = pc.binary_join_element_wise("attempt", pc.cast(hops["attempt"], pa.string()), " ")
    is_resent = (ints(hops["attempt"]) > 0) & ~(hops.is_dead | hops.is_told)
    return _of_hops(flows, is_resent, attempts, hops.source)


def _foreign_sender(flows: _Flows) -> _FindingColumns:
    return _of_hops(flows, flows.hops.has_fate("foreign") & equal_text(flows.hops["repeat"], ""))


# what a node did instead of looking
BLIND = ("captured nothing", "skipped sightings", "ended with sightings unwritten", "had just begun to capture")


def _missing_capture(flows: _Flows) -> _FindingColumns:
    """A node is why a hop is unwitnessed or unsent; the detail says what the node did instead of looking."""
    hops = flows.hops
    is_unsent = hops.has_fate("unsent")
    blind = np.where(is_unsent, hops.source, hops.target)
    rows = np.flatnonzero((hops.has_fate("unwitnessed") | is_unsent) & has_bytes(hops.nodes)[blind])
    rows = rows[Groups(pack(hops.flow[rows], blind[rows]), hops.begun[rows]).first]
    cover, rules = flows.known.coverage.of(hops.nodes), flows.known.rules
    about = hops.begun - rules.patience_ns, hops.begun + rules.patience_ns
    is_looking, is_alive = cover.is_looking(blind, hops.begun), cover.lives_at(blind, hops.begun)
    skips, is_ended = cover.skips_within(blind, *about), cover.ended_within(blind, *about)
    why = np.select([~is_looking, skips, is_ended, ~is_alive], [0, 1, 2, 0], 3)
    detail = pa.array(BLIND).take(pa.array(why))
    return _of_rows(flows, rows, detail, blind)


FINDERS: dict[str, Callable[[_Flows], _FindingColumns]] = {
    "hop_lost": _hop_lost,
    "told_otherwise": _told_otherwise,
    "hop_loop": _hop_loop,
    "route_disagrees": _route_disagrees,
    "handled_after_ttl": _handled_after_ttl,
    "reply_to_nobody": _reply_to_nobody,
    "unknown_version": _unknown_version,
    "callback_unreached": _callback_unreached,
    "duplicate": _duplicate,
    "replayed": _replayed,
    "retransmitted": _retransmitted,
    "foreign_sender": _foreign_sender,
    "missing_capture": _missing_capture,
    "key_reused": _key_reused,
}
