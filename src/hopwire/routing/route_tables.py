"""Who can be reached: receivers here, receivers on other nodes, and an index of both by contract.

    tables.local        receiver -> contract -> flag       the truth about this node
    tables.remote       node -> receiver -> contracts      what other nodes announced
    tables.candidates   contract -> actors, nodes          who takes turns; derived from the other two
    tables.rings        contract -> actors                 who has which keys; derived too, where it is needed

The tables are one mutable object with one owner: the thread that decides is also the thread that registers, and no
other thread reads the tables. Another thread asks the owner for routes, which are values. Persistent tables could be
read by any thread, but every lookup and every registration would be slower.

Rules for every operation:
- An operation is idempotent. It returns what changed, so that the caller announces the change and no more.
- Whatever the order of operations, the tables equal tables that are built afresh from what is registered now.
- A lookup and a registration cost the same at one route and at a million. A removal costs as much as it removes.

What an operation writes into `candidates` and `rings`, its opposite takes out; they change together. So does
`remote.imported`, which knows the routes that lead to partner networks (`borders.py`).

Receivers. The first byte of an identity tells whether a receiver is a hub or an actor (`model/names.py`). A hub has
one route of its own, an actor has one route for each contract. A receiver is in a table as long as it has a route. An
identity that is not set is b"". As the node of a route, b"" means this node.

Local-only routes are not announced. The flag says who is told, not who may call: a message that names the receiver,
or arrives with the contract, is delivered.

Nodes elsewhere:

| the node to register is | what happens |
|---|---|
| unknown | the node is added |
| known, with other addresses | the new addresses hold |
| known, in an earlier incarnation | the routes of the earlier incarnation go, then the node is added |
| known, in a later incarnation | nothing: the announcement is older than what is known |

A node stays until it is unregistered, even without routes: a message may name the node, and answers go to hubs that
were never announced. Whether to connect or to disconnect is decided in `cluster/`; `nodes_at` tells which nodes share
an address.

The trap: two nodes may announce the same receiver, for example a process that restarted under a new node identity.
Each node keeps its own route, and the node that announced last is asked first.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from hopwire.errors import SettingsError
from hopwire.model import Contract
from hopwire.model.choice import Choice
from hopwire.model.names import is_actor, is_hub, partner_of
from hopwire.routing.choosing import MOST_KEPT, Rings
from hopwire.routing.turns import MOST_TURNS, CandidateIndex, ContractKey, Load

__all__ = ["LocalTable", "RemoteNode", "RemoteTable", "Route", "Tables", "keys_of"]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RemoteNode:
    """Another node: its identity, the addresses where it listens, and its incarnation, which grows with each start."""

    identity: bytes
    uris: tuple[str, ...] = ()
    incarnation: int = 0

    def __post_init__(self) -> None:
        if not self.identity:
            raise SettingsError("a node elsewhere needs an identity, found an empty one")


class Route(NamedTuple):
    """One way to a receiver: a hub is reached by its identity, an actor by a contract."""

    node: bytes
    receiver: bytes
    contract: Contract | None = None
    is_local_only: bool = False


def keys_of(receiver: bytes, contracts: Iterable[Contract]) -> tuple[Contract | None, ...]:
    """Give the keys of a receiver: each contract of an actor once; a single None for a hub, whatever its contracts."""
    if is_actor(receiver):
        return tuple(dict.fromkeys(contracts))
    if is_hub(receiver):
        return (None,)
    raise SettingsError(f"receiver {receiver!r:.80} is neither a hub (first byte 0) nor an actor (first byte 1)")


class LocalTable:
    """Hubs and actors of this node."""

    __slots__ = ("_index", "_receivers", "_rings")

    def __init__(self, index: CandidateIndex, rings: Rings) -> None:
        self._index, self._rings = index, rings
        self._receivers: dict[bytes, dict[Contract | None, bool]] = {}

    def __contains__(self, receiver: bytes) -> bool:
        return receiver in self._receivers

    def register(
        self, receiver: bytes, contracts: Iterable[Contract] = (), *, is_local_only: bool = False
    ) -> list[Route]:
        """Add a hub, or contracts of an actor; give the routes that are new or have another flag than before."""
        known = self._receivers.get(receiver, {})
        changed = [key for key in keys_of(receiver, contracts) if known.get(key) is not is_local_only]
        for key in changed:
            if key is not None and key not in known:
                self._index.add_local(key, receiver)
            if key is not None and self._rings:
                if key in known:
                    self._rings.remove(key, receiver, known[key])
                self._rings.add(key, receiver, is_local_only)
            known[key] = is_local_only
        if changed:
            self._receivers[receiver] = known
        return [Route(b"", receiver, key, is_local_only) for key in changed]

    def unregister(self, receiver: bytes, contracts: Iterable[Contract] | None = None) -> list[Route]:
        """Remove a receiver, or only some contracts of an actor; give the routes that are gone."""
        known = self._receivers.get(receiver)
        if known is None:
            return []
        keys = tuple(known) if contracts is None else keys_of(receiver, contracts)
        gone = []
        for key in keys:
            if key in known:
                gone.append(Route(b"", receiver, key, known.pop(key)))
                if key is not None:
                    self._index.remove_local(key, receiver)
                    if self._rings:
                        self._rings.remove(key, receiver, gone[-1].is_local_only)
        if not known:
            del self._receivers[receiver]
        return gone

    def accepts(self, receiver: bytes, contract: ContractKey) -> bool | None:
        """Tell whether a named receiver takes a message; None if there is no such receiver.

        A hub takes any message. An actor takes a message whose version is that of one of the actor's contracts.
        """
        known = self._receivers.get(receiver)
        if known is None:
            return None
        if None in known or contract in known:
            return True
        _, version, _ = contract
        return any(key is not None and key.version == version for key in known)

    def routes(self) -> list[Route]:
        """Give all routes."""
        return [Route(b"", receiver, *item) for receiver, known in self._receivers.items() for item in known.items()]

    def public_routes(self) -> list[Route]:
        """Give the routes that other nodes may know."""
        return [route for route in self.routes() if not route.is_local_only]

    def handlers_of(self, contract: Contract) -> list[Route]:
        """Give the routes to the actors that handle a contract."""
        candidates = self._index.get(contract)
        actors = candidates.local if candidates else ()
        return [Route(b"", actor, contract, self._receivers[actor][contract]) for actor in actors]


class _NodeRoutes:
    """What one node announced."""

    __slots__ = ("node", "receivers")

    def __init__(self, node: RemoteNode) -> None:
        self.node = node
        self.receivers: dict[bytes, dict[Contract | None, None]] = {}  # in order, as announced


class RemoteTable:
    """Nodes elsewhere, and who lives there."""

    __slots__ = ("_at", "_homes", "_index", "_nodes", "_rings", "imported")

    def __init__(self, index: CandidateIndex, rings: Rings) -> None:
        self._index, self._rings = index, rings
        self._nodes: dict[bytes, _NodeRoutes] = {}
        self._homes: dict[bytes, tuple[bytes, ...]] = {}  # receiver -> its nodes, the latest first
        self._at: dict[str, tuple[bytes, ...]] = {}  # uri -> the nodes that listen there
        # contract -> node -> actors there that stand in for those of a partner network
        self.imported: dict[ContractKey, dict[bytes, tuple[bytes, ...]]] = {}

    def __contains__(self, node: bytes) -> bool:
        return node in self._nodes

    def register(self, node: RemoteNode, receiver: bytes = b"", contracts: Iterable[Contract] = ()) -> list[Route]:
        """Add or update a node, and with the node a hub or contracts of an actor; give the routes that are new."""
        keys = keys_of(receiver, contracts) if receiver else ()
        if not self._admit(node):
            return []
        receivers = self._nodes[node.identity].receivers
        known = receivers.get(receiver, {})
        new = [key for key in keys if key not in known]
        if new and not known:
            receivers[receiver] = known
            _add(self._homes, receiver, node.identity)
        for key in new:
            known[key] = None
            if key is not None:
                self._index.add_remote(key, node.identity)
                if partner_of(receiver):
                    _add(self.imported.setdefault(key, {}), node.identity, receiver)
                if self._rings:
                    self._rings.add(key, receiver)
        return [Route(node.identity, receiver, key) for key in new]

    def unregister(
        self, node: bytes, receiver: bytes = b"", contracts: Iterable[Contract] | None = None
    ) -> list[Route]:
        """Remove a receiver of a node, or only some of its contracts; without a receiver, those of all receivers."""
        known = self._nodes.get(node)
        if known is None:
            return []
        keys = None if contracts is None or is_hub(receiver) else tuple(contracts)
        receivers = (receiver,) if receiver else tuple(known.receivers)
        return [route for each in receivers for route in self._withdraw(node, each, keys)]

    def unregister_node(self, node: bytes) -> RemoteNode | None:
        """Remove a node and all its routes; give the node, or None if the node was not known."""
        known = self._nodes.get(node)
        if known is None:
            return None
        self.unregister(node)
        del self._nodes[node]
        for uri in known.node.uris:
            _remove(self._at, uri, node)
        return known.node

    def node(self, identity: bytes) -> RemoteNode | None:
        """Give the node of that identity, or None."""
        known = self._nodes.get(identity)
        return known.node if known else None

    def nodes(self) -> list[RemoteNode]:
        """Give all nodes."""
        return [known.node for known in self._nodes.values()]

    def nodes_at(self, uri: str) -> tuple[bytes, ...]:
        """Give the nodes that listen at an address."""
        return self._at.get(uri, ())

    def nodes_of(self, receiver: bytes) -> tuple[bytes, ...]:
        """Give the nodes on which a receiver lives, the latest first."""
        return self._homes.get(receiver, ())

    def routes_of(self, node: bytes) -> list[Route]:
        """Give the routes of a node, as they were announced."""
        known = self._nodes.get(node)
        receivers = known.receivers.items() if known else ()
        return [Route(node, receiver, key) for receiver, keys in receivers for key in keys]

    def handlers_of(self, contract: Contract) -> list[Route]:
        """Give the routes to the actors that handle a contract; the call looks at every actor of their nodes."""
        candidates = self._index.get(contract)
        nodes = candidates.remote if candidates else ()
        lives = [(node, receiver, keys) for node in nodes for receiver, keys in self._nodes[node].receivers.items()]
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
        self._nodes.setdefault(node.identity, _NodeRoutes(node)).node = node
        return True

    def _withdraw(self, node: bytes, receiver: bytes, keys: tuple[Contract, ...] | None) -> list[Route]:
        receivers = self._nodes[node].receivers
        known = receivers.get(receiver, {})
        gone = [key for key in (known if keys is None else dict.fromkeys(keys)) if key in known]
        for key in gone:
            del known[key]
            if key is not None:
                self._index.remove_remote(key, node)
                if key in self.imported:
                    _remove(self.imported[key], node, receiver)
                    if not self.imported[key]:
                        del self.imported[key]
                if self._rings:
                    self._rings.remove(key, receiver)
        if gone and not known:
            del receivers[receiver]
            _remove(self._homes, receiver, node)
        return [Route(node, receiver, key) for key in gone]


def _add(index: dict[K, tuple[bytes, ...]], key: K, identity: bytes) -> None:
    index[key] = (identity, *(other for other in index.get(key, ()) if other != identity))


def _remove(index: dict[K, tuple[bytes, ...]], key: K, identity: bytes) -> None:
    rest = tuple(other for other in index.pop(key, ()) if other != identity)
    if rest:
        index[key] = rest


class Tables:
    """All routes that one node knows.

    >>> tables = Tables()
    >>> [route.receiver for route in tables.local.register(b"\\1greeter", [Contract(b"greet", 1, b"")])]
    [b'\\x01greeter']
    """

    __slots__ = ("candidates", "local", "remote", "rings")

    def __init__(self, most_turns: int = MOST_TURNS, most_kept: int = MOST_KEPT, load: Load | None = None) -> None:
        self.candidates = CandidateIndex(most_turns, load)
        self.rings = Rings(most_kept)
        self.local = LocalTable(self.candidates, self.rings)
        self.remote = RemoteTable(self.candidates, self.rings)

    def handlers_of(self, contract: Contract) -> list[Route]:
        """Give every route to an actor that handles a contract, those here first."""
        return self.local.handlers_of(contract) + self.remote.handlers_of(contract)

    def choose(
        self, contract: Contract, choice: Choice, exclude: Container[bytes] = (), is_trial: bool = False
    ) -> bytes:
        """Give the actor that has a key, or b"" if nobody handles the contract; the first call makes the ring."""
        if contract not in self.rings:
            if contract not in self.candidates:
                return b""
            local, remote = self.local.handlers_of(contract), self.remote.handlers_of(contract)
            shared = [route.receiver for route in (*local, *remote) if not route.is_local_only]
            self.rings.open(contract, shared, [route.receiver for route in local if route.is_local_only])
        return self.rings.find(contract, choice, exclude, is_trial)
