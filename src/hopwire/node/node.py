"""A node: actors and hubs in one process, and the way to those of others.

    async with Node(listen="tcp://127.0.0.1:0", peers=["tcp://127.0.0.1:7400"]) as node:
        node.host(Greeter())
        greeting = await node.hub().ask(Greet(name="Ada"), Greeting)

The node is a thin shell: `cluster` says who is there, `routing` where a message goes, `wire` what the bytes are,
`security` whether to believe them. Here is only who calls whom. Everything happens on the event loop that started the
node.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType

from hopwire.capture import CaptureStatus
from hopwire.cluster.announce import CONTROL, Bye
from hopwire.cluster.announce import Route as AnnouncedRoute
from hopwire.cluster.events import (
    SECOND_NS,
    ApplyRoutes,
    Command,
    Connect,
    Dialled,
    Disconnect,
    Event,
    Heard,
    LoseNode,
    MeetNode,
    Pace,
    Report,
    RoutesChanged,
    Say,
    Self,
    Ticked,
)
from hopwire.cluster.peers import Cluster, step
from hopwire.errors import Closed, HopwireError, NoRoute, PayloadError, SettingsError, WireError
from hopwire.model import Contract, Message, Payload, Version, body_from_payload, contract_of, payload_from_body
from hopwire.model.settings import Limits
from hopwire.node.actors import Actor
from hopwire.node.context import Context
from hopwire.node.dead import DeadLetter, DeadLetters
from hopwire.node.flow import seconds_from_ticks
from hopwire.node.hub import Address, Hub
from hopwire.node.mailbox import Mailbox, Overflow
from hopwire.node.router import Envelope, Router
from hopwire.node.running import Running
from hopwire.node.seen import Seen
from hopwire.node.sockets import Sockets
from hopwire.node.tap import Tap
from hopwire.node.transport import CurveKeys, Frames, Transport
from hopwire.routing import HOP_LIMIT, Tables, forwarded
from hopwire.routing import Node as KnownNode
from hopwire.routing import Route as TableRoute
from hopwire.security import OPEN, Domains, ReplayWindow, is_accepted, sign, verify
from hopwire.wire import FORMATS, V6, WireFormat, decode, encode, transcode
from hopwire.wire.extension import extension_of
from hopwire.wire.train import CAPABILITY, is_train, unpack_train

__all__ = ["Node", "NodeSettings", "Statistics"]

log = logging.getLogger("hopwire.node")
HUB, ACTOR = b"\0", b"\1"  # the first byte of a receiver's identity
TICK_SECONDS = 0.1
BY_NUMBER = {fmt.number: fmt for fmt in FORMATS}
CONTROL_PAYLOADS: dict[tuple[bytes, Version, bytes], type[Payload]] = {contract_of(each): each for each in CONTROL}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What can be set of a node, each with a default that is safe."""

    inbox_messages: int = 10_000  # that wait for one actor
    inbox_bytes: int = 64 * 1024 * 1024
    overflow: Overflow = Overflow.WAIT
    hop_limit: int = HOP_LIMIT
    formats: tuple[int, ...] = tuple(fmt.number for fmt in reversed(FORMATS))  # that it tells others it reads
    seen_messages: int = 100_000  # that are remembered, to drop what arrives twice
    replay_seconds: float = 300.0  # how old a signed message may be
    clock_skew_seconds: float = 30.0  # by how much the clocks of nodes may differ
    limits: Limits = field(default_factory=Limits)
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a node has counted since it was made, and what is there now."""

    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    peers: int
    actors: int
    open_promises: int
    inbox_messages: int
    inbox_bytes: int
    dead_letters: Mapping[str, int]


class Node:
    """One node of the network."""

    def __init__(
        self,
        listen: str = "tcp://127.0.0.1:0",
        *,
        peers: Iterable[str] = (),
        identity: bytes | None = None,
        name: str = "",
        capture: str | Path | None = None,
        domains: Domains = OPEN,
        curve: CurveKeys | None = None,
        settings: NodeSettings | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.identity = _guid() if identity is None else identity
        self.name = name
        self._incarnation = time.time_ns()
        self._tap = None if capture is None else Tap(capture, self.identity, self._incarnation, name)
        self.settings = settings or NodeSettings()
        self.uri = ""
        self._listen, self._dial = listen, tuple(peers)
        self._domains = domains
        self._transport: Transport = transport or Sockets(self.identity, listen, curve=curve)
        self._tables = Tables()
        self._router = Router(self.identity, self._tables, self._now, self._send_away, self.settings.hop_limit)
        self._seen = Seen(self.settings.seen_messages)
        self._replay = ReplayWindow(
            round(self.settings.replay_seconds * SECOND_NS),
            self.settings.seen_messages,
            skew_ns=round(self.settings.clock_skew_seconds * SECOND_NS),
        )
        self._actors: dict[int, Running] = {}
        self._hubs: dict[bytes, Hub] = {}
        self._formats: dict[bytes, WireFormat] = {}
        self._addresses: dict[bytes, str] = {}
        self._watchers: list[asyncio.Future[None]] = []
        self._traffic = [0, 0, 0, 0]  # messages in and out, bytes in and out
        self._state = "new"

    # -- life

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to listen, dial the peers, and let the actors work."""
        if self._state != "new":
            raise Closed(f"the node is {self._state}; a node is started once")
        self._loop = asyncio.get_running_loop()
        self.uri = self._transport.start(self._take_frames, self._take_refused)
        me = Self(self.identity, self._incarnation, self.uri, self.settings.formats, (CAPABILITY,))
        if self._tap is not None:
            self._router.dead.subscribe(self._tap.saw_dead)
            self._tap.start()
        self._cluster = Cluster(me, self.settings.pace)
        self._state = "running"
        for running in self._actors.values():
            running.start()
        self._announce(added=self._tables.local.public_routes())
        for uri in self._dial:
            self._step(Dialled(uri))
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)

    async def stop(self, timeout: float = 1.0) -> None:
        """Say goodbye, stop the actors, end every promise; whatever the peers do, it ends soon after the timeout."""
        if self._state != "running":
            self._state = "stopped"
            return
        self._state = "stopping"
        self._ticker.cancel()
        for hub in self._hubs.values():
            hub.close()
        for running in list(self._actors.values()):
            await running.stop()
        bye = Bye(self.identity, self._cluster.me.incarnation)
        for peer in self._cluster.peers.values():
            self._say(peer.uri, bye)
        await self._transport.close(timeout)
        if self._tap is not None:
            await self._tap.stop()
        self._state = "stopped"

    async def drain(self, timeout: float = 10.0) -> bool:
        """Take no new work from other nodes and wait until the actors are idle; tells whether they are."""
        gone = [route for route in self._tables.local.public_routes() if route.contract is not None]
        self._announce(removed=gone)
        give_up_at = self._loop.time() + timeout
        while not all(running.is_idle for running in self._actors.values()):
            if self._loop.time() >= give_up_at:
                return False
            await asyncio.sleep(0.01)
        return True

    @property
    def dead_letters(self) -> DeadLetters:
        """What went no further, counted by reason."""
        return self._router.dead

    def statistics(self) -> Statistics:
        """Give the counts of this node."""
        inboxes = [running.inbox for running in self._actors.values()]
        messages_in, messages_out, bytes_in, bytes_out = self._traffic
        return Statistics(
            messages_in=messages_in,
            messages_out=messages_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            peers=len(self.peers),
            actors=len(self._actors),
            open_promises=sum(hub.open_promises for hub in self._hubs.values()),
            inbox_messages=sum(map(len, inboxes)),
            inbox_bytes=sum(inbox.size_bytes for inbox in inboxes),
            dead_letters=dict(self._router.dead.counts),
        )

    @property
    def capture_status(self) -> CaptureStatus | None:
        """How much of the traffic was captured, if it is."""
        return self._tap.status if self._tap is not None else None

    @property
    def peers(self) -> tuple[bytes, ...]:
        """The nodes that can be talked to."""
        return tuple(self._cluster.peers) if self._state == "running" else ()

    # -- actors and hubs

    def host(self, actor: Actor, *, partition: bytes = b"", local_only: bool = False) -> Address:
        """Let an actor take messages, and give its address."""
        self._refuse_if_closed()
        if id(actor) in self._actors:
            raise SettingsError(f"this {type(actor).__name__} is hosted already")
        identity = ACTOR + _guid()
        inbox: Mailbox[Envelope] = Mailbox(
            self.settings.inbox_messages, self.settings.inbox_bytes, self.settings.overflow
        )
        running = Running(actor, identity, partition, inbox, self._router, self._context)
        self._actors[id(actor)] = running
        self._router.open(identity, inbox)
        added: list[TableRoute] = []
        for contract, handler in running.handlers.items():
            is_local_only = local_only or handler.is_local_only
            added += self._tables.local.register(identity, [Contract(*contract)], is_local_only=is_local_only)
        if self._state == "running":
            self._announce(added=[route for route in added if not route.is_local_only])
            running.start()
        return Address(self.identity, identity)

    async def unhost(self, actor: Actor) -> None:
        """Let an actor take no more messages; what waits for it is given up."""
        running = self._actors.pop(id(actor), None)
        if running is None:
            raise SettingsError(f"this {type(actor).__name__} is not hosted here")
        gone = self._tables.local.unregister(running.identity)
        self._router.shut(running.identity)
        self._announce(removed=[route for route in gone if not route.is_local_only])
        await running.stop()

    def hub(self, *, local_only: bool = False) -> Hub:
        """Make a hub, which sends messages and receives answers."""
        self._refuse_if_closed()
        hub = Hub(HUB + _guid(), self.identity, self._router, _new_ids())
        self._hubs[hub.identity] = hub
        self._router.open(hub.identity, hub.take)
        added = self._tables.local.register(hub.identity, is_local_only=local_only)
        if self._state == "running" and not local_only:
            self._announce(added=added)
        return hub

    async def knows(self, payload: type[Payload], *, partition: bytes = b"", timeout: float = 10.0) -> None:
        """Wait until somebody, here or elsewhere, handles a payload; a NoRoute says that nobody did in time."""
        contract = contract_of(payload, partition)
        give_up_at = self._loop.time() + timeout
        while not any(self._tables.handlers_of(contract)):
            changed = self._loop.create_future()
            self._watchers.append(changed)
            left = give_up_at - self._loop.time()
            if left <= 0 or not (await asyncio.wait([changed], timeout=left))[0]:
                raise NoRoute("no_route", f"nobody handles {payload.__name__}")

    def _wake_watchers(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.set_result(None)

    def _context(self, envelope: Envelope) -> Context:
        return Context(envelope, self._own_hub, self._loop.time)

    def _own_hub(self) -> Hub:
        return next(iter(self._hubs.values()), None) or self.hub()

    def _refuse_if_closed(self) -> None:
        if self._state in ("stopping", "stopped"):
            raise Closed(f"the node is {self._state}")

    # -- messages in

    def _take_frames(self, frames: Frames) -> None:
        if is_train(frames):
            self._take_train(frames)
            return
        self._traffic[0] += 1
        self._traffic[2] += sum(map(len, frames))
        if self._tap is not None:
            self._tap.saw_in(frames)
        try:
            message = decode(frames, self.settings.limits)
            is_believed = self._is_believed(message)
            if isinstance(message.version, bytes):  # V3 and V4 spell versions, contracts number them
                message = transcode(message, V6)
        except WireError as error:
            self._router.dead.add(DeadLetter(error.reason, str(error), frames=tuple(frames)))
            return
        if not is_believed:
            return
        payload = CONTROL_PAYLOADS.get((message.identity, message.version, message.partition))
        if payload is not None:
            self._take_control(message, payload)
        else:
            self._take_message(message)

    def _take_train(self, frames: Frames) -> None:
        try:
            messages = unpack_train(frames, self.settings.limits)
        except WireError as error:
            self._router.dead.add(DeadLetter(error.reason, str(error), frames=tuple(frames)))
            return
        for message in messages:
            self._take_frames(message)

    def _is_believed(self, message: Message) -> bool:
        if not self._domains.signing:
            return True
        verdict = verify(message, self._domains, time.time_ns(), self._replay)
        if is_accepted(verdict, message, self._domains):
            return True
        self._router.dead.add(DeadLetter("bad_signature", str(verdict), message))
        return False

    def _take_control(self, message: Message, payload: type[Payload]) -> None:
        try:
            self._step(Heard(payload_from_body(payload, message.body)))
        except PayloadError as error:
            self._router.dead.add(DeadLetter("bad_payload", str(error), message))

    def _take_message(self, message: Message) -> None:
        deadline = 0.0
        if message.ttl_ticks > 0:
            deadline = self._loop.time() + seconds_from_ticks(message.ttl_ticks)
        envelope = Envelope(message, deadline, message.socket_identity)
        if message.extensions and self._was_seen(envelope):
            return
        self._router.route(envelope)

    def _was_seen(self, envelope: Envelope) -> bool:
        """Tell whether a message need not be handled: it came before, or its extension is damaged."""
        try:
            message_id = extension_of(envelope.message).message_id
        except WireError as error:
            self._router.dead.add(DeadLetter(error.reason, str(error), envelope.message))
            return True
        if not message_id or self._seen.is_new(message_id):
            return False
        self._router.dead.counts["duplicate"] += 1
        self._router.received(envelope)
        return True

    # -- messages out

    def _send_away(self, node: bytes, envelope: Envelope) -> str:
        uri = self._addresses.get(node)
        if uri is None:
            return "unreachable"
        message = forwarded(envelope.message, self.uri, self.identity, self._router.ttl_ticks(envelope))
        return self._post(node, uri, message, self._formats.get(node, V6))

    def _post(self, node: bytes, uri: str, message: Message, fmt: WireFormat) -> str:
        """Sign, write and send a message; gives a reason where that is not possible."""
        try:
            if fmt is not V6:
                message = transcode(message.replace(extensions=()), fmt)
            if self._domains.signing and not message.signature:
                message = sign(message, self._domains, time.time_ns(), os.urandom(16))
            frames = encode(message, fmt)
        except WireError as error:
            return error.reason
        except HopwireError:
            return "cannot_sign"
        size_bytes = sum(map(len, frames))
        if not self._transport.send(uri, frames, size_bytes):
            return "queue_full"
        self._traffic[1] += 1
        self._traffic[3] += size_bytes
        if self._tap is not None:
            self._tap.saw_out(node, frames)
        return ""

    def _say(self, uri: str, payload: Payload) -> None:
        contract = contract_of(payload)
        message = Message(contract.identity, contract.version, body_frames=(body_from_payload(payload),))
        nodes = self._tables.remote.nodes_at(uri)
        reason = self._post(nodes[0] if nodes else b"", uri, message, V6)
        if reason:
            self._router.dead.add(DeadLetter(reason, f"{type(payload).__name__} to {uri}", message))

    def _take_refused(self, uri: str, frames: Frames, reason: str) -> None:
        message = decode(frames)
        self._router.give_up(Envelope(message), reason, uri)

    # -- the cluster

    def _tick(self) -> None:
        self._step(Ticked())
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)

    def _step(self, event: Event) -> None:
        self._cluster, commands = step(self._cluster, event, round(self._loop.time() * SECOND_NS))
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
                self._transport.disconnect(uri)
            case Say(uri, payload):
                self._say(uri, payload)
            case MeetNode(peer):
                readable = [BY_NUMBER[number] for number in peer.formats if number in BY_NUMBER]
                self._formats[peer.node] = max(readable, key=lambda fmt: fmt.number, default=V6)
                self._addresses[peer.node] = peer.uri
                if CAPABILITY in peer.capabilities:
                    self._transport.allow_trains(peer.uri)
                self._tables.remote.register(KnownNode(peer.node, (peer.uri,), peer.incarnation))
            case LoseNode(node, reason):
                self._lose(node, reason)
            case ApplyRoutes(node, added, removed, is_all):
                self._apply(node, added, removed, is_all)
            case Report(what, node, uri):
                log.error("%s: node %s at %s", what, node.decode(errors="replace"), uri)

    def _lose(self, node: bytes, reason: str) -> None:
        self._tables.remote.unregister_node(node)
        self._addresses.pop(node, None)
        self._formats.pop(node, None)
        for hub in self._hubs.values():
            hub.lose_node(node, reason)

    def _apply(
        self, node: bytes, added: tuple[AnnouncedRoute, ...], removed: tuple[AnnouncedRoute, ...], is_all: bool
    ) -> None:
        known = self._tables.remote.node(node)
        if known is None:
            return
        if is_all:
            self._tables.remote.unregister(node)
        for receiver, identity, version, partition in removed:
            contracts = [Contract(identity, version, partition)] if identity else None
            self._tables.remote.unregister(node, receiver, contracts)
        for receiver, identity, version, partition in added:
            contracts = [Contract(identity, version, partition)] if identity else []
            try:
                self._tables.remote.register(known, receiver, contracts)
            except SettingsError as error:  # a receiver that is neither hub nor actor; the others count
                self._router.dead.add(DeadLetter("bad_control", str(error)))
        self._wake_watchers()

    def _announce(self, added: Iterable[TableRoute] = (), removed: Iterable[TableRoute] = ()) -> None:
        if self._state == "running":
            self._wake_watchers()
            self._step(RoutesChanged(tuple(map(_announced, added)), tuple(map(_announced, removed))))

    def _now(self) -> float:
        return self._loop.time()


def _announced(route: TableRoute) -> AnnouncedRoute:
    contract = route.contract
    if contract is None:
        return (route.receiver, b"", 0, b"")
    assert isinstance(contract.version, int)
    return (route.receiver, contract.identity, contract.version, contract.partition)


def _guid() -> bytes:
    return str(uuid.uuid4()).encode()


def _new_ids() -> Callable[[], bytes]:
    """Ids as long as a GUID's text, and as unique: chance in front, a counter behind, which costs a tenth."""
    front, numbers = _guid()[:24], count()
    return lambda: front + b"%012x" % next(numbers)
