"""The tables under any sequence of operations equal tables built afresh from what is still registered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hopwire.model import Contract
from hopwire.routing import RemoteNode, Route, Tables
from tests.routing.network import CONTRACTS, GREET, ONE, actor, dump, hub, tables_of

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
def test_any_order_of_operations_leaves_tables_as_if_built_afresh() -> None:
    run_state_machine_as_test(AnyOrder, settings=settings(max_examples=100, stateful_step_count=40, deadline=None))


def test_who_handles_a_contract_is_told_by_both_tables_those_here_first() -> None:
    tables = tables_of([actor("here")], [(ONE, actor("there"))])
    assert tables.handlers_of(GREET) == [
        Route(b"", actor("here"), GREET),
        Route(ONE.identity, actor("there"), GREET),
    ]
