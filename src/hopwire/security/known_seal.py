"""Signatures of messages that come again and again, and differ in body, key, correlation id and time to live alone.

What is signed of such messages is known but for a few places (`schemes.py` says what is signed):

    label, stamp ... sent at, TTL, nonce    domain, numbers ... callback key    ... correlation id ...    body

So the bytes are written once, and afterwards only what changes; what stands before the first change is hashed once.
Both signing and judging are those of `signing.py`, which remains the law: the places are found by writing, what would
be written is compared with what `signed_bytes` gives before it is used, and whatever is not plainly valid is judged by
`verify`.

A `SealedMeta` writes the meta frame of such a message together with its signature: one step instead of three.

The trap: keys come and go with time. A seal is good for one key, and asks again whenever the validity of any key of the
domain may have changed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from hmac import compare_digest

from hopwire.errors import SecurityError
from hopwire.model import Message
from hopwire.security.domains import Domain, Domains, Key
from hopwire.security.replay import Replay
from hopwire.security.schemes import (
    MAC_BYTES,
    NONCE_BYTES,
    SCHEMES,
    Recipient,
    Stamp,
    mac,
    pads,
    read_signature,
    signed_bytes,
    stamp_bytes,
)
from hopwire.security.signing import Listener, has_shrunk
from hopwire.wire.known import KnownMeta, places_of

__all__ = ["KnownSeal", "SealedMeta", "seal_of", "seal_to_sign"]

_CHANGING = f"qq{NONCE_BYTES}s"  # of a stamp: sent at, TTL, nonce
_REST = struct.Struct(f"<{_CHANGING}")
LARGE_BYTES = 4096  # of a body: to copy less costs less than to hash in two steps
_ONES, _TWOS = 0x0101010101010101, 0x0202020202020202  # numbers that differ in every byte
_NUMBER_BYTES = 8  # of the callback key, and of the length in front of the body


class KnownSeal:
    """Signs and judges messages that have all but a few values in common, under one key."""

    __slots__ = (
        "_begins_ns",
        "_domain",
        "_ends_ns",
        "_key",
        "_unpack",
        "begin",
        "end",
        "fixed",
        "from_ns",
        "has_recipient",
        "pack",
        "scope",
        "size",
        "start",
        "until_ns",
    )

    def __init__(self, message: Message, domain: Domain, key: Key, scheme: str, recipient: Recipient) -> None:
        self._domain, self._key, self.scope = domain, key, (domain.name, key.id)
        self.has_recipient = SCHEMES[scheme].has_recipient
        stamp = Stamp(key.id, 0, 0, bytes(NONCE_BYTES), recipient)
        self.start = stamp_bytes(stamp, scheme)[: -_REST.size]
        self.size = len(self.start) + _REST.size + MAC_BYTES
        self._unpack = struct.Struct(f"<{len(self.start)}s{_CHANGING}{MAC_BYTES}s").unpack
        (first, *self.fixed), self.pack = _places(message, scheme, self.start)
        inner, self.end = pads(key.secret, domain.algorithm)  # what begins the outer hash
        begun = inner()
        begun.update(first)
        self.begin = begun.copy  # the inner hash of all such messages, up to the first value that changes
        self.from_ns, self.until_ns = math.inf, -math.inf  # when the domain signs with this key, as far as was asked
        self._begins_ns = -math.inf if key.not_before_ns is None else key.not_before_ns  # what `Key.is_valid_at` asks
        self._ends_ns = math.inf if key.not_after_ns is None else key.not_after_ns

    def mac(
        self, sent_at_ns: int, ttl_ticks: int, nonce: bytes, callback_key: int, correlation_id: bytes, body: bytes
    ) -> bytes:
        """Give the MAC of a message; `SealedMeta.write` and `is_valid` do the same without a call."""
        second, third, fourth = self.fixed
        written = self.pack(
            sent_at_ns, ttl_ticks, nonce, second, callback_key, third, correlation_id, fourth, len(body)
        )
        inside, outside = self.begin(), self.end()
        inside.update(written + body)
        outside.update(inside.digest())
        return outside.digest()

    def is_current(self, at_ns: int) -> bool:
        """Tell whether the domain signs with this key; asked anew when the validity of a key may have changed."""
        if self.from_ns <= at_ns < self.until_ns:
            return True
        if self._domain.key_at(at_ns) is not self._key:
            return False
        changes = [
            change
            for key in self._domain.keys
            for change in (key.not_before_ns, key.not_after_ns)
            if change is not None
        ]
        self.from_ns = max((each for each in changes if each <= at_ns), default=-math.inf)
        self.until_ns = min((each for each in changes if each > at_ns), default=math.inf)
        return True

    def is_valid(
        self,
        signature: bytes,
        callback_key: int,
        correlation_id: bytes,
        ttl_ticks: int,
        body: bytes,
        at_ns: int,
        replay: Replay,
        since_ns: int,
    ) -> bool:
        """Tell whether `verify` would call a message valid; False says nothing: ask `verify`."""
        if len(signature) != self.size:
            return False
        start, sent_at_ns, signed_ticks, nonce, mac = self._unpack(signature)
        if start != self.start:
            return False
        second, third, fourth = self.fixed
        inside, outside, size = self.begin(), self.end(), len(body)
        written = self.pack(sent_at_ns, signed_ticks, nonce, second, callback_key, third, correlation_id, fourth, size)
        if size > LARGE_BYTES:
            inside.update(written)
            inside.update(body)
        else:
            inside.update(written + body)
        outside.update(inside.digest())
        if not compare_digest(outside.digest(), mac):
            return False
        if sent_at_ns < 0 or not (0 < ttl_ticks <= signed_ticks or has_shrunk(ttl_ticks, signed_ticks)):
            return False
        if not self._begins_ns <= at_ns < self._ends_ns or (not self.has_recipient and sent_at_ns <= since_ns):
            return False
        return replay.admit(self.scope, nonce, sent_at_ns, at_ns)


class SealedMeta:
    """Writes the meta frames of known messages with their signatures under one seal."""

    __slots__ = ("_fixed", "_pack", "_seal")

    def __init__(self, meta: KnownMeta, seal: KnownSeal) -> None:
        first, second, third, fourth, last = meta.fixed
        self._seal, self._fixed = seal, (first, second + seal.start, third, fourth, last)
        (_, key), _, (_, flow), (_, ttl) = meta.places
        codes = (key, f"{_CHANGING}{MAC_BYTES}s", flow, ttl, "")
        form = "".join(f"{len(fixed)}s{code}" for fixed, code in zip(self._fixed, codes, strict=True))
        self._pack = struct.Struct(f"<{form}").pack

    def write(
        self, callback_key: int, correlation_id: bytes, ttl_ticks: int, body: bytes, sent_at_ns: int, nonce: bytes
    ) -> bytes | None:
        """Write the meta frame of a message, signed; None if the domain signs with another key by now."""
        seal = self._seal
        if not (seal.from_ns <= sent_at_ns < seal.until_ns or seal.is_current(sent_at_ns)):
            return None
        second, third, fourth = seal.fixed
        inside, outside, size = seal.begin(), seal.end(), len(body)
        written = seal.pack(sent_at_ns, ttl_ticks, nonce, second, callback_key, third, correlation_id, fourth, size)
        if size > LARGE_BYTES:
            inside.update(written)
            inside.update(body)
        else:
            inside.update(written + body)
        outside.update(inside.digest())
        first, second, third, fourth, last = self._fixed
        return self._pack(
            first,
            callback_key,
            second,
            sent_at_ns,
            ttl_ticks,
            nonce,
            outside.digest(),
            third,
            correlation_id,
            fourth,
            ttl_ticks,
            last,
        )


def _places(message: Message, scheme: str, start: bytes) -> tuple[tuple[bytes, ...], Callable[..., bytes]]:
    """Find what changes in the bytes that are signed in front of the body: what stands between, and what writes both.

    What stands before the first change is not written: it is the same in all such messages.
    """
    size = len(message.correlation_id)
    first = message.replace(body_frames=(b"",), callback_key=_ONES, correlation_id=b"\1" * size)
    ones, twos = b"\1" * _REST.size, b"\2" * _REST.size
    data = signed_bytes(first, scheme, start + ones)
    # fmt: off
    others = (
        (f"{_REST.size}s", signed_bytes(first, scheme, start + twos)),
        ("q",              signed_bytes(first.replace(callback_key=_TWOS), scheme, start + ones)),
        (f"{size}s",       signed_bytes(first.replace(correlation_id=b"\2" * size), scheme, start + ones)),
    )
    # fmt: on
    (stamp_at, _), (key_at, _), (flow_at, _) = places_of(data, others)
    begun, second = data[:stamp_at], data[stamp_at + _REST.size : key_at]
    third, fourth = data[key_at + _NUMBER_BYTES : flow_at], data[flow_at + size : -_NUMBER_BYTES]
    form = f"<{_CHANGING}{len(second)}sq{len(third)}s{size}s{len(fourth)}sQ"
    return (begun, second, third, fourth), struct.Struct(form).pack


def seal_to_sign(message: Message, domains: Domains, at_ns: int, recipient: Recipient) -> KnownSeal | None:
    """Give the seal of messages such as this one to a recipient; None if `sign` does otherwise than sign with a stamp.

    The message has its domain, and no signature.
    """
    domain = domains.find(message.identity)
    if domain is None or domain.name != message.domain or domain.allows_unsigned(message.identity):
        return None
    key = domain.key_at(at_ns)
    return None if key is None else _seal(message, domain, key, domain.scheme, recipient)


def seal_of(message: Message, domains: Domains, listener: Listener) -> KnownSeal | None:
    """Give the seal of messages such as this one, which has been judged valid; None if its signature has no stamp."""
    domain = domains.get(message.domain)
    parts = None if domain is None else read_signature(message.signature, domain.scheme)
    if domain is None or parts is None or parts.stamp is None:
        return None
    key = next(iter(domain.keys_at(None, parts.stamp.key_id)), None)
    if key is None or (SCHEMES[parts.scheme].has_recipient and parts.stamp.recipient not in listener.recipients):
        return None
    return _seal(message, domain, key, parts.scheme, parts.stamp.recipient)


def _seal(message: Message, domain: Domain, key: Key, scheme: str, recipient: Recipient) -> KnownSeal | None:
    if not SCHEMES[scheme].has_stamp or len(message.body_frames) != 1 or not message.correlation_id:
        return None
    try:
        seal = KnownSeal(message, domain, key, scheme, recipient)
        wanted = mac(key.secret, domain.algorithm, signed_bytes(message, scheme, seal.start + bytes(_REST.size)))
    except SecurityError:
        return None
    found = seal.mac(0, 0, bytes(NONCE_BYTES), message.callback_key, message.correlation_id, message.body_frames[0])
    return seal if found == wanted else None
