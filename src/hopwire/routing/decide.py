"""The decision: where one message goes, from what it says and from the tables.

    decide(message, tables, here) -> Decision

| distribution | receiver node | receiver | goes to |
|---|---|---|---|
| broadcast | - | - | every actor here with the contract; if it started here, also every node with it, once |
| broadcast | any named | | nobody |
| unicast | another node | any | that node, which alone knows who lives there |
| unicast | this node | named | the receiver here |
| unicast | this node | - | an actor here with the contract, in turns |
| unicast | - | named | the receiver here, else a node where it lives |
| unicast | - | - | an actor with the contract, here or elsewhere, in turns; from another node: here, if any |

- A named receiver is chosen by version and receiver, as the documents say: an actor must have a contract of that
  version, a hub takes every message. Without a receiver, identity, version and partition must all be equal.
- A message started here if no other node sent it and its hops are 0. The hops alone prove nothing, because the sender
  of the message writes them. A message from another node that finds no handler here is sent on: preferably not to a
  node that the message has passed already, and never beyond the hop limit.
- `exclude` names nodes and receivers that are not to be asked, such as those that a retry has tried.

Nothing here waits, sends or looks at a clock; the caller has checked before whether the message is expired. A decision
changes one thing, whose turn is next. So the caller decides once for each message.

`forwarded` is what a router changes in a message that leaves the node: the hops, the way so far and the time that is
left. A signature covers none of these fields, or every node signs anew. Every destination gets a message of its own,
since messages are frozen.

The trap: an empty identity means "not named", and is also the identity of a node that stands alone. Both readings
agree, since a node that stands alone is never named.

A new case is a row above, and a reason in `model/reasons.py` if the case can fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sized
from copy import copy

import msgspec
from msgspec.structs import replace

from hopwire.model import Distribution, Message, RoutingEntry, Selectors, TraceOptions
from hopwire.model.reasons import ROUTING_REASONS
from hopwire.routing.route_tables import Tables
from hopwire.routing.turns import CandidateIndex, Candidates

__all__ = ["HOP_LIMIT", "Decision", "decide", "forwarded", "peek"]

HOP_LIMIT = 16  # a message needs one hop, or two while routes change; more is a loop


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Whom a message goes to: receivers here, nodes elsewhere, or nobody, and then why."""

    receivers: tuple[bytes, ...] = ()
    nodes: tuple[bytes, ...] = ()
    reason: str = ""


BROADCAST = int(Distribution.BROADCAST)
ROUTING = int(TraceOptions.ROUTING)
NO_CANDIDATES = Candidates()
NOBODY = {reason: Decision(reason=reason) for reason in ROUTING_REASONS}


def decide(
    message: Message | Selectors,
    tables: Tables,
    here: bytes,
    exclude: Collection[bytes] = (),
    came_from: bytes = b"",
    hop_limit: int = HOP_LIMIT,
) -> Decision:
    """Decide where a message goes; `here` is this node, `came_from` the node that sent the message.

    A message leaves while its hops are below `hop_limit`, which is at least 1.

    Selectors stand for a message from another node whose hops are not known. A decision on selectors is final for
    receivers here; to send the message on, decide on the whole message.
    """
    hops = message.hops if type(message) is Message else 1
    is_foreign = bool(hops or came_from)
    contract = (message.identity, message.version, message.partition)
    if message.distribution:
        return _everyone(message, tables.candidates.get(contract, NO_CANDIDATES), exclude, not is_foreign)
    node, receiver = message.receiver_node_identity, message.receiver_identity
    if node and node != here:
        decision = _node(node, tables, exclude)
    elif receiver:
        is_taken = tables.local.accepts(receiver, contract)
        if is_taken is not None:
            return _receiver(receiver, is_taken, exclude)
        decision = _home(() if node else tables.remote.nodes_of(receiver), exclude, _passed(message, came_from))
    else:
        candidates = tables.candidates.get(contract, NO_CANDIDATES)
        if node:
            return _here(candidates, exclude) or _nobody(candidates.local)
        passed = _passed(message, came_from) if is_foreign else ()
        if is_foreign or not candidates.is_remote_turn():
            decision = _here(candidates, exclude) or _elsewhere(candidates, exclude, passed) or _nobody(candidates)
        else:
            decision = _elsewhere(candidates, exclude, passed) or _here(candidates, exclude) or _nobody(candidates)
    return NOBODY["hop_limit"] if decision.nodes and not 0 <= hops < hop_limit else decision


