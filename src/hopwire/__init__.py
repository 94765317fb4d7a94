"""A message network for Python actors, and the Spark pipeline that reads everything it said.

Values and errors are loaded at once; the network, which needs ZeroMQ and an event loop, when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopwire.errors import (
    CaptureError,
    Closed,
    DeliveryError,
    Expired,
    HandlerFailed,
    HopwireError,
    NoRoute,
    NotInDomain,
    PayloadError,
    PayloadWarning,
    QueueFull,
    SecurityError,
    SettingsError,
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
        Address,
        BlockingContext,
        Context,
        DeadLetter,
        Hub,
        Node,
        NodeSettings,
        Overflow,
        Receipt,
        Tls,
        handles,
    )

__version__ = "0.1.0"

__all__ = [
    "Actor",
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
    "Expired",
    "HandlerFailed",
    "HopwireError",
    "Hub",
    "Message",
    "NoRoute",
    "Node",
    "NodeSettings",
    "NotInDomain",
    "Overflow",
    "Payload",
    "PayloadError",
    "PayloadWarning",
    "QueueFull",
    "Receipt",
    "RoutingEntry",
    "SecurityError",
    "Selectors",
    "SettingsError",
    "Timeout",
    "Tls",
    "TraceOptions",
    "UnexpectedAnswer",
    "Unreachable",
    "WireError",
    "__version__",
    "handles",
    "sync",
    "testing",
]

_NETWORK = (
    "Actor",
    "Address",
    "BlockingContext",
    "Context",
    "Tls",
    "DeadLetter",
    "Hub",
    "Node",
    "NodeSettings",
    "Overflow",
    "Receipt",
    "handles",
)
_MODULES = ("sync", "testing")


def __getattr__(name: str) -> Any:
    if name in _NETWORK:
        value = getattr(import_module("hopwire.node"), name)
    elif name in _MODULES:
        value = import_module(f"hopwire.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
