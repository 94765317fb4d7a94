"""What others have to do, as far as this node knows without asking: the load by which `least_loaded` chooses.

| candidate | load |
|---|---|
| an actor here | what waits in its inbox, and what it works on |
| a node elsewhere | questions and sends of this node's hubs, of the same contract, that are open there |

Only calls that end are counted: `ask`, `send` and `stream`. After a `tell`, and after what a handler returns, nobody
says when it was done.
"""

from __future__ import annotations

from collections.abc import Callable

from hopwire.model.choice import Choose
from hopwire.node.promise import Promise
from hopwire.routing.turns import ContractKey

__all__ = ["Loads"]


class Loads:
    """Counts what is open at other nodes, and asks the actors here."""

    def __init__(self) -> None:
        self._actors: dict[bytes, Callable[[], int]] = {}
        self._open: dict[tuple[ContractKey, bytes], int] = {}

    def host(self, actor: bytes, load: Callable[[], int]) -> None:
        """Ask an actor of this node from now on."""
        self._actors[actor] = load

    def unhost(self, actor: bytes) -> None:
        """Ask an actor no more."""
        self._actors.pop(actor, None)

    def of(self, contract: ContractKey, candidate: bytes) -> int:
        """Give the load of an actor here, or of a node elsewhere."""
        load = self._actors.get(candidate)
        return self._open.get((contract, candidate), 0) if load is None else load()

    def move(self, promise: Promise, nodes: tuple[bytes, ...]) -> None:
        """Count a promise at these nodes, and no more at those before; a promise that has ended is nowhere."""
        choice = None if promise.envelope is None else promise.envelope.choice
        if choice is None or choice.choose is not Choose.LEAST_LOADED:
            return
        contract = promise.question.contract
        for node in promise.counted_at:
            left = self._open[contract, node] - 1
            if left:
                self._open[contract, node] = left
            else:
                del self._open[contract, node]
        promise.counted_at = nodes
        for node in nodes:
            self._open[contract, node] = self._open.get((contract, node), 0) + 1
