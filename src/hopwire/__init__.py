"""A message network for Python actors, and the Spark pipeline that reads everything it said."""

from hopwire.errors import HopwireError, NotInDomain, PayloadError, SecurityError, SettingsError, WireError
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

__version__ = "0.1.0"

__all__ = [
    "CallbackPoint",
    "Codec",
    "Contract",
    "Distribution",
    "HopwireError",
    "Message",
    "NotInDomain",
    "Payload",
    "PayloadError",
    "RoutingEntry",
    "SecurityError",
    "Selectors",
    "SettingsError",
    "TraceOptions",
    "WireError",
    "__version__",
]
