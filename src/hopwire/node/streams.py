"""The transport over TCP: ZMTP spoken by ourselves on sockets that never block. `wire/zmtp.py` knows the protocol.

A link to a peer is one connection for both directions, whichever side opened it. A node that hears a hello over a
connection that others opened answers over the same connection. Until the other side has proved that it heard the
answer, nothing but control messages goes that way: anybody may repeat a hello that somebody else once said. Where no
proof comes, the node dials the address that the hello named. Two nodes that dial each other at the same moment keep
both connections, and each sends over its own.

The death of a connection is seen at once. Who is dialled again and does not answer soon is reported as gone.

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
import ssl
import stat
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hopwire.errors import SettingsError, WireError
from hopwire.model.settings import Limits
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.outbox import Item, Outbox, Outboxes
from hopwire.node.transport import (
    FirstWords,
    Frames,
    OnFrames,
    OnGone,
    OnRefused,
    OutboxLimits,
    Tls,
    advertised,
    check_addresses,
    check_uri,
    host_of,
    ignore,
    in_silence,
    is_ipc,
    is_reachable,
    path_of,
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
PROOF_SECONDS = 1.0  # for the answer to an answer; then the address is dialled
GONE_SECONDS = 0.3  # without a connection, after there was one, and the peer counts as gone; refused counts at once
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0  # between two attempts to connect
ACCEPT_AGAIN_SECONDS = 0.1  # after the process ran out of descriptors
ACCEPT_AT_MOST = 64  # connections in one turn of the loop
READ_BYTES = 64 * 1024  # of one connection in one turn of the loop
HAND_OVER_AT_MOST = 500  # messages of one connection in one turn, so that handlers get theirs
MAX_UNREAD = 1000  # answers to PING that wait for somebody who does not read them
MAX_PARTS = 512  # buffers of one call; Linux takes 1,024
NO_TLS = "tls"  # the end of a connection whose other side does not encrypt as this one does
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
    NO_TLS:             "it does not speak TLS, or shows no certificate of our authority",
}
# fmt: on


def _is_not_ipv4(found: tuple[Any, ...]) -> bool:
    """Tell whether an address is of another family than IPv4, which comes first as it does in ZeroMQ."""
    return bool(found[0] != socket.AF_INET)


def _prepare(sock: socket.socket) -> None:
    sock.setblocking(False)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _listening(uri: str) -> socket.socket:
    """Give a socket that listens on an address."""
    if is_ipc(uri):
        return _listening_on_path(path_of(uri))
    host = host_of(uri)
    found = socket.getaddrinfo(
        None if host in ("*", "") else host, port_of(uri), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, _, _, address = min(found, key=_is_not_ipv4)
    server = socket.socket(family, kind)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _bound(server, address)
    except OSError:
        server.close()
        raise


def _listening_on_path(path: str) -> socket.socket:
    """Give a socket that listens on a path; one that a process left behind is replaced, anything else is not."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path[:1] != "\0" and os.path.exists(path):
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "there is a file of that name, and it is no socket")
            try:
                server.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            else:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        mask = os.umask(0o177)  # for its owner only
        try:
            return _bound(server, path)
        finally:
            os.umask(mask)
    except OSError:
        server.close()
        raise


def _bound(server: socket.socket, address: Any) -> socket.socket:
    server.bind(address)
    server.listen(BACKLOG)
    server.setblocking(False)
    return server


