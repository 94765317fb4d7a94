"""The transport over ZeroMQ: the only module that knows it.

Two ROUTER sockets. The front is bound and only receives; the back connects to the fronts of others and only sends. A
connection has its own name on the back (`CONNECT_ROUTING_ID`), so frames can be queued for it before the other side has
answered, and `ROUTER_MANDATORY` makes every drop visible. To the front of the other side it is known by another name
(`ROUTING_ID`), new for each connection and partly chance, see `wire/connection.py`: so no two connections compete for
one, and what reconnects takes back its own.

- One owner: the event loop. The front's descriptor is a reader of the loop.
- Sends never wait. Each peer has a bounded queue of its own; what ZeroMQ does not take at once stays there and is tried
  again, so a slow peer holds up nobody else.
- A message that comes alone leaves at once. One that comes closely behind another waits until the end of this turn of
  the loop, with all that are queued meanwhile: to a peer that reads trains they are sent as trains. Control messages
  and those that fit no train go as plain frames.
- What is sent is built before its first frame is sent, and stays in the queue until ZeroMQ has taken it.

The trap: the descriptor is edge-triggered, and says nothing of what was there before. So a drain goes on until EVENTS
says that nothing is left; nothing but the drain uses the front socket, or it would swallow the signal. And per frame
the methods of pyzmq's backend are called, with plain integers as flags: its Python layer and its enums cost more than
the call itself.

The other trap: never set `ZMQ_HEARTBEAT_*`. With them on, a peer that dies while its messages wait to be read makes
libzmq 4.3.5 abort the process. The beats of `cluster` judge peers, TCP's own timers end connections to dead machines.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from functools import partial
from ipaddress import ip_address
from itertools import count
from time import monotonic
from typing import NamedTuple, TypeAlias

import zmq
import zmq.utils.z85
from zmq.backend import Socket as Backend

from hopwire.errors import SettingsError
from hopwire.model.settings import Limits
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.transport import CurveKeys, Frames, OnFrames, OnRefused, OutboxLimits, check_uri
from hopwire.node.waiters import Waiters
from hopwire.wire.connection import CHANCE_BYTES, connection_name
from hopwire.wire.train import MAX_TRAIN_BYTES, SMALLEST, TRAIN_BYTES, TRAIN_FRAMES, TRAIN_MESSAGES, pack_train

__all__ = ["Sockets", "new_curve_keys"]

log = logging.getLogger("hopwire.node")
NOBLOCK, SNDMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE)
NOBLOCK_MORE = NOBLOCK | SNDMORE
EVENTS, RCVMORE, POLLIN = int(zmq.EVENTS), int(zmq.RCVMORE), int(zmq.POLLIN)
DRAIN_AT_MOST = 500  # messages in one turn of the loop, so that handlers get theirs
WAKE_AT_MOST = 256  # of those who wait for room, in one turn of the loop: what comes back has to be read meanwhile
ALONE_SECONDS = 0.000_05  # a message so long after the last to the same peer is sent at once
RETRY_SECONDS = 0.002  # after ZeroMQ took no more for a peer
CONTROL_MESSAGES, CONTROL_BYTES = 1000, 16 * 1024 * 1024  # so much more may wait if it is control messages
HANDSHAKE_MS = 3000  # who connects and says nothing for so long is cut off
TCP_IDLE_SECONDS, TCP_PROBE_SECONDS, TCP_PROBES = 30, 10, 3  # until a connection to a dead machine is given up
TCP_UNACKNOWLEDGED_MS = 30_000
EVERYWHERE = ("0.0.0.0", "*", "[::]")  # noqa: S104 - addresses to listen on, and no others
HANDSHAKES_FAILED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
HIGH_WATER = 64  # messages or trains inside ZeroMQ for each peer; the rest waits in our own queue, where it is counted
OPTIONS: tuple[tuple[int, int], ...] = (
    (zmq.LINGER, 0),
    (zmq.SNDHWM, HIGH_WATER),
    (zmq.RCVHWM, HIGH_WATER),
    (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, TCP_IDLE_SECONDS),
    (zmq.TCP_KEEPALIVE_INTVL, TCP_PROBE_SECONDS),
    (zmq.TCP_KEEPALIVE_CNT, TCP_PROBES),
    (zmq.TCP_MAXRT, TCP_UNACKNOWLEDGED_MS),
    (zmq.ROUTER_HANDOVER, 1),  # who reconnects takes the name of the connection that it lost
)


_Item: TypeAlias = tuple[Frames, int, int, bool]  # frames, their bytes, a number that grows, whether it goes alone


class _Load(NamedTuple):
    """What is sent next: the parts of one message, or a train of several."""

    messages: int
    size_bytes: int
    parts: list[bytes]


class _Outbox:
    """What waits for one peer."""

    __slots__ = ("alias", "items", "load", "mean_bytes", "sent_at", "size_bytes", "takes_trains", "waiters")

    def __init__(self, alias: bytes) -> None:
        self.alias = alias
        self.takes_trains = False
        self.sent_at = 0.0
        self.items: deque[_Item] = deque()
        self.size_bytes = 0
        self.load: _Load | None = None  # of the first items, which are still among them
        self.mean_bytes = 1  # of a message, in the last load
        self.waiters = Waiters()

    def pop(self) -> Frames:
        """Give what came first."""
        frames, size_bytes, _, _ = self.items.popleft()
        self.size_bytes -= size_bytes
        self.load = None
        return frames

    def next_load(self) -> _Load:
        """Build what is sent next; nothing leaves the queue yet."""
        items = self.items
        first, first_bytes, _, goes_alone = items[0]
        if goes_alone or not self.takes_trains:
            load = _Load(1, first_bytes, first[1:])  # the alias stands for the first frame
        else:
            messages: list[Frames] = []
            total = 0
            for frames, size_bytes, _, goes_alone in items:
                if goes_alone or total + size_bytes > TRAIN_BYTES or len(messages) == TRAIN_MESSAGES:
                    break
                messages.append(frames)
                total += size_bytes
            load = _Load(len(messages), total, [pack_train(messages)])
        self.load = load
        self.mean_bytes = load.size_bytes // load.messages + 1
        return load

    def unload(self, load: _Load) -> None:
        """Let go of what was sent."""
        for _ in range(load.messages):
            self.items.popleft()
        self.size_bytes -= load.size_bytes
        self.load = None


class _Gate:
    """Lets in those who have the network's key: ZeroMQ asks here about everyone who connects (ZAP, RFC 27)."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        loop: asyncio.AbstractEventLoop,
        keys: CurveKeys,
        notices: Notices,
    ) -> None:
        self._raw_key = zmq.utils.z85.decode(keys.public)
        self._loop, self._notices = loop, notices
        self._socket = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind("inproc://zeromq.zap.01")
        self._descriptor = int(self._socket.get(zmq.FD))
        loop.add_reader(self._descriptor, self._answer)

    def _answer(self) -> None:
        while int(self._socket.get(zmq.EVENTS)) & POLLIN:
            version, request, _, address, _, mechanism, *credentials = self._socket.recv_multipart()
            is_known = mechanism == b"CURVE" and credentials == [self._raw_key]
            if not is_known:
                self._notices.warn(("gate", address), partial(_refused_key, address))
            status = (b"200", b"OK") if is_known else (b"400", b"not a node of this network")
            self._socket.send_multipart([version, request, *status, b"", b""])

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)


