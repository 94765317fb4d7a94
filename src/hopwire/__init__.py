"""A message network for Python actors, and the Spark pipeline that reads everything it said."""

from hopwire.errors import HopwireError, NotInDomain, SecurityError, SettingsError, WireError
from hopwire.model import CallbackPoint, Contract, Distribution, Message, RoutingEntry, Selectors, TraceOptions

__version__ = "0.1.0"

__all__ = [
    "CallbackPoint",
    "Contract",
    "Distribution",
    "HopwireError",
    "Message",
    "NotInDomain",
    "RoutingEntry",
    "SecurityError",
    "Selectors",
    "SettingsError",
    "TraceOptions",
    "WireError",
    "__version__",
]
