"""The transport over ZeroMQ: the only module that knows it.

Two ROUTER sockets. The front is bound and only receives; the back connects to the fronts of others and only sends. A
connection has its own name on the back (`CONNECT_ROUTING_ID`), so frames can be queued for it before the other side has
answered, and `ROUTER_MANDATORY` makes every drop visible. To the front of the other side it is known by another name
(`ROUTING_ID`), new for each connection and partly chance, see `wire/connection.py`: so no two connections compete for
one, and what reconnects takes back its own.

- One owner: the event loop. The front's descriptor is a reader of the loop.
- Sends never wait. Each peer has a bounded queue of its own; what ZeroMQ does not take at once stays there and is tried
  again, so a slow peer holds up nobody else.
- What waits, and in which pieces it leaves, is in `outbox.py`.

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
from functools import partial
from itertools import count

import zmq
import zmq.utils.z85
from zmq.backend import Socket as Backend

from hopwire.errors import SettingsError
from hopwire.model.limits import Limits
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.outbox import RETRY_SECONDS, Outbox, Outboxes
from hopwire.node.transport import (
    CurveKeys,
    OnFrames,
    OnRefused,
    OutboxLimits,
    advertised,
    check_addresses,
    check_uri,
    is_reachable,
)
from hopwire.wire.connection import CHANCE_BYTES, connection_name
from hopwire.wire.train import MAX_TRAIN_BYTES

__all__ = ["Sockets", "new_curve_keys"]

log = logging.getLogger("hopwire.node")
NOBLOCK, SNDMORE = int(zmq.NOBLOCK), int(zmq.SNDMORE)
NOBLOCK_MORE = NOBLOCK | SNDMORE
EVENTS, RCVMORE, POLLIN = int(zmq.EVENTS), int(zmq.RCVMORE), int(zmq.POLLIN)
DRAIN_AT_MOST = 500  # messages in one turn of the loop, so that handlers get theirs
HANDSHAKE_MS = 3000  # who connects and says nothing for so long is cut off
TCP_IDLE_SECONDS, TCP_PROBE_SECONDS, TCP_PROBES = 30, 10, 3  # until a connection to a dead machine is given up
TCP_UNACKNOWLEDGED_MS = 30_000
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


def new_curve_keys() -> CurveKeys:
    """Make the key pair of a network."""
    return CurveKeys(*zmq.curve_keypair())


class Sockets(Outboxes):
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
        check_addresses(listen, advertise)
        self._identity, self._listen, self._curve = identity, listen, curve
        self._advertise, self._max_bytes = advertise, max(max_bytes, MAX_TRAIN_BYTES)
        super().__init__(limits)
        self._aliases = count(1)

    @property
    def open_address(self) -> str:
        """The address that other machines can reach without a key, or nothing."""
        return self._listen if self._curve is None and is_reachable(self._listen) else ""

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
        return advertised(self._advertise, bound)

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
        self._peers[uri] = Outbox(alias)

    def disconnect(self, uri: str) -> None:
        """Close a connection; what waits for it is refused."""
        outbox = self._peers.pop(uri, None)
        if outbox is None:
            return
        self._busy.pop(uri, None)
        if not self._is_closed:
            self._back.disconnect(uri)
        self._refuse(uri, outbox, "unreachable")

    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
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
            outbox.take(load)
        self._wake(outbox)
        return True

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
