"""What other nodes announced: where they are, their hubs, their actors and the contracts of these.

| asked to register a node that is | then |
|---|---|
| unknown | it is added |
| known, with other addresses | the new addresses hold |
| known, in an earlier incarnation | the routes of its earlier life go, then as above |
| known, in a later incarnation | nothing changes: the announcement comes from a former life |

A node stays until it is unregistered, also without routes: it can be named, and answers go to hubs that nobody
announced. Whether to connect or to disconnect is decided elsewhere; `nodes_at` tells who else lives at an address.

The trap: one receiver may be announced by two nodes, such as a process that restarted under a new node identity. Each
keeps its own, and the latest is asked first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from hopwire.model import Contract
from hopwire.model.names import is_hub
from hopwire.routing.routes import RemoteNode, Route, keys_of
from hopwire.routing.turns import CandidateIndex

__all__ = ["RemoteTable"]

K = TypeVar("K", bound=Hashable)


class _NodeRoutes:
    __slots__ = ("node", "receivers")

    def __init__(self, node: RemoteNode) -> None:
        self.node = node
        self.receivers: dict[bytes, dict[Contract | None, None]] = {}  # in order, as announced


class RemoteTable:
    """Nodes elsewhere, and who lives there."""

    __slots__ = ("_at", "_homes", "_index", "_peers")

    def __init__(self, index: CandidateIndex) -> None:
        self._index = index
        self._peers: dict[bytes, _NodeRoutes] = {}
        self._homes: dict[bytes, tuple[bytes, ...]] = {}  # receiver -> its nodes, the latest first
        self._at: dict[str, tuple[bytes, ...]] = {}  # uri -> the nodes that listen there

    def __contains__(self, node: bytes) -> bool:
        return node in self._peers

    def register(self, node: RemoteNode, receiver: bytes = b"", contracts: Iterable[Contract] = ()) -> list[Route]:
        """Add or update a node, with it a hub, or contracts of an actor; give the routes that are new."""
        keys = keys_of(receiver, contracts) if receiver else ()
        if not self._admit(node):
            return []
        receivers = self._peers[node.identity].receivers
        known = receivers.get(receiver, {})
        new = [key for key in keys if key not in known]
        if new and not known:
            receivers[receiver] = known
            _add(self._homes, receiver, node.identity)
        for key in new:
            known[key] = None
            if key is not None:
                self._index.add_remote(key, node.identity)
        return [Route(node.identity, receiver, key) for key in new]

    def unregister(
        self, node: bytes, receiver: bytes = b"", contracts: Iterable[Contract] | None = None
    ) -> list[Route]:
        """Remove a receiver of a node, or only some contracts; without a receiver, from all that live there."""
        peer = self._peers.get(node)
        if peer is None:
            return []
        keys = None if contracts is None or is_hub(receiver) else tuple(contracts)
        receivers = (receiver,) if receiver else tuple(peer.receivers)
        return [route for each in receivers for route in self._withdraw(node, each, keys)]

    def unregister_node(self, node: bytes) -> RemoteNode | None:
        """Remove a node and everything of it; give the node, or None if it was not known."""
        peer = self._peers.get(node)
        if peer is None:
            return None
        self.unregister(node)
        del self._peers[node]
        for uri in peer.node.uris:
            _remove(self._at, uri, node)
        return peer.node

    def node(self, identity: bytes) -> RemoteNode | None:
        """Give the node of that identity, or None."""
        peer = self._peers.get(identity)
        return peer.node if peer else None

    def nodes(self) -> list[RemoteNode]:
        """Give all nodes."""
        return [peer.node for peer in self._peers.values()]

    def nodes_at(self, uri: str) -> tuple[bytes, ...]:
        """Give the nodes that listen at an address."""
        return self._at.get(uri, ())

    def nodes_of(self, receiver: bytes) -> tuple[bytes, ...]:
        """Give the nodes on which a receiver lives, the latest first."""
        return self._homes.get(receiver, ())

    def routes_of(self, node: bytes) -> list[Route]:
        """Give everything that a node announced."""
        peer = self._peers.get(node)
        receivers = peer.receivers if peer else {}
        return [Route(node, receiver, key) for receiver, keys in receivers.items() for key in keys]

    def handlers_of(self, contract: Contract) -> list[Route]:
        """Give the routes to the actors that handle a contract; costs a look at every actor of their nodes."""
        candidates = self._index.get(contract)
        nodes = candidates.remote if candidates else ()
        lives = [(node, receiver, keys) for node in nodes for receiver, keys in self._peers[node].receivers.items()]
        return [Route(node, receiver, contract) for node, receiver, keys in lives if contract in keys]

    def _admit(self, node: RemoteNode) -> bool:
        known = self.node(node.identity)
        if known == node:
            return True
        if known and known.incarnation > node.incarnation:
            return False
        if known and known.incarnation < node.incarnation:
            self.unregister_node(node.identity)
        for uri in known.uris if known else ():
            _remove(self._at, uri, node.identity)
        for uri in node.uris:
            _add(self._at, uri, node.identity)
        self._peers.setdefault(node.identity, _NodeRoutes(node)).node = node
        return True

    def _withdraw(self, node: bytes, receiver: bytes, keys: tuple[Contract, ...] | None) -> list[Route]:
        receivers = self._peers[node].receivers
        known = receivers.get(receiver, {})
        gone = [key for key in (known if keys is None else dict.fromkeys(keys)) if key in known]
        for key in gone:
            del known[key]
            if key is not None:
                self._index.remove_remote(key, node)
        if gone and not known:
            del receivers[receiver]
            _remove(self._homes, receiver, node)
        return [Route(node, receiver, key) for key in gone]


def _add(index: dict[K, tuple[bytes, ...]], key: K, node: bytes) -> None:
    index[key] = (node, *(other for other in index.get(key, ()) if other != node))


def _remove(index: dict[K, tuple[bytes, ...]], key: K, node: bytes) -> None:
    rest = tuple(other for other in index.pop(key, ()) if other != node)
    if rest:
        index[key] = rest
