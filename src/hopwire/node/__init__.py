"""The network: nodes, actors, hubs. A shell over the core; it acts, the core decides."""

from hopwire.node.actors import Actor, handles
from hopwire.node.context import BlockingContext, Context
from hopwire.node.dead import DeadLetter
from hopwire.node.hub import Address, Hub, Receipt
from hopwire.node.mailbox import Overflow
from hopwire.node.node import Node
from hopwire.node.settings import NodeSettings, Statistics
from hopwire.node.transport import Tls

__all__ = [
    "Actor",
    "Address",
    "BlockingContext",
    "Context",
    "DeadLetter",
    "Hub",
    "Node",
    "NodeSettings",
    "Overflow",
    "Receipt",
    "Statistics",
    "Tls",
    "handles",
]
