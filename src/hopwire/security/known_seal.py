"""Signatures of messages that come again and again, and differ in body, key, correlation id and time to live alone.

What is signed of such messages is known but for a few places (`schemes.py` says what is signed):

    label, stamp ... sent at, TTL, nonce    domain, numbers ... callback key    ... correlation id ...    body

So the bytes are written once, and afterwards only what changes. Both signing and judging are those of `signing.py`,
which remains the law: the places are found by writing, what would be written is compared with what `signed_bytes`
gives before it is used, and whatever is not plainly valid is judged by `verify`.

The trap: keys come and go with time. A seal is good for one key, and asks again whenever the validity of any key of the
domain may have changed.
"""

from __future__ import annotations

import math
import struct
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
    keyed_in_two,
    read_signature,
    signed_bytes,
    stamp_bytes,
)
from hopwire.security.signing import Listener, has_shrunk
from hopwire.wire.known import fixed_between, places_of

__all__ = ["KnownSeal", "seal_of", "seal_to_sign"]

_REST = struct.Struct("<qq16s")  # of a stamp: sent at, TTL, nonce
_ONES, _TWOS = 0x0101010101010101, 0x0202020202020202  # numbers that differ in every byte
_LENGTH = 8  # bytes of the length in front of the body


class KnownSeal:
    """Signs and judges messages that have all but a few values in common, under one key."""

    __slots__ = (
        "_begins_ns",
        "_domain",
        "_ends_ns",
        "_fixed",
        "_from_ns",
        "_key",
        "_mac",
        "_pack",
        "_scope",
        "_signed_by",
        "_until_ns",
        "has_recipient",
        "size",
        "start",
    )

    def __init__(self, message: Message, domain: Domain, key: Key, scheme: str, recipient: Recipient) -> None:
        self._domain, self._key, self._scope = domain, key, (domain.name, key.id)
        self.has_recipient = SCHEMES[scheme].has_recipient
        stamp = Stamp(key.id, 0, 0, bytes(NONCE_BYTES), recipient)
        self.start = stamp_bytes(stamp, scheme)[: -_REST.size]
        self.size = len(self.start) + _REST.size + MAC_BYTES
        self._mac = keyed_in_two(key.secret, domain.algorithm)
        fixed, made = _places(message, scheme, self.start)
        self._fixed, self._pack = fixed, made.pack
        self._from_ns, self._until_ns, self._signed_by = math.inf, -math.inf, False
        self._begins_ns = -math.inf if key.not_before_ns is None else key.not_before_ns  # what `Key.is_valid_at` asks
        self._ends_ns = math.inf if key.not_after_ns is None else key.not_after_ns

    def written(self, rest: bytes, callback_key: int, correlation_id: bytes, size_bytes: int) -> bytes:
        """Give what is signed in front of the body; `rest` is what a stamp says anew."""
        first, second, third, fourth, last = self._fixed
        return self._pack(first, rest, second, callback_key, third, correlation_id, fourth, size_bytes, last)

    def sign(
        self, callback_key: int, correlation_id: bytes, ttl_ticks: int, body: bytes, sent_at_ns: int, nonce: bytes
    ) -> bytes:
        """Give the signature of a message; the caller has asked whether the seal is current."""
        rest = _REST.pack(sent_at_ns, ttl_ticks, nonce)
        first, second, third, fourth, last = self._fixed  # what `written` does, without a call
        written = self._pack(first, rest, second, callback_key, third, correlation_id, fourth, len(body), last)
        return self.start + rest + self._mac(written, body)

    def is_current(self, at_ns: int) -> bool:
        """Tell whether the domain signs with this key; asked anew when the validity of a key may have changed."""
        if not self._from_ns <= at_ns < self._until_ns:
            changes = [
                change
                for key in self._domain.keys
                for change in (key.not_before_ns, key.not_after_ns)
                if change is not None
            ]
            self._from_ns = max((each for each in changes if each <= at_ns), default=-math.inf)
            self._until_ns = min((each for each in changes if each > at_ns), default=math.inf)
            self._signed_by = self._domain.key_at(at_ns) is self._key
        return self._signed_by

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
        start = self.start
        if len(signature) != self.size or not signature.startswith(start):
            return False
        at = len(start)
        rest, mac = signature[at:-MAC_BYTES], signature[-MAC_BYTES:]
        first, second, third, fourth, last = self._fixed
        written = self._pack(first, rest, second, callback_key, third, correlation_id, fourth, len(body), last)
        if not compare_digest(self._mac(written, body), mac):
            return False
        sent_at_ns, signed_ticks, nonce = _REST.unpack(rest)
        if sent_at_ns < 0 or signed_ticks < 0 or not has_shrunk(ttl_ticks, signed_ticks):
            return False
        if not self._begins_ns <= at_ns < self._ends_ns or (not self.has_recipient and sent_at_ns <= since_ns):
            return False
        return replay.admit(self._scope, nonce, sent_at_ns, at_ns)


def _places(message: Message, scheme: str, start: bytes) -> tuple[tuple[bytes, ...], struct.Struct]:
    """Find what changes in the bytes that are signed in front of the body."""
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
    return fixed_between(data, (*places_of(data, others), (len(data) - _LENGTH, "Q")))


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
        rest = bytes(_REST.size)
        wanted = signed_bytes(message, scheme, seal.start + rest)
    except SecurityError:
        return None
    body = message.body_frames[0]
    written = seal.written(rest, message.callback_key, message.correlation_id, len(body))
    return seal if written + body == wanted else None
