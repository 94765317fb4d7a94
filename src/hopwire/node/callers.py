"""Who is at the other end of each connection, as far as hellos that are believed have told.

The first frame of what arrives is the name of a connection. It proves nothing, since whoever connects chooses it. A
hello that is believed makes the connection the one of its node, and a node speaks only for itself from then on.

- What a node has not told is forgotten with it: when it says goodbye, or comes back as a new process.
- A node that fell silent may have been heard too late, so its connections are remembered until there is no room.
- Room is bounded for each node and for all, so that nobody can push out the connections of another peer.
"""

from __future__ import annotations

from collections.abc import Container

__all__ = ["Callers"]

EACH = 8  # connections of one node: two addresses, and some that are being replaced
ALL = 16_384


class Callers:
    """The node behind each connection."""

    def __init__(self, met: Container[bytes]) -> None:
        self.nodes: dict[bytes, bytes] = {}  # by the name of the connection
        self._connections: dict[bytes, dict[bytes, None]] = {}  # by node, in the order in which they were heard
        self._met = met  # the nodes that can be talked to

    def __len__(self) -> int:
        return len(self.nodes)

    def hear(self, connection: bytes, node: bytes) -> None:
        """Remember that a node said hello over a connection."""
        if self.nodes.get(connection) == node:
            return
        self._drop(connection)
        known = self._connections.setdefault(node, {})
        while len(known) >= EACH:
            self._drop(next(iter(known)))
        known = self._connections.setdefault(node, {})
        known[connection] = None
        self.nodes[connection] = node
        if len(self.nodes) > ALL:
            silent = next((each for each in self._connections if each not in self._met), node)
            self.forget(silent)

    def forget(self, node: bytes) -> None:
        """Forget the connections of a node."""
        for connection in self._connections.pop(node, {}):
            del self.nodes[connection]

    def _drop(self, connection: bytes) -> None:
        node = self.nodes.pop(connection, None)
        if node is not None:
            del self._connections[node][connection]
            if not self._connections[node]:
                del self._connections[node]
