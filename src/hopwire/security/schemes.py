"""The schemes: which bytes of a message are signed, and how a signature is written.

| scheme | signature field | signed bytes |
|---|---|---|
| `legacy` | MAC | identity, version, partition, body frames, callback receiver identity, nothing between them |
| `hopwire-1` | stamp, MAC | the fields of the next table that have a 1, each behind its length (u64) |
| `hopwire-2` | stamp, MAC | the fields of the next table that have a 2, each behind its length (u64) |

The stamp: `HWS`, u8 number of the scheme, u8 length of the key id, key id, i64 sent at (ns), i64 TTL (ticks), 16 bytes
nonce. In `hopwire-2` the recipient stands behind the key id: u8 length of the node, node, i64 incarnation. The stamp is
part of the signature field, so V4, V5 and V6 carry it alike. All integers are little-endian.

| what is signed, in this order | in | bytes |
|---|---|---|
| label | 1 2 | `hopwire-1 message`, `hopwire-2 message` |
| stamp, domain | 1 2 | as written, UTF-8 |
| distribution, trace options, callback key, count of callback points, count of body frames | 1 2 | one field of i64 |
| hops, count of routing entries, count of extensions | 2 | three more i64 in the same field |
| identity, version, partition | 1 2 | raw; a version is `n` and an i64, or `r` and its raw bytes |
| correlation id, receiver, receiver node, callback receiver, callback receiver node | 1 2 | raw |
| each callback point: identity, version, partition | 1 2 | as above |
| each routing entry: URI, identity | 2 | UTF-8, raw |
| each extension frame | 2 | raw |
| each body frame | 1 2 | raw |

`hopwire-1` leaves out what routers change: hops, routing, extensions. So a router without a key can pass a message on,
and whoever stands on the way can change these fields. In `hopwire-2` every node that sends a message signs the message,
for the one process that it sends the message to: identity and incarnation of the peer. Only the socket identity is left
out, which belongs to the connection. In both schemes the TTL is signed as it was sent, and may shrink afterwards.

A hopwire signature says by its number which of the two schemes it has. A domain of either scheme reads both. A bare MAC
is read only in a `legacy` domain.

The trap: the number 1 and the raw bytes `01 00` differ here. A message signed as V4 does not verify after it is
transcoded to V5 or V6, nor the other way round. Nor does a message verify that lost a field in a format which cannot
carry the field. Choose the format, then sign.

A new scheme is a row in SCHEMES with its function; a change of the bytes is a new scheme.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hopwire.errors import SecurityError
from hopwire.model import Message, Version
from hopwire.security.patterns import shown

if TYPE_CHECKING:
    from _hashlib import HASH

__all__ = [
    "ANYONE",
    "DEFAULT_SCHEME",
    "MAC_BYTES",
    "MAX_KEY_ID_BYTES",
    "NONCE_BYTES",
    "SCHEMES",
    "Parts",
    "Recipient",
    "Scheme",
    "Stamp",
    "keyed",
    "keyed_all",
    "keyed_in_two",
    "mac",
    "pads",
    "read_signature",
    "signed_bytes",
    "stamp_bytes",
]

MAX_KEY_ID_BYTES = 64  # a key id travels in every signature, so it is kept short
MAX_RECIPIENT_BYTES = 255  # its length is one byte
NONCE_BYTES = 16  # long enough that chance alone does not repeat one
LABEL, LABEL_2 = b"hopwire-1 message", b"hopwire-2 message"  # apart from whatever else a key may sign
MAGIC = b"HWS"
MAC_BYTES = 32
_REST = struct.Struct("<qq16s")
_NUMBERS = struct.Struct("<5q")
_NUMBERS_2 = struct.Struct("<8q")
_U16 = struct.Struct("<H").pack
_I64 = struct.Struct("<q").pack
_I64_BYTES = 8
_U64 = struct.Struct("<Q").pack


class Recipient(NamedTuple):
    """The process that a message is for: a node, and the incarnation that is new at each start of the node."""

    node: bytes
    incarnation: int


ANYONE = Recipient(b"", 0)  # for a hello to an address, where nobody knows yet which node lives there


class Stamp(NamedTuple):
    """The part of a signature in front of its MAC; only some schemes write the recipient."""

    key_id: str
    sent_at_ns: int
    ttl_ticks: int
    nonce: bytes
    recipient: Recipient = ANYONE


class Parts(NamedTuple):
    """A signature taken apart; a bare MAC has no stamp."""

    scheme: str
    stamp: Stamp | None
    written: bytes
    mac: bytes


class Scheme(NamedTuple):
    """One way of signing, and the algorithms that a domain may choose with it."""

    algorithms: tuple[str, ...]
    min_secret_bytes: int
    number: int  # in the stamp; 0 if there is no stamp
    has_recipient: bool
    write: Callable[[Message, bytes], bytes]

    @property
    def has_stamp(self) -> bool:
        """Tell whether a stamp stands in front of the MAC."""
        return self.number > 0


def signed_bytes(message: Message, scheme: str, written: bytes = b"") -> bytes:
    """Give the bytes that the MAC of a message is made of; `written` is the stamp, if the scheme has a stamp."""
    try:
        return SCHEMES[scheme].write(message, written)
    except (struct.error, UnicodeEncodeError):
        raise SecurityError(f"message {shown(message.identity)} has a number or a text that cannot be signed") from None


def _write_legacy(message: Message, written: bytes) -> bytes:
    version = message.version if isinstance(message.version, bytes) else _U16(message.version)
    fields = (message.identity, version, message.partition, *message.body_frames, message.callback_receiver_identity)
    return b"".join(fields)


def _write_hopwire_1(message: Message, written: bytes) -> bytes:
    points, frames = message.callback_points, message.body_frames
    fields = [
        LABEL,
        written,
        message.domain.encode(),
        _NUMBERS.pack(message.distribution, message.trace_options, message.callback_key, len(points), len(frames)),
        *_addressed(message),
    ]
    return _behind_lengths((*fields, *frames))


def _write_hopwire_2(message: Message, written: bytes) -> bytes:
    points, routing = message.callback_points, message.routing
    extensions, frames = message.extensions, message.body_frames
    fields = [
        LABEL_2,
        written,
        message.domain.encode(),
        _NUMBERS_2.pack(
            message.distribution,
            message.trace_options,
            message.callback_key,
            len(points),
            len(frames),
            message.hops,
            len(routing),
            len(extensions),
        ),
        *_addressed(message),
    ]
    for entry in routing:
        fields += (entry.uri.encode(), entry.identity)
    return _behind_lengths((*fields, *extensions, *frames))


def _addressed(message: Message) -> list[bytes]:
    """What the message is, whom it is for, and who waits for the answer."""
    fields = [
        message.identity,
        _version_bytes(message.version),
        message.partition,
        message.correlation_id,
        message.receiver_identity,
        message.receiver_node_identity,
        message.callback_receiver_identity,
        message.callback_receiver_node_identity,
    ]
    for point in message.callback_points:
        fields += (point.identity, _version_bytes(point.version), point.partition)
    return fields


def _behind_lengths(fields: Iterable[bytes]) -> bytes:
    parts = []
    for field in fields:
        parts.append(_U64(len(field)))
        parts.append(field)
    return b"".join(parts)


def _version_bytes(version: Version) -> bytes:
    return b"r" + version if isinstance(version, bytes) else b"n" + _I64(version)


# fmt: off
SCHEMES: Mapping[str, Scheme] = {
    #                   algorithms                           secret  number  recipient  signed bytes
    "hopwire-2": Scheme(("sha256",),                         16,     2,      True,      _write_hopwire_2),
    "hopwire-1": Scheme(("sha256",),                         16,     1,      False,     _write_hopwire_1),
    "legacy":    Scheme(("md5", "sha1", "sha256", "sha512"),  1,     0,      False,     _write_legacy),
}
# fmt: on
DEFAULT_SCHEME = "hopwire-2"
_BY_NUMBER = {scheme.number: name for name, scheme in SCHEMES.items() if scheme.has_stamp}


def stamp_bytes(stamp: Stamp, scheme: str) -> bytes:
    """Write a stamp as a scheme has it."""
    if len(stamp.nonce) != NONCE_BYTES:
        raise SecurityError(f"a nonce has {NONCE_BYTES} bytes, found {len(stamp.nonce)}")
    key_id, sent_at_ns, ttl_ticks, nonce, (node, incarnation) = stamp
    if not (0 <= sent_at_ns < 2**63 and 0 <= ttl_ticks < 2**63 and 0 <= incarnation < 2**63):
        found = f"time {sent_at_ns}, TTL {ttl_ticks} and incarnation {incarnation}"
        raise SecurityError(f"{found} must be 0 to 2**63 - 1")
    if len(node) > MAX_RECIPIENT_BYTES:
        raise SecurityError(f"the node of a recipient has at most {MAX_RECIPIENT_BYTES} bytes, found {len(node)}")
    name, number = key_id.encode(), SCHEMES[scheme].number
    parts = [MAGIC, bytes((number, len(name))), name]
    if SCHEMES[scheme].has_recipient:
        parts += [bytes((len(node),)), node, _I64(incarnation)]
    return b"".join((*parts, _REST.pack(sent_at_ns, ttl_ticks, nonce)))


def read_signature(signature: bytes, scheme: str) -> Parts | None:
    """Take a signature apart; None if it is, to the byte, no signature that a domain of that scheme reads."""
    if not SCHEMES[scheme].has_stamp:
        return Parts(scheme, None, b"", signature)
    start = len(MAGIC) + 2
    end = len(signature) - MAC_BYTES
    if end < start or not signature.startswith(MAGIC):
        return None
    found = _BY_NUMBER.get(signature[start - 2])
    rest = start + signature[start - 1]
    if found is None or rest >= end or not 1 <= rest - start <= MAX_KEY_ID_BYTES:
        return None
    key_id, recipient = signature[start:rest], ANYONE
    if SCHEMES[found].has_recipient:
        node_end = rest + 1 + signature[rest]
        if node_end + _I64_BYTES > end:
            return None
        incarnation = int.from_bytes(signature[node_end : node_end + _I64_BYTES], "little", signed=True)
        recipient, rest = Recipient(signature[rest + 1 : node_end], incarnation), node_end + _I64_BYTES
    if rest + _REST.size != end:
        return None
    try:
        sent_at_ns, ttl_ticks, nonce = _REST.unpack_from(signature, rest)
        stamp = Stamp(key_id.decode(), sent_at_ns, ttl_ticks, nonce, recipient)
    except UnicodeDecodeError:
        return None
    if stamp.sent_at_ns < 0 or stamp.ttl_ticks < 0 or recipient.incarnation < 0:
        return None
    return Parts(found, stamp, signature[:end], signature[end:])


def mac(secret: bytes, algorithm: str, data: bytes | memoryview) -> bytes:
    """Give the HMAC of some bytes."""
    return keyed(secret, algorithm)(data)


@lru_cache(maxsize=256)  # hashing the key once saves a third of the time of a short message
def keyed(secret: bytes, algorithm: str) -> Callable[[bytes | memoryview], bytes]:
    """Give the function that computes the HMAC under one key."""
    inner, outer = pads(secret, algorithm)

    def compute(data: bytes | memoryview) -> bytes:
        inside, outside = inner(), outer()
        inside.update(data)
        outside.update(inside.digest())
        return outside.digest()

    return compute


def keyed_all(secret: bytes, algorithm: str, data: memoryview, starts: list[int], stops: list[int]) -> list[bytes]:
    """Give the HMACs of many stretches of a buffer under one key: no call of Python for each."""
    inner, outer = pads(secret, algorithm)
    found: list[bytes] = []
    keep = found.append
    for start, stop in zip(starts, stops, strict=True):
        inside, outside = inner(), outer()
        inside.update(data[start:stop])
        outside.update(inside.digest())
        keep(outside.digest())
    return found


@lru_cache(maxsize=256)
def pads(secret: bytes, algorithm: str) -> tuple[Callable[[], HASH], Callable[[], HASH]]:
    """Give the functions that begin an inner and an outer hash.

    This is RFC 2104 with two hashes that have taken their pads already. It takes half the time of the module `hmac`.
    """
    block = hashlib.new(algorithm).block_size
    short = secret if len(secret) <= block else hashlib.new(algorithm, secret).digest()
    inner, outer = (
        hashlib.new(algorithm, bytes(byte ^ pad for byte in short.ljust(block, b"\0"))).copy for pad in (0x36, 0x5C)
    )
    return inner, outer


@lru_cache(maxsize=256)
def keyed_in_two(secret: bytes, algorithm: str) -> Callable[[bytes | memoryview, bytes], bytes]:
    """Give the function that computes the HMAC of some bytes and what follows them, under one key."""
    inner, outer = pads(secret, algorithm)

    def compute(data: bytes | memoryview, rest: bytes) -> bytes:
        inside, outside = inner(), outer()
        inside.update(data)
        inside.update(rest)
        outside.update(inside.digest())
        return outside.digest()

    return compute
