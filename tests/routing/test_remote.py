"""The remote table: nodes, where they are and who lives there; one removal never damages another route."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hopwire.errors import SettingsError
from hopwire.model import Contract
from hopwire.routing import RemoteNode, Route, Tables, decide
from tests.routing.network import BYE, GREET, HERE, ONE, PART, TWO, actor, dump, hub, message_of


@pytest.fixture
def tables() -> Tables:
    return Tables()


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
    assert tables.remote.routes_of(ONE.identity) == [Route(ONE.identity, hub(1))]


def test_everything_of_each_node_can_be_listed(tables: Tables) -> None:
    tables.remote.register(ONE, hub(1))
    tables.remote.register(ONE, actor(1), [GREET])
    tables.remote.register(TWO, actor(2), [GREET, BYE])
    assert tables.remote.nodes() == [ONE, TWO]
    assert tables.remote.routes_of(ONE.identity) == [
        Route(ONE.identity, hub(1)),
        Route(ONE.identity, actor(1), GREET),
    ]
    assert [route.contract for route in tables.remote.routes_of(TWO.identity)] == [GREET, BYE]
    assert tables.remote.routes_of(b"nobody") == []


def test_registering_again_changes_nothing_and_says_so(tables: Tables) -> None:
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
    assert len(tables.remote.routes_of(ONE.identity)) == 2


def test_a_node_that_was_born_again_has_only_the_routes_of_its_new_life(tables: Tables) -> None:
    tables.remote.register(ONE, actor(1), [GREET])
    born_again = replace(ONE, incarnation=1)
    tables.remote.register(born_again, actor(2), [BYE])
    assert tables.remote.routes_of(ONE.identity) == [Route(ONE.identity, actor(2), BYE)]
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
    assert tables.remote.routes_of(ONE.identity) == [Route(ONE.identity, actor(1), BYE)]
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
    assert tables.remote.routes_of(ONE.identity) == [
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
    assert tables.remote.routes_of(ONE.identity) == [Route(ONE.identity, hub(2))]


def test_a_node_without_routes_can_still_be_named(tables: Tables) -> None:
    tables.remote.register(ONE, hub(1))
    tables.remote.unregister(ONE.identity, hub(1))
    direct = message_of(GREET, receiver_node_identity=ONE.identity, receiver_identity=hub("never announced"))
    assert decide(direct, tables, HERE).nodes == (ONE.identity,)


def test_removing_what_is_not_there_changes_nothing(tables: Tables) -> None:
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
