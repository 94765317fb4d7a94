"""Whom a node believes: who is at the other end of a connection, and whether a signature is accepted.

What arrives has the name of its connection in front, which whoever connects has chosen. A hello that is believed makes
the connection the one of its node (`callers.py`). Before a hello there is only the claim within the name. The claim is
good for captures, and for nothing that needs trust: a control message counts only from the node itself, and a train is
opened only if it comes from a node that said hello.

What is signed is for one process: this node since its start. A hello may be for anyone, since its sender may not know
yet who lives at an address. So a hello that was recorded elsewhere is believed once. What comes over its connection is
believed only with signatures of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from functools import partial

from hopwire.cluster.announce import Doubled, Hello
from hopwire.errors import PayloadError
from hopwire.model import Message, contract_of, payload_from_body
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.callers import Callers
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.notices import Notice, Notices, shown, why_refused
from hopwire.node.settings import NodeSettings
from hopwire.node.transit import Transit
from hopwire.security import ANYONE, Domains, Listener, Recipient, ReplayWindows, Verdict, is_accepted, verify
from hopwire.security.known_seal import KnownSeal, seal_of

__all__ = ["HELLO", "Alive", "Trust"]

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
    ) -> None:
        self.is_signing = bool(domains.signing)
        self.callers = Callers(met)
        self.transit = Transit()
        self.alive = Alive()
        self._domains, self._dead, self._notices = domains, dead, notices
        self._replay = ReplayWindows(
            round(settings.replay_seconds * NS_PER_SECOND),
            settings.seen_messages,
            skew_ns=round(settings.clock_skew_seconds * NS_PER_SECOND),
        )
        self._here = Listener((here,), since_ns=here.incarnation)  # an incarnation is the time of the start
        self._greeted = Listener((here, ANYONE))

    def end(self, connection: bytes) -> None:
        """Forget what was known of a connection that has ended."""
        self.callers.end(connection)
        self.transit.forget(connection)

    def is_believed(self, message: Message) -> bool:
        """Tell whether the signature of a message is accepted; if not, the message is a dead letter."""
        listener = self._greeted if message.identity in FOR_ANYONE else self._here
        verdict = verify(message, self._domains, time.time_ns(), self._replay, listener)
        if is_accepted(verdict, message, self._domains):
            return True
        self._dead.add(DeadLetter("bad_signature", str(verdict), message))
        self._notices.warn((message.socket_identity, verdict), partial(_refusal, verdict, message, self._domains))
        return False

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


def _refusal(verdict: Verdict, message: Message, domains: Domains) -> Notice:
    """Say who was not believed, and why; the address is that of a hello, which may not be true."""
    why, key_id = why_refused(verdict, message, domains)
    try:
        uri = payload_from_body(Hello, message.body).uri if message.identity == HELLO else ""
    except PayloadError:
        uri = ""
    peer = shown(message.socket_identity)
    where, key = f" at {shown(uri)}" if uri else "", f", key {shown(key_id)}" if key_id else ""
    text = f"refused what node {peer}{where} says: {why} ({verdict}{key})"
    return Notice(text, {"event": "refused", "peer": peer, "uri": uri, "verdict": str(verdict), "key_id": key_id})
