"""A small world for the routing tests: identities, contracts, and the tables written out in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopwire.model import Contract, Message
from hopwire.routing import RemoteNode, RemoteTable, Route, Tables

HERE = b"node-here"
GREET, PART, BYE = Contract(b"greet", 1, b""), Contract(b"greet", 1, b"east"), Contract(b"bye", 2, b"")
CONTRACTS = (GREET, PART, BYE)
NODES = tuple(RemoteNode(b"node-%d" % number, (f"tcp://10.0.0.{number}:7400",)) for number in range(1, 6))
ONE, TWO, THREE = NODES[:3]


def actor(name: object) -> bytes:
    return b"\x01actor-%s" % str(name).encode()


def hub(name: object) -> bytes:
    return b"\x00hub-%s" % str(name).encode()


def message_of(contract: Contract, **fields: Any) -> Message:
    return Message(identity=contract.identity, version=contract.version, partition=contract.partition, **fields)


def tables_of(local: Iterable[bytes] = (), remote: Iterable[tuple[RemoteNode, bytes]] = ()) -> Tables:
    """Tables in which every actor handles GREET."""
    tables = Tables()
    for receiver in local:
        tables.local.register(receiver, [GREET])
    for node, receiver in remote:
        tables.remote.register(node, receiver, [GREET])
    return tables


def routes_of(remote: RemoteTable, node: bytes) -> list[Route]:
    """Everything that a node announced."""
    known = remote._nodes.get(node)
    receivers = known.receivers if known else {}
    return [Route(node, receiver, key) for receiver, keys in receivers.items() for key in keys]


def dump(tables: Tables) -> dict[str, Any]:
    """Everything that the tables hold, each index apart, without the order of turns."""
    local, remote = tables.local, tables.remote
    return {
        "local": {receiver: dict(known) for receiver, known in local._receivers.items()},
        "nodes": {identity: (known.node, known.receivers) for identity, known in remote._nodes.items()},
        "homes": {receiver: set(nodes) for receiver, nodes in remote._homes.items()},
        "at": {uri: set(nodes) for uri, nodes in remote._at.items()},
        "turns": {
            contract: [{each: side.weight(each) for each in side} for side in (candidates.local, candidates.remote)]
            for contract, candidates in tables.candidates.items()
        },
        "totals": {
            contract: (candidates.local.total, candidates.remote.total)
            for contract, candidates in tables.candidates.items()
        },
    }
