"""The transport over TCP: ZMTP spoken by ourselves on sockets that never block. `wire/zmtp.py` knows the protocol.

A link to a peer is one connection that this node opened; what the peer sends comes over the connection that the peer
opened. Both are read, so that the death of either is seen at once.

- One owner: the event loop. Each socket is a reader of the loop; it is a writer only while the kernel takes no more.
- Sends never wait. Each peer has a bounded queue of its own (`outbox.py`); what the kernel does not take stays there.
- One read for each connection in a turn, and so many messages, so that nobody is served twice before everybody was
  served once.
- What was sent in part when its connection died is refused: the other side cannot have read it. Sent again, a message
  that the other side refuses would cut the connection off for ever.

The trap: a callback may close any connection, also the one that is being read. `is_open` is asked again after each.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from hopwire.errors import SettingsError, WireError
from hopwire.model.limits import Limits
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.outbox import Item, Outbox, Outboxes
from hopwire.node.transport import (
    Frames,
    OnFrames,
    OnRefused,
    OutboxLimits,
    advertised,
    check_addresses,
    check_uri,
    host_of,
    is_reachable,
    port_of,
)
from hopwire.wire.connection import CHANCE_BYTES, connection_name
from hopwire.wire.zmtp import GREETING, Zmtp, ZmtpError, heads

__all__ = ["Streams"]

log = logging.getLogger("hopwire.node")
LARGE_BYTES = 16 * 1024  # what is larger is handed to the kernel frame by frame, without a copy
HANDSHAKE_SECONDS = 3.0
BACKLOG = 256
MAX_CONNECTIONS = 4096  # that others opened
MAX_FROM_ONE_ADDRESS = 1024
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0  # between two attempts to connect
ACCEPT_AGAIN_SECONDS = 0.1  # after the process ran out of descriptors
ACCEPT_AT_MOST = 64  # connections in one turn of the loop
READ_BYTES = 64 * 1024  # of one connection in one turn of the loop
HAND_OVER_AT_MOST = 500  # messages of one connection in one turn, so that handlers get theirs
MAX_UNREAD = 1000  # answers to PING that wait for somebody who does not read them
MAX_PARTS = 512  # buffers of one call; Linux takes 1,024
DISCONNECTED = "disconnected"  # the end of a connection that this side wants
# fmt: off
CUT_OFF = {
    # reason            in words
    "not_zmtp":         "it does not speak ZMTP",
    "old_zmtp":         "it speaks a version of ZMTP that is too old",
    "mechanism":        "it wants to encrypt as this node does not: are the keys the same on both sides?",
    "socket_type":      "its socket type cannot talk to a node",
    "too_large":        "it sent a message above the limits",
    "too_many_frames":  "it sent a message above the limits",
    "unread":           "it asks and does not read the answers",
}
# fmt: on


def _is_not_ipv4(found: tuple[Any, ...]) -> bool:
    """Tell whether an address is of another family than IPv4, which comes first as it does in ZeroMQ."""
    return bool(found[0] != socket.AF_INET)


def _prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


class _ZmtpSocket:
    """One socket with ZMTP on it."""

    __slots__ = (
        "_heard",
        "_loop",
        "_on_closed",
        "_on_frames",
        "_on_ready",
        "_rest",
        "_sock",
        "_timer",
        "is_open",
        "name",
        "on_written",
        "zmtp",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        zmtp: Zmtp,
        name: bytes,
        on_frames: OnFrames,
        on_ready: Callable[[_ZmtpSocket], None],
        on_closed: Callable[[_ZmtpSocket, str], None],
    ) -> None:
        self._loop, self._sock, self.zmtp, self.name = loop, sock, zmtp, name
        self._on_frames, self._on_ready, self._on_closed = on_frames, on_ready, on_closed
        self._rest: deque[memoryview] = deque()
        self._heard: deque[Frames] = deque()  # whole messages that were not handed over yet
        self.on_written: Callable[[], None] | None = None
        self.is_open = True
        self._timer: asyncio.TimerHandle | None = loop.call_later(HANDSHAKE_SECONDS, self.close, "handshake")
        loop.add_reader(sock, self._readable)
        self.write([GREETING])

    def _readable(self) -> None:
        """Read once, so that every connection has its turn."""
        room = self.zmtp.room()
        try:
            count = self._sock.recv_into(room, min(len(room), READ_BYTES))
            if count:
                self._took(count)
            else:
                self.close("closed")
        except BlockingIOError:
            return
        except WireError as error:
            self.close(error.reason)
        except OSError as error:
            self.close(_reason(error))

    def _took(self, count: int) -> None:
        zmtp, was_ready = self.zmtp, self.zmtp.is_ready
        messages = zmtp.took(count)
        if zmtp.replies:
            replies, zmtp.replies = zmtp.replies, []
            if len(self._rest) > MAX_UNREAD:
                raise ZmtpError("unread", "the other side asks and does not read")
            self.write(replies)
        if not was_ready and zmtp.is_ready and self.is_open:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._on_ready(self)
        self._heard.extend(messages)
        self._hand_over()

    def _hand_over(self, is_paused: bool = False) -> None:
        """Hand over what was heard, up to the share of a turn; nothing more is read until all of it is handed over."""
        heard, name, taken = self._heard, self.zmtp.identity or self.name, 0
        while heard and taken < HAND_OVER_AT_MOST:
            taken += 1
            try:
                self._on_frames([name, *heard.popleft()])
            except Exception:  # a fault of ours must not cost the messages behind it
                log.exception("a message could not be taken")
        if heard:
            if not is_paused and self.is_open:
                self._loop.remove_reader(self._sock)
            self._loop.call_soon(self._hand_over, True)
        elif is_paused and self.is_open:
            self._loop.add_reader(self._sock, self._readable)

    @property
    def is_writing(self) -> bool:
        """Whether the kernel has not yet taken all."""
        return bool(self._rest)

    def write(self, parts: Frames) -> bool:
        """Hand bytes to the kernel; False where it does not take all at once, and `on_written` says when it did."""
        if not self.is_open:
            return False
        if self._rest:
            self._rest.extend(map(memoryview, parts))
            return False
        size = sum(map(len, parts))
        try:
            if size <= LARGE_BYTES:
                sent = self._sock.send(b"".join(parts) if len(parts) > 1 else parts[0])
            else:
                sent = self._sock.sendmsg(parts[:MAX_PARTS])
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._loop.call_soon(self.close, _reason(error))
            sent = 0
        if sent == size:
            return True
        self._rest.extend(_behind(parts, sent))
        self._loop.add_writer(self._sock, self._writable)
        return False

    def _writable(self) -> None:
        rest = self._rest
        try:
            sent = self._sock.sendmsg([rest[i] for i in range(min(len(rest), MAX_PARTS))])
        except BlockingIOError:
            return
        except OSError as error:
            self.close(_reason(error))
            return
        while sent:
            first = rest[0]
            if sent < len(first):
                rest[0] = first[sent:]
                break
            sent -= len(first)
            rest.popleft()
        while rest and not len(rest[0]):
            rest.popleft()
        if not rest:
            self._loop.remove_writer(self._sock)
            if self.on_written is not None:
                self.on_written()

    def close(self, reason: str) -> None:
        """End the connection."""
        if not self.is_open:
            return
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()
        self._rest.clear()
        if reason == DISCONNECTED:  # by us: nobody is there any more who could take it
            self._heard.clear()
        self._on_closed(self, reason)


def _reason(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, "broken").lower()


def _behind(parts: Frames, sent: int) -> list[memoryview]:
    """Give what is left of some bytes behind those that were sent."""
    left: list[memoryview] = []
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
            continue
        left.append(memoryview(part)[sent:])
        sent = 0
    return left


class _OutgoingLink:
    """The connection to one peer, and the name that it has there."""

    __slots__ = ("connection", "dialling", "name", "pause", "sending", "uri")

    def __init__(self, uri: str, name: bytes) -> None:
        self.uri, self.name = uri, name
        self.connection: _ZmtpSocket | None = None  # once it may be written to
        self.dialling: asyncio.Task[None] | None = None
        self.pause = FIRST_PAUSE_SECONDS
        self.sending: list[Item] = []  # of which the kernel has taken a part


def _nothing(_connection: _ZmtpSocket) -> None:
    pass


def _cut_off(host: str, reason: str) -> Notice:
    text = f"a connection from {shown(host)} was cut off: {CUT_OFF[reason]}"
    return Notice(text, {"host": host, "reason": reason})


class Streams(Outboxes):
    """Moves frames between addresses over TCP."""

    def __init__(
        self,
        identity: bytes,
        listen: str,
        limits: OutboxLimits | None = None,
        advertise: str = "",
        message_limits: Limits | None = None,
    ) -> None:
        check_addresses(listen, advertise)
        super().__init__(limits, LARGE_BYTES)
        self._identity, self._listen, self._advertise = identity, listen, advertise
        self._message_limits = message_limits or Limits()
        self._links: dict[str, _OutgoingLink] = {}
        self._inbound: set[_ZmtpSocket] = set()
        self._from: Counter[str] = Counter()  # connections by the address that they come from
        self._hosts: dict[_ZmtpSocket, str] = {}
        self.closed: Counter[str] = Counter()  # connections by the reason of their end

    @property
    def open_address(self) -> str:
        """The address that other machines can reach without a key, or nothing."""
        return self._listen if is_reachable(self._listen) else ""

    # -- listening

    def start(self, on_frames: OnFrames, on_refused: OnRefused) -> str:
        """Bind, and give the address that others reach this node by."""
        self._on_frames, self._on_refused = on_frames, on_refused
        self._loop = asyncio.get_running_loop()
        self._notices = Notices(self._loop.time)
        host, port = host_of(self._listen), port_of(self._listen)
        try:
            found = socket.getaddrinfo(
                None if host in ("*", "") else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, kind, _, _, address = min(found, key=_is_not_ipv4)
            self._server = server = socket.socket(family, kind)
        except OSError as error:
            raise SettingsError(f"cannot listen on {self._listen}: {error.strerror or error}") from None
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(address)
            server.listen(BACKLOG)
        except OSError as error:
            server.close()
            raise SettingsError(f"cannot listen on {self._listen}: {error.strerror or error}") from None
        self._server.setblocking(False)
        self._loop.add_reader(self._server, self._accept)
        bound_host, bound_port, *_ = self._server.getsockname()
        shown_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        return advertised(self._advertise, f"tcp://{shown_host}:{bound_port}")

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_MOST):
            try:
                sock, address = self._server.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self.closed["no_descriptors"] += 1
                    self._loop.remove_reader(self._server)
                    self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._accept_again)
                return
            host = str(address[0]) if address else ""
            if len(self._inbound) >= MAX_CONNECTIONS or self._from[host] >= MAX_FROM_ONE_ADDRESS:
                self.closed["too_many_connections"] += 1
                sock.close()
                continue
            _prepare(sock)
            connection = self._open(sock, self._new_name(), _nothing, self._inbound_closed)
            self._inbound.add(connection)
            self._from[host] += 1
            self._hosts[connection] = host

    def _open(
        self,
        sock: socket.socket,
        name: bytes,
        on_ready: Callable[[_ZmtpSocket], None],
        on_closed: Callable[[_ZmtpSocket, str], None],
    ) -> _ZmtpSocket:
        zmtp, nobody = Zmtp(self._message_limits, name), b"\0" + os.urandom(4)
        return _ZmtpSocket(self._loop, sock, zmtp, nobody, self._on_frames, on_ready, on_closed)

    def _new_name(self) -> bytes:
        return connection_name(self._identity, os.urandom(CHANCE_BYTES)) if self._identity else b""

    def _accept_again(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._server, self._accept)

    def _inbound_closed(self, connection: _ZmtpSocket, reason: str) -> None:
        self.closed[reason] += 1
        self._inbound.discard(connection)
        host = self._hosts.pop(connection, "")
        if reason in CUT_OFF and not self._is_closed:
            self._notices.warn(("cut_off", host, reason), partial(_cut_off, host, reason))
        self._from[host] -= 1
        if not self._from[host]:
            del self._from[host]

    # -- links

    def connect(self, uri: str) -> None:
        """Open a connection; frames may be sent to it from now on."""
        if uri in self._links or self._is_closed:
            return
        check_uri(uri, "a peer")
        if not uri.startswith("tcp://"):
            raise SettingsError(f"cannot connect to {uri}: a node that listens on tcp:// dials no other addresses")
        self._links[uri] = link = _OutgoingLink(uri, self._new_name())
        self._peers[uri] = Outbox()
        link.dialling = self._loop.create_task(self._dial(link))

    async def _dial(self, link: _OutgoingLink) -> None:
        """Try to connect, again and again with growing pauses; names are looked up anew each time."""
        while not self._is_closed and link.uri in self._links:
            sock = await self._connected(link.uri)
            if sock is None:
                await self._pause(link)
                continue
            self._open(
                sock,
                link.name,
                lambda connection: self._ready(link, connection),
                lambda connection, reason: self._link_closed(link, reason),
            )
            link.dialling = None
            return

    async def _pause(self, link: _OutgoingLink) -> None:
        await asyncio.sleep(link.pause)
        link.pause = min(2 * link.pause, LONGEST_PAUSE_SECONDS)

    async def _dial_again(self, link: _OutgoingLink) -> None:
        await self._pause(link)  # or a listener that hangs up at once would be dialled without end
        await self._dial(link)

    async def _connected(self, uri: str) -> socket.socket | None:
        """Connect to the first of the addresses behind a name that answers; nothing where none does."""
        host, port = host_of(uri), port_of(uri)
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return None
        for family, kind, _, _, address in sorted(found, key=_is_not_ipv4):
            sock = socket.socket(family, kind)
            try:
                _prepare(sock)
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await self._loop.sock_connect(sock, address)
            except (OSError, TimeoutError):
                sock.close()
            except BaseException:  # nobody wants the link any more
                sock.close()
                raise
            else:
                return sock
        return None

    def _ready(self, link: _OutgoingLink, connection: _ZmtpSocket) -> None:
        if self._links.get(link.uri) is not link:
            connection.close(DISCONNECTED)
            return
        link.connection, link.pause = connection, FIRST_PAUSE_SECONDS
        connection.on_written = lambda: self._written(link)
        self._send_waiting(link.uri, self._peers[link.uri])

    def _link_closed(self, link: _OutgoingLink, reason: str) -> None:
        self.closed[reason] += 1
        link.connection = None
        for frames, _, _, _ in link.sending:
            self._on_refused(link.uri, frames, "unreachable")
        link.sending = []
        if not self._is_closed and self._links.get(link.uri) is link:
            link.dialling = self._loop.create_task(self._dial_again(link))

    def disconnect(self, uri: str) -> None:
        """Close a connection; what waits for it is refused."""
        link = self._links.pop(uri, None)
        if link is None:
            return
        self._busy.pop(uri, None)
        if link.dialling is not None:
            link.dialling.cancel()
        if link.connection is not None:
            link.connection.close(DISCONNECTED)
        self._refuse(uri, self._peers.pop(uri), "unreachable")

    # -- sending

    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
        """Send what waits for a peer until the kernel takes no more; when it does again, `_written` goes on."""
        link = self._links[uri]
        connection = link.connection
        if connection is None or connection.is_writing:
            return True
        while outbox.items:
            load = outbox.next_load()
            link.sending = outbox.take(load)
            if not connection.write(heads(load.parts)):
                break
            link.sending = []
        self._wake(outbox)
        return True

    def _written(self, link: _OutgoingLink) -> None:
        link.sending = []
        self._send_waiting(link.uri, self._peers[link.uri])

    # -- the end

    async def close(self, timeout: float) -> None:
        """Send what waits, for so many seconds at most, and stop; what is left then is refused."""
        if self._is_closed:
            return
        give_up_at = self._loop.time() + timeout
        while self._is_sending() and self._loop.time() < give_up_at:
            await asyncio.sleep(0.002)
        self._is_closed = True
        if self._flush_at is not None:
            self._flush_at.cancel()
        self._loop.remove_reader(self._server)
        self._server.close()
        for uri, link in self._links.items():
            if link.dialling is not None:
                link.dialling.cancel()
            if link.connection is not None:
                link.connection.close(DISCONNECTED)
            self._refuse(uri, self._peers[uri], "closed")
        for connection in list(self._inbound):
            connection.close(DISCONNECTED)

    def _is_sending(self) -> bool:
        """Whether something waits for a peer that can be written to; for others there is no hope within this time."""
        return any(
            link.connection is not None and (self._peers[uri].items or link.connection.is_writing)
            for uri, link in self._links.items()
        )
