"""What is odd about a flow: the kinds, and how each is found among its hops and requests.

A kind is a row in `KINDS` and a function that marks hops or requests; each mark becomes one finding with the message,
the node and a detail. A finding is made once for each message (`missing_capture`: node), however often it shows.

What the original does by design is not odd: a broadcast inflates hops and routing with each peer, a reply copies the
routing of its request and restarts the hops, the callback point of a receipt is removed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.coverage import Coverage
from hopwire.flows.groups import NO_TIME, Groups, codes, equal_text, lists_of_groups, number_codes, pack
from hopwire.flows.rules import Rules, deadlines
from hopwire.flows.schemas import FINDING_TYPE
from hopwire.flows.trees import CauseTree, Steps

__all__ = ["KINDS", "Known", "find"]

# fmt: off
KINDS = {
    # kind                what is odd
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
    "missing_capture":    "the node takes part and did not capture, skipped sightings, or ended with some unwritten",
    "key_reused":         "several questions of the flow have one callback key",
}
# fmt: on
NOBODY_HANDLES = "receiver_does_not_handle"
Contract: TypeAlias = tuple[bytes, int | None, bytes | None]  # identity, version, version_raw


class Known(NamedTuple):
    """What has to be known beyond the flows at hand."""

    coverage: Coverage
    rules: Rules
    answered: Collection[Contract] = ()  # the contracts of requests that were answered somewhere


class _Flows(NamedTuple):
    hops: pa.Table
    requests: pa.Table
    steps: Steps
    tree: CauseTree
    known: Known


class _FindingColumns(NamedTuple):
    """Findings of one kind, as columns."""

    flow_id: pa.Array
    message_key: pa.Array
    node: pa.Array
    detail: pa.Array


def find(hops: pa.Table, requests: pa.Table, steps: Steps, tree: CauseTree, known: Known) -> pa.Array:
    """Give the findings of each flow, as lists in the order of the flows of `steps`."""
    flows = _Flows(hops, requests, steps, tree, known)
    found = [(kind, marks) for kind, finder in FINDERS.items() if len((marks := finder(flows)).flow_id)]
    empty = pa.array([], pa.binary())
    flow = pa.concat_arrays([empty, *(marks.flow_id for _, marks in found)])
    parts = {
        "kind": pa.concat_arrays([pa.array([], pa.string()), *(pa.repeat(kind, len(m.flow_id)) for kind, m in found)]),
        "message_key": pa.concat_arrays([empty, *(marks.message_key for _, marks in found)]),
        "node": pa.concat_arrays([empty, *(marks.node for _, marks in found)]),
        "detail": pa.concat_arrays([pa.array([], pa.string()), *(marks.detail for _, marks in found)]),
    }
    number = ints(pc.index_in(flow, steps.flows), -1)
    order = np.argsort(number, kind="stable")
    order = order[number[order] >= 0]
    items = pa.StructArray.from_arrays([parts[field.name] for field in FINDING_TYPE], fields=list(FINDING_TYPE))
    return lists_of_groups(number[order], items.take(pa.array(order)), len(steps.flows))


# -- marks


def _hop_marks(flows: _Flows, where: Bools, detail: pa.Array | str = "", node: Ints | None = None) -> _FindingColumns:
    """One finding for each message that has a marked hop; the first of them names the node: where it went, or ended."""
    steps = flows.steps
    rows = np.flatnonzero(where)
    if node is None:
        node = np.where(steps.is_dead | (steps.came == NO_TIME), steps.source, steps.target)
    rows = rows[Groups(pack(steps.flow[rows], steps.key[rows]), steps.left[rows]).first]
    return _marks(flows, rows, detail, node)


def _marks(flows: _Flows, rows: Ints, detail: pa.Array | str, node: Ints) -> _FindingColumns:
    taken = pa.array(rows)
    text = pa.repeat(detail, len(rows)) if isinstance(detail, str) else detail.take(taken)
    names = flows.steps.nodes.take(pa.array(node[rows]))
    hops = flows.hops
    return _FindingColumns(
        one_array(hops["flow_id"]).take(taken), one_array(hops["message_key"]).take(taken), names, text
    )


def _request_marks(flows: _Flows, where: Bools, node: str, detail: pa.Array | str = "") -> _FindingColumns:
    rows = flows.requests.filter(pa.array(where))
    text = pa.repeat(detail, len(rows)) if isinstance(detail, str) else detail.filter(pa.array(where))
    return _FindingColumns(one_array(rows["flow_id"]), one_array(rows["message_key"]), one_array(rows[node]), text)


# -- one function for each kind


def _hop_loop(flows: _Flows) -> _FindingColumns:
    steps, hops = flows.steps, flows.hops
    is_unicast = ints(hops["distribution"]) == 0
    is_arrival = is_unicast & (steps.came != NO_TIME) & ~steps.is_again
    is_departure = is_unicast & (ints(hops["left_at_ns"], NO_TIME) != NO_TIME) & ~steps.is_dead
    attempt = ints(hops["attempt"])
    twice = np.append(np.arange(len(attempt)), np.arange(len(attempt)))
    place = pack(steps.flow[twice], steps.key[twice], attempt[twice], np.append(steps.source, steps.target))
    groups = Groups(place)
    departures = np.append(is_departure, np.zeros_like(is_departure))
    here, hop_count = groups.of[len(attempt) :], ints(hops["hop_count"])
    departed_at = groups.least(np.append(steps.left, steps.left), departures)[here]
    departed_hops = groups.least(hop_count[twice], departures)[here]
    came_back = is_arrival & (steps.came > departed_at)
    came_back &= hop_count > departed_hops  # an equal message of another handler has come no further
    is_stopped = steps.is_dead & equal_text(hops["dead_reason"], "hop_limit")
    is_over = is_unicast & (hop_count > flows.known.rules.hop_limit)
    return _hop_marks(flows, came_back | is_stopped | is_over)


def _route_disagrees(flows: _Flows) -> _FindingColumns:
    return _hop_marks(flows, bools(flows.hops["is_route_wrong"]), node=flows.steps.source)


def _handled_after_ttl(flows: _Flows) -> _FindingColumns:
    steps, hops = flows.steps, flows.hops
    is_seen = ints(hops["left_at_ns"], NO_TIME) != NO_TIME
    deadline = np.where(is_seen, deadlines(steps.left, ints(hops["ttl_ticks"])), np.iinfo(np.int64).max)
    messages = Groups(pack(steps.flow, steps.key))
    deadline = messages.least(deadline, ~steps.is_dead)[messages.of]
    is_late = (ints(hops["arrived_at_ns"], NO_TIME) > deadline) & ~bools(hops["is_reply"]) & ~steps.is_again
    has_child = np.zeros(len(is_late), dtype=np.bool_)
    has_child[flows.tree.parent[(flows.tree.parent >= 0) & ~steps.is_dead]] = True
    here = pack(np.append(steps.key, steps.key), np.append(steps.target, steps.source))
    ended = np.isin(here[: len(is_late)], here[len(is_late) :][steps.is_dead])
    return _hop_marks(flows, is_late & has_child & ~ended)


def _reply_to_nobody(flows: _Flows) -> _FindingColumns:
    steps, hops = flows.steps, flows.hops
    rows = np.flatnonzero(bools(pc.greater(pc.binary_length(one_array(hops["home_receiver"])), 0)))
    if not len(rows):
        return _hop_marks(flows, np.zeros(len(hops), dtype=np.bool_))
    (receiver, home), _ = codes(hops["home_receiver"], hops["home_node"])
    number = pack(steps.flow, receiver, home, number_codes(ints(hops["callback_key"])))[rows]
    is_reply = bools(hops["is_reply"])
    asked = Groups(number, steps.left[rows])
    is_orphan = ~asked.has(~is_reply[rows])
    cover = flows.known.coverage.of(steps.nodes)
    begun = Groups(steps.flow)
    started = begun.least(steps.left, np.ones(len(hops), dtype=np.bool_))[begun.of]
    is_watched = ~steps.is_dead & cover.captures[steps.target] & (started > cover.begin[steps.target])
    patience = flows.known.rules.patience_ns
    is_watched &= ~cover.skips_within(steps.target, steps.left - patience, steps.left + patience)
    first = asked.last_where(is_watched[rows])
    first = rows[first[is_orphan & (first >= 0)]]
    return _marks(flows, first, "", steps.target)


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
    by_dead = equal_text(flows.hops["dead_reason"], NOBODY_HANDLES)
    of_hops = _hop_marks(flows, by_dead)
    of_requests = _request_marks(flows, where, "reached_node")
    both = _FindingColumns(*(pa.concat_arrays(parts) for parts in zip(of_hops, of_requests, strict=True)))
    return _once(both)


def _once(marks: _FindingColumns) -> _FindingColumns:
    (flow,), _ = codes(marks.flow_id)
    (key,), _ = codes(marks.message_key)
    if not len(flow):
        return marks
    rows = pa.array(Groups(pack(flow, key)).first)
    return _FindingColumns(*(column.take(rows) for column in marks))


def _callback_unreached(flows: _Flows) -> _FindingColumns:
    return _request_marks(flows, bools(flows.requests["is_callback_unreached"]), "home_node")


def _key_reused(flows: _Flows) -> _FindingColumns:
    return _request_marks(flows, bools(flows.requests["is_reused"]), "home_node")


def _duplicate(flows: _Flows) -> _FindingColumns:
    return _hop_marks(flows, equal_text(flows.hops["repeat"], "duplicate"))


def _replayed(flows: _Flows) -> _FindingColumns:
    return _hop_marks(flows, equal_text(flows.hops["repeat"], "replayed"))


def _retransmitted(flows: _Flows) -> _FindingColumns:
    attempts = pc.binary_join_element_wise("attempt", pc.cast(one_array(flows.hops["attempt"]), pa.string()), " ")
    is_resent = (ints(flows.hops["attempt"]) > 0) & ~flows.steps.is_dead
    return _hop_marks(flows, is_resent, attempts, flows.steps.source)


def _foreign_sender(flows: _Flows) -> _FindingColumns:
    hops = flows.hops
    return _hop_marks(flows, equal_text(hops["fate"], "foreign") & equal_text(hops["repeat"], ""))


def _missing_capture(flows: _Flows) -> _FindingColumns:
    steps, hops = flows.steps, flows.hops
    is_unseen, is_unsent = equal_text(hops["fate"], "unwitnessed"), equal_text(hops["fate"], "unsent")
    blind = np.where(is_unsent, steps.source, steps.target)
    has_name = bools(pc.greater(pc.binary_length(steps.nodes), 0))[blind]
    rows = np.flatnonzero((is_unseen | is_unsent) & has_name)
    rows = rows[Groups(pack(steps.flow[rows], blind[rows]), steps.left[rows]).first]
    cover, rules = flows.known.coverage.of(steps.nodes), flows.known.rules
    about = steps.left - rules.patience_ns, steps.left + rules.patience_ns
    is_ended = cover.ended_within(blind, *about) & ~cover.skips_within(blind, *about)
    why = np.select([~cover.captures[blind], is_ended], [0, 2], 1)
    detail = pa.array(["captured nothing", "skipped sightings", "ended with sightings unwritten"]).take(pa.array(why))
    return _marks(flows, rows, detail, blind)


FINDERS: dict[str, Callable[[_Flows], _FindingColumns]] = {
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
