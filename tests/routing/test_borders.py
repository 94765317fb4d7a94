"""What may be offered across a border, and what a border changes in a message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hopwire.model import CallbackPoint, Contract, Message, RoutingEntry
from hopwire.model.choice import Choice, Choose
from hopwire.model.names import partner_of, stand_in_name
from hopwire.routing import RemoteNode, Tables
from hopwire.routing.borders import NO_HOME, WayHome, bar_inside, bar_outside, chosen, crossed, offers
from hopwire.wire.extension import Extension, extension_of, with_extension

CONTRACTS = [Contract(b"orders.%d" % number, 1, b"") for number in range(3)]
OWN, STAND_IN = b"\1own", stand_in_name("acme", b"1")
PLACES = st.sampled_from([b"", b"n1", b"n2", b"n3"])  # this node, and others
HANDLERS = st.lists(
    st.tuples(PLACES, st.sampled_from([OWN, b"\1other", STAND_IN, stand_in_name("third", b"2")]), st.integers(0, 2)),
    max_size=12,
)


def tables_of(handlers: list[tuple[bytes, bytes, int]], local_only: bool = False) -> Tables:
    tables = Tables()
    for node, receiver, number in handlers:
        if node:
            tables.remote.register(RemoteNode(node), receiver, [CONTRACTS[number]])
        else:
            tables.local.register(receiver, [CONTRACTS[number]], is_local_only=local_only)
    return tables


def everything(_: bytes) -> bool:
    return True


@given(HANDLERS)
def test_contract_is_offered_if_somebody_handles_it_who_is_no_stand_in(
    handlers: list[tuple[bytes, bytes, int]],
) -> None:
    expected = {CONTRACTS[number] for _, receiver, number in handlers if not partner_of(receiver)}
    assert {*offers(tables_of(handlers), everything, bar_inside)} == expected


@given(HANDLERS)
def test_nobody_is_left_to_ask_but_those_who_handle_a_contract_themselves(
    handlers: list[tuple[bytes, bytes, int]],
) -> None:
    tables = tables_of(handlers)
    for number, contract in enumerate(CONTRACTS):
        barred = bar_inside(tables, contract)
        own = {(node, receiver) for node, receiver, n in handlers if n == number and not partner_of(receiver)}
        nodes, here = {node for node, _ in own if node}, {receiver for node, receiver in own if not node}
        if barred is None:
            assert not own
            continue
        sides = tables.candidates[contract]
        assert {node for node in sides.remote if node not in barred} == nodes
        assert {actor for actor in sides.local if actor not in barred} == here


@given(HANDLERS, HANDLERS)
def test_what_is_known_of_stand_ins_follows_the_routes(
    handlers: list[tuple[bytes, bytes, int]], gone: list[tuple[bytes, bytes, int]]
) -> None:
    tables = tables_of(handlers)
    for node, receiver, number in gone:
        if node:
            tables.remote.unregister(node, receiver, [CONTRACTS[number]])
    left = {each for each in handlers if each not in gone and each[0] and partner_of(each[1])}
    found = {
        (node, receiver, CONTRACTS.index(Contract(*contract)))
        for contract, nodes in tables.remote.imported.items()
        for node, receivers in nodes.items()
        for receiver in receivers
    }
    assert found == left
    for node in (b"n1", b"n2", b"n3"):
        tables.remote.unregister_node(node)
    assert tables.remote.imported == {}


def test_local_only_actor_is_not_offered() -> None:
    assert [*offers(tables_of([(b"", OWN, 0)], local_only=True), everything, bar_inside)] == []


def test_only_what_is_on_the_list_is_offered() -> None:
    tables = tables_of([(b"", OWN, 0), (b"n1", OWN, 1)])
    assert [*offers(tables, lambda identity: identity == b"orders.1", bar_inside)] == [CONTRACTS[1]]


def test_outside_only_nodes_of_the_partner_are_asked() -> None:
    tables = tables_of([(b"", OWN, 0), (b"n1", STAND_IN, 0), (b"", OWN, 1)])
    assert [*offers(tables, everything, bar_outside)] == [CONTRACTS[0]]
    assert bar_outside(tables, CONTRACTS[0]) == {OWN}
    assert bar_outside(tables, CONTRACTS[1]) is None
    assert bar_outside(tables, CONTRACTS[2]) is None


def test_key_is_never_that_of_a_stand_in() -> None:
    tables = tables_of([(b"n1", OWN, 0), (b"n2", STAND_IN, 0), (b"", b"\1other", 0)])
    inside = {chosen(tables, CONTRACTS[0], Choice(Choose.KEY, key), bar_inside) for key in range(1, 200)}
    assert inside == {OWN, b"\1other"}
    outside = {chosen(tables, CONTRACTS[0], Choice(Choose.KEY, key), bar_outside) for key in range(1, 200)}
    assert outside == {OWN, STAND_IN}


MESSAGE = with_extension(
    Message(
        b"orders.0",
        1,
        b"part",
        body_frames=(b"body",),
        correlation_id=b"flow",
        receiver_identity=STAND_IN,
        receiver_node_identity=b"gateway",
        callback_points=(CallbackPoint(b"answer", 1),),
        callback_key=7,
        callback_receiver_identity=b"\0hub",
        callback_receiver_node_identity=b"member",
        routing=(RoutingEntry("tcp://inside:1", b"member"),),
        hops=2,
        trace_options=1,
        domain="orders",
        signature=b"signed",
        socket_identity=b"member",
        extensions=(b"of somebody else",),
    ),
    Extension(message_id=b"id", traceparent="00-1", chosen_by=5),
)


def test_nothing_inside_is_told_on_the_way_out() -> None:
    out = crossed(MESSAGE, "", WayHome(b"\0border", b"gw@acme", 4711), ttl_ticks=9)
    assert (out.routing, out.hops, out.socket_identity, out.signature, out.domain) == ((), 0, b"", b"", "")
    assert (out.receiver_identity, out.receiver_node_identity) == (b"", b"")
    home = out.callback_receiver_identity, out.callback_receiver_node_identity, out.callback_key
    assert home == (b"\0border", b"gw@acme", 4711)
    assert not any(b"member" in repr(value).encode() for value in (out,))


def test_flow_partition_body_and_points_stay_and_hops_on_the_way_in() -> None:
    over = crossed(MESSAGE, "acme", WayHome(b"\0border", b"gw", 4711), ttl_ticks=9)
    for name in ("identity", "version", "partition", "body_frames", "correlation_id", "callback_points", "hops"):
        assert getattr(over, name) == getattr(MESSAGE, name)
    assert over.routing == MESSAGE.routing
    assert over.ttl_ticks == 9
    said = extension_of(over)
    assert said == Extension(message_id=b"id", traceparent="00-1", chosen_by=5, partner="acme")
    assert len(over.extensions) == 1


def test_message_that_nobody_waits_for_has_no_callback_behind_the_border() -> None:
    over = crossed(MESSAGE, "acme", NO_HOME)
    assert (over.callback_points, over.callback_key, over.callback_receiver_identity) == ((), 0, b"")


def test_stand_in_says_whom_it_stands_in_for() -> None:
    assert partner_of(stand_in_name("acme", b"x/y")) == "acme"
    assert partner_of(b"\1partner/") == "?"
    assert partner_of(b"\1partners/x") == partner_of(OWN) == partner_of(b"\0partner/x") == ""
