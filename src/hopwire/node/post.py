"""The post of a node: messages to bytes on their way out, bytes to messages on their way in.

Out: a message gets the time that it has left, the format that the peer reads, a signature for the process at the other
end, and a place in the queue of the peer. In: a train is uncoupled, a signature judged, and a message handed over:
control messages to the membership, all others to the router.
"""

from __future__ import annotations

import logging
import math
import os
import struct
import time
from collections.abc import Callable, Container
from itertools import chain
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from hopwire.cluster.announce import CONTROL, Credit, CreditWanted, Routes, proved_bytes
from hopwire.cluster.gossip import GOSSIP, Ack, Ping
from hopwire.errors import HopwireError, WireError
from hopwire.model import Message, Payload, Version, body_from_payload, contract_of
from hopwire.model.choice import Choice, Choose
from hopwire.model.limits import Limits
from hopwire.model.names import OWN_PREFIX
from hopwire.model.units import NS_PER_MS, NS_PER_SECOND, TICKS_PER_SECOND
from hopwire.node.credit import CreditLine, Credits
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.envelope import HEADER_BYTES, Envelope
from hopwire.node.express import KnownMessage, arrived
from hopwire.node.mailbox import TAKEN
from hopwire.node.notices import shown
from hopwire.node.router import Router
from hopwire.node.seen import SeenMessages
from hopwire.node.settings import NodeSettings
from hopwire.node.spawn import seconds_from_ticks, ticks_from_seconds
from hopwire.node.tap import Tap
from hopwire.node.timing import Timing
from hopwire.node.transport import Frames, Transport
from hopwire.node.trust import HELLO, Trust, identities_of
from hopwire.node.waiters import ELSEWHERE, OtherPlaces, Waiter
from hopwire.routing import forwarded
from hopwire.security import ANYONE, Domains, Recipient, has_domain_of, must_sign, prove, sign, voucher
from hopwire.security.schemes import NONCE_BYTES
from hopwire.wire import V3, V6, WireFormat, decode, encode, transcode
from hopwire.wire.codec import decode_received, encode_own
from hopwire.wire.extension import extension_of
from hopwire.wire.known import USUAL_FRAMES, Entry, KnownMetas
from hopwire.wire.train import is_train, queued_at_ns, unpack_train

__all__ = ["CONTROL_PAYLOADS", "Adapt", "Customs", "Incoming", "Outgoing", "TakeControl"]

log = logging.getLogger("hopwire.node")
NONCES_AT_A_TIME = 256
_NONCES = struct.Struct(f"{NONCE_BYTES}s" * NONCES_AT_A_TIME)
LATE_NS = 5 * NS_PER_MS  # less is no lateness
LEARN_SECONDS = 0.002  # between two messages that are learned: a sender that never repeats itself costs little
ASK_FOR_CREDIT_SECONDS = 1.0  # after which a sender that waits for credit asks for it
CONTROL_PAYLOADS: dict[tuple[bytes, Version, bytes], type[Payload]] = {
    contract_of(each): each for each in (*CONTROL, *GOSSIP)
}
GO_FIRST = frozenset((Credit, Ping, Ack))  # before what waits: each is true by itself, whatever was said before it
CONTROL_IDENTITIES = frozenset(identity for identity, _, _ in CONTROL_PAYLOADS)
Adapt: TypeAlias = Callable[[Message], Message | str]  # a message as a program reads it that is no node, or a reason


class TakeControl(Protocol):
    """Takes the control messages that arrive."""

    def take(self, message: Message, payload: type[Payload], connection: bytes) -> None:
        """Take one, with the name of the connection that it came over."""

    def miss_hello(self, connection: bytes) -> None:
        """Note that a node speaks over a connection without a hello that is believed."""


class _Addressee(NamedTuple):
    """A node that can be talked to: where, how, and in which incarnation."""

    uri: str
    fmt: WireFormat
    recipient: Recipient
    adapt: Adapt | None = None  # where no node lives, and messages leave without what is hopwire's own


