"""Proofs of a domain's key, for what is said about a domain in messages that are not its own.

Routes, receipts and outcomes are messages of the nodes: they belong to the domain that owns `hopwire.*`, whose key all
members have. Two rules keep members from speaking of domains whose keys they do not have:

| what is said | counts only with |
|---|---|
| a route for an identity of a domain | a proof by that domain's key, within the announcement |
| what became of a question; how much of a stream is wanted | the signature of the question's domain, or an answer's |

A proof is written like a signature of `hopwire-2` (`schemes.py`): stamp and MAC, with the recipient in the stamp. So a
proof is good once, for one process, for as long as a signature would be. What is proved are some bytes: here what the
announcement says (`proved_bytes` in `cluster/announce.py`).

    A announces routes of `orders` to B: the proof names B since its start, and covers A, its start and the routes
    C, who has recorded the announcement, cannot use the proof: C is not A, the nonce is known to B, D is not B

Domains of the scheme `legacy` have proofs of routes too. Outcomes of their questions are signed by the domain that owns
`hopwire.*`: a bare MAC covers neither the key of a question nor its flow.
"""

from __future__ import annotations

from collections.abc import Iterable
from hmac import compare_digest

from hopwire.errors import SecurityError
from hopwire.security.domains import Domain, Domains
from hopwire.security.replay import Replay
from hopwire.security.schemes import SCHEMES, Recipient, Stamp, keyed_in_two, read_signature, stamp_bytes
from hopwire.security.signing import Listener, Verdict

__all__ = ["has_domain_of", "proof_of", "prove", "voucher"]

LABEL = b"hopwire proof"  # apart from whatever else a key may sign
SCHEME, ALGORITHM = "hopwire-2", "sha256"


def prove(data: bytes, domain: Domain, sent_at_ns: int, nonce: bytes, recipient: Recipient) -> bytes:
    """Give the proof that the sender of some bytes has the key of a domain; nothing where no key is valid now."""
    key = domain.key_at(sent_at_ns)
    if key is None:
        return b""
    written = stamp_bytes(Stamp(key.id, sent_at_ns, 0, nonce, recipient), SCHEME)
    return written + keyed_in_two(key.secret, ALGORITHM)(_front(written, domain), data)


def proof_of(
    proof: bytes,
    data: bytes,
    domain: Domain,
    at_ns: int,
    replay: Replay | None = None,
    listener: Listener | None = None,
) -> Verdict:
    """Judge a proof as `verify` judges a signature; it never raises because of a proof."""
    if not proof:
        return Verdict.UNSIGNED
    parts = read_signature(proof, SCHEME)
    if parts is None or parts.stamp is None or parts.scheme != SCHEME:
        return Verdict.INVALID
    key = next(iter(domain.keys_at(at_ns, parts.stamp.key_id)), None)
    if key is None:
        return Verdict.NO_KEY
    if not compare_digest(keyed_in_two(key.secret, ALGORITHM)(_front(parts.written, domain), data), parts.mac):
        return Verdict.INVALID
    if listener is not None and parts.stamp.recipient not in listener.recipients:
        return Verdict.MISDIRECTED
    scope = domain.name, key.id
    if replay is not None and not replay.admit(scope, parts.stamp.nonce, parts.stamp.sent_at_ns, at_ns):
        return Verdict.REPLAYED
    return Verdict.VALID


def _front(written: bytes, domain: Domain) -> bytes:
    """Give what is signed in front of the data, each behind its length."""
    try:
        fields = (LABEL, written, domain.name.encode())
    except UnicodeEncodeError:
        raise SecurityError("the name of a domain is not valid Unicode") from None
    return b"".join(len(field).to_bytes(8, "little") + field for field in fields)


def voucher(asked: Iterable[bytes], domains: Domains, at_ns: int) -> str:
    """Give the domain that speaks about a question: the first of these identities whose domain can sign; or nothing."""
    for identity in asked:
        domain = domains.find(identity)
        if domain is not None and _vouches(domain, identity) and domain.key_at(at_ns) is not None:
            return domain.name
    return ""


def has_domain_of(question: bytes, answers: Iterable[bytes], domain: str, domains: Domains) -> bool:
    """Tell whether a domain may speak about a question: the domain of the question, or of an answer to it."""
    owner = domains.find(question)
    if owner is None or not _vouches(owner, question):  # members may speak about what needs no key
        return True
    others = (domains.find(identity) for identity in answers)
    return domain == owner.name or any(other is not None and other.name == domain for other in others)


def _vouches(domain: Domain, identity: bytes) -> bool:
    return SCHEMES[domain.scheme].has_stamp and not domain.allows_unsigned(identity)
