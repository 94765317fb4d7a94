"""The keys of members: who signs records and accusations, and whose signatures count.

| a node has | signs with | whose key counts for a name |
|---|---|---|
| a certificate that names it | the key of its certificate | that of any certificate of the node, by an authority |
| domains, or certificates of nobody | a key that it makes at its start | the first, while its process lives |
| neither | nothing | - |

A certificate is part of the record. So everybody can judge it, also who has no connection to its owner, and knows from
it which domains the owner may host. An authority of the file `authority` must have signed it directly.

Without certificates nobody can prove a name to a newcomer. But a name that a process has is its own until the process
is gone: nobody else can announce, accuse, leave or say hello for it. A hello is sealed for the process that it is said
to, by the key in the record; over a new connection it counts only with this seal.

The standard library checks no signatures, so this module needs the package `cryptography` (`hopwire[cluster]`).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import replace as replace_in
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from msgspec.structs import replace

from hopwire.cluster.announce import Hello
from hopwire.cluster.gossip import Accusation, MemberRecord
from hopwire.cluster.seals import (
    CLAIMED,
    FORGED,
    GENUINE,
    UNKNOWN,
    signed_accusation,
    signed_hello,
    signed_record,
)
from hopwire.errors import SettingsError
from hopwire.node.admission import LOOK_SECONDS, Admission
from hopwire.node.certificate import Certificate, certificate_from
from hopwire.node.transport import Tls

__all__ = ["CertifiedSeals", "OwnSeals"]

KNOWN_CERTIFICATES = 1024  # that are not read again
PSS = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class OwnSeals:
    """Signs with a key of this process; the key of another member is the one that its name came with."""

    def __init__(self) -> None:
        self._key = ed25519.Ed25519PrivateKey.generate()
        self._public = self._key.public_key().public_bytes_raw()

    def sign(self, record: MemberRecord) -> MemberRecord:
        """Give a record of this member with its key and its signature."""
        record = replace(record, key=self._public)
        return replace(record, signature=self._key.sign(signed_record(record)))

    def accuse(self, said: Accusation) -> Accusation:
        """Give an accusation of this member with its signature."""
        return replace(said, signature=self._key.sign(signed_accusation(said)))

    def judge(self, record: MemberRecord, known: MemberRecord | None) -> str:
        """Judge a record by its own key, which must be that of the member that lives under this name."""
        if not _is_signed_by(record.key, record.signature, signed_record(record)):
            return FORGED
        return GENUINE if known is None or known.key == record.key else CLAIMED

    def is_accused(self, said: Accusation, accuser: MemberRecord | None) -> bool:
        """Tell whether an accusation was written by the member that it names as accuser."""
        return accuser is not None and _is_signed_by(accuser.key, said.signature, signed_accusation(said))

    def seal(self, said: Hello, to: bytes) -> Hello:
        """Seal a hello for one process."""
        return replace(said, seal=self._key.sign(signed_hello(said, to)))

    def is_sealed(self, said: Hello, key: bytes, here: bytes) -> bool:
        """Tell whether a hello was said by the owner of a key, to this node."""
        return bool(said.seal) and _is_signed_by(key, said.seal, signed_hello(said, here))

    def hosts_of(self, _: MemberRecord) -> Container[str] | None:
        """Give the domains that a member may host by its certificate: there is none."""
        return None

    changes = 0  # of files: there are none

    def counts(self, _: MemberRecord) -> bool:
        """Tell whether the certificate of a member counts here: there is none."""
        return True

    def look(self) -> bool:
        """Tell whether this node signs with another key than before: never."""
        return False


class CertifiedSeals:
    """Signs with the key of the certificate of this node; others prove their names by their certificates."""

    def __init__(self, tls: Tls, identity: bytes) -> None:
        self._tls, self._identity = tls, identity
        self._admission = Admission(tls, identity)
        self._known: OrderedDict[bytes, _ReadCertificate | None] = OrderedDict()
        self._look_at, self._is_stale = 0.0, False
        self.changes = 0
        self._read()

    def sign(self, record: MemberRecord) -> MemberRecord:
        """Give a record of this member with its certificate and its signature."""
        record = replace(record, key=self._certificate)
        return replace(record, signature=self._sign(signed_record(record)))

    def accuse(self, said: Accusation) -> Accusation:
        """Give an accusation of this member with its signature."""
        return replace(said, signature=self._sign(signed_accusation(said)))

    def judge(self, record: MemberRecord, known: MemberRecord | None) -> str:
        """Judge a record by the certificate in it, which must name its member."""
        found = self._find(record.key)
        if found is None or time.time() < found.not_before:
            return UNKNOWN
        certificate, key = found.certificate, found.key
        if certificate.node != record.node or not _is_signed(key, record.signature, signed_record(record)):
            return FORGED
        return UNKNOWN if self._admission.refusal(certificate, is_new=True) else GENUINE

    def is_accused(self, said: Accusation, accuser: MemberRecord | None) -> bool:
        """Tell whether an accusation was written by the member that it names as accuser."""
        found = None if accuser is None else self._find(accuser.key)
        return found is not None and _is_signed(found.key, said.signature, signed_accusation(said))

    def seal(self, said: Hello, _: bytes) -> Hello:
        """Leave a hello as it is: the certificate of its connection proves it."""
        return said

    def is_sealed(self, _said: Hello, _key: bytes, _here: bytes) -> bool:
        """Tell that a hello needs no seal: the certificate of its connection proves it."""
        return True

    def hosts_of(self, record: MemberRecord) -> Container[str] | None:
        """Give the domains that a member may host by its certificate."""
        found = self._find(record.key)
        return () if found is None else found.certificate.hosts

    def counts(self, record: MemberRecord) -> bool:
        """Tell whether the certificate of a member counts here now: authorities and lists may have changed."""
        found = self._find(record.key)
        return found is not None and not self._admission.refusal(found.certificate, is_new=True)

    def look(self) -> bool:
        """Look at the files now and then; tell whether this node signs with another key than before."""
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + LOOK_SECONDS
        has_changed, _ = self._admission.look()  # what is wrong with them is told where connections are judged
        if not has_changed and not self._is_stale:
            return False
        self.changes += 1
        former = self._certificate
        try:
            self._read()
            self._is_stale = False
        except SettingsError:  # files that are just being replaced
            self._is_stale = True
        return self._certificate != former

    def _read(self) -> None:
        """Read the certificate of this node, its key, and its authorities."""
        try:
            chain = x509.load_pem_x509_certificates(Path(self._tls.certificate).read_bytes())
            authorities = x509.load_pem_x509_certificates(Path(self._tls.authority).read_bytes())
            key = load_pem_private_key(Path(self._tls.key).read_bytes(), password=None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise SettingsError(f"cannot sign with the certificate {self._tls.certificate}: {error}") from None
        sign = _signer(key)
        if sign is None:
            raise SettingsError(f"cannot sign with {self._tls.key}: members need a key of ECDSA, Ed25519 or RSA")
        if chain[0].public_key() != key.public_key():
            raise SettingsError(f"{self._tls.key} is not the key of the certificate {self._tls.certificate}")
        self._authorities, self._sign = authorities, sign
        self._certificate = chain[0].public_bytes(Encoding.DER)
        self._known.clear()

    def _find(self, der: bytes) -> _ReadCertificate | None:
        """Read a certificate, if one of the authorities has signed it; each is read once."""
        if der in self._known:
            self._known.move_to_end(der)
            return self._known[der]
        found = self._known[der] = _read_certificate(der, self._authorities)
        if len(self._known) > KNOWN_CERTIFICATES:
            self._known.popitem(last=False)
        return found


class _ReadCertificate(NamedTuple):
    """A certificate that an authority has signed."""

    certificate: Certificate
    key: PublicKey
    not_before: float  # seconds of the wall clock


def _read_certificate(der: bytes, authorities: list[x509.Certificate]) -> _ReadCertificate | None:
    try:
        read = x509.load_der_x509_certificate(der)
        key = read.public_key()
        if not isinstance(key, PublicKey) or not any(_is_issued(read, authority) for authority in authorities):
            return None
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = [("URI", uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
        until, since = read.not_valid_after_utc.timestamp(), read.not_valid_before_utc.timestamp()
    except Exception:  # bytes of others, which can be wrong in more ways than the library has names for
        return None
    return _ReadCertificate(replace_in(certificate_from({"subjectAltName": uris}, der), not_after=until), key, since)


def _is_issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


@lru_cache(maxsize=KNOWN_CERTIFICATES)
def _public(raw: bytes) -> ed25519.Ed25519PublicKey:
    return ed25519.Ed25519PublicKey.from_public_bytes(raw)


def _is_signed_by(raw: bytes, signature: bytes, data: bytes) -> bool:
    try:
        return _is_signed(_public(raw), signature, data)
    except ValueError:  # no public key
        return False


def _is_signed(key: PublicKey, signature: bytes, data: bytes) -> bool:
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, data)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(signature, data, ec.ECDSA(SHA256()))
        else:
            key.verify(signature, data, PSS, SHA256())
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):  # or a key that is too small to sign
        return False
    return True


def _signer(key: object) -> Callable[[bytes], bytes] | None:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return lambda data: key.sign(data, ec.ECDSA(SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        return lambda data: key.sign(data, PSS, SHA256())
    return None