class Customs(Protocol):
    """Looks at what comes over connections whose other side has not said hello (`abroad.py`)."""

    def name_of(self, connection: bytes) -> bytes:
        """Give the name of the foreign peer at the other end, as captures show it; nothing of anybody else."""

    def admit(self, message: Message, frames: Frames, connection: bytes) -> Message | None:
        """Give a message as the router takes it; nothing where it goes no further."""

    def refuse(self, message: Message, frames: Frames, connection: bytes, reason: str) -> None:
        """Tell whoever said a message that it cannot be taken."""

    def returned(self, uri: str, message: Message) -> Message | None:
        """Give a message that could not leave as it was said here; nothing where nobody is to be told."""


class Outgoing:
    """Writes messages, and puts them into the queues of the transport."""

    def __init__(
        self,
        identity: bytes,
        transport: Transport,
        domains: Domains,
        timing: Timing,
        credits: Credits,
        incarnation: int,
        open_link: Callable[[bytes], bool],
    ) -> None:
        self._identity, self._transport, self._domains = identity, transport, domains
        self._open_link = open_link  # opens a connection to a member that there is none to, if there is such a member
        self._credits, self._incarnation, self._timing = credits, incarnation, timing
        self._is_signing, self._new_nonce = domains.signing, _new_nonces()
        self._peers: dict[bytes, _Addressee] = {}
        self._foreign: dict[bytes, _Addressee] = {}  # programs that are no nodes, and get no word of nodes
        self.uri = ""
        self.message_count = 0
        self.byte_count = 0

    @property
    def met(self) -> Container[bytes]:
        """The nodes that can be talked to."""
        return self._peers

    def start(self, uri: str) -> None:
        """Sign what leaves with the address that others reach this node by."""
        self.uri = uri

    def use(self, domains: Domains) -> None:
        """Sign with the keys of these domains from now on."""
        self._domains = domains

    def rise(self, incarnation: int) -> None:
        """Speak under a later start from now on."""
        self._incarnation = incarnation

    def meet(self, node: bytes, incarnation: int, uri: str, fmt: WireFormat) -> None:
        """Send what is for a node to this address from now on, in this format, signed for this incarnation."""
        self._peers[node] = _Addressee(uri, fmt, Recipient(node, incarnation))

    def lose(self, node: bytes) -> None:
        """Send no more to a node; what waits for it is refused, unless its address has another node by now."""
        lost = self._peers.pop(node, None)
        if lost is not None and not any(peer.uri == lost.uri for peer in self._peers.values()):
            self._transport.empty(lost.uri)

    def meet_foreign(self, peer: bytes, uri: str, fmt: WireFormat, adapt: Adapt) -> None:
        """Send what is for a program that is no node to this address from now on, in its format, as it reads it."""
        self._foreign[peer] = _Addressee(uri, fmt, ANYONE, adapt)

    def lose_foreign(self, peer: bytes) -> None:
        """Send no more to a program that is no node; what waits for it is refused."""
        lost = self._foreign.pop(peer, None)
        if lost is not None:
            self._transport.empty(lost.uri)

    def send_abroad(self, uri: str, name: bytes, message: Message, fmt: WireFormat) -> str:
        """Send a message over the connection that an address stands for; gives a reason where that is not possible."""
        message = forwarded(message, self.uri, self._identity)
        return self._send(b"", uri, message, fmt, name=name)

    def address(self, node: bytes) -> str:
        """Give the address of a node that can be talked to; nothing of any other."""
        peer = self._peers.get(node) or self._foreign.get(node)
        return "" if peer is None else peer.uri

    def send(self, node: bytes, envelope: Envelope) -> str:
        """Send a message to another node; gives a reason where that is not possible."""
        line = self._credits.line(node, envelope.line)
        if line is not None and envelope.may_wait and (line.waiters or not line.has_room):
            self._begin_to_ask(node, envelope.line, line)  # it may go elsewhere, and nobody wait here
            return "queue_full"
        return self._send_on(node, envelope, line)

    def _send_on(self, node: bytes, envelope: Envelope, line: CreditLine | None) -> str:
        if envelope.may_wait and self.is_full(node):  # nothing is written in vain
            return "queue_full"
        known = envelope.known if envelope.said is None and envelope.payload is None else None
        if known is not None:  # it had to wait for credit
            said = (known, envelope.body, envelope.key, envelope.correlation_id, envelope.deadline)
            if self.send_known(node, *said, line):
                return ""
        peer = self._peers.get(node) or self._foreign.get(node)
        if peer is None:
            return "unreachable"
        left = envelope.deadline - self._timing.clock() if envelope.deadline else math.inf
        if left <= 0:  # it may have waited for credit
            return "expired"
        ticks = ticks_from_seconds(left) if envelope.deadline else 0
        message = forwarded(envelope.message, self.uri, self._identity, ticks)
        if peer.adapt is not None:
            adapted = peer.adapt(message)
            if isinstance(adapted, str):
                return adapted
            message = adapted
        reason = self._send(node, peer.uri, message, peer.fmt)
        if line is not None and not reason:
            line.sent += 1
            line.sent_bytes += envelope.size_bytes()
        return reason

    def send_known(
        self,
        node: bytes,
        known: KnownMessage,
        body: bytes,
        key: int,
        correlation_id: bytes,
        deadline: float,
        line: CreditLine | None = None,
        ticks: int = 0,
    ) -> bool:
        """Send a message of the express way; False says that nothing was sent, and the message needs the ordinary way.

        The meta frame is what `forwarded` and `encode` would make of the message. Whoever gives a credit line has seen
        that there is room in it. Whoever gives ticks knows how much time is left.
        """
        peer = self._peers.get(node)
        if peer is None or peer.fmt is not V6:
            return False
        if not ticks and deadline:
            left = deadline - self._timing.clock()
            if left <= 0:
                return False
            ticks = round(left * TICKS_PER_SECOND) or 1
        if self._is_signing:
            meta = self._sealed(peer.recipient, known, body, key, correlation_id, ticks)
            if meta is None:
                return False
        else:
            length = len(correlation_id)
            form = known.metas.get(length) or known.meta(length)
            if form is None:
                return False
            first, second, third, last = form.fixed  # what `write` does, without a call
            meta = form.pack(first, key, second, correlation_id, third, ticks, last)
        body_bytes = len(body)
        size_bytes = body_bytes + len(meta)
        if self._transport.send(peer.uri, [node, b"", body, meta], size_bytes):
            return False
        if line is not None:
            line.sent += 1
            line.sent_bytes += HEADER_BYTES + body_bytes
        self.message_count += 1
        self.byte_count += size_bytes
        return True

    def _sealed(
        self, recipient: Recipient, known: KnownMessage, body: bytes, key: int, correlation_id: bytes, ticks: int
    ) -> bytes | None:
        """Write the meta frame of a known message with its signature; None if such messages are signed otherwise."""
        now_ns = time.time_ns()
        sealed = known.sealed(len(correlation_id), recipient, self._domains, now_ns)
        if sealed is None:
            return None
        meta = sealed.write(key, correlation_id, ticks, body, now_ns, self._new_nonce())
        if meta is None:
            known.forget_seals()
        return meta

    async def send_when_possible(self, node: bytes, envelope: Envelope, elsewhere: OtherPlaces | None = None) -> str:
        """Wait for credit and for room in the queue to a node, and send; gives a reason where that is not possible.

        Who is called elsewhere meanwhile gets `elsewhere`, and nothing was sent.
        """
        what = envelope.line
        is_new = True
        while (line := self._credits.line(node, what)) and (not line.has_room or (is_new and line.waiters)):
            self._begin_to_ask(node, what, line)
            if await line.waiters.wait(is_again=not is_new, elsewhere=elsewhere):
                return ELSEWHERE
            is_new = False
        while (reason := self._send_on(node, envelope, line)) == "queue_full":
            reason = await self._transport.room(self.address(node), elsewhere)  # the node may have moved meanwhile
            if reason:
                break
        if line is not None:
            line.wake()
        return reason

    def is_full(self, node: bytes) -> bool:
        """Tell whether there is no room in the queue to a node, so that who can wait has to."""
        return self._transport.is_full(self.address(node))

    def park(self, node: bytes, what: bytes, line: CreditLine, waiter: Waiter) -> None:
        """Let somebody wait for credit behind those who came before, who does at once what is to be done with it."""
        self._begin_to_ask(node, what, line)
        line.waiters[waiter] = None

    def _begin_to_ask(self, node: bytes, what: bytes, line: CreditLine) -> None:
        """Let a timer of the line ask for credit now and then."""
        if line.timer is None:
            line.timer = self._timing.loop.call_later(ASK_FOR_CREDIT_SECONDS, self._ask_for_credit, node, what, line)

    def credit_line(self, node: bytes, what: bytes) -> CreditLine | None:
        """Give the credit line of a peer for a contract; none where no credit is needed."""
        return self._credits.lines.get((node, what)) or self._credits.line(node, what)

    def _ask_for_credit(self, node: bytes, what: bytes, line: CreditLine) -> None:
        line.timer = None
        if line.waiters:  # whoever finds the line full later, and goes elsewhere, begins to ask anew
            line.timer = self._timing.loop.call_later(ASK_FOR_CREDIT_SECONDS, self._ask_for_credit, node, what, line)
        if line.has_room:  # who was woken gave up, and nobody woke the next
            line.wake()
        else:
            self.tell(node, CreditWanted(self._identity, self._incarnation, what, line.sent, line.sent_bytes))

    def tell(self, node: bytes, payload: Payload) -> None:
        """Send a control message to a peer; it may get lost."""
        peer = self._peers.get(node)
        if peer is not None:
            self.say(peer.uri, node, payload)

    def is_reached_at(self, node: bytes, uri: str) -> bool:
        """Tell whether a node is talked to at this address."""
        return bool(uri) and self.address(node) == uri

    def mark(self, node: bytes) -> int:
        """Give the number of the last message that waits here for a node, or 0 where none does."""
        return self._transport.mark(self.address(node))

    def is_queued(self, node: bytes, mark: int) -> bool:
        """Tell whether a message up to that mark still waits here for a node: it has not even left."""
        return self._transport.is_queued(self.address(node), mark)

    def say(self, uri: str, node: bytes, payload: Payload) -> tuple[str, Message]:
        """Send a control message to an address; gives a reason where that is not possible."""
        if self._is_signing and isinstance(payload, Routes) and payload.added:
            payload = self._proved(payload, node)
        message = _control(payload)
        return self._send(node, uri, message, V6, is_control=True, goes_first=type(payload) in GO_FIRST), message

    def _proved(self, routes: Routes, node: bytes) -> Routes:
        """Give routes with a proof for each of their domains whose key this node has."""
        peer, data, now_ns = self._peers.get(node), proved_bytes(routes), time.time_ns()
        if peer is None:
            return routes
        owners = {
            domain.name: domain for domain in map(self._domains.find, identities_of(routes)) if domain is not None
        }
        proofs = [
            (name, proof)
            for name, domain in owners.items()
            if (proof := prove(data, domain, now_ns, os.urandom(NONCE_BYTES), peer.recipient))
        ]
        return msgspec.structs.replace(routes, proofs=tuple(proofs))

    def vouched(self, about: Message, told: Message) -> Message:
        """Give what is said about a question with the domain that is to sign it."""
        if not self._is_signing:
            return told
        return told.replace(domain=voucher((*_answers(about), about.identity), self._domains, time.time_ns()))

    def is_vouched(self, about: Message, told: Message) -> bool:
        """Tell whether what is said about a question was said with the key of the question, or of an answer to it."""
        if not self._is_signing or not told.signature:  # said here; nothing else gets this far without a signature
            return True
        return has_domain_of(about.identity, _answers(about), told.domain, self._domains)

    def first_words(self, node: bytes, payload: Payload) -> list[Frames]:
        """Write a control message that goes over a new connection before all else."""
        try:
            frames = self._written(node, _control(payload), V6)
        except HopwireError:  # what says the same in its turn tells of it
            return []
        self._count(_size_bytes(frames))
        return [frames]

    def _written(self, node: bytes, message: Message, fmt: WireFormat) -> Frames:
        """Sign and write a message; the first frame names the node that it is for, and does not leave."""
        if fmt is not V6:
            if message.extensions and extension_of(message).trace_only:  # without the extension it would be handled
                raise WireError("cannot_carry", "a trace travels in V6 alone")
            message = transcode(message.replace(extensions=()), fmt)
        if self._domains.signing and must_sign(message, self._domains):
            is_hello = message.identity == HELLO  # to whoever lives at an address; what it has heard says whom it means
            peer = self._peers.get(node)
            recipient = ANYONE if is_hello or peer is None else peer.recipient
            message = sign(message, self._domains, time.time_ns(), self._new_nonce(), recipient)
            if fmt is V3 and not message.signature:
                message = message.replace(domain="")  # V3 has no place for it, and who reads unsigned needs none
        frames = encode_own(message) if fmt is V6 else encode(message, fmt)
        frames[0] = node
        return frames

    def _send(
        self,
        node: bytes,
        uri: str,
        message: Message,
        fmt: WireFormat,
        is_control: bool = False,
        name: bytes = b"",
        goes_first: bool = False,
    ) -> str:
        """Sign, write and send a message; gives a reason where that is not possible."""
        try:
            frames = self._written(node, message, fmt)
        except WireError as error:
            return error.reason
        except HopwireError:
            return "cannot_sign"
        if name:
            frames[0] = name
        size_bytes = _size_bytes(frames)
        reason = self._transport.send(uri, frames, size_bytes, is_control, goes_first)
        if reason == "unreachable" and not is_control and self._open_link(node):
            reason = self._transport.send(self.address(node), frames, size_bytes)
        if not reason:
            self._count(size_bytes)
        return reason

    def _count(self, size_bytes: int) -> None:
        self.message_count += 1
        self.byte_count += size_bytes


