"""The local table: what is registered is found, with its flag, and what is removed is gone, alone."""

from __future__ import annotations

import pytest

from hopwire.errors import SettingsError
from hopwire.routing import Route, Tables
from tests.routing.network import BYE, GREET, PART, actor, dump, hub


@pytest.fixture
def tables() -> Tables:
    return Tables()


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


def test_registering_again_changes_nothing_and_says_so(tables: Tables) -> None:
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
def test_a_receiver_that_is_neither_hub_nor_actor_is_refused(tables: Tables, receiver: bytes) -> None:
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


def test_removing_what_is_not_there_changes_nothing(tables: Tables) -> None:
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
