"""What routes are made of: receivers, nodes, routes.

A receiver is known by its identity alone, and the first byte of it tells its kind:

| first byte | receiver | reached by |
|---|---|---|
| 0 | hub | its identity |
| 1 | actor | its identity, or a contract that it handles |

An identity that is not set is b"". As the node of a route, b"" means here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from hopwire.errors import SettingsError
from hopwire.model import Contract
from hopwire.model.names import is_actor, is_hub

__all__ = ["RemoteNode", "Route", "keys_of"]


@dataclass(frozen=True, slots=True)
class RemoteNode:
    """Another node: who it is, where it listens, and which of its lives this is."""

    identity: bytes
    uris: tuple[str, ...] = ()
    incarnation: int = 0

    def __post_init__(self) -> None:
        if not self.identity:
            raise SettingsError("a node elsewhere needs an identity, found an empty one")


class Route(NamedTuple):
    """One way to a receiver: by its identity if it is a hub, by a contract if it is an actor."""

    node: bytes
    receiver: bytes
    contract: Contract | None = None
    is_local_only: bool = False


def keys_of(receiver: bytes, contracts: Iterable[Contract]) -> tuple[Contract | None, ...]:
    """Give what a receiver is reached by: the contracts of an actor; None, once, for a hub, whatever it handles."""
    if is_actor(receiver):
        return tuple(dict.fromkeys(contracts))
    if is_hub(receiver):
        return (None,)
    raise SettingsError(f"receiver {receiver!r:.80} is neither a hub (first byte 0) nor an actor (first byte 1)")