def _new_nonces() -> Callable[[], bytes]:
    """Nonces of chance, drawn for many at a time: a call of the system for each costs as much as its signature."""
    return chain.from_iterable(iter(_random_nonces, ())).__next__


def _random_nonces() -> tuple[bytes, ...]:
    return _NONCES.unpack(os.urandom(_NONCES.size))


def _size_bytes(frames: Frames) -> int:
    """Give the bytes that leave: all but the name of the node in front."""
    return sum(map(len, frames)) - len(frames[0])


def _answers(question: Message) -> list[bytes]:
    """Give the identities that would answer a question."""
    return [point.identity for point in question.callback_points if not point.identity.startswith(OWN_PREFIX)]


def _for_last(answer: Message, again: Message) -> Message:
    """Give an answer that is remembered to whoever has sent the question again: another gateway may have sent it."""
    if answer.correlation_id != again.correlation_id or not answer.receiver_node_identity:
        return answer
    hub, node, key = again.callback_receiver_identity, again.callback_receiver_node_identity, again.callback_key
    if (hub, node, key) == (answer.receiver_identity, answer.receiver_node_identity, answer.callback_key):
        return answer
    answer = answer.replace(receiver_identity=hub, receiver_node_identity=node, callback_key=key, signature=b"")
    if not answer.callback_receiver_identity:
        return answer
    return answer.replace(callback_receiver_identity=hub, callback_receiver_node_identity=node)