class _ZmtpSocket:
    """One socket with ZMTP on it."""

    __slots__ = (
        "_heard",
        "_loop",
        "_on_closed",
        "_on_frames",
        "_on_ready",
        "_rest",
        "_send",
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
        self._send = self._sender()
        self._on_frames, self._on_ready, self._on_closed = on_frames, on_ready, on_closed
        self._rest: deque[memoryview] = deque()
        self._heard: deque[Frames] = deque()  # whole messages that were not handed over yet
        self.on_written: Callable[[], None] | None = None
        self.is_open = True
        self._timer: asyncio.TimerHandle | None = loop.call_later(HANDSHAKE_SECONDS, self.close, "handshake")
        loop.add_reader(sock, self._readable)
        self.write([GREETING])

    def _sender(self) -> Callable[[bytes], int]:
        """Give what hands the bytes of a small message to the kernel."""
        return self._sock.send

    def _receive(self, room: memoryview) -> int:
        """Read bytes that are there, 0 at the end of all; a BlockingIOError says that there are none now."""
        return self._sock.recv_into(room, min(len(room), READ_BYTES))

    def _transmit(self, parts: Sequence[bytes | memoryview]) -> int:
        """Hand bytes to the kernel, and give how many it took."""
        return self._sock.sendmsg(parts[:MAX_PARTS])

    def _readable(self) -> None:
        """Read once, so that every connection has its turn."""
        try:
            count = self._receive(self.zmtp.room())
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
    def unread(self) -> int:
        """How many pieces the other side has not taken yet."""
        return len(self._rest)

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
                sent = self._send(b"".join(parts) if len(parts) > 1 else parts[0])
            else:
                sent = self._transmit(parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._loop.call_soon(self.close, _reason(error))
            sent = 0
        if sent == size:
            return True
        self._rest.extend(_behind(parts, sent))
        self._wait_to_write()
        return False

    def _wait_to_write(self) -> None:
        self._loop.add_writer(self._sock, self._writable)

    def _writable(self) -> None:
        rest = self._rest
        try:
            sent = self._transmit([rest[i] for i in range(min(len(rest), MAX_PARTS))])
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


class _TlsSocket(_ZmtpSocket):
    """The same within TLS: nothing is written or read before both sides have shown their certificates."""

    __slots__ = ("_is_secure", "_tls")

    def __init__(
        self, context: ssl.SSLContext, is_server: bool, loop: asyncio.AbstractEventLoop, sock: Any, *others: Any
    ):
        self._tls = context.wrap_socket(sock, server_side=is_server, do_handshake_on_connect=False)
        self._is_secure = False
        super().__init__(loop, self._tls, *others)
        if not is_server:
            self._shake_hands()

    def _sender(self) -> Callable[[bytes], int]:
        return self._send_all

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.remove_writer(self._tls)
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._tls, self._shake_hands)
            return
        except OSError:  # a certificate that is not trusted, or no TLS at all
            self._loop.call_soon(self.close, NO_TLS)
            return
        self._loop.remove_writer(self._tls)
        self._is_secure = True
        if self._rest:
            self._wait_to_write()

    def _wait_to_write(self) -> None:
        if self._is_secure:
            super()._wait_to_write()

    def _readable(self) -> None:
        if not self._is_secure:
            self._shake_hands()
        if self._is_secure:
            super()._readable()
            if self.is_open and self._tls.pending() and not self._heard:  # what TLS holds is nothing the loop can see
                self._loop.call_soon(self._readable)

    def _receive(self, room: memoryview) -> int:
        try:
            return self._tls.recv_into(room, min(len(room), READ_BYTES))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            return 0

    def _transmit(self, parts: Sequence[bytes | memoryview]) -> int:
        return self._send_all(b"".join(parts))

    def _send_all(self, data: bytes) -> int:
        """Encrypt as much as the kernel takes."""
        view, sent = memoryview(data), 0
        try:
            while self._is_secure and sent < len(view):
                sent += self._tls.send(view[sent:])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        if not sent:
            raise BlockingIOError
        return sent


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return NO_TLS
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

    __slots__ = (
        "candidate",
        "connection",
        "dialling",
        "missed",
        "name",
        "pause",
        "proof",
        "sending",
        "uri",
    )

    def __init__(self, uri: str, name: bytes) -> None:
        self.uri, self.name = uri, name
        self.connection: _ZmtpSocket | None = None  # once it may be written to
        self.candidate: _ZmtpSocket | None = None  # that a hello came over; for control messages until it is proved
        self.proof: asyncio.TimerHandle | None = None  # when waiting for the proof ends
        self.missed: asyncio.TimerHandle | None = None  # when a peer that was connected counts as gone
        self.dialling: asyncio.Task[None] | None = None
        self.pause = FIRST_PAUSE_SECONDS
        self.sending: list[Item] = []  # of which the kernel has taken a part

    def rest(self) -> None:
        """Stop everything that goes on by itself."""
        for going_on in (self.dialling, self.proof, self.missed):
            if going_on is not None:
                going_on.cancel()
        self.dialling = self.proof = self.missed = None


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
        tls: Tls | None = None,
    ) -> None:
        check_addresses(listen, advertise)
        self._contexts = None if tls is None else tls.contexts()
        super().__init__(limits, LARGE_BYTES)
        self._identity, self._listen, self._advertise = identity, listen, advertise
        self._message_limits = message_limits or Limits()
        self._links: dict[str, _OutgoingLink] = {}
        self._inbound: set[_ZmtpSocket] = set()
        self._names: dict[bytes, _ZmtpSocket] = {}  # inbound connections by the name that they gave themselves
        self._users: dict[_ZmtpSocket, _OutgoingLink] = {}  # links that send over a connection that others opened
        self._from: Counter[str] = Counter()  # connections by the address that they come from
        self._hosts: dict[_ZmtpSocket, str] = {}
        self.closed: Counter[str] = Counter()  # connections by the reason of their end

    @property
    def open_address(self) -> str:
        """The address that other machines can reach without a key, or nothing."""
        return self._listen if is_reachable(self._listen) and self._contexts is None else ""

    # -- listening

    def start(
        self,
        on_frames: OnFrames,
        on_refused: OnRefused,
        on_gone: OnGone = ignore,
        first_words: FirstWords = in_silence,
    ) -> str:
        """Bind, and give the address that others reach this node by."""
        self._on_frames, self._on_refused, self._on_gone = on_frames, on_refused, on_gone
        self._first_words = first_words
        self._loop = asyncio.get_running_loop()
        self._notices = Notices(self._loop.time)
        try:
            self._server = _listening(self._listen)
        except OSError as error:
            raise SettingsError(f"cannot listen on {self._listen}: {error.strerror or error}") from None
        self._loop.add_reader(self._server, self._accept)
        if is_ipc(self._listen):
            return self._advertise or self._listen
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
            connection = self._open(sock, self._new_name(), self._inbound_ready, self._inbound_closed, True)
            self._inbound.add(connection)
            self._from[host] += 1
            self._hosts[connection] = host

    def _open(
        self,
        sock: socket.socket,
        name: bytes,
        on_ready: Callable[[_ZmtpSocket], None],
        on_closed: Callable[[_ZmtpSocket, str], None],
        is_server: bool,
    ) -> _ZmtpSocket:
        zmtp, nobody = Zmtp(self._message_limits, name), b"\0" + os.urandom(4)
        parts = (self._loop, sock, zmtp, nobody, self._on_frames, on_ready, on_closed)
        if self._contexts is None:
            return _ZmtpSocket(*parts)
        return _TlsSocket(self._contexts[is_server], is_server, *parts)

    def _new_name(self) -> bytes:
        return connection_name(self._identity, os.urandom(CHANCE_BYTES)) if self._identity else b""

    def _accept_again(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._server, self._accept)

    def _inbound_ready(self, connection: _ZmtpSocket) -> None:
        """Remember the name of a connection; of two that live under one name the later one counts, if from one host."""
        name = connection.zmtp.identity
        if not name:
            return
        former = self._names.get(name)
        if former is not None and self._hosts.get(former) != self._hosts.get(connection):
            connection.close("name_taken")
            return
        self._names[name] = connection
        if former is not None:
            former.close("replaced")

    def _inbound_closed(self, connection: _ZmtpSocket, reason: str) -> None:
        self._inbound.discard(connection)
        if self._names.get(connection.zmtp.identity) is connection:
            del self._names[connection.zmtp.identity]
        link = self._users.pop(connection, None)
        if link is None:
            self.closed[reason] += 1
        else:
            self._link_closed(link, connection, reason)
        host = self._hosts.pop(connection, "")
        if reason in CUT_OFF and not self._is_closed:
            self._notices.warn(("cut_off", host, reason), partial(_cut_off, host, reason))
        self._from[host] -= 1
        if not self._from[host]:
            del self._from[host]

    # -- links

    def connect(self, uri: str, over: bytes = b"") -> None:
        """Open a connection, or answer over one that others opened; frames may be sent to it from now on."""
        if uri in self._links or self._is_closed:
            return
        check_uri(uri, "a peer")
        self._links[uri] = link = _OutgoingLink(uri, self._new_name())
        self._peers[uri] = Outbox()
        candidate = self._names.get(over)
        if candidate is None or candidate in self._users:
            link.dialling = self._loop.create_task(self._dial(link))
            return
        link.candidate, self._users[candidate] = candidate, link
        link.proof = self._loop.call_later(PROOF_SECONDS, self._dial_unproved, link)

    def prove(self, uri: str, over: bytes) -> None:
        """Send everything for an address over the connection that the peer there has proved to be its own."""
        link, connection = self._links.get(uri), self._names.get(over)
        if link is None or link.connection is not None or connection is None:
            return
        if self._users.setdefault(connection, link) is not link:
            return
        if link.candidate is not None and link.candidate is not connection:
            self._users.pop(link.candidate, None)
        link.rest()
        link.candidate = None
        self._ready(link, connection)

    def _dial_unproved(self, link: _OutgoingLink) -> None:
        link.proof = None
        link.dialling = self._loop.create_task(self._dial(link))

    def send(self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False) -> str:
        """Put frames into the queue of a peer; control messages need no proof of who is there."""
        if is_control:
            link = self._links.get(uri)
            if link is not None and link.connection is None and link.candidate is not None and not self._is_closed:
                link.candidate.write(heads(frames[1:]))
                if link.candidate.unread > MAX_UNREAD:
                    link.candidate.close("unread")
                return ""
        return super().send(uri, frames, size_bytes, is_control)

    async def _dial(self, link: _OutgoingLink) -> None:
        """Try to connect, again and again with growing pauses; names are looked up anew each time."""
        while not self._is_closed and link.uri in self._links:
            sock = await self._connected(link.uri)
            if sock is None:
                self._gone(link)
                await self._pause(link)
                continue
            self._open(
                sock,
                link.name,
                lambda connection: self._ready(link, connection),
                lambda connection, reason: self._link_closed(link, connection, reason),
                False,
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
        found: list[tuple[Any, ...]] = [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", path_of(uri))]
        if not is_ipc(uri):
            try:
                found = await self._loop.getaddrinfo(host_of(uri), port_of(uri), type=socket.SOCK_STREAM)
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
        if link.connection is not None:  # the peer was quicker
            connection.close(DISCONNECTED)
            return
        link.rest()
        link.connection, link.pause = connection, FIRST_PAUSE_SECONDS
        connection.on_written = lambda: self._written(link)
        for frames in self._first_words(link.uri):
            connection.write(heads(frames[1:]))
        self._send_waiting(link.uri, self._peers[link.uri])

    def _link_closed(self, link: _OutgoingLink, connection: _ZmtpSocket, reason: str) -> None:
        """A connection has ended: dial again, and if that takes long, or is refused, the peer is gone."""
        self.closed[reason] += 1
        if link.connection is not None and link.connection is not connection:
            return  # there is a better one
        was_connected, link.connection, link.candidate = link.connection is not None, None, None
        for frames, _, _, _ in link.sending:
            self._on_refused(link.uri, frames, "unreachable")
        link.sending = []
        if self._is_closed or self._links.get(link.uri) is not link:
            return
        if was_connected:
            link.rest()
            link.missed = self._loop.call_later(GONE_SECONDS, self._gone, link)
        elif link.proof is not None:
            link.rest()
        if link.dialling is None:
            link.dialling = self._loop.create_task(self._dial_again(link))

    def _gone(self, link: _OutgoingLink) -> None:
        """Report a peer that was connected, and is not any more."""
        if link.missed is not None:
            link.missed.cancel()
            link.missed = None
            self._on_gone(link.uri)

    def disconnect(self, uri: str) -> None:
        """Close a connection; what waits for it is refused."""
        link = self._links.pop(uri, None)
        if link is None:
            return
        self._busy.pop(uri, None)
        self._let_go(link)
        self._refuse(uri, self._peers.pop(uri), "unreachable")

    def _let_go(self, link: _OutgoingLink) -> None:
        """Close a connection of ours; one that others opened is theirs to close."""
        link.rest()
        for connection in (link.candidate, link.connection):
            if connection is not None and self._users.pop(connection, None) is not None:
                connection.on_written = None
            elif connection is not None:
                connection.close(DISCONNECTED)

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
        if is_ipc(self._listen) and not self._listen.startswith("ipc://@"):
            with suppress(OSError):
                os.unlink(path_of(self._listen))
        for uri, link in self._links.items():
            self._let_go(link)
            self._refuse(uri, self._peers[uri], "closed")
        for connection in list(self._inbound):
            connection.close(DISCONNECTED)

    def _is_sending(self) -> bool:
        """Whether something waits for a peer that can be written to; for others there is no hope within this time."""
        return any(
            link.connection is not None and (self._peers[uri].items or link.connection.is_writing)
            for uri, link in self._links.items()
        )
