"""Who is at the other end of each connection, as far as hellos that are believed have told.

The first frame of what arrives is the name of a connection. It proves nothing, since whoever connects chooses it. A
hello that is believed makes the connection the one of its node, and a node speaks only for itself from then on.

- What is known of a connection ends with the connection. Whoever connects under the same name later is a stranger.
- The connections of a node are forgotten when it is gone, or comes back as a new process. A member that closes a link
  is not gone: what it says over its connection counts until the connection ends.
- A node that fell silent may have been heard too late, so its connections are remembered while they are open.
- Room is bounded for each node and for all, so that nobody can push out the connections of another peer.

A connection that claims to be of a node that is connected already has to prove itself. The node gets a secret over the
connection that is known to be its own, with the name of the other one, and repeats the secret over the other one. Until
then the other one is not sure: it carries messages, as anybody may send them, and what it says of the node has to wait.
"""

from __future__ import annotations

import os
from collections.abc import Container

__all__ = ["CHANCE_BYTES", "Callers"]

CHANCE_BYTES = 16  # of a secret, behind the name of the connection that it is for

EACH = 8  # connections of one node: two addresses, and some that are being replaced
ALL = 16_384


class Callers:
    """The node behind each connection."""

    def __init__(self, met: Container[bytes]) -> None:
        self.nodes: dict[bytes, bytes] = {}  # by the name of the connection
        self._connections: dict[bytes, dict[bytes, bool]] = {}  # by node, as they were heard: whether each is sure
        self._met = met  # the nodes that can be talked to
        self._secrets: dict[bytes, bytes] = {}  # of connections that are to prove themselves
        self._echoed: set[bytes] = set()  # connections whose other side has repeated what only this node says

    def __len__(self) -> int:
        return len(self.nodes)

    def hear(self, connection: bytes, node: bytes, is_sure: bool = True) -> None:
        """Remember that a node said hello over a connection."""
        if self.nodes.get(connection) == node and self._connections[node][connection] >= is_sure:
            return
        self._drop(connection)
        alike = [each for each, sure in self._connections.get(node, {}).items() if sure == is_sure]
        for oldest in alike[: max(0, len(alike) + 1 - EACH)]:
            self._drop(oldest)
        self._connections.setdefault(node, {})[connection] = is_sure
        self.nodes[connection] = node
        if len(self.nodes) > ALL:
            silent = next((each for each in self._connections if each not in self._met), node)
            self.forget(silent)

    def of(self, node: bytes) -> tuple[bytes, ...]:
        """Give the connections that are surely those of a node."""
        return tuple([each for each, is_sure in self._connections.get(node, {}).items() if is_sure])

    def claimed_by(self, node: bytes) -> tuple[bytes, ...]:
        """Give all connections of a node, also those that have not proved themselves."""
        return tuple(self._connections.get(node, ()))

    def is_sure(self, connection: bytes) -> bool:
        """Tell whether a connection is surely that of its node."""
        node = self.nodes.get(connection)
        return node is not None and self._connections[node][connection]

    def secret(self, connection: bytes) -> bytes:
        """Give what proves a connection, if it comes back over it."""
        if connection not in self._secrets and len(self._secrets) >= ALL:
            del self._secrets[next(iter(self._secrets))]
        return self._secrets.setdefault(connection, connection + os.urandom(CHANCE_BYTES))

    def is_proved(self, connection: bytes, proof: bytes) -> bool:
        """Tell whether the secret of a connection has come back."""
        return bool(proof) and self._secrets.get(connection) == proof

    def echo(self, connection: bytes) -> None:
        """Remember that the other side of a connection reads what this node writes to it."""
        if self.is_sure(connection):
            self._echoed.add(connection)

    def has_echoed(self, connection: bytes) -> bool:
        """Tell whether the other side of a connection reads what this node writes to it."""
        return connection in self._echoed

    def end(self, connection: bytes) -> None:
        """Forget a connection that has ended."""
        self._secrets.pop(connection, None)
        self._drop(connection)

    def forget(self, node: bytes) -> None:
        """Forget the connections of a node."""
        for connection in self._connections.pop(node, {}):
            del self.nodes[connection]
            self._echoed.discard(connection)

    def _drop(self, connection: bytes) -> None:
        node = self.nodes.pop(connection, None)
        self._echoed.discard(connection)
        if node is not None:
            del self._connections[node][connection]
            if not self._connections[node]:
                del self._connections[node]
