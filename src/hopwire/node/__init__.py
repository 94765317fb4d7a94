"""The network: nodes, actors, hubs. A shell over the core; it acts, the core decides."""

from hopwire.node.actors import Actor, Supervision, handles
from hopwire.node.context import Context
from hopwire.node.dead import DeadLetter
from hopwire.node.hub import Address, Hub, Receipt
from hopwire.node.mailbox import Overflow
from hopwire.node.node import Node
from hopwire.node.settings import NodeSettings, Statistics
from hopwire.node.transport import Tls

__all__ = [
    "Actor",
    "Address",
    "Context",
    "DeadLetter",
    "Hub",
    "Node",
    "NodeSettings",
    "Overflow",
    "Receipt",
    "Statistics",
    "Supervision",
    "Tls",
    "handles",
]