def _refused_key(address: bytes) -> Notice:
    peer = shown(address)
    return Notice(f"refused a connection from {peer}: its CURVE key is not the one of this network", {"peer": peer})


class _Watch:
    """Tells of handshakes at the front that failed, which is all that a peer with other keys leaves behind."""

    def __init__(
        self, socket: zmq.Socket[bytes], loop: asyncio.AbstractEventLoop, uri: str, is_encrypted: bool, notices: Notices
    ) -> None:
        self._front, self._loop, self._uri, self._notices = socket, loop, uri, notices
        self._is_encrypted = is_encrypted
        self._socket = socket.get_monitor_socket(HANDSHAKES_FAILED)
        self._descriptor = int(self._socket.get(zmq.FD))
        loop.add_reader(self._descriptor, self._look)
        self._look()  # the descriptor says nothing until the socket has been asked once

    def _look(self) -> None:
        while int(self._socket.get(zmq.EVENTS)) & POLLIN:
            self._socket.recv_multipart()
            self._notices.warn("handshake", self._failed)

    def _failed(self) -> Notice:
        expected = "the CURVE keys of this network" if self._is_encrypted else "no CURVE"
        text = f"refused a connection to {self._uri}: expected {expected}, the other side has something else"
        return Notice(text, {"uri": self._uri})

    def close(self) -> None:
        """Stop watching; the socket that is watched is closed after this."""
        self._loop.remove_reader(self._descriptor)
        self._front.disable_monitor()


