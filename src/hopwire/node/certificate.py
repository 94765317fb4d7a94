"""What a certificate says: which node it is of, and which domains the node may host.

Both stand among the alternative names of the subject (subjectAltName), as URIs. The parts behind the last colon are
percent-encoded.

    URI:hopwire:node:payment-1        the identity of the node
    URI:hopwire:domain:orders         a domain that the node may host; `*` (written %2A) is every domain

A certificate names one node. A certificate that names none, or several, is of nobody: it opens a connection only where
`Tls(any_identity=True)` says so, and may then be of any node and host every domain.
"""

from __future__ import annotations

import ssl
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

__all__ = ["DOMAIN_URI", "NODE_URI", "Certificate", "certificate_from", "names_of", "own_certificate"]

NODE_URI, DOMAIN_URI = "hopwire:node:", "hopwire:domain:"
EVERY_DOMAIN = "*"
MOST_TURNS = 10  # of a handshake within this process: it needs three


@dataclass(frozen=True, slots=True)
class _Everything:
    """Contains whatever is looked for."""

    def __contains__(self, _: object) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate at the other end of a connection, or the own one."""

    node: bytes | None  # None: it names none
    hosts: Container[str]  # names of domains
    fingerprint: str  # SHA-256 of the certificate, in hexadecimal digits
    issuer: tuple[Any, ...] = ()
    not_after: float = 0.0  # seconds of the wall clock

    def is_of(self, node: bytes) -> bool:
        """Tell whether the certificate may be that of a node."""
        return self.node is None or self.node == node

    @property
    def shown(self) -> str:
        """The certificate in words, for people."""
        whose = "of nobody" if self.node is None else f"that of {self.node.decode(errors='backslashreplace')!a}"
        return f"{whose:.120} (sha256:{self.fingerprint[:16]}...)"


def certificate_from(said: Mapping[str, Any], der: bytes) -> Certificate:
    """Give a certificate as `ssl` tells it: the table of `getpeercert`, and the bytes."""
    uris = [value for kind, value in said.get("subjectAltName", ()) if kind == "URI"]
    nodes = [unquote_to_bytes(uri.removeprefix(NODE_URI)) for uri in uris if uri.startswith(NODE_URI)]
    domains = frozenset(unquote(uri.removeprefix(DOMAIN_URI)) for uri in uris if uri.startswith(DOMAIN_URI))
    is_named = len(nodes) == 1 and bool(nodes[0])
    not_after = ssl.cert_time_to_seconds(said["notAfter"]) if "notAfter" in said else 0.0
    hosts = _Everything() if not is_named or EVERY_DOMAIN in domains else domains
    return Certificate(
        nodes[0] if is_named else None, hosts, sha256(der).hexdigest(), said.get("issuer", ()), not_after
    )


def names_of(node: bytes, domains: Iterable[str]) -> str:
    """Give the subjectAltName of the certificate of a node, as OpenSSL reads it."""
    uris = [NODE_URI + quote(node, safe=""), *[DOMAIN_URI + quote(domain, safe="") for domain in domains]]
    return ",".join(f"URI:{uri}" for uri in uris)


def own_certificate(client: ssl.SSLContext, server: ssl.SSLContext) -> Certificate | None:
    """Give the certificate of this node, by a handshake with itself; None if its authority does not vouch for it."""
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(there, here), server.wrap_bio(here, there, server_side=True))
    try:
        for _ in range(MOST_TURNS):
            for end in ends:
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        said, der = ends[0].getpeercert(), ends[0].getpeercert(True)
    except (ssl.SSLError, ValueError):
        return None
    return None if not said or der is None else certificate_from(said, der)
