"""The extension frame: what hopwire nodes tell each other beyond the documents.

The frame stands between body and meta frame, where the V6 document says "new frames come here". A reader that does not
know the frame skips it. The frame is a MessagePack map behind the four bytes `HWX` and 1, which tell our extension from
those of others. A reader skips fields that it does not know, and a writer leaves out fields that are not set.

The trap: extensions are signed by `hopwire-2` only. Where a domain has another scheme, whoever stands on the way can
change them, and no decision about security may rest on an extension alone.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hopwire.errors import WireError
from hopwire.model import Message

__all__ = ["MAGIC", "NOTHING", "Extension", "extension_of", "read_extension", "with_extension"]

MAGIC = b"HWX\x01"
MAX_EXTENSION_BYTES = 4096  # larger than anything we write, small enough to be read for every message
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what a column of a table can hold


class Extension(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a message carries for hopwire nodes."""

    message_id: bytes = msgspec.field(default=b"", name="i")  # the same for every attempt to deliver one message
    attempt: Number = msgspec.field(default=0, name="a")
    sent_at_ns: Number = msgspec.field(default=0, name="t")  # by the clock of the node that sent it first
    traceparent: str = msgspec.field(default="", name="p")  # W3C trace context
    trace_only: bool = msgspec.field(default=False, name="o")  # report the way, do not deliver
    part: Number = msgspec.field(default=0, name="n")  # of a stream of answers, from 1; the end of it has one too
    chosen_by: Number = msgspec.field(default=0, name="k")  # the number of the key that the receiver was chosen by
    partner: str = msgspec.field(default="", name="g")  # the network that it came from, as the gateway there calls it


NOTHING = Extension()
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Extension)


def extension_of(message: Message) -> Extension:
    """Give the extension of a message; without an extension frame, an extension in which nothing is set.

    An extension frame that cannot be read raises a WireError: the frame was damaged on the way.
    """
    for frame in message.extensions:
        if frame.startswith(MAGIC):
            return read_extension(frame)
    return NOTHING


def read_extension(frame: bytes) -> Extension:
    """Read a frame that begins with MAGIC."""
    if len(frame) > MAX_EXTENSION_BYTES:
        raise WireError("bad_extension", f"found {len(frame)} bytes, the limit is {MAX_EXTENSION_BYTES}")
    try:
        return _DECODER.decode(memoryview(frame)[len(MAGIC) :])
    except Exception as error:  # also RecursionError: whatever a stranger wrote, nothing but a WireError leaves here
        raise WireError("bad_extension", " ".join(str(error).split()) or type(error).__name__) from None


def with_extension(message: Message, extension: Extension, **changes: Any) -> Message:
    """Give the message with this extension in place of its old extension; extension frames of others stay.

    Other fields may change with it, which costs less than to change them one after the other.
    """
    others = tuple([frame for frame in message.extensions if not frame.startswith(MAGIC)])
    if extension == NOTHING:
        return message.replace(extensions=others, **changes)
    return message.replace(extensions=(*others, MAGIC + _ENCODER.encode(extension)), **changes)
