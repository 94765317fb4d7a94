"""The network: nodes, actors, hubs. A shell over the core; it acts, the core decides."""

from hopwire.node.actors import Actor, Supervision, handles
from hopwire.node.calls import Address, Handled, Receipt
from hopwire.node.context import BlockingContext, Context
from hopwire.node.dead import DeadLetter
from hopwire.node.foreign import Foreign
from hopwire.node.gateway import PartnerStatus
from hopwire.node.hub import Hub
from hopwire.node.mailbox import Overflow
from hopwire.node.news import (
    ActorFailed,
    ActorRestarted,
    ActorStarted,
    ActorStopped,
    EventsSkipped,
    KeysMoved,
    MessageGivenUp,
    NodeEvent,
    PeerLost,
    PeerMet,
    RoutesUpdated,
)
from hopwire.node.node import Node
from hopwire.node.partner import Partner
from hopwire.node.settings import NodeSettings, Statistics
from hopwire.node.transport import Tls

__all__ = [
    "Actor",
    "ActorFailed",
    "ActorRestarted",
    "ActorStarted",
    "ActorStopped",
    "Address",
    "BlockingContext",
    "Context",
    "DeadLetter",
    "EventsSkipped",
    "Foreign",
    "Handled",
    "Hub",
    "KeysMoved",
    "MessageGivenUp",
    "Node",
    "NodeEvent",
    "NodeSettings",
    "Overflow",
    "Partner",
    "PartnerStatus",
    "PeerLost",
    "PeerMet",
    "Receipt",
    "RoutesUpdated",
    "Statistics",
    "Supervision",
    "Tls",
    "handles",
]
