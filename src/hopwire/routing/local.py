"""The receivers of this node: hubs, actors, the contracts of the actors, and which of all that is for this node only.

A local-only route is not announced. It is a matter of who is told, not of who may call: a message that names the
receiver, or arrives with the contract, is delivered.

A receiver is in the table as long as it has a route: a hub one of its own, an actor one for each contract.
"""

from __future__ import annotations

from collections.abc import Iterable

from hopwire.model import Contract
from hopwire.routing.routes import Route, keys_of
from hopwire.routing.turns import CandidateIndex, ContractKey

__all__ = ["LocalTable"]


class LocalTable:
    """Hubs and actors of this node."""

    __slots__ = ("_index", "_receivers")

    def __init__(self, index: CandidateIndex) -> None:
        self._index = index
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
        if not known:
            del self._receivers[receiver]
        return gone

    def accepts(self, receiver: bytes, contract: ContractKey) -> bool | None:
        """Tell whether a named receiver takes a message: a hub any, an actor one of a version that it handles.

        None says that there is no such receiver.
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