def peek(message: Message, tables: Tables, here: bytes, came_from: bytes = b"", hop_limit: int = HOP_LIMIT) -> Decision:
    """Give the decision that `decide` would take now, without taking a turn."""
    contract = (message.identity, message.version, message.partition)
    view = copy(tables)
    view.candidates = CandidateIndex()
    if contract in tables.candidates:
        view.candidates[contract] = tables.candidates[contract].still()
    return decide(message, view, here, (), came_from, hop_limit)


def _passed(message: Message | Selectors, came_from: bytes) -> tuple[bytes, ...]:
    """Give the nodes that a message has passed, as far as the message tells; none if the message started here."""
    if type(message) is not Message:
        return (came_from,)
    is_foreign = message.hops or came_from
    return (came_from, *[entry.identity for entry in message.routing]) if is_foreign else ()


def _everyone(
    message: Message | Selectors, candidates: Candidates, exclude: Collection[bytes], is_started_here: bool
) -> Decision:
    if message.distribution != BROADCAST:
        return NOBODY["unknown_distribution"]
    if message.receiver_identity or message.receiver_node_identity:
        return NOBODY["broadcast_with_receiver"]
    nodes = candidates.remote if is_started_here else ()
    found = Decision(_allowed(candidates.local, exclude), _allowed(nodes, exclude))
    return found if found.receivers or found.nodes else _nobody([*candidates.local, *nodes])


def _node(node: bytes, tables: Tables, exclude: Collection[bytes]) -> Decision:
    if node not in tables.remote:
        return NOBODY["unknown_node"]
    return NOBODY["excluded"] if node in exclude else Decision((), (node,))


def _receiver(receiver: bytes, is_taken: bool, exclude: Collection[bytes]) -> Decision:
    if not is_taken:
        return NOBODY["receiver_does_not_handle"]
    return NOBODY["excluded"] if receiver in exclude else Decision((receiver,))


def _home(nodes: tuple[bytes, ...], exclude: Collection[bytes], passed: Collection[bytes]) -> Decision:
    allowed = _allowed(nodes, exclude)
    if not allowed:
        return NOBODY["excluded" if nodes else "unknown_receiver"]
    return Decision((), (next((node for node in allowed if node not in passed), allowed[0]),))


def _here(candidates: Candidates, exclude: Collection[bytes]) -> Decision | None:
    actor = candidates.local.pick(exclude)
    return Decision((actor,)) if actor else None


def _elsewhere(candidates: Candidates, exclude: Collection[bytes], passed: Collection[bytes]) -> Decision | None:
    turns = candidates.remote
    node = (passed and turns.pick({*passed, *exclude})) or turns.pick(exclude)
    return Decision((), (node,)) if node else None


def _nobody(candidates: Sized) -> Decision:
    return NOBODY["excluded" if len(candidates) else "no_route"]


def _allowed(identities: Iterable[bytes], exclude: Collection[bytes]) -> tuple[bytes, ...]:
    return tuple([identity for identity in identities if identity not in exclude] if exclude else identities)


# -- what a router changes in a message that it sends on


def forwarded(message: Message, uri: str, identity: bytes, ttl_ticks: int | None = None) -> Message:
    """Give the message as it leaves the node of that address: one hop more and, if traced, one entry more.

    `ttl_ticks` is the time to live that is left, where time was spent here.
    """
    routing = message.routing
    if message.trace_options & ROUTING:
        entry = RoutingEntry(uri, identity)
        if routing[-1:] != (entry,):
            routing = (*routing, entry)
    left = message.ttl_ticks if ttl_ticks is None else ttl_ticks
    return replace(message, hops=message.hops + 1, routing=routing, ttl_ticks=left)
