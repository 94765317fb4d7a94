"""The name of a connection: the identity that a node's socket announces to the other side, once for each connection.

    the identity of the node, ~, 16 hexadecimal digits of chance

Each connection has a name of its own, so two connections of one node never compete for one name. A stranger cannot
guess the name, and so cannot take the connection over or cut it off. The name stays the same while ZeroMQ reconnects.

The trap: the node in the name is a claim. A recording takes the claim, since a recording has nothing better. A node
believes only a hello (`cluster/announce.py`).
"""

from __future__ import annotations

import re

__all__ = ["CHANCE_BYTES", "MAX_NODE_BYTES", "claimed_node", "connection_name"]

CHANCE_BYTES = 8
MARK = b"~"
MAX_NODE_BYTES = 255 - len(MARK) - 2 * CHANCE_BYTES  # what ZeroMQ's 255 bytes leave for the identity
_NAME = re.compile(rb"(.+)~[0-9a-f]{%d}" % (2 * CHANCE_BYTES), re.DOTALL)


def connection_name(node: bytes, chance: bytes) -> bytes:
    """Give the name of a new connection; the chance is 8 random bytes."""
    return node + MARK + chance.hex().encode()


def claimed_node(name: bytes) -> bytes:
    """Give the node that the name of a connection claims; a name of another form is given as it is."""
    found = _NAME.fullmatch(name)
    return found[1] if found else name
