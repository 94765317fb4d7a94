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
from collections.abc import Container
from functools import partial

from hopwire.cluster.announce import Hello
from hopwire.errors import PayloadError
from hopwire.model import Message, contract_of, payload_from_body
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.callers import Callers
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.notices import Notice, Notices, shown, why_refused
from hopwire.node.settings import NodeSettings
from hopwire.node.transit import Transit
from hopwire.security import ANYONE, Domains, Listener, Recipient, ReplayWindows, Verdict, is_accepted, verify

__all__ = ["HELLO", "Trust"]

HELLO = contract_of(Hello).identity


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
        self.alive: set[bytes] = set()  # nodes that have said something since the last look, whatever it was
        self._domains, self._dead, self._notices = domains, dead, notices
        self._replay = ReplayWindows(
            round(settings.replay_seconds * NS_PER_SECOND),
            settings.seen_messages,
            skew_ns=round(settings.clock_skew_seconds * NS_PER_SECOND),
        )
        self._here = Listener((here,), since_ns=here.incarnation)  # an incarnation is the time of the start
        self._greeted = Listener((here, ANYONE))

    def is_believed(self, message: Message) -> bool:
        """Tell whether the signature of a message is accepted; if not, the message is a dead letter."""
        listener = self._greeted if message.identity == HELLO else self._here
        verdict = verify(message, self._domains, time.time_ns(), self._replay, listener)
        if is_accepted(verdict, message, self._domains):
            return True
        self._dead.add(DeadLetter("bad_signature", str(verdict), message))
        self._notices.warn((message.socket_identity, verdict), partial(_refusal, verdict, message, self._domains))
        return False


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
