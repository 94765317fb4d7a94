"""The tables: what is registered is found, what is removed is gone, and nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hopwire.errors import SettingsError
from hopwire.model import Contract
from hopwire.routing import RemoteNode, Route, Tables, decide, is_actor, is_hub
from hopwire.routing.route_tables import keys_of
from tests.routing.network import (
    BYE,
    CONTRACTS,
    GREET,
    HERE,
    ONE,
    PART,
    TWO,
    actor,
    dump,
    hub,
    message_of,
    routes_of,
    tables_of,
)


@pytest.fixture
def tables() -> Tables:
    return Tables()


# -- identities, nodes and routes


def test_the_first_byte_tells_a_hub_from_an_actor() -> None:
    assert (is_hub(hub(1)), is_actor(hub(1))) == (True, False)
    assert (is_hub(actor(1)), is_actor(actor(1))) == (False, True)
    assert (is_hub(b""), is_actor(b"")) == (False, False)


def test_an_actor_is_reached_by_each_contract_once_and_a_hub_by_itself() -> None:
    assert keys_of(actor(1), [GREET, BYE, GREET]) == (GREET, BYE)
    assert keys_of(hub(1), []) == keys_of(hub(1), [GREET]) == (None,)


@pytest.mark.parametrize("receiver", [b"", b"\x02other", b"plain text"])
def test_a_receiver_that_is_neither_hub_nor_actor_is_refused(receiver: bytes) -> None:
    with pytest.raises(SettingsError, match=r"neither a hub .* nor an actor"):
        keys_of(receiver, [GREET])


def test_a_node_elsewhere_needs_an_identity() -> None:
    with pytest.raises(SettingsError, match="needs an identity"):
        RemoteNode(b"")


# -- receivers of this node


def actors_of(tables: Tables) -> list[bytes]:
    return [route.receiver for route in tables.local.handlers_of(GREET)]


def test_a_hub_is_found_by_its_identity(tables: Tables) -> None:
    assert tables.local.register(hub(1)) == [Route(b"", hub(1))]
    assert hub(1) in tables.local
    assert hub(2) not in tables.local


def test_an_actor_is_found_by_its_identity_and_by_its_contracts(tables: Tables) -> None:
    tables.local.register(actor(1), [GREET, BYE])
    tables.local.register(actor(2), [GREET])
    assert actor(1) in tables.local
    assert actors_of(tables) == [actor(1), actor(2)]
    assert tables.local.handlers_of(BYE) == [Route(b"", actor(1), BYE)]
    assert tables.local.handlers_of(PART) == []


def test_the_local_only_flag_is_kept_for_each_hub_and_each_contract(tables: Tables) -> None:
    tables.local.register(hub(1), is_local_only=True)
    tables.local.register(hub(2))
    tables.local.register(actor(1), [GREET], is_local_only=True)
    tables.local.register(actor(1), [BYE])
    flags = {(route.receiver, route.contract): route.is_local_only for route in tables.local.routes()}
    assert flags == {(hub(1), None): True, (hub(2), None): False, (actor(1), GREET): True, (actor(1), BYE): False}
    assert tables.local.public_routes() == [Route(b"", hub(2)), Route(b"", actor(1), BYE)]
    assert tables.local.handlers_of(GREET) == [Route(b"", actor(1), GREET, is_local_only=True)]


def test_registering_a_receiver_again_changes_nothing_and_says_so(tables: Tables) -> None:
    assert len(tables.local.register(actor(1), [GREET, BYE])) == 2
    before = dump(tables)
    assert tables.local.register(actor(1), [BYE, GREET, GREET]) == []
    assert dump(tables) == before
    assert tables.local.register(actor(1), [GREET, PART]) == [Route(b"", actor(1), PART)]


def test_registering_again_with_another_flag_changes_the_flag_alone(tables: Tables) -> None:
    tables.local.register(actor(1), [GREET, BYE])
    assert tables.local.register(actor(1), [GREET], is_local_only=True) == [Route(b"", actor(1), GREET, True)]
    assert tables.local.public_routes() == [Route(b"", actor(1), BYE)]
    assert actors_of(tables) == [actor(1)]


@pytest.mark.parametrize("receiver", [b"", b"\x02other"])
def test_a_receiver_here_that_is_neither_hub_nor_actor_is_refused(tables: Tables, receiver: bytes) -> None:
    with pytest.raises(SettingsError):
        tables.local.register(receiver, [GREET])
    assert dump(tables) == dump(Tables())


def test_an_actor_without_contracts_is_not_in_the_table(tables: Tables) -> None:
    assert tables.local.register(actor(1)) == []
    assert actor(1) not in tables.local
    tables.local.register(actor(1), [GREET])
    tables.local.unregister(actor(1), [GREET])
    assert actor(1) not in tables.local


def test_removing_a_receiver_removes_all_its_routes_and_gives_them(tables: Tables) -> None:
    tables.local.register(actor(1), [GREET, BYE])
    tables.local.register(actor(2), [GREET])
    tables.local.register(hub(1), is_local_only=True)
    assert tables.local.unregister(actor(1)) == [Route(b"", actor(1), GREET), Route(b"", actor(1), BYE)]
    assert tables.local.unregister(hub(1)) == [Route(b"", hub(1), None, is_local_only=True)]
    assert tables.local.routes() == [Route(b"", actor(2), GREET)]
    assert actors_of(tables) == [actor(2)]


def test_removing_one_contract_leaves_the_other_contracts_and_the_other_actors(tables: Tables) -> None:
    tables.local.register(actor(1), [GREET, BYE])
    tables.local.register(actor(2), [GREET])
    assert tables.local.unregister(actor(1), [GREET, PART, GREET]) == [Route(b"", actor(1), GREET)]
    assert tables.local.routes() == [Route(b"", actor(1), BYE), Route(b"", actor(2), GREET)]


def test_removing_a_receiver_that_is_not_there_changes_nothing(tables: Tables) -> None:
    tables.local.register(actor(1), [GREET])
    before = dump(tables)
    assert tables.local.unregister(actor(2)) == tables.local.unregister(actor(1), [BYE]) == []
    assert tables.local.unregister(b"\x02other", [GREET]) == []
    assert dump(tables) == before


def test_a_named_actor_takes_what_has_a_version_that_it_handles_and_a_hub_takes_all(tables: Tables) -> None:
    tables.local.register(actor(1), [GREET])
    tables.local.register(hub(1))
    assert tables.local.accepts(actor(1), GREET)
    assert tables.local.accepts(actor(1), PART)
    assert tables.local.accepts(actor(1), (b"never heard of", 1, b""))
    assert not tables.local.accepts(actor(1), (b"greet", 2, b""))
    assert not tables.local.accepts(actor(1), (b"greet", b"1", b""))
    assert tables.local.accepts(hub(1), BYE)


# -- nodes elsewhere


def test_an_actor_is_found_by_its_contract_its_node_and_its_identity(tables: Tables) -> None:
    assert tables.remote.register(ONE, actor(1), [GREET, BYE]) == [
        Route(ONE.identity, actor(1), GREET),
        Route(ONE.identity, actor(1), BYE),
    ]
    assert tables.remote.handlers_of(GREET) == [Route(ONE.identity, actor(1), GREET)]
    assert tables.remote.nodes_of(actor(1)) == (ONE.identity,)
    assert tables.remote.node(ONE.identity) == ONE
    assert tables.remote.handlers_of(PART) == []


def test_a_hub_is_found_by_its_node_and_its_identity(tables: Tables) -> None:
    assert tables.remote.register(ONE, hub(1)) == [Route(ONE.identity, hub(1))]
    assert tables.remote.nodes_of(hub(1)) == (ONE.identity,)
    assert routes_of(tables.remote, ONE.identity) == [Route(ONE.identity, hub(1))]


def test_everything_of_each_node_can_be_listed(tables: Tables) -> None:
    tables.remote.register(ONE, hub(1))
    tables.remote.register(ONE, actor(1), [GREET])
    tables.remote.register(TWO, actor(2), [GREET, BYE])
    assert tables.remote.nodes() == [ONE, TWO]
    assert routes_of(tables.remote, ONE.identity) == [
        Route(ONE.identity, hub(1)),
        Route(ONE.identity, actor(1), GREET),
    ]
    assert [route.contract for route in routes_of(tables.remote, TWO.identity)] == [GREET, BYE]
    assert routes_of(tables.remote, b"nobody") == []


def test_registering_a_node_again_changes_nothing_and_says_so(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    tables.remote.register(ONE, hub(1))
    before = dump(tables)
    assert tables.remote.register(ONE, actor(1), [GREET, GREET]) == tables.remote.register(ONE, hub(1)) == []
    assert tables.remote.register(ONE) == []
    assert dump(tables) == before


def test_a_node_that_moved_is_found_at_its_new_address_with_its_routes(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    moved = replace(ONE, uris=("tcp://10.9.9.9:1",))
    tables.remote.register(moved, hub(1))
    assert tables.remote.node(ONE.identity) == moved
    assert tables.remote.nodes_at(ONE.uris[0]) == ()
    assert tables.remote.nodes_at("tcp://10.9.9.9:1") == (ONE.identity,)
    assert len(routes_of(tables.remote, ONE.identity)) == 2


def test_a_node_that_was_born_again_has_only_the_routes_of_its_new_life(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    born_again = replace(ONE, incarnation=1)
    tables.remote.register(born_again, actor(2), [BYE])
    assert routes_of(tables.remote, ONE.identity) == [Route(ONE.identity, actor(2), BYE)]
    assert GREET not in tables.candidates


def test_an_announcement_from_a_former_life_changes_nothing(tables: Tables) -> None:
    tables.remote.register(replace(ONE, incarnation=2), actor(1), [GREET])
    before = dump(tables)
    assert tables.remote.register(replace(ONE, incarnation=1, uris=("tcp://old:1",)), actor(2), [BYE]) == []
    assert dump(tables) == before


def test_an_address_may_be_given_twice(tables: Tables) -> None:
    tables.remote.register(RemoteNode(b"n", ("tcp://a:1", "tcp://a:1")))
    assert tables.remote.nodes_at("tcp://a:1") == (b"n",)
    tables.remote.unregister_node(b"n")
    assert dump(tables) == dump(Tables())


def test_removing_a_node_removes_everything_of_it_and_nothing_else(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET, BYE])
    tables.remote.register(ONE, hub(1))
    tables.remote.register(TWO, actor(2), [GREET])
    assert tables.remote.unregister_node(ONE.identity) == ONE
    assert ONE.identity not in tables.remote
    assert tables.remote.nodes_of(hub(1)) == ()
    assert tables.remote.handlers_of(GREET) == [Route(TWO.identity, actor(2), GREET)]
    assert BYE not in tables.candidates


def test_the_address_of_a_removed_node_tells_whether_another_node_lives_there(tables: Tables) -> None:
    tables.remote.register(ONE)
    tables.remote.register(RemoteNode(b"neighbour", ONE.uris))
    tables.remote.unregister_node(ONE.identity)
    assert tables.remote.nodes_at(ONE.uris[0]) == (b"neighbour",)
    tables.remote.unregister_node(b"neighbour")
    assert tables.remote.nodes_at(ONE.uris[0]) == ()


def test_removing_one_contract_of_an_actor_leaves_no_trace_when_its_node_goes_later(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET, BYE])
    assert tables.remote.unregister(ONE.identity, actor(1), [GREET]) == [Route(ONE.identity, actor(1), GREET)]
    assert routes_of(tables.remote, ONE.identity) == [Route(ONE.identity, actor(1), BYE)]
    tables.remote.unregister_node(ONE.identity)
    assert decide(message_of(GREET), tables, HERE).reason == "no_route"
    assert dump(tables) == dump(Tables())


def test_removing_one_of_two_actors_leaves_the_route_to_the_other(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    tables.remote.register(ONE, actor(2), [GREET])
    tables.remote.unregister(ONE.identity, actor(1))
    assert decide(message_of(GREET), tables, HERE).nodes == (ONE.identity,)
    assert tables.remote.handlers_of(GREET) == [Route(ONE.identity, actor(2), GREET)]


def test_removing_a_contract_without_a_receiver_removes_it_from_all_actors_of_the_node(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET, BYE])
    tables.remote.register(ONE, actor(2), [GREET])
    tables.remote.register(ONE, hub(1))
    tables.remote.register(TWO, actor(3), [GREET])
    assert len(tables.remote.unregister(ONE.identity, contracts=[GREET])) == 2
    assert tables.remote.handlers_of(GREET) == [Route(TWO.identity, actor(3), GREET)]
    assert routes_of(tables.remote, ONE.identity) == [
        Route(ONE.identity, actor(1), BYE),
        Route(ONE.identity, hub(1)),
    ]


@pytest.mark.parametrize("contracts", [None, [], [GREET]])
def test_removing_a_hub_leaves_the_other_hubs_and_needs_no_contracts(
    tables: Tables, contracts: list[Contract] | None
) -> None:
    tables.remote.register(ONE, hub(1))
    tables.remote.register(ONE, hub(2))
    tables.remote.unregister(ONE.identity, hub(1), contracts)
    assert routes_of(tables.remote, ONE.identity) == [Route(ONE.identity, hub(2))]


def test_a_node_without_routes_can_still_be_named(tables: Tables) -> None:
    tables.remote.register(ONE, hub(1))
    tables.remote.unregister(ONE.identity, hub(1))
    direct = message_of(GREET, receiver_node_identity=ONE.identity, receiver_identity=hub("never announced"))
    assert decide(direct, tables, HERE).nodes == (ONE.identity,)


def test_removing_a_node_that_is_not_there_changes_nothing(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    before = dump(tables)
    assert tables.remote.unregister_node(TWO.identity) is None
    assert tables.remote.unregister_node(b"") is None
    assert tables.remote.unregister(TWO.identity) == tables.remote.unregister(ONE.identity, actor(2)) == []
    assert tables.remote.unregister(ONE.identity, actor(1), [BYE]) == []
    assert dump(tables) == before


def test_a_receiver_that_is_neither_hub_nor_actor_is_refused_before_its_node_is_known(tables: Tables) -> None:
    with pytest.raises(SettingsError):
        tables.remote.register(ONE, b"\x02other", [GREET])
    assert dump(tables) == dump(Tables())


def test_a_receiver_that_two_nodes_announced_stays_on_each_and_the_latest_comes_first(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    tables.remote.register(TWO, actor(1), [GREET])
    tables.remote.register(ONE, actor(1), [BYE])
    assert tables.remote.nodes_of(actor(1)) == (TWO.identity, ONE.identity)
    tables.remote.unregister_node(TWO.identity)
    assert tables.remote.nodes_of(actor(1)) == (ONE.identity,)


# -- any order of operations


ACTORS = st.sampled_from([actor(number) for number in range(4)])
RECEIVERS = st.sampled_from([hub(1), hub(2), *(actor(number) for number in range(4))])
IDENTITIES = st.sampled_from([b"n1", b"n2", b"n3"])
SOME_CONTRACTS = st.lists(st.sampled_from(CONTRACTS), min_size=1, max_size=3)
ALL_OR_SOME = st.none() | SOME_CONTRACTS
URIS = st.lists(st.sampled_from(["tcp://a:1", "tcp://b:1"]), max_size=2).map(tuple)
LIVES = st.integers(0, 2)

Keys = dict[Contract | None, bool]


def keys_for(receiver: bytes, contracts: Sequence[Contract]) -> list[Contract | None]:
    return [None] if receiver.startswith(b"\x00") else list(contracts)


def removed(keys: Keys, receiver: bytes, contracts: Sequence[Contract] | None) -> Keys:
    gone = list(keys) if contracts is None else keys_for(receiver, contracts)
    return {key: flag for key, flag in keys.items() if key not in gone}


class AnyOrder(RuleBasedStateMachine):
    """Real tables beside a plain list of what is registered."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = Tables()
        self.local: dict[bytes, Keys] = {}
        self.nodes: dict[bytes, tuple[RemoteNode, dict[bytes, Keys]]] = {}

    @rule(receiver=RECEIVERS, contracts=SOME_CONTRACTS, flag=st.booleans())
    def register_here(self, receiver: bytes, contracts: list[Contract], flag: bool) -> None:
        self.tables.local.register(receiver, contracts, is_local_only=flag)
        self.local.setdefault(receiver, {}).update(dict.fromkeys(keys_for(receiver, contracts), flag))

    @rule(receiver=RECEIVERS, contracts=ALL_OR_SOME)
    def unregister_here(self, receiver: bytes, contracts: list[Contract] | None) -> None:
        self.tables.local.unregister(receiver, contracts)
        self.local[receiver] = removed(self.local.get(receiver, {}), receiver, contracts)

    @rule(identity=IDENTITIES, uris=URIS, life=LIVES, receiver=RECEIVERS, contracts=SOME_CONTRACTS)
    def register_there(
        self, identity: bytes, uris: tuple[str, ...], life: int, receiver: bytes, contracts: list[Contract]
    ) -> None:
        node = RemoteNode(identity, uris, life)
        self.tables.remote.register(node, receiver, contracts)
        known, receivers = self.nodes.get(identity, (node, {}))
        if known.incarnation <= life:
            receivers = receivers if known.incarnation == life else {}
            receivers.setdefault(receiver, {}).update(dict.fromkeys(keys_for(receiver, contracts), False))
            self.nodes[identity] = node, receivers

    @rule(identity=IDENTITIES, receiver=RECEIVERS, contracts=ALL_OR_SOME)
    def unregister_there(self, identity: bytes, receiver: bytes, contracts: list[Contract] | None) -> None:
        self.tables.remote.unregister(identity, receiver, contracts)
        _, receivers = self.nodes.get(identity, (None, {}))
        receivers[receiver] = removed(receivers.get(receiver, {}), receiver, contracts)

    @rule(identity=IDENTITIES, contracts=SOME_CONTRACTS)
    def unregister_contracts_of_a_node(self, identity: bytes, contracts: list[Contract]) -> None:
        self.tables.remote.unregister(identity, contracts=contracts)
        _, receivers = self.nodes.get(identity, (None, {}))
        for receiver, keys in receivers.items():
            if None not in keys:
                receivers[receiver] = removed(keys, receiver, contracts)

    @rule(identity=IDENTITIES)
    def unregister_node(self, identity: bytes) -> None:
        self.tables.remote.unregister_node(identity)
        self.nodes.pop(identity, None)

    @rule(contract=st.sampled_from(CONTRACTS), excluded=st.sets(ACTORS | IDENTITIES))
    def take_a_turn(self, contract: Contract, excluded: set[bytes]) -> None:
        if candidates := self.tables.candidates.get(contract):
            candidates.is_remote_turn()
            candidates.local.pick(excluded)
            candidates.remote.pick(excluded)

    @invariant()
    def equals_tables_built_afresh(self) -> None:
        fresh = Tables()
        for receiver, keys in self.local.items():
            for key, flag in keys.items():
                fresh.local.register(receiver, [key] if key else (), is_local_only=flag)
        for node, receivers in self.nodes.values():
            fresh.remote.register(node)
            for receiver, keys in receivers.items():
                for key in keys:
                    fresh.remote.register(node, receiver, [key] if key else ())
        assert dump(self.tables) == dump(fresh)


@pytest.mark.slow
@pytest.mark.usefixtures("is_long")  # so that `make long` chooses it
def test_any_order_of_operations_leaves_tables_as_if_built_afresh() -> None:
    run_state_machine_as_test(AnyOrder, settings=settings(stateful_step_count=40))


def test_who_handles_a_contract_is_told_by_both_tables_those_here_first() -> None:
    tables = tables_of([actor("here")], [(ONE, actor("there"))])
    assert tables.handlers_of(GREET) == [
        Route(b"", actor("here"), GREET),
        Route(ONE.identity, actor("there"), GREET),
    ]
