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
from hopwire.model.payload import Codec, Payload, body_from_payload, contract_of, payload_from_body

__all__ = [
    "CallbackPoint",
    "Codec",
    "Contract",
    "Distribution",
    "Message",
    "Payload",
    "RoutingEntry",
    "Selectors",
    "TraceOptions",
    "Version",
    "body_from_payload",
    "contract_of",
    "payload_from_body",
]
