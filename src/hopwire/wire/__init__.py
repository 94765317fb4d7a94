"""Bytes to messages and back, in the four formats that the documents in `docs/wire/` describe.

`recognise`, `decode`, `encode` and `select` take one message; `decode_batch` and `encode_batch` take a million.
"""

from hopwire.errors import WireError
from hopwire.model import Selectors
from hopwire.model.settings import Limits
from hopwire.wire.check import VERSIONS, transcode
from hopwire.wire.codec import decode, encode, recognise, select
from hopwire.wire.formats import FORMATS, V3, V4, V5, V6
from hopwire.wire.reasons import REASONS
from hopwire.wire.schema import WireFormat

__all__ = [
    "FORMATS",
    "REASONS",
    "V3",
    "V4",
    "V5",
    "V6",
    "VERSIONS",
    "Limits",
    "Selectors",
    "WireError",
    "WireFormat",
    "decode",
    "encode",
    "recognise",
    "select",
    "transcode",
]
