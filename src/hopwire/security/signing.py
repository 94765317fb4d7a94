"""Signing a message, and what a receiver makes of a signature.

`verify` answers with the first row that fits:

| row | found | verdict |
|---|---|---|
| 1 | no domain and no signature | unsigned |
| 2 | a domain that is not known, or a signature without a domain | no_key |
| 3 | an identity that does not belong to the domain | not_in_domain |
| 4 | no signature | unsigned |
| 5 | a signature that cannot be read | invalid |
| 6 | no key of that id that is valid at the time | no_key |
| 7 | a MAC that differs | invalid |
| 8 | a TTL that has grown, or lost its limit | invalid |
| 9 | signed for another process | misdirected |
| 10 | sent too long ago, in the future, or before the listener began; or seen before | replayed |
| 11 | else | valid |

A bare MAC (`legacy`) names no key: row 6 means that no key at all is valid, and row 7 tries each valid key. A bare MAC
has no stamp, so rows 5, 8, 9 and 10 do not apply: **a legacy message can always be replayed.** Row 10 needs a
replay window. Without a time every key counts as valid.

A `Listener` says who judges. Row 9 is for the scheme with a recipient (`hopwire-2`). Without a recipient (`hopwire-1`)
nobody can tell a message from before a restart by its recipient: row 10 compares the times instead.

    B starts at 10 s, and A signs a message for B, incarnation 10, at 19 s. B starts again at 20 s.
    hopwire-2: the message is misdirected at B from then on, and it is misdirected at C at any time
    hopwire-1: the message is replayed at B, since 19 s is before 20 s; at C it is valid, once

`is_accepted` is the policy: a valid message is taken; an unsigned message is taken where the domains say so; any other
message is refused, even where an unsigned message would be taken.

The trap: a resend must be signed anew, with a new nonce. Otherwise the receiver calls the resend replayed and sends no
receipt.
"""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum
from hmac import compare_digest
from typing import NamedTuple

from hopwire.errors import SecurityError, SettingsError
from hopwire.model import Message
from hopwire.security.domains import Domain, Domains, Key
from hopwire.security.replay import Replay
from hopwire.security.schemes import (
    ANYONE,
    SCHEMES,
    Parts,
    Recipient,
    Stamp,
    mac,
    read_signature,
    signed_bytes,
    stamp_bytes,
)

__all__ = ["Listener", "Verdict", "has_shrunk", "is_accepted", "must_sign", "sign", "verify"]


class Verdict(StrEnum):
    """What a receiver makes of a signature."""

    VALID = "valid"
    INVALID = "invalid"
    UNSIGNED = "unsigned"
    NO_KEY = "no_key"
    NOT_IN_DOMAIN = "not_in_domain"
    MISDIRECTED = "misdirected"
    REPLAYED = "replayed"


class Listener(NamedTuple):
    """Who judges a message: the recipients that count here, and when the listener began (ns)."""

    recipients: Container[Recipient]
    since_ns: int = -1


def sign(message: Message, domains: Domains, sent_at_ns: int, nonce: bytes, recipient: Recipient = ANYONE) -> Message:
    """Give the message with the domain of its identity and a signature, or none where it goes unsigned.

    The nonce is 16 bytes of chance, new for each call. The recipient is the process that the message is sent to next;
    a scheme without a recipient leaves it out. Raises NotInDomain where no domain owns the identity, and
    SecurityError where no key is valid or a value cannot be signed.
    """
    if not domains.signing:
        owner = domains.find(message.identity)
        return message.replace(domain=owner.name if owner else "", signature=b"")
    domain = domains.owner(message.domain, message.identity) or domains.domain_of(message.identity)
    if domain.allows_unsigned(message.identity):
        return message.replace(domain=domain.name, signature=b"")
    key = domain.key_at(sent_at_ns)
    if key is None:
        raise SecurityError(f"domain {domain.name!r} has no key that is valid at {sent_at_ns} ns")
    message = message.replace(domain=domain.name)
    stamp = Stamp(key.id, sent_at_ns, message.ttl_ticks, nonce, recipient)
    written = stamp_bytes(stamp, domain.scheme) if SCHEMES[domain.scheme].has_stamp else b""
    return message.replace(signature=written + _mac(message, domain, key, domain.scheme, written))


def must_sign(message: Message, domains: Domains) -> bool:
    """Tell whether a node has to sign a message before it sends the message on: a recipient is written, or was."""
    if not message.signature:
        return True
    domain = domains.get(message.domain)
    if domain is None:
        return False
    if SCHEMES[domain.scheme].has_recipient:
        return True
    parts = read_signature(message.signature, domain.scheme)
    return parts is not None and SCHEMES[parts.scheme].has_recipient


def verify(
    message: Message,
    domains: Domains,
    at_ns: int | None = None,
    replay: Replay | None = None,
    listener: Listener | None = None,
) -> Verdict:
    """Judge the signature of a message that was received at a time; `verify` never raises because of a message.

    Without a listener nobody asks whom the message is for.
    """
    if replay is not None and at_ns is None:
        raise SettingsError("a replay window needs the time: verify(..., at_ns=...)")
    domain = domains.get(message.domain)
    if domain is None:
        return Verdict.NO_KEY if message.domain or message.signature else Verdict.UNSIGNED
    if domains.owner(message.domain, message.identity) is not domain:
        return Verdict.NOT_IN_DOMAIN
    if not message.signature:
        return Verdict.UNSIGNED
    parts = read_signature(message.signature, domain.scheme)
    if parts is None:
        return Verdict.INVALID
    keys = domain.keys_at(at_ns, parts.stamp.key_id if parts.stamp else None)
    if not keys:
        return Verdict.NO_KEY
    if not any(_has_mac(message, domain, key, parts) for key in keys):
        return Verdict.INVALID
    if parts.stamp is None:
        return Verdict.VALID
    if not has_shrunk(message.ttl_ticks, parts.stamp.ttl_ticks):
        return Verdict.INVALID
    if listener is not None:
        if SCHEMES[parts.scheme].has_recipient:
            if parts.stamp.recipient not in listener.recipients:
                return Verdict.MISDIRECTED
        elif parts.stamp.sent_at_ns <= listener.since_ns:
            return Verdict.REPLAYED
    return Verdict.VALID if _is_new(message.domain, parts.stamp, at_ns, replay) else Verdict.REPLAYED


def is_accepted(verdict: Verdict, message: Message, domains: Domains) -> bool:
    """Tell whether a message with that verdict may be taken."""
    if verdict == Verdict.UNSIGNED:
        return domains.allows_unsigned(message.identity)
    return verdict == Verdict.VALID


def _is_new(domain: str, stamp: Stamp, at_ns: int | None, replay: Replay | None) -> bool:
    if replay is None or at_ns is None:
        return True
    return replay.admit((domain, stamp.key_id), stamp.nonce, stamp.sent_at_ns, at_ns)


def has_shrunk(ttl_ticks: int, signed_ticks: int) -> bool:
    """Tell whether a TTL is not longer than signed; 0 is no limit, and a router may set a limit but not lift it."""
    return ttl_ticks >= 0 if signed_ticks == 0 else 0 < ttl_ticks <= signed_ticks


def _has_mac(message: Message, domain: Domain, key: Key, parts: Parts) -> bool:
    try:
        return compare_digest(_mac(message, domain, key, parts.scheme, parts.written), parts.mac)
    except SecurityError:
        return False


def _mac(message: Message, domain: Domain, key: Key, scheme: str, written: bytes) -> bytes:
    return mac(key.secret, domain.algorithm, signed_bytes(message, scheme, written))
