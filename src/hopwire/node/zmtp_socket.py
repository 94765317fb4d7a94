"""One socket with ZMTP on it, in clear or within TLS. `wire/zmtp.py` knows the protocol.

- One owner: the event loop. The socket is a reader of the loop; it is a writer only while the kernel takes no more.
- What connections cost over which no hello was believed yet is counted together, and bounded (`strangers.py`).
- One read in a turn of the loop, and so many messages, so that nobody is served twice before everybody was served once.

The trap: a callback may close any connection, also the one that is being read. `is_open` is asked again after each.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable, Iterable
from fcntl import ioctl
from itertools import islice
from termios import FIONREAD
from typing import Any

from hopwire.errors import WireError
from hopwire.node.addresses import sends_in_vain
from hopwire.node.certificate import Certificate, certificate_from
from hopwire.node.strangers import MAX_UNPROVED_BYTES, MOST_NOISE, TAKE_AT_MOST, Strangers
from hopwire.node.transport import Frames, OnFrames
from hopwire.node.unfinished import COUNTED_BYTES, Unfinished
from hopwire.node.waking import Turn, Waking
from hopwire.wire.zmtp import GREETING, Zmtp, ZmtpError

__all__ = [
    "DISCONNECTED",
    "HANDSHAKE_SECONDS",
    "HAND_OVER_AT_MOST",
    "LARGE_BYTES",
    "MAX_UNREAD",
    "NO_TLS",
    "TlsSocket",
    "ZmtpSocket",
]

log = logging.getLogger("hopwire.node")
LARGE_BYTES = 16 * 1024  # what is larger is handed to the kernel frame by frame, without a copy
HANDSHAKE_SECONDS = 3.0
READ_BYTES = 256 * 1024  # of one connection in one turn of the loop
LARGE_READ_BYTES = 1024 * 1024  # the same, where large frames follow one another: a turn costs as much as such a frame
MOST_RECORDS = 64  # of TLS in the same turn: a record may have a single byte
HAND_OVER_AT_MOST = 500  # messages of one connection in one turn, so that handlers get theirs
UNPROVED_BUFFER_BYTES = 16 * 1024  # of what one unproved connection says
MAX_UNREAD = 1000  # answers to PING that wait for somebody who does not read them
PIECE_BYTES = 256 * 1024  # that are encrypted together
MAX_PARTS = 512  # buffers of one call; Linux takes 1,024
NO_TLS = "tls"  # the end of a connection whose other side does not encrypt as this one does
DISCONNECTED = "disconnected"  # the end of a connection that this side wants


class ZmtpSocket:
    """One socket with ZMTP on it."""

    __slots__ = (
        "_heard",
        "_held",
        "_loop",
        "_noise",
        "_on_closed",
        "_on_frames",
        "_on_ready",
        "_rest",
        "_send",
        "_sock",
        "_strangers",
        "_timer",
        "_turn",
        "_unfinished",
        "_waking",
        "certificate",
        "has_stirred",
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
        on_ready: Callable[[ZmtpSocket], None],
        on_closed: Callable[[ZmtpSocket, str], None],
        waking: Waking,
        unfinished: Unfinished,
        strangers: Strangers | None = None,
    ) -> None:
        self._waking, self._turn = waking, Turn()
        self._loop, self._sock, self.zmtp, self.name = loop, sock, zmtp, name
        self._send = self._sender()
        self._on_frames, self._on_ready, self._on_closed = on_frames, on_ready, on_closed
        self._rest: deque[memoryview] = deque()
        self._heard: deque[Frames] = deque()  # whole messages that were not handed over yet
        self.on_written: Callable[[], None] | None = None
        self.certificate: Certificate | None = None  # of the other side, once both sides have shown theirs
        self.is_open, self.has_stirred = True, False  # whether bytes came since somebody looked
        self._strangers, self._held, self._noise = strangers, 0, 0
        self._unfinished = unfinished
        if strangers is not None:
            zmtp.buffer_bytes, zmtp.frame_bytes = UNPROVED_BUFFER_BYTES, min(zmtp.frame_bytes, MAX_UNPROVED_BYTES)
        zmtp.reads_exactly = self._reads_exactly
        self._timer: asyncio.TimerHandle | None = loop.call_later(HANDSHAKE_SECONDS, self.close, "handshake")
        loop.add_reader(sock, self._readable)
        self.write([GREETING])

    @property
    def is_stuck(self) -> bool:
        """Whether the machine at the other end acknowledges nothing."""
        return self.is_open and sends_in_vain(self._sock)

    @property
    def has_unread(self) -> bool:
        """Whether bytes of the other side wait in the kernel: this side has not come to read them yet."""
        return self._unread_bytes() > 0

    def _unread_bytes(self) -> int:
        waiting = bytearray(4)  # a C int
        ioctl(self._sock, FIONREAD, waiting)
        return int.from_bytes(waiting, sys.byteorder)

    _reads_exactly = True  # so many bytes as are wanted; OpenSSL gives what a record has

    def _sender(self) -> Callable[[bytes], int]:
        """Give what hands the bytes of a small message to the kernel."""
        return self._sock.send

    def _receive(self, zmtp: Zmtp) -> int:
        """Read bytes that are there, 0 at the end of all; a BlockingIOError says that there are none now."""
        wanted = zmtp.wanted
        if zmtp.is_whole:
            piece = self._sock.recv(wanted)
            zmtp.put(piece)
            return len(piece)
        room, more = zmtp.room(), zmtp.more_room()
        if wanted:
            return self._sock.recv_into(room, min(len(room), wanted, READ_BYTES))
        if more is None or len(room) >= READ_BYTES:
            return self._sock.recv_into(room, min(len(room), READ_BYTES))
        return self._sock.recvmsg_into((room, more))[0]

    def _transmit(self, parts: Iterable[bytes | memoryview]) -> int:
        """Hand bytes to the kernel, and give how many it took."""
        return self._sock.sendmsg(islice(parts, MAX_PARTS))

    def _readable(self) -> None:
        if self._held and self._strangers is None and self._unfinished.keeps_waiting(self):
            self._loop.remove_reader(self._sock)
            return
        self._turn.is_over = True
        self._turn = turn = Turn()
        self._waking.hold(turn)
        try:
            if self._strangers is None:
                self._read()
            else:
                self._strangers.read(self._read)
        finally:
            self._waking.run()  # at the very end: whoever goes on may close this connection

    def read_on(self) -> None:
        """Read again after others were read alone."""
        if self.is_open and not self._heard:
            self._loop.add_reader(self._sock, self._readable)
            self._loop.call_soon(self._readable)  # the loop does not see what TLS holds

    def _read(self) -> None:
        """Read once, or what large frames need one after the other, so that every connection has its turn."""
        zmtp, left = self.zmtp, LARGE_READ_BYTES
        try:
            room = zmtp.room_alone() if self._strangers is None and not (self._held or self._heard) else None
            if room is not None and self.is_open:  # nothing is held: nearly always a train and nothing else
                count = self._sock.recv_into(room) if self._reads_exactly else self._receive(zmtp)
                train = zmtp.took_alone(count)
                if train:
                    self.has_stirred = True
                    self._take([zmtp.identity or self.name, train])
                elif count:
                    self._took(count)
                else:
                    self.close("closed")
                return
            while self.is_open and not self._heard and left > 0:  # what was heard comes first
                if zmtp.behind and self._strangers is None:
                    left = self._read_alike(zmtp, left)
                    continue
                wanted = zmtp.wanted
                count = self._receive(zmtp)
                if not count:
                    self.close("closed")
                    return
                self._took(count)
                left -= count
                if not wanted or count < wanted or not zmtp.wanted:
                    return
        except BlockingIOError:
            return
        except WireError as error:
            self.close(error.reason)
        except OSError as error:
            self.close(_reason(error))

    def _read_alike(self, zmtp: Zmtp, left: int) -> int:
        """Read large messages that differ in body and meta frame alone, each as two objects.

        Gives how many bytes are left that may be read in this turn: 0 where no more are there.
        """
        receive, name, size, behind = self._sock.recv, zmtp.identity or self.name, zmtp.wanted, zmtp.behind
        while left > 0 and self.is_open:
            body, rest = receive(size), b""
            if len(body) == size:
                left -= size + behind
                try:
                    rest = receive(behind)
                except BlockingIOError:
                    rest = b""
            self.has_stirred = True
            meta = zmtp.meta_in(rest) if rest else b""
            if not meta:
                return left if self._took_apart(zmtp, body, rest) == size + behind else 0
            self._take([name, b"", body, meta])
            if not zmtp.behind:
                return 0
        return left

    def _took_apart(self, zmtp: Zmtp, body: bytes, rest: bytes) -> int:
        """Read what `_read_alike` received, and is not as usual, as any other bytes; gives how many there were."""
        if not body:
            self.close("closed")
            return 0
        zmtp.put(body)
        self._took(len(body))
        if rest:
            zmtp.give_back(rest)
            self._took(len(rest))
        return len(body) + len(rest)

    def _took(self, count: int) -> None:
        zmtp = self.zmtp
        was_ready = zmtp.is_ready
        messages = zmtp.took(count)
        self.has_stirred = True
        if self._strangers is not None:
            held, self._held = self._held, zmtp.waiting_bytes
            self._strangers.change(self._held - held)
        elif self._held or zmtp.is_begun:
            self._hold(zmtp.begun_bytes)
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
        if messages:
            self._heard.extend(messages)
            self._hand_over()

    def _hold(self, begun_bytes: int) -> None:
        """Count what a node that is known has sent of a message that is not complete."""
        held, self._held = self._held, begun_bytes if begun_bytes >= COUNTED_BYTES else 0
        if self._held != held:
            self._unfinished.hold(self, self._held)

    def _hand_over(self, is_paused: bool = False) -> None:
        """Hand over what was heard, up to the share of a turn; nothing more is read until all of it is handed over."""
        heard, name, taken = self._heard, self.zmtp.identity or self.name, 0
        most = HAND_OVER_AT_MOST if self._strangers is None else TAKE_AT_MOST
        while heard and taken < most:
            taken += 1
            if not self._take([name, *heard.popleft()]) and self._strangers is not None:
                self._noise += 1
                if self._noise > MOST_NOISE:
                    heard.clear()
                    self.close("noise")
        if heard:
            if not is_paused and self.is_open:
                self._loop.remove_reader(self._sock)
            if self._strangers is None:
                self._loop.call_soon(self._hand_over, True)
            else:
                self._strangers.read_later(self._hand_on)
        elif is_paused and self.is_open:
            self._loop.add_reader(self._sock, self._readable)
            self._loop.call_soon(self._readable)  # the loop does not see what TLS holds

    def _take(self, frames: Frames) -> bool:
        """Hand over a message, and tell whether it is one, and no noise."""
        try:
            return bool(self._on_frames(frames))
        except Exception:  # a fault of ours must not cost the messages behind it
            log.exception("a message could not be taken")
            return True

    def _hand_on(self) -> None:
        self._hand_over(True)

    @property
    def is_proved(self) -> bool:
        """Whether a node is at the other end that was believed, or that was dialled."""
        return self._strangers is None

    def prove(self) -> None:
        """Believe the other side: what it sends is bounded by the limits of messages alone."""
        if self._strangers is not None:
            self._strangers.change(-self._held)
            self._strangers, self._held = None, 0
            self.zmtp.let_in()

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
        size = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        try:
            if size <= LARGE_BYTES:
                sent = self._send(b"".join(parts) if len(parts) > 1 else parts[0])
            else:
                sent = self._transmit(parts)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._rest.extend(map(memoryview, parts))
            self._loop.call_soon(self._read_out, _reason(error))
            return False
        if sent == size:
            return True
        self._rest.extend(_behind(parts, sent))
        self._wait_to_write()
        return False

    def _read_out(self, reason: str, before: int = 0) -> None:
        """End a connection that takes no more bytes, once those are read that the other side sent before its end.

        A peer answers 40 questions and is killed. The next question cannot be written, and the 40 answers wait in the
        kernel: they are read first.
        """
        if not self.is_open:
            return
        unread = self._unread_bytes()
        if self._heard and self._strangers is None:  # these are handed over first, turn by turn
            self._loop.call_soon(self._read_out, reason)
        elif unread != before and self._strangers is None:
            self._readable()
            self._loop.call_soon(self._read_out, reason, unread)
        else:
            self.close(reason)

    def _wait_to_write(self) -> None:
        self._loop.add_writer(self._sock, self._writable)

    def _parts(self) -> Iterable[memoryview]:
        """Give what is written next, as far as one call takes it."""
        rest = self._rest
        return [rest[i] for i in range(min(len(rest), MAX_PARTS))]

    def _writable(self) -> None:
        rest = self._rest
        try:
            sent = self._transmit(self._parts())
        except BlockingIOError:
            return
        except OSError as error:
            self._loop.remove_writer(self._sock)
            self._read_out(_reason(error))
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
        self.prove()  # nothing is held any more
        self._hold(0)
        if reason == DISCONNECTED:  # by us: nobody is there any more who could take it
            self._heard.clear()
        self._on_closed(self, reason)


class TlsSocket(ZmtpSocket):
    """The same within TLS: nothing is written or read before both sides have shown their certificates."""

    __slots__ = ("_admit", "_is_secure", "_ready_bytes", "_tls")
    _reads_exactly = False

    def __init__(
        self,
        context: ssl.SSLContext,
        is_server: bool,
        admit: Callable[[Certificate], str],
        loop: asyncio.AbstractEventLoop,
        sock: Any,
        *others: Any,
    ):
        self._tls = context.wrap_socket(sock, server_side=is_server, do_handshake_on_connect=False)
        self._is_secure, self._admit, self._ready_bytes = False, admit, bytearray(4)  # a C int
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
        except (ssl.SSLEOFError, ConnectionError):  # the other side went away, and need not have spoken at all
            self._loop.call_soon(self.close, "closed")
            return
        except OSError:  # a certificate that is not trusted, or no TLS at all
            self._loop.call_soon(self.close, NO_TLS)
            return
        self._loop.remove_writer(self._tls)
        said, der = self._tls.getpeercert(), self._tls.getpeercert(True)
        self.certificate = certificate_from(said or {}, der or b"")
        if refusal := self._admit(self.certificate):
            self._loop.call_soon(self.close, refusal)
            return
        self._is_secure = True
        if self._rest:
            self._wait_to_write()

    def _wait_to_write(self) -> None:
        if self._is_secure:
            super()._wait_to_write()

    def _read(self) -> None:
        if not self._is_secure and self.is_open:
            self._shake_hands()
        if self._is_secure:
            super()._read()
            if self.is_open and self._tls.pending() and not self._heard:  # what TLS holds is nothing the loop can see
                self._loop.call_soon(self._readable)

    def _receive(self, zmtp: Zmtp) -> int:
        """Read the records that are there: one call of OpenSSL gives one record, which may be one message of many."""
        room, count = zmtp.room()[:READ_BYTES], 0
        try:
            for _ in range(MOST_RECORDS):
                read = self._tls.recv_into(room[count:])
                count += read
                if not read or count == len(room) or not self._has_more():
                    break
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not count:
                raise BlockingIOError from None
        except ssl.SSLEOFError:
            pass
        except OSError:
            if not count:  # or what came before is taken first: the next read fails again
                raise
        return count

    def _has_more(self) -> bool:
        """Tell whether the kernel has bytes for us; to read in vain costs nine times as much."""
        ioctl(self._tls, FIONREAD, self._ready_bytes)
        return any(self._ready_bytes)

    def _parts(self) -> Iterable[memoryview]:
        return self._rest

    def _transmit(self, parts: Iterable[bytes | memoryview]) -> int:
        """Encrypt a piece: OpenSSL wants no less in the next attempt than in the one before, and the same bytes."""
        piece, size = [], 0
        for part in parts:
            piece.append(part[: PIECE_BYTES - size])
            size += len(piece[-1])
            if size >= PIECE_BYTES:
                break
        return self._send_all(b"".join(piece))

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
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # as of a peer that was killed
        return "closed"
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