def _host(uri: str) -> str:
    return uri.partition("://")[2].rpartition(":")[0]


def _is_reachable(uri: str) -> bool:
    """Tell whether other machines can reach an address."""
    host = _host(uri).strip("[]")
    if not uri.startswith("tcp://") or host in ("localhost", "lo"):
        return False
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True


def new_curve_keys() -> CurveKeys:
    """Make the key pair of a network."""
    return CurveKeys(*zmq.curve_keypair())


class Sockets:
    """Moves frames between addresses over ZeroMQ."""

    def __init__(
        self,
        identity: bytes,
        listen: str,
        limits: OutboxLimits | None = None,
        curve: CurveKeys | None = None,
        advertise: str = "",
        max_bytes: int = Limits().max_bytes,
    ) -> None:
        check_uri(listen, "this node")
        self._identity, self._listen, self._curve = identity, listen, curve
        self._advertise, self._max_bytes = advertise, max(max_bytes, MAX_TRAIN_BYTES)
        if advertise:
            check_uri(advertise, "this node, as others see it,")
        elif _host(listen) in EVERYWHERE:
            raise SettingsError(f"{listen} is no address that others can reach: name one with advertise=...")
        self._limits = limits or OutboxLimits()
        self._peers: dict[str, _Outbox] = {}
        self._busy: dict[str, None] = {}  # peers with something to send, in the order in which it came
        self._flush_at: asyncio.Handle | None = None
        self._aliases, self._numbers = count(1), count(1)
        self._is_closed = False

    @property
    def open_address(self) -> str:
        """The address that other machines can reach without a key, or nothing."""
        return self._listen if self._curve is None and _is_reachable(self._listen) else ""

    def start(self, on_frames: OnFrames, on_refused: OnRefused) -> str:
        """Bind, and give the address that others reach this node by."""
        self._on_frames, self._on_refused = on_frames, on_refused
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._context.set(zmq.BLOCKY, 0)
        notices = Notices(self._loop.time)
        self._gate = None if self._curve is None else _Gate(self._context, self._loop, self._curve, notices)
        try:
            self._front, self._back = self._socket(), self._socket()
            self._back.set(zmq.ROUTER_MANDATORY, 1)
            if self._curve is not None:
                self._front.set(zmq.CURVE_SERVER, 1)
                self._front.set(zmq.ZAP_DOMAIN, b"hopwire")
                self._back.set(zmq.CURVE_SERVERKEY, self._curve.public)
            self._front.bind(self._listen)
        except zmq.ZMQError as error:
            if self._gate is not None:
                self._gate.close()
            self._context.destroy(linger=0)
            raise SettingsError(f"cannot listen on {self._listen}: {error.strerror}") from None
        self._receive, self._get = Backend.recv.__get__(self._front), Backend.get.__get__(self._front)
        self._send_frame = Backend.send.__get__(self._back)
        self._descriptor = int(self._front.get(zmq.FD))
        self._loop.add_reader(self._descriptor, self._drain)
        bound = bytes(self._front.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._watch = _Watch(self._front, self._loop, bound, self._curve is not None, notices)
        host, _, port = self._advertise.rpartition(":")
        return f"{host}:{bound.rpartition(':')[2]}" if port == "0" else self._advertise or bound

    def _socket(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.ROUTER)
        for option, value in OPTIONS:
            socket.set(option, value)
        socket.set(zmq.MAXMSGSIZE, self._max_bytes)
        self._name_connections(socket)
        if self._curve is not None:
            socket.set(zmq.CURVE_PUBLICKEY, self._curve.public)
            socket.set(zmq.CURVE_SECRETKEY, self._curve.secret)
        return socket

    def _name_connections(self, socket: zmq.Socket[bytes]) -> None:
        """Give the connections that a socket opens from now on a name of their own."""
        if self._identity:
            socket.set(zmq.ROUTING_ID, connection_name(self._identity, os.urandom(CHANCE_BYTES)))

    # -- receiving

    def _drain(self) -> None:
        receive, get, on_frames = self._receive, self._get, self._on_frames
        taken = 0
        while taken < DRAIN_AT_MOST:
            if self._is_closed or not get(EVENTS) & POLLIN:
                return
            frames = [receive(NOBLOCK), receive(NOBLOCK)]  # a ROUTER puts the sender in front of at least one frame
            while get(RCVMORE):
                frames.append(receive(NOBLOCK))
            taken += 1
            try:
                taken += on_frames(frames)
            except Exception:  # a fault of ours; what lies behind this message must not wait for the next signal
                log.exception("a message could not be taken", extra={"hopwire_uri": self._listen})
        self._loop.call_soon(self._drain)

    # -- sending

    def connect(self, uri: str) -> None:
        """Open a connection; frames may be sent to it from now on."""
        if uri in self._peers or self._is_closed:
            return
        check_uri(uri, "a peer")
        alias = b"hw%d" % next(self._aliases)
        self._back.set(zmq.CONNECT_ROUTING_ID, alias)
        self._name_connections(self._back)
        try:
            self._back.connect(uri)
        except zmq.ZMQError as error:
            raise SettingsError(f"cannot connect to {uri}: {error.strerror}") from None
        self._peers[uri] = _Outbox(alias)

    def allow_trains(self, uri: str) -> None:
        """Send what waits for a peer in trains from now on."""
        if uri in self._peers:
            self._peers[uri].takes_trains = True

    def disconnect(self, uri: str) -> None:
        """Close a connection; what waits for it is refused."""
        outbox = self._peers.pop(uri, None)
        if outbox is None:
            return
        self._busy.pop(uri, None)
        if not self._is_closed:
            self._back.disconnect(uri)
        self._refuse(uri, outbox, "unreachable")

    def empty(self, uri: str) -> None:
        """Refuse what waits for a peer that is gone; the connection stays, for whoever comes next."""
        if uri in self._peers:
            self._refuse(uri, self._peers[uri], "unreachable")

    def send(self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False) -> str:
        """Put frames into the queue of a peer; gives `queue_full` or `unreachable` where that is not possible."""
        outbox = self._peers.get(uri)
        if outbox is None or self._is_closed:
            return "unreachable"
        waiting = len(outbox.items)
        if waiting and self._is_full(outbox, size_bytes, is_control):
            if is_control or not self._limits.drops_oldest:
                return "queue_full"
            while outbox.items and self._is_full(outbox, size_bytes):
                self._on_refused(uri, outbox.pop(), "queue_full")
        goes_alone = is_control or size_bytes > TRAIN_BYTES or not SMALLEST < len(frames) <= TRAIN_FRAMES + 1
        outbox.items.append((frames, size_bytes, next(self._numbers), goes_alone))
        outbox.size_bytes += size_bytes
        if not waiting:
            now, before = monotonic(), outbox.sent_at
            outbox.sent_at = now
            if now - before > ALONE_SECONDS and self._send_waiting(uri, outbox):
                return ""
            self._busy[uri] = None
            if self._flush_at is None:
                self._flush_at = self._loop.call_soon(self._flush)
        return ""

    def _is_full(self, outbox: _Outbox, size_bytes: int, is_control: bool = False) -> bool:
        limits = self._limits
        taken, taken_bytes = len(outbox.items) + outbox.waiters.called, outbox.size_bytes + size_bytes
        if is_control:
            taken, taken_bytes = taken - CONTROL_MESSAGES, taken_bytes - CONTROL_BYTES
        return taken >= limits.max_messages or taken_bytes > limits.max_bytes

    def waiting(self) -> tuple[int, int]:
        """Give the messages and bytes that wait in all queues."""
        outboxes = self._peers.values()
        return sum(len(outbox.items) for outbox in outboxes), sum(outbox.size_bytes for outbox in outboxes)

    def mark(self, uri: str) -> int:
        """Give the number of the last message in the queue of a peer, or 0 where none waits."""
        outbox = self._peers.get(uri)
        if outbox is None or not outbox.items:
            return 0
        _, _, number, _ = outbox.items[-1]
        return number

    def is_queued(self, uri: str, mark: int) -> bool:
        """Tell whether a message still waits for a peer that was put into its queue up to that mark."""
        outbox = self._peers.get(uri)
        if outbox is None or not outbox.items:
            return False
        _, _, number, _ = outbox.items[0]
        return number <= mark

    async def room(self, uri: str) -> bool:
        """Wait until there may be room in the queue of a peer; False says that there is no such connection."""
        outbox = self._peers.get(uri)
        if outbox is None or self._is_closed:
            return False
        if not outbox.items:  # room came before anybody asked for it, and nothing is left that would bring more
            await asyncio.sleep(0)
        else:
            await outbox.waiters.wait()
        if not outbox.items:  # who was woken may put nothing there, and then nobody else would wake the next
            self._loop.call_soon(self._wake, outbox)
        return uri in self._peers and not self._is_closed

    def _wake(self, outbox: _Outbox) -> None:
        """Wake as many of those who wait for room as there is room for."""
        waiters, limits = outbox.waiters, self._limits
        if not waiters:
            return
        taken = len(outbox.items) + waiters.called
        free_bytes = limits.max_bytes - outbox.size_bytes - waiters.called * outbox.mean_bytes
        free = min(limits.max_messages - taken, free_bytes // outbox.mean_bytes)
        free = max(free, 0 if taken else 1)  # a message that is larger than the limit needs an empty queue
        waiters.wake(min(free, WAKE_AT_MOST - waiters.called))

    def _flush(self) -> None:
        self._flush_at = None
        for uri in list(self._busy):
            if self._send_waiting(uri, self._peers[uri]):
                self._busy.pop(uri, None)
        if self._busy and not self._is_closed:
            self._flush_at = self._loop.call_later(RETRY_SECONDS, self._flush)

    def _send_waiting(self, uri: str, outbox: _Outbox) -> bool:
        """Send what waits for a peer; False where ZeroMQ takes no more for now."""
        send, alias = self._send_frame, outbox.alias
        while outbox.items:
            load = outbox.load or outbox.next_load()
            try:
                send(alias, NOBLOCK_MORE)
            except zmq.Again:
                self._wake(outbox)
                return False
            except zmq.ZMQError:
                self._refuse(uri, outbox, "unreachable")
                return True
            *parts, last = load.parts
            for part in parts:
                send(part, NOBLOCK_MORE)
            send(last, NOBLOCK)
            outbox.unload(load)
        self._wake(outbox)
        return True

    def _refuse(self, uri: str, outbox: _Outbox, reason: str) -> None:
        while outbox.items:
            self._on_refused(uri, outbox.pop(), reason)
        outbox.waiters.wake(len(outbox.waiters))

    # -- the end

    async def close(self, timeout: float) -> None:
        """Send what waits, for so many seconds at most, and stop; what is left then is refused."""
        if self._is_closed:
            return
        give_up_at = self._loop.time() + timeout
        while self._busy and self._loop.time() < give_up_at:
            await asyncio.sleep(RETRY_SECONDS)
        self._is_closed = True
        if self._flush_at is not None:
            self._flush_at.cancel()
        self._loop.remove_reader(self._descriptor)
        self._watch.close()
        if self._gate is not None:
            self._gate.close()
        for uri, outbox in self._peers.items():
            self._refuse(uri, outbox, "closed")
        linger_ms = max(0, int(1000 * min(0.2, give_up_at - self._loop.time())))
        self._context.destroy(linger=linger_ms)
