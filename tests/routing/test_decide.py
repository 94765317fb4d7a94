"""Decisions: scripts of one message and one set of tables, then the properties that hold for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopwire.model import CallbackPoint, Contract, Distribution, Message, RoutingEntry, Selectors, TraceOptions
from hopwire.model.reasons import ROUTING_REASONS
from hopwire.routing import HOP_LIMIT, Decision, Tables, decide, forwarded
from tests.routing.network import (
    BYE,
    CONTRACTS,
    GREET,
    HERE,
    NODES,
    ONE,
    PART,
    THREE,
    TWO,
    actor,
    hub,
    message_of,
    tables_of,
)

BROADCAST = message_of(GREET, distribution=Distribution.BROADCAST)
UNICAST = message_of(GREET)
FOREIGN = message_of(GREET, hops=1)


def here(*receivers: bytes) -> Decision:
    return Decision(receivers=receivers)


def there(*nodes: bytes) -> Decision:
    return Decision(nodes=nodes)


def nobody(reason: str) -> Decision:
    return Decision(reason=reason)


def picks(message: Message, tables: Tables, count: int) -> list[bytes]:
    decisions = [decide(message, tables, HERE) for _ in range(count)]
    return [(decision.receivers + decision.nodes)[0] for decision in decisions]


# broadcast


def test_a_broadcast_that_started_here_reaches_every_actor_here_and_every_node_once() -> None:
    tables = tables_of([actor(1), actor(2)], [(ONE, actor(3)), (ONE, actor(4)), (TWO, actor(5))])
    assert decide(BROADCAST, tables, HERE) == Decision((actor(1), actor(2)), (ONE.identity, TWO.identity))


def test_a_broadcast_from_another_node_reaches_only_the_actors_here() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    assert decide(BROADCAST.replace(hops=1), tables, HERE) == here(actor(1))
    assert decide(BROADCAST.replace(hops=1), tables_of([], [(ONE, actor(2))]), HERE) == nobody("no_route")


def test_a_broadcast_takes_nobodys_turn() -> None:
    tables = tables_of([actor(1), actor(2)])
    decide(UNICAST, tables, HERE)
    decide(BROADCAST, tables, HERE)
    assert decide(UNICAST, tables, HERE) == here(actor(2))


@pytest.mark.parametrize("field", ["receiver_identity", "receiver_node_identity"])
def test_a_broadcast_that_names_a_receiver_goes_nowhere(field: str) -> None:
    message = BROADCAST.replace(**{field: actor(1)})
    assert decide(message, tables_of([actor(1)]), HERE) == nobody("broadcast_with_receiver")


def test_a_distribution_that_nobody_knows_goes_nowhere() -> None:
    assert decide(message_of(GREET, distribution=2), tables_of([actor(1)]), HERE) == nobody("unknown_distribution")


# unicast to anyone


def test_actors_here_take_turns_in_the_order_they_were_registered() -> None:
    tables = tables_of([actor(1), actor(2), actor(3)])
    assert picks(UNICAST, tables, 4) == [actor(1), actor(2), actor(3), actor(1)]


def test_local_and_remote_actors_take_turns_by_their_number() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2)), (ONE, actor(3)), (TWO, actor(4))])
    assert Counter(picks(UNICAST, tables, 40)) == {actor(1): 10, ONE.identity: 20, TWO.identity: 10}


def test_a_message_from_another_node_prefers_an_actor_here() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    assert picks(FOREIGN, tables, 3) == [actor(1)] * 3


def test_a_message_without_a_handler_here_is_sent_away_and_from_another_node_sent_on() -> None:
    tables = tables_of([], [(ONE, actor(1))])
    assert decide(UNICAST, tables, HERE) == decide(FOREIGN, tables, HERE) == there(ONE.identity)


def test_a_message_is_rather_not_sent_to_a_node_that_it_passed() -> None:
    tables = tables_of([], [(ONE, actor(1)), (TWO, actor(2)), (THREE, actor(3))])
    passed = FOREIGN.replace(routing=(RoutingEntry("", ONE.identity),))
    for _ in range(4):
        assert decide(passed, tables, HERE, came_from=TWO.identity) == there(THREE.identity)
    only = tables_of([], [(ONE, actor(1))])
    assert decide(passed, only, HERE, came_from=ONE.identity) == there(ONE.identity)


def test_the_way_of_an_earlier_message_does_not_bind_one_that_starts_here() -> None:
    answer = UNICAST.replace(routing=(RoutingEntry("", ONE.identity),))
    assert decide(answer, tables_of([], [(ONE, actor(1)), (TWO, actor(2))]), HERE) == there(ONE.identity)


@pytest.mark.parametrize("contract", [PART, BYE, Contract(b"greet", 2, b""), Contract(b"greet", b"1", b"")])
def test_without_a_receiver_identity_version_and_partition_must_be_equal(contract: Contract) -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    assert decide(message_of(contract), tables, HERE) == nobody("no_route")


def test_a_message_that_names_this_node_stays_here() -> None:
    named = UNICAST.replace(receiver_node_identity=HERE)
    assert picks(named, tables_of([actor(1)], [(ONE, actor(2))]), 3) == [actor(1)] * 3
    assert decide(named, tables_of([], [(ONE, actor(2))]), HERE) == nobody("no_route")


# direct


@pytest.mark.parametrize("receiver", [b"", actor(7), hub(7)])
def test_a_message_that_names_a_node_goes_there_whatever_it_is(receiver: bytes) -> None:
    message = message_of(BYE, receiver_node_identity=ONE.identity, receiver_identity=receiver)
    tables = tables_of([actor(7)], [(ONE, actor(1)), (TWO, actor(2))])
    assert decide(message, tables, HERE) == there(ONE.identity)
    assert decide(message, tables_of([], [(TWO, actor(2))]), HERE) == nobody("unknown_node")


def test_a_message_for_a_receiver_here_is_delivered_to_it_alone() -> None:
    tables = tables_of([actor(1), actor(2)], [(ONE, actor(3))])
    tables.local.register(hub(1))
    for node in (b"", HERE):
        for receiver in (actor(2), hub(1)):
            named = UNICAST.replace(receiver_identity=receiver, receiver_node_identity=node)
            assert decide(named, tables, HERE) == here(receiver)


def test_a_named_actor_is_chosen_by_version_and_receiver() -> None:
    tables = tables_of([actor(1)])
    assert decide(message_of(PART, receiver_identity=actor(1)), tables, HERE) == here(actor(1))
    unfit = message_of(BYE, receiver_identity=actor(1))
    assert decide(unfit, tables, HERE) == nobody("receiver_does_not_handle")


def test_a_receiver_without_a_node_is_looked_for_here_and_then_elsewhere() -> None:
    tables = tables_of([], [(ONE, actor(1))])
    tables.remote.register(TWO, hub(1))
    assert decide(message_of(BYE, receiver_identity=actor(1)), tables, HERE) == there(ONE.identity)
    assert decide(message_of(BYE, receiver_identity=hub(1)), tables, HERE) == there(TWO.identity)
    tables.local.register(hub(1))
    assert decide(message_of(BYE, receiver_identity=hub(1)), tables, HERE) == here(hub(1))


def test_a_receiver_on_two_nodes_is_rather_not_looked_for_where_the_message_was() -> None:
    tables = tables_of([], [(ONE, actor(1)), (TWO, actor(1))])
    named = FOREIGN.replace(receiver_identity=actor(1))
    assert decide(named, tables, HERE) == there(TWO.identity)
    assert decide(named, tables, HERE, came_from=TWO.identity) == there(ONE.identity)
    assert decide(named, tables, HERE, exclude=[ONE.identity], came_from=TWO.identity) == there(TWO.identity)


@pytest.mark.parametrize("receiver", [actor(9), hub(9), b"\x02neither"])
def test_a_receiver_that_is_nowhere_is_unknown(receiver: bytes) -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    assert decide(UNICAST.replace(receiver_identity=receiver), tables, HERE) == nobody("unknown_receiver")


def test_a_receiver_elsewhere_is_unknown_to_a_message_that_names_this_node() -> None:
    named = UNICAST.replace(receiver_identity=actor(1), receiver_node_identity=HERE)
    assert decide(named, tables_of([], [(ONE, actor(1))]), HERE) == nobody("unknown_receiver")


def test_a_broadcast_from_another_node_is_not_sent_on_whatever_its_hops_say() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2)), (TWO, actor(3))])
    assert decide(BROADCAST, tables, HERE, came_from=ONE.identity) == here(actor(1))
    assert decide(BROADCAST, tables_of([], [(ONE, actor(2))]), HERE, came_from=TWO.identity) == nobody("no_route")


def test_a_message_from_another_node_is_taken_here_and_not_sent_back_whatever_its_hops_say() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2)), (TWO, actor(3))])
    assert {decide(UNICAST, tables, HERE, came_from=ONE.identity) for _ in range(6)} == {here(actor(1))}
    elsewhere = tables_of([], [(ONE, actor(2)), (TWO, actor(3))])
    assert {decide(UNICAST, elsewhere, HERE, came_from=ONE.identity) for _ in range(6)} == {there(TWO.identity)}


# limits


@pytest.mark.parametrize("hops", [HOP_LIMIT, HOP_LIMIT + 1, 65_535, -1])
def test_a_message_beyond_the_hop_limit_is_delivered_here_or_not_at_all(hops: int) -> None:
    message = UNICAST.replace(hops=hops)
    assert decide(message, tables_of([actor(1)], [(ONE, actor(2))]), HERE) == here(actor(1))
    assert decide(message, tables_of([], [(ONE, actor(2))]), HERE) == nobody("hop_limit")
    direct = message.replace(receiver_node_identity=ONE.identity)
    assert decide(direct, tables_of([], [(ONE, actor(2))]), HERE) == nobody("hop_limit")


def test_the_hop_limit_is_an_argument() -> None:
    tables = tables_of([], [(ONE, actor(2))])
    assert decide(UNICAST.replace(hops=2), tables, HERE, hop_limit=3) == there(ONE.identity)
    assert decide(UNICAST.replace(hops=3), tables, HERE, hop_limit=3) == nobody("hop_limit")


def test_a_retry_asks_each_route_once_and_then_says_that_all_are_excluded() -> None:
    tables = tables_of([actor(1), actor(2)], [(ONE, actor(3)), (TWO, actor(4))])
    tried: list[bytes] = []
    while not (decision := decide(UNICAST, tables, HERE, exclude=tried)).reason:
        tried += decision.receivers + decision.nodes
    assert sorted(tried) == sorted([actor(1), actor(2), ONE.identity, TWO.identity])
    assert decision == nobody("excluded")


@pytest.mark.parametrize(
    "message",
    [
        BROADCAST,
        FOREIGN,
        UNICAST.replace(receiver_node_identity=HERE),
        UNICAST.replace(receiver_node_identity=ONE.identity),
        UNICAST.replace(receiver_identity=actor(1)),
        UNICAST.replace(receiver_identity=actor(2)),
    ],
)
def test_nobody_who_is_excluded_is_asked(message: Message) -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    assert decide(message, tables, HERE, exclude={actor(1), ONE.identity}) == nobody("excluded")


def test_a_broadcast_leaves_the_excluded_out_and_reaches_the_others() -> None:
    tables = tables_of([actor(1), actor(2)], [(ONE, actor(3)), (TWO, actor(4))])
    assert decide(BROADCAST, tables, HERE, exclude=[actor(1), TWO.identity]) == Decision((actor(2),), (ONE.identity,))
    assert decide(BROADCAST, tables_of([], [(ONE, actor(3))]), HERE, exclude=[ONE.identity]) == nobody("excluded")


# nodes that stand alone, and selectors


def test_a_node_that_stands_alone_needs_no_identity() -> None:
    tables = tables_of([actor(1)])
    tables.local.register(hub(1))
    assert decide(UNICAST, tables, b"") == decide(BROADCAST, tables, b"") == here(actor(1))
    assert decide(UNICAST.replace(receiver_identity=hub(1)), tables, b"") == here(hub(1))
    assert decide(UNICAST.replace(receiver_node_identity=b"n"), tables, b"") == nobody("unknown_node")


def test_selectors_are_decided_as_a_message_from_another_node() -> None:
    tables = tables_of([actor(1)], [(ONE, actor(2))])
    for distribution in Distribution:
        selectors = Selectors(*GREET, b"", b"", distribution)
        assert [decide(selectors, tables, HERE) for _ in range(3)] == [here(actor(1))] * 3


# for all messages and tables

RECEIVERS = [hub(1), hub(2), *(actor(number) for number in range(4))]
NAMES = [b"", HERE, *(node.identity for node in NODES)]


@st.composite
def networks(draw: st.DrawFn) -> Tables:
    tables = Tables()
    contracts = st.lists(st.sampled_from(CONTRACTS), min_size=1, max_size=2)
    for receiver in draw(st.lists(st.sampled_from(RECEIVERS), max_size=4)):
        tables.local.register(receiver, draw(contracts), is_local_only=draw(st.booleans()))
    for node in draw(st.lists(st.sampled_from(NODES), max_size=4)):
        tables.remote.register(node, draw(st.sampled_from(RECEIVERS)), draw(contracts))
    return tables


@st.composite
def messages(draw: st.DrawFn) -> Message:
    return message_of(
        draw(st.sampled_from(CONTRACTS)),
        receiver_identity=draw(st.sampled_from([b"", b"", b"\x02", *RECEIVERS])),
        receiver_node_identity=draw(st.sampled_from([b"", b"", *NAMES])),
        distribution=draw(st.sampled_from([0, 0, 1, 1, 2])),
        hops=draw(st.sampled_from([0, 0, 1, 15, 16, -1])),
        routing=tuple(RoutingEntry("", name) for name in draw(st.lists(st.sampled_from(NAMES), max_size=3))),
    )


EXCLUDED = st.just(frozenset[bytes]()) | st.frozensets(st.sampled_from(NAMES + RECEIVERS), max_size=4)


def for_all(test: Callable[[Tables, Message, frozenset[bytes]], None]) -> Callable[..., None]:
    given_all = given(networks(), messages(), EXCLUDED)(test)
    marked: Callable[..., None] = pytest.mark.slow(settings(deadline=None)(given_all))
    return marked


@for_all
def test_every_decision_names_only_what_is_registered_and_not_excluded(
    tables: Tables, message: Message, excluded: frozenset[bytes]
) -> None:
    found = decide(message, tables, HERE, exclude=excluded)
    assert all(receiver in tables.local for receiver in found.receivers)
    assert all(node in tables.remote for node in found.nodes)
    assert excluded.isdisjoint(found.receivers + found.nodes)
    assert len(set(found.receivers)) == len(found.receivers)
    assert len(set(found.nodes)) == len(found.nodes)


@for_all
def test_every_decision_names_somebody_or_a_reason_that_is_in_the_table(
    tables: Tables, message: Message, excluded: frozenset[bytes]
) -> None:
    found = decide(message, tables, HERE, exclude=excluded)
    assert bool(found.receivers or found.nodes) != bool(found.reason)
    assert not found.reason or found.reason in ROUTING_REASONS


@for_all
def test_a_message_from_another_node_never_goes_to_all_and_a_unicast_only_to_one(
    tables: Tables, message: Message, excluded: frozenset[bytes]
) -> None:
    found = decide(message, tables, HERE, exclude=excluded)
    if message.distribution == Distribution.BROADCAST and message.hops:
        assert found.nodes == ()
    if message.distribution == Distribution.UNICAST:
        assert len(found.receivers + found.nodes) <= 1
    if not 0 <= message.hops < HOP_LIMIT:
        assert found.nodes == ()


@for_all
def test_a_message_that_names_nobody_finds_somebody_whenever_there_is_somebody(
    tables: Tables, message: Message, excluded: frozenset[bytes]
) -> None:
    free = message.replace(receiver_identity=b"", receiver_node_identity=b"", distribution=message.distribution % 2)
    found = decide(free, tables, HERE, exclude=excluded)
    is_broadcast = free.distribution == Distribution.BROADCAST
    may_leave = free.hops == 0 if is_broadcast else 0 <= free.hops < HOP_LIMIT
    routes = tables.local.handlers_of(free.contract) + (tables.remote.handlers_of(free.contract) if may_leave else [])
    candidates = {route.node or route.receiver for route in routes} - excluded
    assert bool(candidates) == (not found.reason)
    assert candidates >= set(found.receivers + found.nodes)
    if is_broadcast:
        assert candidates == set(found.receivers + found.nodes)


@for_all
def test_a_message_is_sent_back_only_if_there_is_no_other_way(
    tables: Tables, message: Message, excluded: frozenset[bytes]
) -> None:
    free = message.replace(receiver_node_identity=b"", distribution=0)
    found = decide(free, tables, HERE, exclude=excluded)
    passed = {entry.identity for entry in free.routing}
    if free.hops and not passed.isdisjoint(found.nodes):
        routes = tables.remote.handlers_of(free.contract)
        nodes = tables.remote.nodes_of(free.receiver_identity) if free.receiver_identity else [r.node for r in routes]
        assert set(nodes) - excluded <= passed


# -- what a router changes in a message, and what it leaves


ANSWER = Message(
    identity=b"greeting",
    version=1,
    partition=b"east",
    callback_points=(CallbackPoint(b"other", 1, b"east"), CallbackPoint(b"greeting", 1, b"east")),
    callback_key=7,
    callback_receiver_identity=hub(1),
    callback_receiver_node_identity=b"node-1",
)
URI = "tcp://10.0.0.9:7400"


def test_a_forwarded_message_has_one_hop_more_and_nothing_else() -> None:
    assert forwarded(ANSWER, URI, HERE) == ANSWER.replace(hops=1)


def test_a_traced_message_remembers_each_router_once() -> None:
    traced = ANSWER.replace(trace_options=TraceOptions.ROUTING)
    once = forwarded(traced, URI, HERE)
    twice = forwarded(once, URI, HERE)
    assert once.routing == twice.routing == (RoutingEntry(URI, HERE),)
    assert (once.hops, twice.hops) == (1, 2)
    back = forwarded(forwarded(twice, "tcp://other:1", b"other"), URI, HERE)
    assert [entry.identity for entry in back.routing] == [HERE, b"other", HERE]


def test_each_destination_sees_one_hop_and_one_entry() -> None:
    traced = ANSWER.replace(trace_options=TraceOptions.ROUTING)
    copies = [forwarded(traced, URI, HERE) for _ in range(3)]
    assert [(copy.hops, len(copy.routing)) for copy in copies] == [(1, 1)] * 3
    assert (traced.hops, traced.routing) == (0, ())
