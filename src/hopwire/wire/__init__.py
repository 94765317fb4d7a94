"""Bytes to messages and back, in the four formats that the documents in `docs/wire/` describe.

`recognise`, `decode`, `encode` and `select` take one message; `decode_batch` and `encode_batch` take a million.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hopwire.errors import WireError
from hopwire.model import Selectors
from hopwire.model.limits import Limits
from hopwire.model.reasons import WIRE_REASONS as REASONS
from hopwire.wire.codec import decode, encode, recognise, select
from hopwire.wire.formats import FORMATS, V3, V4, V5, V6
from hopwire.wire.schema import WireFormat
from hopwire.wire.transcode import VERSIONS, transcode

if TYPE_CHECKING:
    from hopwire.wire.arrow import SCHEMA, batch_from_messages, messages_from_batch
    from hopwire.wire.batch import encode_batch
    from hopwire.wire.batch.decoding import decode_batch

__all__ = [
    "FORMATS",
    "REASONS",
    "SCHEMA",
    "V3",
    "V4",
    "V5",
    "V6",
    "VERSIONS",
    "Limits",
    "Selectors",
    "WireError",
    "WireFormat",
    "batch_from_messages",
    "decode",
    "decode_batch",
    "encode",
    "encode_batch",
    "messages_from_batch",
    "recognise",
    "select",
    "transcode",
]

_BATCHES = {  # names that need numpy and pyarrow, which a node without a capture does not load
    "SCHEMA": "arrow",
    "batch_from_messages": "arrow",
    "messages_from_batch": "arrow",
    "decode_batch": "batch",
    "encode_batch": "batch",
}


def __getattr__(name: str) -> Any:
    if name not in _BATCHES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_BATCHES[name]}"), name)
    globals()[name] = value
    return value
