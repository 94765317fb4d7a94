"""The express way: messages that come again and again, and differ in body, key, correlation id and time to live alone.

A message of the express way is an envelope with those few values, and a `KnownMessage` with everything else. Its meta
frame is written and read by `wire/known.py`, its signature by `security/known_seal.py`. Only bytes are remembered: who
gets the message, over which connection, with which credit and until when is decided anew for each message, by the same
tables as ever. So no change of routes, peers, actors or keys has to be told to anybody here.

| step | the ordinary way | the express way |
|---|---|---|
| a hub asks | `Message`, `decide`, `forwarded`, `encode` | whose turn it is, `KnownMeta.write` |
| a node takes a question | `decode`, `decide` | the meta frame is found, whose turn it is |
| an actor answers | `spawned`, `decide`, `forwarded`, `encode` | `KnownMeta.write` |
| a hub takes an answer | `decode` | the meta frame is found |
| both ends in one node | the body is written and read | a payload that nobody can change is handed over |

Whatever is not as usual leaves the express way where it is noticed: the envelope makes its message, and the message
goes on as any other. The ordinary way alone would do.
"""

from __future__ import annotations

from hopwire.model import Message, Payload, body_from_payload
from hopwire.model.payload import Weigh, weigher_of
from hopwire.node.credit import line_of
from hopwire.node.envelope import Envelope
from hopwire.node.spawn import RECEIPT, STREAM, spawned
from hopwire.routing import forwarded
from hopwire.security import Domains, Recipient
from hopwire.security.known_seal import KnownSeal, SealedMeta, seal_to_sign
from hopwire.wire.known import KnownMeta, known_meta

__all__ = ["KnownMessage", "arrived"]

MOST_SEALS = 64  # processes that a message is signed for, each with some lengths of correlation ids
MOST_LENGTHS = 16  # of correlation ids that a question is asked with
NO_SEAL = (0, None, None)
MOST_ANSWERS = 64  # classes of payloads that a question is answered with


class KnownMessage:
    """What messages have in common that differ in body, key, correlation id and time to live alone."""

    __slots__ = (
        "_domains",
        "_last",
        "_seals",
        "answers",
        "contract",
        "is_answerable",
        "is_unaddressed",
        "line",
        "message",
        "metas",
        "receiver",
        "receiver_node",
        "seal",
        "wants_receipt",
        "weigh",
    )

    def __init__(self, message: Message, seal: KnownSeal | None = None, weigh: Weigh | None = None) -> None:
        self.weigh = weigh  # of the payload of an answer: whether it may be handed over within this node
        self.message, self.contract, self.line = message, message.contract, line_of(message)
        self.seal = seal  # what judges the signatures of such messages, where they arrive signed
        self.receiver, self.receiver_node = message.receiver_identity, message.receiver_node_identity
        self.is_unaddressed = not (message.receiver_identity or message.receiver_node_identity)
        points = message.callback_points
        self.wants_receipt = RECEIPT in points
        self.is_answerable = len(points) == 1 and points[0] not in (RECEIPT, STREAM)  # by one answer, and nothing else
        self.metas: dict[int, KnownMeta | None] = {}
        self._seals: dict[tuple[int, Recipient], SealedMeta | None] = {}
        self._last: tuple[int, Recipient | None, SealedMeta | None] = NO_SEAL
        self._domains: Domains | None = None  # that the seals were made with
        self.answers: dict[type[Payload], KnownMessage | None] = {}

    def message_of(self, envelope: Envelope) -> Message:
        """Give the whole message of an envelope."""
        payload = envelope.payload
        return self.message.replace(
            body_frames=(envelope.body if payload is None else body_from_payload(payload),),
            callback_key=envelope.key,
            correlation_id=envelope.correlation_id,
            ttl_ticks=envelope.ttl_ticks,
            signature=envelope.signature,
            socket_identity=envelope.came_from,
        )

    def meta(self, length: int) -> KnownMeta | None:
        """Give the meta frame with which such a message leaves this node, for a correlation id of this length."""
        try:
            return self.metas[length]
        except KeyError:
            if len(self.metas) >= MOST_LENGTHS:
                self.metas.clear()
            found = self.metas[length] = known_meta(self._leaving(length))
            return found

    def _leaving(self, length: int) -> Message:
        """Give such a message as it leaves this node; what is traced, and would get an entry here, is not known."""
        return forwarded(self.message.replace(correlation_id=bytes(length), socket_identity=b""), "", b"")

    def sealed(self, length: int, recipient: Recipient, domains: Domains, now_ns: int) -> SealedMeta | None:
        """Give the same, signed for a process; None if such messages are not signed."""
        last_length, last_recipient, found = self._last  # found last: to compare costs less than to look up
        if recipient is last_recipient and length == last_length and domains is self._domains:
            return found
        place = length, recipient
        if domains is not self._domains:  # keys were changed while the node runs
            self._seals.clear()
            self._domains = domains
        if place not in self._seals:
            if len(self._seals) >= MOST_SEALS:
                self._seals.clear()
            self._seals[place] = self._new_seal(length, recipient, domains, now_ns)
        found = self._seals[place]
        self._last = length, recipient, found
        return found

    def _new_seal(self, length: int, recipient: Recipient, domains: Domains, now_ns: int) -> SealedMeta | None:
        message = self._leaving(length)
        domain = domains.find(message.identity)
        message = message.replace(domain="" if domain is None else domain.name, signature=b"")
        seal = seal_to_sign(message, domains, now_ns, recipient)
        meta = None if seal is None else known_meta(message.replace(signature=bytes(seal.size)))
        return None if seal is None or meta is None else SealedMeta(meta, seal)

    def forget_seals(self) -> None:
        """Make the seals anew: the domain signs with another key."""
        self._seals.clear()
        self._last = NO_SEAL

    def answer(self, payload: Payload) -> KnownMessage | None:
        """Give what answers with such a payload have in common; None if the payload is no answer that goes home."""
        kind = type(payload)
        try:
            return self.answers[kind]
        except KeyError:
            if len(self.answers) >= MOST_ANSWERS:
                self.answers.clear()
            message = spawned(self.message, payload, self.message.ttl_ticks, partition=self.message.partition)
            known = KnownMessage(message, weigh=weigher_of(kind)) if message.receiver_identity else None
            found = self.answers[kind] = known
            return found


def arrived(message: Message, meta: bytes, seal: KnownSeal | None) -> tuple[KnownMeta, KnownMessage] | None:
    """Learn a message that has arrived and was read, with its meta frame; None if such messages cannot be known."""
    if message.distribution or message.trace_options:
        return None
    found = known_meta(message)
    if found is None or found.is_signed is (seal is None):
        return None
    key, signature, correlation_id = message.callback_key, message.signature, message.correlation_id
    if found.is_signed:
        written = found.write_signed(key, signature, correlation_id, message.ttl_ticks)
    else:
        written = found.write(key, correlation_id, message.ttl_ticks)
    if written != meta:
        return None  # written otherwise than we write: every one of them is read as a whole
    return found, KnownMessage(message.replace(body_frames=(b"",), signature=b""), seal)
