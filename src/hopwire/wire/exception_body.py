"""The body of the original's `KINO.EXCEPTION`: a BSON document that says what a handler raised.

| element | type | what stands there |
|---|---|---|
| `Exception` | any | an object of the original's platform; passed over when read, null when written |
| `StackTrace` | text | passed over when read, empty when written: a stack does not leave its node |
| `Message` | text | what the error says |
| `ExceptionType` | text | the name of its type |

    i32 size of the document, elements, 0
    element    u8 type, name, 0, value; a text is i32 size with its last 0, UTF-8, 0

The original writes zeros behind the document. Whatever stands behind the document is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hopwire.errors import WireError

__all__ = ["RaisedError", "read_exception", "write_exception"]

TEXT, NULL = 0x02, 0x0A
DOCUMENT, ARRAY, BINARY = 0x03, 0x04, 0x05
WIDTHS: Mapping[int, int] = {0x01: 8, 0x08: 1, 0x09: 8, NULL: 0, 0x10: 4, 0x11: 8, 0x12: 8}  # of values by their type
SIZE = 4  # bytes of each size
MOST_ELEMENTS = 64  # of a document; the original's has four
MESSAGE, KIND = b"Message", b"ExceptionType"


class RaisedError(NamedTuple):
    """What a handler of the original raised."""

    kind: str
    text: str


def write_exception(raised: RaisedError) -> bytes:
    """Write the body of an exception."""
    null = bytes((NULL,)) + b"Exception\0"
    texts = ((b"StackTrace", ""), (MESSAGE, raised.text), (KIND, raised.kind))
    elements = null + b"".join(_text(name, text.encode(errors="replace")) for name, text in texts)
    return (SIZE + len(elements) + 1).to_bytes(SIZE, "little") + elements + b"\0"


def _text(name: bytes, value: bytes) -> bytes:
    return bytes((TEXT,)) + name + b"\0" + (len(value) + 1).to_bytes(SIZE, "little") + value + b"\0"


def read_exception(body: bytes) -> RaisedError:
    """Read the body of an exception; a WireError says that it is none."""
    found = {MESSAGE: "", KIND: ""}
    at, end = SIZE, _size(body, 0, len(body)) - 1
    for _ in range(MOST_ELEMENTS):
        if at >= end:
            return RaisedError(found[KIND], found[MESSAGE])
        kind, name_end = body[at], body.find(b"\0", at, end)
        if name_end < 0:
            raise WireError("truncated", "the name of an element of an exception has no end")
        name, at = body[at + 1 : name_end], name_end + 1
        size = _value_bytes(body, at, end, kind)
        if kind == TEXT and name in found:
            found[name] = body[at + SIZE : at + size - 1].decode(errors="replace")
        at += size
    raise WireError("too_many_entries", f"an exception of more than {MOST_ELEMENTS} elements")


def _value_bytes(body: bytes, at: int, end: int, kind: int) -> int:
    """Give the bytes of a value, all of which are there."""
    if kind in WIDTHS:
        size = WIDTHS[kind]
    elif kind in (DOCUMENT, ARRAY):
        size = _size(body, at, end)
    elif kind in (TEXT, BINARY):
        size = SIZE + _size(body, at, end, least=1 if kind == TEXT else 0) + (kind == BINARY)
    else:
        raise WireError("bad_value", f"an element of an exception has the type {kind}")
    if at + size > end:
        raise WireError("bad_length", "an element of an exception goes beyond its end")
    return size


def _size(body: bytes, at: int, end: int, least: int = SIZE + 1) -> int:
    if at + SIZE > end:
        raise WireError("truncated", "an exception ends within a size")
    size = int.from_bytes(body[at : at + SIZE], "little", signed=True)
    if not least <= size <= end - at:
        raise WireError("bad_length", f"an exception has a part of {size} bytes, where {end - at} are left")
    return size
