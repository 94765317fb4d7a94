"""Whom a node believes: who is at the other end of a connection, and whether a signature is accepted.

What arrives has the name of its connection in front, which whoever connects has chosen. A hello that is believed makes
the connection the one of its node (`callers.py`). Before a hello there is only the claim within the name. The claim is
good for captures, and for nothing that needs trust: a control message counts only from the node itself, and a train is
opened only if it comes from a node that said hello.

A route counts only with proof of the key of its domain. Where there are certificates, the certificate of the node must
name the domain too.

What is signed is for one process: this node since its start. A hello may be for anyone, since its sender may not know
yet who lives at an address. So a hello that was recorded elsewhere is believed once. What comes over its connection is
believed only with signatures of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container
from functools import partial

import msgspec

from hopwire.cluster.announce import Doubled, Hello, Routes, proved_bytes
from hopwire.errors import PayloadError
from hopwire.model import Message, contract_of, payload_from_body
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.callers import Callers
from hopwire.node.certificate import Certificate
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.no_route import Refusals
from hopwire.node.notices import Notice, Notices, shown, why_refused
from hopwire.node.settings import NodeSettings
from hopwire.node.transit import Transit
from hopwire.security import ANYONE, Domains, Listener, Recipient, ReplayWindows, Verdict, is_accepted, proof_of, verify
from hopwire.security.known_seal import KnownSeal, seal_of
from hopwire.wire.connection import claimed_node

__all__ = ["HELLO", "Alive", "Trust", "identities_of"]

HELLO = contract_of(Hello).identity
FOR_ANYONE = frozenset((HELLO, contract_of(Doubled).identity))  # to processes that this node has not met


class Alive:
    """The nodes that have said something since the last look, whatever it was.

    `add` is the method of a plain set, since it is called for everything that arrives. Only while somebody is missed is
    it one that looks who speaks.
    """

    __slots__ = ("_missed", "_nodes", "_on_return", "add")

    def __init__(self) -> None:
        self._nodes: set[bytes] = set()
        self._missed: dict[bytes, Callable[[], None]] = {}
        self.add = self._nodes.add

    def miss(self, node: bytes, on_return: Callable[[], None]) -> None:
        """Call a function as soon as a node speaks again, before what it says is taken."""
        self._missed[node] = on_return
        self.add = self._look

    def forget(self, node: bytes) -> None:
        """Miss a node no more."""
        self._missed.pop(node, None)
        if not self._missed:
            self.add = self._nodes.add

    def _look(self, node: bytes) -> None:
        self._nodes.add(node)
        on_return = self._missed.get(node)
        if on_return is not None:
            self.forget(node)
            on_return()

    def take(self) -> tuple[bytes, ...]:
        """Give the nodes, and begin anew."""
        nodes = tuple(self._nodes)
        self._nodes.clear()
        return nodes


class Trust:
    """Judges what arrives."""

    def __init__(
        self,
        domains: Domains,
        settings: NodeSettings,
        dead: DeadLetters,
        notices: Notices,
        met: Container[bytes],
        here: Recipient,
        certificate_of: Callable[[bytes], Certificate | None],
    ) -> None:
        self.is_signing = bool(domains.signing)
        self.callers = Callers(met)
        self.transit = Transit()
        self.alive = Alive()
        self.refusals = Refusals()
        self._domains, self._dead, self._notices = domains, dead, notices
        self._certificate_of = certificate_of
        self._replay = ReplayWindows(
            round(settings.replay_seconds * NS_PER_SECOND),
            settings.seen_messages,
            skew_ns=round(settings.clock_skew_seconds * NS_PER_SECOND),
        )
        self._here = Listener((here,), since_ns=here.incarnation)  # an incarnation is the time of the start
        self._greeted = Listener((here, ANYONE))

    def use(self, domains: Domains) -> None:
        """Judge by the keys of these domains from now on; what was seen is remembered."""
        self._domains = domains

    def end(self, connection: bytes) -> None:
        """Forget what was known of a connection that has ended."""
        self.callers.end(connection)
        self.transit.forget(connection)

    def claim(self, connection: bytes) -> bytes:
        """Give the node that is at the other end before its hello: by its certificate, or as its name claims."""
        certificate = self._certificate_of(connection)
        if certificate is None or certificate.node is None:
            return claimed_node(connection)
        return certificate.node

    def is_believed(self, message: Message) -> bool:
        """Tell whether the signature of a message is accepted; if not, the message is a dead letter."""
        listener = self._greeted if message.identity in FOR_ANYONE else self._here
        verdict = verify(message, self._domains, time.time_ns(), self._replay, listener)
        if is_accepted(verdict, message, self._domains):
            return True
        self._dead.add(DeadLetter("bad_signature", str(verdict), message))
        self._notices.warn((message.socket_identity, verdict), partial(_refusal, verdict, message, self._domains))
        who = _claimed_uri(message) or message.socket_identity
        self.refusals.note(message.socket_identity, shown(who), why_refused(verdict, message, self._domains)[0])
        return False

    def proved(self, said: Routes, message: Message, hosts: Container[str] | None) -> Routes:
        """Give the routes that count: those of domains whose key the node has, and that its certificate lets it host.

        A route of a domain that is not known here is left out in silence: nobody here could say such a message, nor
        believe one. All other routes that are left out are a dead letter for each domain.
        """
        if not self.is_signing and hosts is None:
            return said
        refusals: dict[bytes, str | None] = {each: self._refusal_of(each, hosts) for each in identities_of(said)}
        if self.is_signing:
            self._ask_for_proofs(said, refusals)
        counted = Counter(refusal for _, identity, *_ in said.added if (refusal := refusals.get(identity, "")))
        for refusal, count in counted.items():
            self._dead.add(DeadLetter("no_proof", f"{count} routes of {refusal}", message))
            self.refusals.note(said.node, f"node {shown(said.node)}", f"it announces {refusal}")
            self._notices.warn((said.node, refusal), partial(_refused_routes, said.node, refusal))
        if any(refusal != "" for refusal in refusals.values()):
            added = tuple([route for route in said.added if not route[1] or refusals[route[1]] == ""])
            return msgspec.structs.replace(said, added=added)
        return said

    def _refusal_of(self, identity: bytes, hosts: Container[str] | None) -> str | None:
        """Say why a node may not host an identity by its certificate; None says that nobody here knows its domain."""
        domain = self._domains.find(identity)
        if domain is None:
            return None if self.is_signing else ""
        if hosts is not None and domain.name not in hosts:
            return f"domain {shown(domain.name)}, which the certificate of the node does not name"
        return ""

    def _ask_for_proofs(self, said: Routes, refusals: dict[bytes, str | None]) -> None:
        """Judge the proof of each domain of some routes, once."""
        proofs, data, now_ns = dict(said.proofs), proved_bytes(said), time.time_ns()
        judged: dict[str, str] = {}
        for identity, refusal in refusals.items():
            domain = self._domains.find(identity)
            if refusal != "" or domain is None or domain.allows_unsigned(identity):
                continue
            if domain.name not in judged:
                verdict = proof_of(proofs.get(domain.name, b""), data, domain, now_ns, self._replay, self._here)
                words = f"domain {shown(domain.name)}, without a proof of its key ({verdict})"
                judged[domain.name] = "" if verdict is Verdict.VALID else words
            refusals[identity] = judged[domain.name]

    def seal_of(self, message: Message) -> KnownSeal | None:
        """Give what judges messages such as this one, which was believed, if such messages are signed."""
        return seal_of(message, self._domains, self._here) if self.is_signing and message.signature else None

    def is_sealed(
        self,
        seal: KnownSeal | None,
        signature: bytes,
        key: int,
        correlation_id: bytes,
        ttl_ticks: int,
        body: bytes,
    ) -> bool:
        """Tell whether a known message is plainly believed; False says nothing: `is_believed` judges the whole."""
        return seal is not None and seal.is_valid(
            signature, key, correlation_id, ttl_ticks, body, time.time_ns(), self._replay, self._here.since_ns
        )


def identities_of(routes: Routes) -> tuple[bytes, ...]:
    """Give the identities of the contracts among routes that are added, each once; hubs have none."""
    return tuple(dict.fromkeys([identity for _, identity, _, _ in routes.added if identity]))


def _refused_routes(node: bytes, refusal: str) -> Notice:
    peer = shown(node)
    text = f"refused routes of node {peer}: it announces {refusal}"
    return Notice(text, {"event": "routes_refused", "peer": peer})


def _claimed_uri(message: Message) -> str:
    """Give the address that a hello names, which may not be true; nothing of any other message."""
    try:
        return payload_from_body(Hello, message.body).uri if message.identity == HELLO else ""
    except PayloadError:
        return ""


def _refusal(verdict: Verdict, message: Message, domains: Domains) -> Notice:
    """Say who was not believed, and why; the address is that of a hello, which may not be true."""
    why, key_id = why_refused(verdict, message, domains)
    uri = _claimed_uri(message)
    peer = shown(message.socket_identity)
    where, key = f" at {shown(uri)}" if uri else "", f", key {shown(key_id)}" if key_id else ""
    text = f"refused what node {peer}{where} says: {why} ({verdict}{key})"
    return Notice(text, {"event": "refused", "peer": peer, "uri": uri, "verdict": str(verdict), "key_id": key_id})
