"""Whom a node believes: who is at the other end of a connection, and whether a signature is accepted.

What arrives has the name of its connection in front, which whoever connects has chosen. A hello that is believed makes
the connection the one of its node (`callers.py`). Before a hello there is only the claim within the name. The claim is
good for captures, and for nothing that needs trust: a control message counts only from the node itself, and a train is
opened only if it comes from a node that said hello.

A route counts only with proof of the key of its domain: in the announcement, or in a cluster in the record of its
owner. Where there are certificates, the certificate of the node must name the domain too.

What is signed is for one process: this node since its start. A hello may be for anyone, since its sender may not know
yet who lives at an address. So a hello that was recorded elsewhere is believed once. What comes over its connection is
believed only with signatures of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable
from functools import partial

import msgspec

from hopwire.cluster.announce import AnnouncedRoute, Doubled, Hello, Routes, proved_bytes
from hopwire.cluster.gossip import DOMAIN_CHARACTERS, MOST_PROOFS, MemberRecord
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
from hopwire.security import (
    ANYONE,
    Domain,
    Domains,
    Host,
    Listener,
    ProvedHosts,
    Recipient,
    ReplayWindows,
    Verdict,
    is_accepted,
    proof_of,
    prove_host,
    verify,
)
from hopwire.security.known_seal import KnownSeal, seal_of
from hopwire.security.replay import Replay
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
        self._hosts = ProvedHosts()
        self._hosted: dict[str, None] = {}  # domains of routes of this node
        self._replay = ReplayWindows(
            round(settings.replay_seconds * NS_PER_SECOND),
            settings.seen_messages,
            skew_ns=round(settings.clock_skew_seconds * NS_PER_SECOND),
        )
        self._me = here
        self._here = Listener((here,), since_ns=here.incarnation)  # an incarnation is the time of the start
        self._greeted = Listener((here, ANYONE))

    def rise(self, incarnation: int) -> None:
        """Believe what is signed for a later start of this node too; what is on its way is for the former."""
        later = Recipient(self._me.node, incarnation)
        self._here = Listener((later, self._me), self._here.since_ns)
        self._greeted = Listener((later, self._me, ANYONE))

    def use(self, domains: Domains) -> None:
        """Judge by the keys of these domains from now on; what was seen is remembered."""
        self._domains = domains
        self._hosts.clear()

    @property
    def has_domains(self) -> bool:
        """Whether there are domains, which a certificate may let a node host or not."""
        return bool(self._domains.domains)

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
        data = proved_bytes(said) if self.is_signing else b""
        proofs, now_ns = dict(said.proofs), time.time_ns()

        def judge(domain: Domain) -> Verdict:
            return proof_of(proofs.get(domain.name, b""), data, domain, now_ns, self._replay, self._here)

        added, refused = self._sort(said.added, hosts, judge)
        for words, count in refused.values():
            self._tell_refused(said.node, words, count, message)
        return said if len(added) == len(said.added) else msgspec.structs.replace(said, added=added)

    def host_proofs(self, here: Host, added: Iterable[AnnouncedRoute]) -> tuple[tuple[str, bytes], ...]:
        """Give the proofs of this process for the record of a member: one for each domain that it hosts, or hosted."""
        if not self.is_signing:
            return ()
        for identity in dict.fromkeys([route[1] for route in added if route[1]]):
            domain = self._domains.find(identity)
            if domain is not None and not domain.allows_unsigned(identity) and len(domain.name) <= DOMAIN_CHARACTERS:
                self._hosted[domain.name] = None
        now_ns, domains = time.time_ns(), [self._domains.get(name) for name in self._hosted]
        proofs = [(each.name, prove_host(here, each, now_ns)) for each in domains if each is not None]
        return tuple([each for each in proofs if each[1]][:MOST_PROOFS])

    def hosted_by(
        self, owner: MemberRecord, added: tuple[AnnouncedRoute, ...], hosts: Container[str] | None, is_told: bool
    ) -> tuple[AnnouncedRoute, ...]:
        """Give the routes of a member that count: those of domains that the process of its record has proved.

        Routes that are left out are a dead letter, one for each domain of a member; unless `is_told` is False because
        the record that has the proof may be on its way.
        """
        if not self.is_signing and hosts is None:
            return added
        host, proofs, now_ns = _host_of(owner), dict(owner.proofs), time.time_ns()
        accepted: list[str] = []

        def judge(domain: Domain) -> Verdict:
            verdict = self._hosts.judge(host, proofs, domain, now_ns)
            if verdict is Verdict.VALID:
                accepted.append(domain.name)
            return verdict

        counted, refused = self._sort(added, hosts, judge)
        for domain in accepted:
            if domain not in refused:
                self._hosts.accept(owner.node, domain)
        for domain, (words, count) in refused.items():
            if self._hosts.refuse(owner.node, domain, is_told):
                self._tell_refused(owner.node, words, count, None)
        return counted

    def has_proved_more(self, owner: MemberRecord) -> bool:
        """Tell whether a record proves a domain whose routes were refused."""
        host, proofs, now_ns = _host_of(owner), dict(owner.proofs), time.time_ns()
        domains = [self._domains.get(name) for name in self._hosts.refused(owner.node)]
        return any(
            each is not None and self._hosts.judge(host, proofs, each, now_ns) is Verdict.VALID for each in domains
        )

    def refused_hosts(self) -> dict[bytes, bool]:
        """Give the members that routes of were refused, and whether people do not know of it yet."""
        return {node: self._hosts.is_untold(node) for node in self._hosts.refused_nodes()}

    def forget_host(self, node: bytes) -> None:
        """Forget that routes of a member were refused, since the member is gone."""
        self._hosts.forget(node)

    def knows_domain_of(self, identity: bytes) -> bool:
        """Tell whether somebody here could say or believe a message."""
        return not self.is_signing or self._domains.find(identity) is not None

    def _sort(
        self, added: tuple[AnnouncedRoute, ...], hosts: Container[str] | None, judge: Callable[[Domain], Verdict]
    ) -> tuple[tuple[AnnouncedRoute, ...], dict[str, tuple[str, int]]]:
        """Give the routes that count, and for each domain of the others why they do not, and their number.

        Each domain is judged once. Hubs have no identity, and count.
        """
        judged: dict[str, str] = {}
        refusals: dict[bytes, tuple[str, str] | None] = {b"": ("", "")}  # of each identity: its domain, and why
        for identity in dict.fromkeys([route[1] for route in added if route[1]]):
            domain = self._domains.find(identity)
            if domain is None:  # where messages are signed, nobody here could say or believe one
                refusals[identity] = None if self.is_signing else ("", "")
                continue
            words = ""
            if hosts is not None and domain.name not in hosts:
                words = f"domain {shown(domain.name)}, which the certificate of the node does not name"
            elif self.is_signing and not domain.allows_unsigned(identity):
                if domain.name not in judged:
                    verdict = judge(domain)
                    why = f"domain {shown(domain.name)}, without a proof of its key ({verdict})"
                    judged[domain.name] = "" if verdict is Verdict.VALID else why
                words = judged[domain.name]
            refusals[identity] = domain.name, words
        if all(each is not None and not each[1] for each in refusals.values()):
            return added, {}
        counts = Counter(refusal for route in added if (refusal := refusals[route[1]]) is not None and refusal[1])
        counted = tuple([route for route in added if (refusal := refusals[route[1]]) is not None and not refusal[1]])
        return counted, {domain: (words, count) for (domain, words), count in counts.items()}

    def _tell_refused(self, node: bytes, words: str, count: int, message: Message | None) -> None:
        """Let routes that do not count be a dead letter and a warning."""
        who = "" if message is not None else f" of node {shown(node)}"  # what came through others names its owner
        self._dead.add(DeadLetter("no_proof", f"{count} routes{who} of {words}", message))
        self.refusals.note(node, f"node {shown(node)}", f"it announces {words}")
        self._notices.warn((node, words), partial(_refused_routes, node, words))

    def seal_of(self, message: Message) -> KnownSeal | None:
        """Give what judges messages such as this one, which was believed, if such messages are signed."""
        return seal_of(message, self._domains, self._here) if self.is_signing and message.signature else None

    def replay_of(self, seal: KnownSeal | None) -> Replay:
        """Give the memory of what was let in under the key of a seal; without one, that of all keys."""
        return self._replay if seal is None else self._replay.window(seal.scope)

    @property
    def since_ns(self) -> int:
        """Since when this node listens."""
        return self._here.since_ns


def identities_of(routes: Routes) -> tuple[bytes, ...]:
    """Give the identities of the contracts among routes that are added, each once; hubs have none."""
    return tuple(dict.fromkeys([identity for _, identity, _, _ in routes.added if identity]))


def _host_of(record: MemberRecord) -> Host:
    return Host(record.node, record.incarnation, record.uri)


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
