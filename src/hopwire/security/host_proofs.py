"""Host proofs: that one process has the key of a domain, for whoever has the key too.

In a cluster the routes of a node come through other members. A proof that is good for one recipient (`proofs.py`)
cannot travel like that. So the record of a member has a host proof for each domain of its routes: u8 length of the key
id, key id, MAC. What is signed, each behind its length (u64):

| field | bytes | so that the proof is of no use |
|---|---|---|
| label | `hopwire host` | as a signature, or as a proof of something else |
| key id, domain | UTF-8 | for another domain with the same key |
| node, incarnation | raw, i64 | to another node, or after a restart |
| address | UTF-8 | in a record that sends messages for the node elsewhere |

    A hosts `orders`. C hears the record of A from B, and judges the proof with its own key of `orders`
    M, who has no key of `orders`, copies the proof into its own record: M is not A, the proof is invalid

A host proof says nothing but "this process at this address has the key", and that stays true. So there is neither a
time nor a nonce in it, and no replay to fear: the same process has the same proof, whoever repeats it.

The trap: a key that ends. A process that has proved a domain stays believed until the domains here change.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hmac import compare_digest
from typing import NamedTuple

from hopwire.errors import SecurityError
from hopwire.security.domains import Domain, Key
from hopwire.security.schemes import keyed_in_two
from hopwire.security.signing import Verdict

__all__ = ["Host", "ProvedHosts", "host_proof_of", "prove_host"]

LABEL = b"hopwire host"  # apart from whatever else a key may sign
ALGORITHM, MAC_BYTES = "sha256", 32
MOST_KNOWN = 65_536  # processes and domains that are remembered; what is forgotten is judged again


class Host(NamedTuple):
    """A process that hosts actors: its node, its incarnation, and the address that it is found at."""

    node: bytes
    incarnation: int
    uri: str


def prove_host(host: Host, domain: Domain, at_ns: int) -> bytes:
    """Give the proof that a process has the key of a domain; nothing where no key is valid now."""
    key = domain.key_at(at_ns)
    if key is None:
        return b""
    key_id = key.id.encode()
    return bytes((len(key_id),)) + key_id + _mac(host, domain, key)


def host_proof_of(proof: bytes, host: Host, domain: Domain, at_ns: int) -> Verdict:
    """Judge the proof of a process; it never raises because of a proof."""
    if not proof:
        return Verdict.UNSIGNED
    end = 1 + proof[0]
    if len(proof) != end + MAC_BYTES:
        return Verdict.INVALID
    key_id = proof[1:end].decode(errors="replace")
    key = next(iter(domain.keys_at(at_ns, key_id)), None)
    if key is None:
        return Verdict.NO_KEY
    try:
        expected = _mac(host, domain, key)
    except SecurityError:  # an address that is no text
        return Verdict.INVALID
    return Verdict.VALID if compare_digest(expected, proof[end:]) else Verdict.INVALID


def _mac(host: Host, domain: Domain, key: Key) -> bytes:
    try:
        incarnation = struct.pack("<q", host.incarnation)
        fields = (LABEL, key.id.encode(), domain.name.encode(), host.node, incarnation, host.uri.encode())
    except (UnicodeEncodeError, struct.error):
        raise SecurityError("a process or a domain whose name cannot be signed") from None
    signed = b"".join(len(field).to_bytes(8, "little") + field for field in fields)
    return keyed_in_two(key.secret, ALGORITHM)(signed, b"")


class ProvedHosts:
    """Which processes have proved which domains, and who was refused: judged once, with the keys of these domains."""

    def __init__(self) -> None:
        self._proved: dict[tuple[Host, str], None] = {}
        self._refused: dict[bytes, dict[str, bool]] = {}  # of each node: its domains, and whether people know

    def judge(self, host: Host, proofs: Mapping[str, bytes], domain: Domain, at_ns: int) -> Verdict:
        """Tell whether a process has the key of a domain, by its proofs or by an earlier one."""
        known = host, domain.name
        if known in self._proved:
            return Verdict.VALID
        verdict = host_proof_of(proofs.get(domain.name, b""), host, domain, at_ns)
        if verdict is Verdict.VALID:
            if len(self._proved) >= MOST_KNOWN:
                del self._proved[next(iter(self._proved))]
            self._proved[known] = None
        return verdict

    def refuse(self, node: bytes, domain: str, is_told: bool = True) -> bool:
        """Note that routes of a node were refused; tell whether people have to be told, which is so once."""
        refused = self._refused.setdefault(node, {})
        is_news = is_told and not refused.get(domain, False)
        refused[domain] = is_told or refused.get(domain, False)
        return is_news

    def accept(self, node: bytes, domain: str) -> None:
        """Note that routes of a node count."""
        if node in self._refused:
            self._refused[node].pop(domain, None)
            if not self._refused[node]:
                del self._refused[node]

    def refused(self, node: bytes) -> tuple[str, ...]:
        """Give the domains of a node whose routes were refused."""
        return tuple(self._refused.get(node, ()))

    def refused_nodes(self) -> tuple[bytes, ...]:
        """Give the nodes that routes of were refused."""
        return tuple(self._refused)

    def is_untold(self, node: bytes) -> bool:
        """Tell whether people do not know of a refusal yet."""
        return not all(self._refused.get(node, {}).values())

    def forget(self, node: bytes) -> None:
        """Forget that a node was refused, since the node is gone."""
        self._refused.pop(node, None)

    def clear(self) -> None:
        """Judge everybody anew: the keys have changed."""
        self._proved.clear()
        self._refused.clear()
