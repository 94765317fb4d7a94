"""Values that everything else is made of: no input, no output, no clock."""

from hopwire.model.message import (
    CallbackPoint,
    Contract,
    Distribution,
    Message,
    RoutingEntry,
    Selectors,
    TraceOptions,
    Version,
)

__all__ = [
    "CallbackPoint",
    "Contract",
    "Distribution",
    "Message",
    "RoutingEntry",
    "Selectors",
    "TraceOptions",
    "Version",
]
