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
| 9 | sent too long ago, or in the future, or seen before | replayed |
| 10 | else | valid |

A bare MAC (`legacy`) names no key: row 6 means that no key at all is valid, and row 7 tries each valid key. A bare MAC
has no stamp, so rows 5, 8 and 9 do not apply: **a legacy message can always be replayed.** Row 9 needs a replay window.
Without a time every key counts as valid.

`is_accepted` is the policy: a valid message is taken; an unsigned message is taken where the domains say so; any other
message is refused, even where an unsigned message would be taken.

The trap: a resend must be signed anew, with a new nonce. Otherwise the receiver calls the resend replayed and sends no
receipt.
"""

from __future__ import annotations

from enum import StrEnum
from hmac import compare_digest

from hopwire.errors import SecurityError, SettingsError
from hopwire.model import Message
from hopwire.security.domains import Domain, Domains, Key
from hopwire.security.replay import Replay
from hopwire.security.schemes import SCHEMES, Parts, Stamp, mac, read_signature, signed_bytes, stamp_bytes

__all__ = ["Verdict", "is_accepted", "sign", "verify"]


class Verdict(StrEnum):
    """What a receiver makes of a signature."""

    VALID = "valid"
    INVALID = "invalid"
    UNSIGNED = "unsigned"
    NO_KEY = "no_key"
    NOT_IN_DOMAIN = "not_in_domain"
    REPLAYED = "replayed"


def sign(message: Message, domains: Domains, sent_at_ns: int, nonce: bytes) -> Message:
    """Give the message with the domain of its identity and a signature, or none where it goes unsigned.

    The nonce is 16 bytes of chance, new for each call. Raises NotInDomain where no domain owns the identity, and
    SecurityError where no key is valid or a value cannot be signed.
    """
    if not domains.signing:
        owner = domains.find(message.identity)
        return message.replace(domain=owner.name if owner else "", signature=b"")
    domain = domains.domain_of(message.identity)
    if domain.allows_unsigned(message.identity):
        return message.replace(domain=domain.name, signature=b"")
    key = domain.key_at(sent_at_ns)
    if key is None:
        raise SecurityError(f"domain {domain.name!r} has no key that is valid at {sent_at_ns} ns")
    message = message.replace(domain=domain.name)
    stamp = Stamp(key.id, sent_at_ns, message.ttl_ticks, nonce)
    written = stamp_bytes(stamp) if SCHEMES[domain.scheme].has_stamp else b""
    return message.replace(signature=written + _mac(message, domain, key, written))


def verify(message: Message, domains: Domains, at_ns: int | None = None, replay: Replay | None = None) -> Verdict:
    """Judge the signature of a message that was received at a time; `verify` never raises because of a message."""
    if replay is not None and at_ns is None:
        raise SettingsError("a replay window needs the time: verify(..., at_ns=...)")
    domain = domains.get(message.domain)
    if domain is None:
        return Verdict.NO_KEY if message.domain or message.signature else Verdict.UNSIGNED
    if domains.find(message.identity) is not domain:
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
    return Verdict.VALID if parts.stamp is None else _verify_stamp(message, parts.stamp, at_ns, replay)


def is_accepted(verdict: Verdict, message: Message, domains: Domains) -> bool:
    """Tell whether a message with that verdict may be taken."""
    if verdict == Verdict.UNSIGNED:
        return domains.allows_unsigned(message.identity)
    return verdict == Verdict.VALID


def _verify_stamp(message: Message, stamp: Stamp, at_ns: int | None, replay: Replay | None) -> Verdict:
    if not _has_shrunk(message.ttl_ticks, stamp.ttl_ticks):
        return Verdict.INVALID
    if replay is None or at_ns is None:
        return Verdict.VALID
    is_new = replay.admit((message.domain, stamp.key_id), stamp.nonce, stamp.sent_at_ns, at_ns)
    return Verdict.VALID if is_new else Verdict.REPLAYED


def _has_shrunk(ttl_ticks: int, signed_ticks: int) -> bool:
    """Tell whether a TTL is not longer than signed; 0 is no limit, and a router may set a limit but not lift it."""
    return ttl_ticks >= 0 if signed_ticks == 0 else 0 < ttl_ticks <= signed_ticks


def _has_mac(message: Message, domain: Domain, key: Key, parts: Parts) -> bool:
    try:
        return compare_digest(_mac(message, domain, key, parts.written), parts.mac)
    except SecurityError:
        return False


def _mac(message: Message, domain: Domain, key: Key, written: bytes) -> bytes:
    return mac(key.secret, domain.algorithm, signed_bytes(message, domain.scheme, written))
