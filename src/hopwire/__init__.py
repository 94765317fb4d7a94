"""A message network for Python actors, and the Spark pipeline that reads everything it said.

Values and errors are loaded at once; the network, which needs ZeroMQ and an event loop, when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopwire.errors import (
    CaptureError,
    Closed,
    DeliveryError,
    Escalated,
    Expired,
    HandlerFailed,
    HopwireError,
    NoRoute,
    NotInDomain,
    PayloadError,
    PayloadWarning,
    ProcessEnded,
    QueueFull,
    SecurityError,
    SettingsError,
    StoryStuck,
    Timeout,
    UnexpectedAnswer,
    Unreachable,
    WireError,
)
from hopwire.model import (
    CallbackPoint,
    Codec,
    Contract,
    Distribution,
    Message,
    Payload,
    RoutingEntry,
    Selectors,
    TraceOptions,
)

if TYPE_CHECKING:
    from hopwire import sync, testing
    from hopwire.node import (
        Actor,
        ActorFailed,
        ActorRestarted,
        ActorStarted,
        ActorStopped,
        Address,
        BlockingContext,
        Context,
        DeadLetter,
        EventsSkipped,
        Foreign,
        Handled,
        Hub,
        KeysMoved,
        MessageGivenUp,
        Node,
        NodeEvent,
        NodeSettings,
        Overflow,
        Partner,
        PeerLost,
        PeerMet,
        Receipt,
        RoutesUpdated,
        Supervision,
        Tls,
        handles,
    )
    from hopwire.runner import run

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "ActorFailed",
    "ActorRestarted",
    "ActorStarted",
    "ActorStopped",
    "Address",
    "BlockingContext",
    "CallbackPoint",
    "CaptureError",
    "Closed",
    "Codec",
    "Context",
    "Contract",
    "DeadLetter",
    "DeliveryError",
    "Distribution",
    "Escalated",
    "EventsSkipped",
    "Expired",
    "Foreign",
    "Handled",
    "HandlerFailed",
    "HopwireError",
    "Hub",
    "KeysMoved",
    "Message",
    "MessageGivenUp",
    "NoRoute",
    "Node",
    "NodeEvent",
    "NodeSettings",
    "NotInDomain",
    "Overflow",
    "Partner",
    "Payload",
    "PayloadError",
    "PayloadWarning",
    "PeerLost",
    "PeerMet",
    "ProcessEnded",
    "QueueFull",
    "Receipt",
    "RoutesUpdated",
    "RoutingEntry",
    "SecurityError",
    "Selectors",
    "SettingsError",
    "StoryStuck",
    "Supervision",
    "Timeout",
    "Tls",
    "TraceOptions",
    "UnexpectedAnswer",
    "Unreachable",
    "WireError",
    "__version__",
    "handles",
    "run",
    "sync",
    "testing",
]

_NETWORK = (
    "ActorFailed",
    "ActorRestarted",
    "ActorStarted",
    "ActorStopped",
    "EventsSkipped",
    "KeysMoved",
    "MessageGivenUp",
    "NodeEvent",
    "PeerLost",
    "PeerMet",
    "RoutesUpdated",
    "Actor",
    "Address",
    "BlockingContext",
    "Context",
    "Tls",
    "DeadLetter",
    "Foreign",
    "Handled",
    "Hub",
    "Node",
    "NodeSettings",
    "Overflow",
    "Partner",
    "Receipt",
    "Supervision",
    "handles",
)
_MODULES = ("sync", "testing")


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _NETWORK:
        value = getattr(import_module("hopwire.node"), name)
    elif name == "run":
        value = import_module("hopwire.runner").run
    elif name in _MODULES:
        value = import_module(f"hopwire.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