def _frames_of(frames: Frames, entry: Entry[KnownMessage]) -> Frames:
    """Give the frames of a message that came in a train, or alone."""
    body, at, end, _ = entry
    return [frames[0], b"", body, frames[-1][at:end]]


def _control(payload: Payload) -> Message:
    contract = contract_of(payload)
    return Message(contract.identity, contract.version, body_frames=(body_from_payload(payload),))


class Incoming:
    """Reads what the transport hands over, and gives it to whom it is for."""

    def __init__(
        self,
        router: Router,
        control: TakeControl,
        trust: Trust,
        dead: DeadLetters,
        seen: SeenMessages,
        settings: NodeSettings,
        timing: Timing,
        tap: Tap | None,
        customs: Customs | None = None,
    ) -> None:
        self._customs = customs
        self._router, self._control, self._trust, self._dead, self._seen = router, control, trust, dead, seen
        self._limits, self._timing, self._tap = settings.limits, timing, tap
        self._homes, self._nodes = router.homes, trust.callers.nodes
        self._alive = trust.alive
        is_plain = tap is None and not trust.is_signing and settings.limits.max_frames >= USUAL_FRAMES - 1
        self._is_short = router.is_express and is_plain  # messages that come alone are taken in few steps
        self._known: KnownMetas[KnownMessage] = KnownMetas()
        self._learn_at = 0.0  # when the next message may be learned
        self._late = 0.0  # seconds that the train which is being taken spent in queues and sockets
        self.message_count = 0
        self.byte_count = 0

    def forget_known(self) -> None:
        """Read the next message of each kind as a whole: the keys have changed that judge them."""
        self._known = KnownMetas()

    def take_frames(self, frames: Frames) -> int:
        """Take what arrived: a train, a control message, a message, or noise; gives the number of messages, or 0."""
        connection, size_bytes = frames[0] if frames else b"", sum(map(len, frames))
        node = self._nodes.get(connection)
        self.byte_count += size_bytes
        if node is not None and self._is_short and self._take_alone(frames, node):
            self.message_count += 1
            return 1
        limits = self._limits
        read = decode_received if size_bytes <= limits.max_bytes else decode
        if node is not None:
            frames[0] = node
            self._trust.alive.add(node)
        elif frames:
            named = b"" if self._customs is None else self._customs.name_of(connection)
            frames[0] = named or self._trust.claim(connection)
        messages, is_met = [frames], True  # a message that comes alone is judged by itself
        is_express = node is not None and self._router.is_express
        entries: list[Entry[KnownMessage]] | None = None
        if is_train(frames):
            entries = self._known.uncouple(frames[1], limits) if is_express else None
            try:
                messages = [] if entries else unpack_train(frames, limits)  # a train within a train is noise
            except WireError as error:
                self._dead.add(DeadLetter(error.reason, str(error), frames=tuple(frames)))
                return 0
            is_met = node is not None
            queued_ns = queued_at_ns(frames[1])
            if queued_ns is not None and is_met:
                late_ns = self._trust.transit.late_ns(connection, queued_ns, time.monotonic_ns())
                self._late = late_ns / NS_PER_SECOND if late_ns > LATE_NS else 0.0
        count = len(entries or messages)
        if self._tap is not None:
            single = _frames_of(frames, entries[0]) if entries else messages[0]
            self._tap.saw_in(frames if count > 1 else single, count)
        self.message_count += count
        is_message = is_express  # a node that was met has proved that it speaks as one
        if entries:
            self._take_entries(entries, frames, read, connection)
        for message in messages:
            if is_express and len(message) == USUAL_FRAMES and not message[1]:
                self._take_entries([self._entry_of(message)], message, read, connection)
            elif self._take_safely(message, read, connection, is_met):
                is_message = True
        self._late = 0.0
        return count if is_message else 0

    def _take_alone(self, frames: Frames, node: bytes) -> bool:
        """Take a message that comes alone from a node that is known, where it is known too and one receiver is there.

        What `take_frames` does, without what trains of several, signatures and captures need. False says that nothing
        was done.
        """
        connection, late_ns = frames[0], 0
        if len(frames) == 2:
            alone = self._known.alone(frames[1])
            if alone is None:
                return False
            body, queued_ns, known, key, correlation_id, ticks = alone
            late_ns = self._trust.transit.late_ns(connection, queued_ns, time.monotonic_ns())
        elif len(frames) == USUAL_FRAMES and not frames[1]:
            _, _, body, meta = frames
            found = self._known.find(meta, 0, len(meta))
            if found is None:
                return False
            known, key, _, correlation_id, ticks = found
        else:
            return False
        self._alive.add(node)
        try:
            if known.receiver:
                home = self._homes.get(known.receiver)
                return home is not None and home.take_known(known.contract, key, correlation_id, body)
            inbox, now, size = self._router.only_inbox(known), self._timing.clock(), HEADER_BYTES + len(body)
            sent_at = now if late_ns <= LATE_NS else now - late_ns / NS_PER_SECOND
            deadline = sent_at + ticks / TICKS_PER_SECOND if ticks > 0 else 0.0
            if inbox is None or (ticks > 0 and deadline <= now):
                return False
            envelope = Envelope(None, deadline, node, False, known, body, key, correlation_id, ticks, None, size, True)
            offered = inbox.offer(envelope, size)
            if offered is not TAKEN:
                self._router.take_offered(inbox, envelope, offered)
        except Exception as error:  # a fault of ours
            frames[0] = node
            self._failed(unpack_train(frames, self._limits)[0] if is_train(frames) else frames, error)
        return True

    def _entry_of(self, frames: Frames) -> Entry[KnownMessage]:
        """Give the entry of a message that came alone."""
        _, _, body, meta = frames
        size = len(meta)
        return body, 0, size, self._known.find(meta, 0, size)

    def _take_entries(
        self,
        entries: list[Entry[KnownMessage]],
        frames: Frames,
        read: Callable[[Frames, Limits], Message],
        connection: bytes,
    ) -> None:
        """Take the messages of a train of a node that is known, or the one that came alone, each by the shortest way.

        Messages that follow one another, are known as the same and name no receiver go into the same inbox, if one
        actor alone takes them: that is asked once.
        """
        sender, router, trust = frames[0], self._router, self._trust
        arrived_at, is_plain, homes = self._timing.clock(), not trust.is_signing, self._homes
        now, now_ns, last, inbox = arrived_at - self._late, 0 if is_plain else time.time_ns(), None, None
        seal, replay, since_ns = None, trust.replay_of(None), trust.since_ns
        for entry in entries:
            body, _, _, found = entry
            if found is None:
                self._take_safely(_frames_of(frames, entry), read, connection, True)
                continue
            known, key, signature, correlation_id, ticks = found
            try:
                if not is_plain:
                    if known.seal is not seal:
                        seal, replay = known.seal, trust.replay_of(known.seal)
                    if seal is None or not seal.is_valid(
                        signature, key, correlation_id, ticks, body, now_ns, replay, since_ns
                    ):
                        self._take_safely(_frames_of(frames, entry), read, connection, True)
                        continue
                home = homes.get(known.receiver) if known.receiver else None
                if home is not None:
                    if home.take_known(known.contract, key, correlation_id, body):
                        continue
                    if is_plain:
                        self._take_safely(_frames_of(frames, entry), read, connection, True)
                        continue
                deadline, size = now + ticks / TICKS_PER_SECOND if ticks > 0 else 0.0, HEADER_BYTES + len(body)
                envelope = Envelope(
                    None, deadline, sender, False, known, body, key, correlation_id, ticks, None, size, True
                )
                if not is_plain:
                    envelope.signature = signature
                if home is not None:
                    home.take(envelope.message)  # whose signature was believed, and is not believed again
                    continue
                if known is not last:
                    last, inbox = known, router.only_inbox(known)
                if inbox is None or (ticks > 0 and deadline <= arrived_at):
                    router.take_known(envelope)
                else:
                    offered = inbox.offer(envelope, size)
                    if offered is not TAKEN:
                        last = None
                        router.take_offered(inbox, envelope, offered)
            except Exception as error:  # a fault of ours; the messages behind this one must not suffer from it
                self._failed(_frames_of(frames, entry), error)

    def _take_safely(
        self, frames: Frames, read: Callable[[Frames, Limits], Message], connection: bytes, is_met: bool
    ) -> bool:
        """Take a message, and tell whether it is one."""
        try:
            return self._take_one(frames, read, connection, is_met)
        except Exception as error:  # a fault of ours; the messages behind this one must not suffer from it
            self._failed(frames, error)
            return True

    def _failed(self, frames: Frames, error: Exception) -> None:
        log.exception("a message could not be taken")
        self._dead.add(DeadLetter("node_failed", type(error).__name__, frames=tuple(frames)))

    def _take_one(
        self, frames: Frames, read: Callable[[Frames, Limits], Message], connection: bytes, is_met: bool
    ) -> bool:
        """Take a message, and tell whether it could be read; what it is worth is another question."""
        message = None
        try:
            message = read(frames, self._limits)
            if message.socket_identity != frames[0]:  # frames in front, or none: the sender does not choose its name
                message = message.replace(socket_identity=frames[0])
            if self._trust.is_signing and not self._trust.is_believed(message):
                return True
            if type(message.version) is bytes:  # V3 and V4 spell versions, contracts number them
                message = transcode(message, V6)
        except WireError as error:
            self._dead.add(DeadLetter(error.reason, str(error), frames=tuple(frames)))
            if message is not None and self._customs is not None and connection not in self._trust.callers.nodes:
                self._customs.refuse(message, frames, connection, error.reason)
            return message is not None
        if not is_met:  # most such trains come from before a restart
            self._router.give_up(Envelope(message), "not_met", shown(frames[0]))
            self._control.miss_hello(connection)
            return True
        if message.identity in CONTROL_IDENTITIES and message.contract in CONTROL_PAYLOADS:
            self._control.take(message, CONTROL_PAYLOADS[message.contract], connection)
        elif self._customs is not None and connection not in self._trust.callers.nodes:
            admitted = self._customs.admit(message, frames, connection)
            if admitted is not None:
                self._take_message(admitted)
        else:
            if self._router.is_express:
                self._learn(message, frames)
            self._take_message(message)
        return True

    def _learn(self, message: Message, frames: Frames) -> None:
        """Remember a message that was read, now and then, so that the next one like it takes the express way."""
        now = self._timing.clock()
        if now < self._learn_at or len(frames) != USUAL_FRAMES or message.extensions or frames[1]:
            return
        if message.receiver_identity and message.receiver_node_identity != self._router.here:
            return
        self._learn_at = now + LEARN_SECONDS
        found = arrived(message, frames[3], self._trust.seal_of(message))
        if found is not None:
            self._known.add(*found)

    def _take_message(self, message: Message) -> None:
        if not message.extensions and self._router.is_home(message):
            return
        ticks = message.ttl_ticks
        deadline = self._timing.clock() + seconds_from_ticks(ticks) - self._late if ticks > 0 else 0.0
        envelope = Envelope(message, deadline, message.socket_identity)
        if message.extensions:
            self._take_extended(envelope)
        else:
            self._route(envelope)

    def _route(self, envelope: Envelope) -> None:
        self._router.route(envelope)
        if not envelope.is_taken:  # whatever became of it, it does not wait here
            self._router.consumed(envelope)

    def _take_extended(self, envelope: Envelope) -> None:
        """Take a message that says more than the documents: it may be a trace, or have come before."""
        try:
            extension = extension_of(envelope.message)
        except WireError as error:
            self._dead.add(DeadLetter(error.reason, str(error), envelope.message))
            return
        if extension.chosen_by > 0:
            envelope.choice = Choice(Choose.KEY, extension.chosen_by)
        if extension.trace_only:
            self._router.trace(envelope)
        elif extension.part:  # whoever takes a stream knows by the number what has come before
            if not self._router.is_home(envelope.message):
                self._router.route(envelope)
        elif not extension.message_id:
            self._route(envelope)
        elif self._seen.is_new(extension.message_id):
            envelope.message_id = extension.message_id
            self._route(envelope)
            if not envelope.is_taken or envelope.is_passing:  # the next attempt finds room, or another way
                self._seen.forget(extension.message_id)
        else:
            self._dead.add(DeadLetter("duplicate", f"attempt {extension.attempt}", envelope.message))
            self._router.consumed(envelope)
            answer = self._seen.answer_to(extension.message_id)
            if answer is None:
                self._router.received(envelope)
            else:
                self._router.route(Envelope(_for_last(answer, envelope.message), envelope.deadline))

    def take_refused(self, uri: str, frames: Frames, reason: str) -> None:
        """Take back what the transport could not send after all."""
        try:
            message = decode([b"", *frames[1:]])
        except WireError:  # written by us, and still it can be read in two ways
            self._dead.add(DeadLetter(reason, uri, frames=tuple(frames)))
            return
        if self._customs is not None:
            returned = self._customs.returned(uri, message)
            if returned is None:
                self._dead.add(DeadLetter(reason, uri, message))
                return
            message = returned
        if self._router.is_reached_at(message.callback_receiver_node_identity, uri):
            self._dead.add(DeadLetter(reason, uri, message))  # telling the caller would push out the next message
        else:
            node = frames[0] if frames else b""
            self._router.give_up(Envelope(message), reason, f"{self._router.called(node)} at {uri}" if node else uri)
