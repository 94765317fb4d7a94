"""The links of a node: what arrives, what leaves, and who is at the other end.

Bytes become messages here, and messages bytes: trains are uncoupled, signatures judged, formats chosen. Control
messages go to `cluster`, all others to the router; what `cluster` commands is carried out.

What arrives has the name of its connection in front. In its place comes the node that said hello over the connection
(`callers.py`); before a hello, what the name claims. The claim is good for captures, and for nothing that needs trust:
a control message counts only from the node itself, a train is opened only if it comes from a node that said hello.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from hopwire.cluster.announce import CONTROL, AnnouncedRoute, Beat, Bye, Hello, Routes, RoutesWanted
from hopwire.cluster.events import (
    ApplyRoutes,
    Command,
    Connect,
    Dialled,
    Disconnect,
    Event,
    Heard,
    LoseNode,
    MeetNode,
    Overheard,
    RoutesChanged,
    Say,
    Self,
    Ticked,
    Warn,
)
from hopwire.cluster.peers import Cluster, step
from hopwire.errors import HopwireError, PayloadError, SettingsError, WireError
from hopwire.model import Contract, Message, Payload, Version, body_from_payload, contract_of, payload_from_body
from hopwire.model.limits import Limits
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.callers import Callers
from hopwire.node.dead import DeadLetter
from hopwire.node.mailbox import Overflow
from hopwire.node.notices import Notice, Notices, shown, why_refused
from hopwire.node.router import Envelope, Room, Router
from hopwire.node.seen import SeenMessages
from hopwire.node.settings import NodeSettings
from hopwire.node.spawn import seconds_from_ticks, ticks_from_seconds
from hopwire.node.tap import Tap
from hopwire.node.transport import Frames, Transport
from hopwire.routing import RemoteNode as KnownNode
from hopwire.routing import Route as TableRoute
from hopwire.routing import forwarded
from hopwire.security import Domains, ReplayWindows, Verdict, is_accepted, sign, verify
from hopwire.wire import FORMATS, V3, V6, WireFormat, decode, encode, transcode
from hopwire.wire.codec import decode_received, encode_own
from hopwire.wire.connection import claimed_node
from hopwire.wire.extension import extension_of
from hopwire.wire.train import CAPABILITY, is_train, unpack_train

__all__ = ["Links"]

log = logging.getLogger("hopwire.node")
TICK_SECONDS = 0.1
BY_NUMBER = {fmt.number: fmt for fmt in FORMATS}
CONTROL_PAYLOADS: dict[tuple[bytes, Version, bytes], type[Payload]] = {contract_of(each): each for each in CONTROL}
HELLO = contract_of(Hello).identity
CONTROL_IDENTITIES = frozenset(identity for identity, _, _ in CONTROL_PAYLOADS)
OPEN_TO_ALL = (
    "%s is open to all who can reach it: everybody may ask, answer and take the place of a node; "
    "give the node domains with keys (domains=...), keys of the network (curve=...), or listen on 127.0.0.1"
)
# fmt: off
REPORTS = {
    # what              in words
    "duplicate":        "node {peer} at {uri} has the same identity as another process that runs, or ran",
    "too_many_peers":   "node {peer} at {uri} is not met: there are too many peers",
    "unanswered":       "{uri} gave {detail}: is it running, are address and keys right, does it refuse us?",
}
# fmt: on


class Links:
    """What connects a node with the others."""

    def __init__(
        self,
        identity: bytes,
        transport: Transport,
        router: Router,
        domains: Domains,
        settings: NodeSettings,
        tap: Tap | None,
        on_lost: Callable[[bytes, str], None],
        on_routes: Callable[[], None],
    ) -> None:
        self._identity, self._transport, self._router = identity, transport, router
        self._domains, self._settings, self._tap = domains, settings, tap
        self._on_lost, self._on_routes = on_lost, on_routes
        router.send_away, router.mark, router.is_queued = self.send_away, self.mark, self.is_queued
        self._seen = SeenMessages(settings.seen_messages)
        self._replay = ReplayWindows(
            round(settings.replay_seconds * NS_PER_SECOND),
            settings.seen_messages,
            skew_ns=round(settings.clock_skew_seconds * NS_PER_SECOND),
        )
        self._formats: dict[bytes, WireFormat] = {}
        self._addresses: dict[bytes, str] = {}
        self._callers = Callers(self._addresses)
        self._all_routes: dict[str, tuple[int, int]] = {}  # marks of the last two answers that went to each address
        self._route_counts: Counter[bytes] = Counter()  # routes of each peer
        self._is_closing = False
        self._asked: dict[bytes, asyncio.Future[None]] = {}  # peers whose answer is waited for
        self.traffic = [0, 0, 0, 0]  # messages in and out, bytes in and out

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        return tuple(self._cluster.peers)

    def start(self, incarnation: int, dial: Iterable[str]) -> str:
        """Listen, dial, and give the address that others reach this node by."""
        self._loop = asyncio.get_running_loop()
        self._notices = Notices(self._loop.time)
        self.uri = self._router.uri = self._transport.start(self.take_frames, self._take_refused)
        if self._transport.open_address and not self._domains.signing:
            log.warning(OPEN_TO_ALL, self._transport.open_address, extra={"hopwire_event": "open_to_all"})
        me = Self(self._identity, incarnation, self.uri, self._settings.formats, (CAPABILITY,))
        self._cluster = Cluster(me, self._settings.pace)
        self.announce(added=self._router.tables.local.public_routes())
        for uri in dial:
            self._step(Dialled(uri))
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)
        return self.uri

    async def stop(self, timeout: float) -> None:
        """Say goodbye and close."""
        self._is_closing = True
        self._ticker.cancel()
        bye = Bye(self._identity, self._cluster.me.incarnation)
        for peer in self._cluster.peers.values():
            self._say(peer.uri, bye)
        await self._transport.close(timeout)

    async def settle(self, timeout: float) -> bool:
        """Wait until everything has arrived that peers sent before they knew what was announced last.

        A peer that answers a question sends nothing behind the answer that it decided on before it.
        """
        self._asked = {node: self._loop.create_future() for node in self._cluster.peers}
        for peer in self._cluster.peers.values():
            self._say(peer.uri, RoutesWanted(self._identity, self._cluster.me.incarnation))
        if not self._asked:
            return True
        _, missing = await asyncio.wait(self._asked.values(), timeout=timeout)
        return not missing

    def _answered(self, node: bytes) -> None:
        answered = self._asked.pop(node, None)
        if answered is not None and not answered.done():
            answered.set_result(None)

    # -- messages in

    def waiting(self) -> tuple[int, int]:
        """Give the messages and bytes that wait for peers."""
        return self._transport.waiting()

    def take_frames(self, frames: Frames) -> int:
        """Take what arrived: a train, a control message, a message, or noise; gives the number of messages."""
        size_bytes = sum(map(len, frames))
        self.traffic[2] += size_bytes
        limits = self._settings.limits
        read = decode_received if size_bytes <= limits.max_bytes else decode
        connection = frames[0] if frames else b""
        node = self._callers.nodes.get(connection)
        if frames:
            frames[0] = node or claimed_node(connection)
        messages, is_met = [frames], True  # a message that comes alone is judged by itself
        if is_train(frames):
            try:
                messages = unpack_train(frames, limits)  # a train within a train is noise
            except WireError as error:
                self._router.dead.add(DeadLetter(error.reason, str(error), frames=tuple(frames)))
                return 1
            is_met = node is not None
        for message in messages:
            try:
                self._take_one(message, read, connection, is_met)
            except Exception as error:  # a fault of ours; the messages behind this one must not suffer from it
                log.exception("a message could not be taken", extra={"hopwire_uri": self.uri})
                self._router.dead.add(DeadLetter("node_failed", type(error).__name__, frames=tuple(message)))
        return len(messages)

    def _take_one(
        self, frames: Frames, read: Callable[[Frames, Limits], Message], connection: bytes, is_met: bool
    ) -> None:
        self.traffic[0] += 1
        if self._tap is not None:
            self._tap.saw_in(frames)
        try:
            message = read(frames, self._settings.limits)
            if message.socket_identity != frames[0]:  # frames in front, or none: the sender does not choose its name
                message = message.replace(socket_identity=frames[0])
            if self._domains.signing and not self._is_believed(message):
                return
            if type(message.version) is bytes:  # V3 and V4 spell versions, contracts number them
                message = transcode(message, V6)
        except WireError as error:
            self._router.dead.add(DeadLetter(error.reason, str(error), frames=tuple(frames)))
            return
        if not is_met:  # most such trains come from before a restart
            self._router.give_up(Envelope(message), "not_met", shown(frames[0]))
            return
        if message.identity in CONTROL_IDENTITIES and message.contract in CONTROL_PAYLOADS:
            self._take_control(message, CONTROL_PAYLOADS[message.contract], connection)
        else:
            self._take_message(message)

    def _is_believed(self, message: Message) -> bool:
        verdict = verify(message, self._domains, time.time_ns(), self._replay)
        if is_accepted(verdict, message, self._domains):
            return True
        self._router.dead.add(DeadLetter("bad_signature", str(verdict), message))
        self._notices.warn((message.socket_identity, verdict), partial(_refusal, verdict, message, self._domains))
        return False

    def _take_control(self, message: Message, payload: type[Payload], connection: bytes) -> None:
        if self._is_closing:  # goodbye has been said
            return
        try:
            said = payload_from_body(payload, message.body)
        except PayloadError as error:
            self._router.dead.add(DeadLetter("bad_payload", str(error), message))
            return
        node, speaker = self._callers.nodes.get(connection), getattr(said, "node", b"")
        if isinstance(said, Hello):
            self._take_hello(said, connection, message)
        elif node == speaker:
            self._step(Heard(said))
            if isinstance(said, Routes) and not said.base:
                self._answered(said.node)
        elif isinstance(said, Beat) and node is None:
            self._step(Overheard(said))
        else:
            detail = "a node that speaks for another" if node else "a node that has not said hello"
            self._router.dead.add(DeadLetter("bad_control", detail, message))

    def _take_hello(self, said: Hello, connection: bytes, message: Message) -> None:
        """Hear a hello, and remember who is at the other end if it is believed."""
        former = self._callers.nodes.get(connection)
        if said.node != (former if former in self._addresses else claimed_node(connection)):
            self._router.dead.add(DeadLetter("bad_control", "a node that speaks for another", message))
            return
        self._step(Heard(said))
        peer = self._cluster.peers.get(said.node)
        if peer is not None and peer.incarnation == said.incarnation:
            self._callers.hear(connection, said.node)

    def _take_message(self, message: Message) -> None:
        take = self._router.hubs.get(message.receiver_identity)
        if take is not None and message.receiver_node_identity == self._identity and not message.extensions:
            take(message)  # an answer is at home; a hub takes everything that is addressed to it
            return
        ticks = message.ttl_ticks
        deadline = self._router.clock() + seconds_from_ticks(ticks) if ticks > 0 else 0.0
        envelope = Envelope(message, deadline, message.socket_identity)
        if message.extensions:
            self._take_extended(envelope)
        else:
            self._router.route(envelope)

    def _take_extended(self, envelope: Envelope) -> None:
        """Take a message that says more than the documents: it may be a trace, or have come before."""
        try:
            extension = extension_of(envelope.message)
        except WireError as error:
            self._router.dead.add(DeadLetter(error.reason, str(error), envelope.message))
            return
        if extension.trace_only:
            self._router.trace(envelope)
        elif not extension.message_id:
            self._router.route(envelope)
        elif self._seen.is_new(extension.message_id):
            self._router.route(envelope)
            if not envelope.is_taken:  # the next attempt finds room, or another way
                self._seen.forget(extension.message_id)
        else:
            self._router.dead.add(DeadLetter("duplicate", f"attempt {extension.attempt}", envelope.message))
            self._router.received(envelope)

    # -- messages out

    def send_away(self, node: bytes, envelope: Envelope) -> str | Room:
        """Send a message to another node; gives a reason where that is not possible, or what its sender waits for."""
        uri = self._addresses.get(node)
        if uri is None:
            return "unreachable"
        ticks = ticks_from_seconds(envelope.deadline - self._router.clock()) if envelope.deadline else 0
        message = forwarded(envelope.message, self.uri, self._identity, ticks)
        reason = self._post(node, uri, message, self._formats.get(node, V6))
        if reason == "queue_full" and envelope.may_wait and self._settings.overflow is Overflow.WAIT:
            return partial(self._send_when_possible, node, uri)
        return reason

    async def _send_when_possible(self, node: bytes, uri: str, envelope: Envelope) -> str:
        while await self._transport.room(uri):
            refused = self.send_away(node, envelope)
            if isinstance(refused, str):
                return refused
            uri = self._addresses.get(node, uri)  # the node may have moved meanwhile
        return "unreachable"

    def mark(self, node: bytes) -> int:
        """Give the number of the last message that waits here for a node, or 0 where none does."""
        return self._transport.mark(self._addresses.get(node, ""))

    def is_queued(self, node: bytes, mark: int) -> bool:
        """Tell whether a message up to that mark still waits here for a node: it has not even left."""
        return self._transport.is_queued(self._addresses.get(node, ""), mark)

    def _post(self, node: bytes, uri: str, message: Message, fmt: WireFormat, is_control: bool = False) -> str:
        """Sign, write and send a message; gives a reason where that is not possible."""
        try:
            if fmt is not V6:
                message = transcode(message.replace(extensions=()), fmt)
            if self._domains.signing and not message.signature:
                message = sign(message, self._domains, time.time_ns(), os.urandom(16))
                if fmt is V3 and not message.signature:
                    message = message.replace(domain="")  # V3 has no place for it, and who reads unsigned needs none
            frames = encode_own(message) if fmt is V6 else encode(message, fmt)
        except WireError as error:
            return error.reason
        except HopwireError:
            return "cannot_sign"
        size_bytes = sum(map(len, frames))
        left_at_ns = 0 if self._tap is None else time.time_ns()  # before it leaves, or it may arrive before it left
        reason = self._transport.send(uri, frames, size_bytes, is_control)
        if reason:
            return reason
        self.traffic[1] += 1
        self.traffic[3] += size_bytes
        if self._tap is not None:
            self._tap.saw_out(node, frames, left_at_ns)
        return ""

    def _say(self, uri: str, payload: Payload) -> None:
        contract = contract_of(payload)
        message = Message(contract.identity, contract.version, body_frames=(body_from_payload(payload),))
        nodes = self._router.tables.remote.nodes_at(uri)
        reason = self._post(nodes[0] if nodes else b"", uri, message, V6, is_control=True)
        if reason:
            self._router.dead.add(DeadLetter(reason, f"{type(payload).__name__} to {uri}", message))

    def _say_all_routes(self, uri: str, routes: Routes) -> None:
        """Send all routes, unless two such answers still wait: what changes is behind them, and whoever asks again
        and again gets no more than that."""
        older, newer = self._all_routes.get(uri, (0, 0))
        if not self._transport.is_queued(uri, older):
            self._say(uri, routes)
            self._all_routes[uri] = newer, self._transport.mark(uri)

    def _take_refused(self, uri: str, frames: Frames, reason: str) -> None:
        try:
            message = decode(frames)
        except WireError:  # written by us, and still it can be read in two ways
            self._router.dead.add(DeadLetter(reason, uri, frames=tuple(frames)))
            return
        if self._addresses.get(message.callback_receiver_node_identity) == uri:  # telling it would push out the next
            self._router.dead.add(DeadLetter(reason, uri, message))
        else:
            self._router.give_up(Envelope(message), reason, uri)

    # -- the cluster

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)
        self._step(Ticked())

    def _step(self, event: Event) -> None:
        self._cluster, commands = step(self._cluster, event, round(self._loop.time() * NS_PER_SECOND))
        for command in commands:
            try:
                self._carry_out(command)
            except SettingsError as error:  # an address or a receiver that another node named, and that is none
                self._router.dead.add(DeadLetter("bad_control", str(error)))

    def _carry_out(self, command: Command) -> None:
        match command:
            case Connect(uri):
                self._transport.connect(uri)
            case Disconnect(uri):
                self._all_routes.pop(uri, None)
                self._transport.disconnect(uri)
            case Say(uri, Routes(base=0) as payload):
                self._say_all_routes(uri, payload)
            case Say(uri, payload):
                self._say(uri, payload)
            case MeetNode(peer):
                readable = [BY_NUMBER[number] for number in peer.formats if number in BY_NUMBER]
                self._formats[peer.node] = max(readable, key=lambda fmt: fmt.number, default=V6)
                self._addresses[peer.node] = peer.uri
                if CAPABILITY in peer.capabilities:
                    self._transport.allow_trains(peer.uri)
                self._router.tables.remote.register(KnownNode(peer.node, (peer.uri,), peer.incarnation))
            case LoseNode(node, reason):
                self._lose(node, reason)
            case ApplyRoutes(node, added, removed, is_all):
                self._apply(node, added, removed, is_all)
            case Warn(what, node, uri, detail):
                self._report(what, shown(node), shown(uri), detail)

    def _report(self, what: str, peer: str, uri: str, detail: str) -> None:
        text = REPORTS[what].format(peer=peer, uri=uri, detail=detail)
        self._notices.warn((what, peer, uri), lambda: Notice(text, {"event": what, "peer": peer, "uri": uri}))

    def _lose(self, node: bytes, reason: str) -> None:
        self._router.tables.remote.unregister_node(node)
        del self._route_counts[node]
        if reason != "silent":  # what was said in time may still be read
            self._callers.forget(node)
        uri = self._addresses.pop(node, None)
        self._formats.pop(node, None)
        if uri is not None and uri not in self._addresses.values():
            self._transport.empty(uri)
        self._answered(node)
        self._on_lost(node, reason)

    def _apply(
        self, node: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> None:
        known = self._router.tables.remote.node(node)
        if known is None:
            return
        table, counts = self._router.tables.remote, self._route_counts
        if is_all:
            table.unregister(node)
            counts[node] = 0
        for receiver, identity, version, partition in removed:
            contracts = [Contract(identity, version, partition)] if identity else None
            counts[node] -= len(table.unregister(node, receiver, contracts))
        for receiver, identity, version, partition in added:
            if counts[node] >= self._settings.peer_routes:
                detail = f"{shown(node)} has more than {self._settings.peer_routes} routes"
                self._router.dead.add(DeadLetter("bad_control", detail))
                break
            contracts = [Contract(identity, version, partition)] if identity else []
            try:
                counts[node] += len(table.register(known, receiver, contracts))
            except SettingsError as error:  # a receiver that is neither hub nor actor; the others count
                self._router.dead.add(DeadLetter("bad_control", str(error)))
        self._on_routes()

    def announce(self, added: Iterable[TableRoute] = (), removed: Iterable[TableRoute] = ()) -> None:
        """Tell the others what can be reached here, and what no longer."""
        self._step(RoutesChanged(tuple(map(_announced, added)), tuple(map(_announced, removed))))


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


def _announced(route: TableRoute) -> AnnouncedRoute:
    contract = route.contract
    if contract is None:
        return (route.receiver, b"", 0, b"")
    assert isinstance(contract.version, int)
    return (route.receiver, contract.identity, contract.version, contract.partition)
