"""What one end of a recorded connection says in ZMTP 3.x, the protocol of ZeroMQ (RFC 23 and 37).

`wire/zmtp.py` describes the bytes and reads them for a node. A recording needs a reader of its own:

| | a node (`Zmtp`) | a recording (`ZmtpListener`) |
|---|---|---|
| missing bytes | do not occur | a message is lost, or the rest of the connection |
| a message beyond the limits | the connection is closed | the message is passed over and counted |
| socket types, mechanisms | what a node speaks | any type; the mechanism is named if it cannot be read |
| times | not known | when the first and the last byte of a message were seen |
| memory | a buffer for each connection | only the bytes of a message that is not complete |

Commands after READY (PING, PONG, SUBSCRIBE) are passed over. Nothing is raised: a connection that cannot be read ends
with a `trouble` from the table in `troubles.py`, and gives no more messages.

The trap: a hole. If the hole lies within a frame whose length is known, the message is lost and the next message is
found. After any other hole it is not known where the next frame begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hopwire.model.limits import Limits
from hopwire.wire.zmtp import (
    COMMAND,
    GREETING_BYTES,
    LONG,
    LONG_HEAD,
    MECHANISM_AT,
    MECHANISM_END,
    MORE,
    SHORT_HEAD,
    VERSION_AT,
    properties_of,
)  # fmt: skip

__all__ = ["FRAME_BYTES", "ZmtpListener", "ZmtpMessage"]

MECHANISMS = {b"NULL": "", b"CURVE": "curve", b"PLAIN": "plain", b"GSSAPI": "gssapi"}


FRAME_BYTES = 64  # what a frame costs in memory beside its content: an empty one has two bytes on the wire
MAX_COMMAND_BYTES = 64 * 1024  # READY has two short properties; subscriptions are short too


class ZmtpMessage(NamedTuple):
    """One message, and when its first and its last byte were seen."""

    frames: list[bytes]
    first_ns: int
    last_ns: int


class ZmtpListener:
    """What one end of a connection says."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._need = 1  # how many bytes the next element has; reading goes on when they are in the buffer
        self._skip = 0  # bytes to pass over: the rest of a frame that is lost
        self._read: Callable[[bytes], None] = self._read_first_byte
        self._flags = self._top = 0  # of the frame at hand: the flags, and the first byte of a long length
        self._frames: list[bytes] = []
        self._size = 0  # of the frames so far
        self._is_lost = False  # a part of this message is missing
        self._begin_ns = self._first_ns = self._last_ns = 0
        self._said: list[ZmtpMessage] = []
        self.trouble = ""
        self.is_ready = False
        self.socket_type = ""
        self.identity = b""
        self.lost_messages = 0

    @property
    def waiting_bytes(self) -> int:
        """How many bytes are kept for a message that is not complete."""
        return len(self._buffer) + self._size + FRAME_BYTES * len(self._frames)

    @property
    def is_within(self) -> bool:
        """Whether the bytes so far end within a message or a command."""
        return bool(self._buffer or self._frames or self._skip or self._is_lost or self._read == self._read_body)

    def hear(self, data: bytes, sent_ns: int, now_ns: int) -> list[ZmtpMessage]:
        """Take the next bytes, and give the messages that end in these bytes.

        The bytes were seen at `sent_ns`. At `now_ns` all bytes before them had been seen too.
        """
        if self._skip:
            passed = min(self._skip, len(data))
            self._skip -= passed
            data = data[passed:]
            if self._skip == 0:
                self._end_frame()
        if self.trouble or not data:
            return self._give()
        self._last_ns = max(now_ns, sent_ns)
        if not self._buffer:
            self._begin_ns = sent_ns
        self._buffer += data
        if len(self._buffer) >= self._need:
            self._go_on(sent_ns)
        return self._give()

    def miss(self, size: int) -> list[ZmtpMessage]:
        """Take note of a hole of so many bytes."""
        if self.trouble:
            return []
        if self._read == self._read_body and not self._skip:
            self._lose_frame(self._need - len(self._buffer))
        if size > self._skip:
            self._fail("hole")
        elif self._skip:
            self._skip -= size
            if self._skip == 0:
                self._end_frame()
        return self._give()

    def fail(self, trouble: str) -> None:
        """Listen no more."""
        self._fail(self.trouble or trouble)

    def _fail(self, trouble: str) -> None:
        self.trouble = trouble
        self._buffer.clear()
        self._frames, self._size, self._skip = [], 0, 0

    def _give(self) -> list[ZmtpMessage]:
        said, self._said = self._said, []
        return said

    def _go_on(self, sent_ns: int) -> None:
        """Read element by element; `_need` is the size of the next element, `_skip` what is passed over."""
        data, at = bytes(self._buffer), 0
        while not self.trouble and len(data) - at >= self._need:
            used = self._need
            self._read(data[at : at + used])
            at += used
            self._begin_ns = sent_ns  # all elements but the first began with these bytes
            if self._skip:
                passed = min(self._skip, len(data) - at)
                self._skip -= passed
                at += passed
                if self._skip == 0:
                    self._end_frame()
            if self.is_ready and not self._is_lost and self._read == self._read_head:
                at = self._short_frames(data, at)
        self._buffer = bytearray() if self.trouble else bytearray(data[at:])

    def _short_frames(self, data: bytes, at: int) -> int:
        """Read whole short frames, and give where they end; most frames are short, so they have a loop of their own."""
        end, most_frames, most_bytes = len(data), self._limits.max_frames, self._limits.max_bytes
        frames, size = self._frames, self._size
        while at + 1 < end and data[at] <= MORE and len(frames) < most_frames:
            begin = at + SHORT_HEAD
            stop = begin + data[at + 1]
            if stop > end or size + stop - begin > most_bytes:
                break
            if not frames:
                self._first_ns = self._begin_ns
            frames.append(data[begin:stop])
            size += stop - begin
            if data[at] != MORE:
                self._said.append(ZmtpMessage(frames, self._first_ns, self._last_ns))
                frames, size = [], 0
            at = stop
        self._frames, self._size = frames, size
        return at

    # -- the handshake

    def _read_first_byte(self, data: bytes) -> None:
        self._read, self._need = self._read_signature, VERSION_AT
        if data[0] != 0xFF:
            self._fail("other")

    def _read_signature(self, data: bytes) -> None:
        *_, mark, version = data
        if mark != 0x7F:
            self._fail("other")
        elif version < 3:
            self._fail("old_zmtp")
        else:
            self._read, self._need = self._read_greeting, GREETING_BYTES - VERSION_AT - 1

    def _read_greeting(self, data: bytes) -> None:
        begin = MECHANISM_AT - VERSION_AT - 1
        mechanism = data[begin : begin + MECHANISM_END - MECHANISM_AT].rstrip(b"\0")
        trouble = MECHANISMS.get(mechanism, "mechanism")
        if trouble:
            self._fail(trouble)
        else:
            self._read, self._need = self._read_head, SHORT_HEAD

    def _read_ready(self, body: bytes) -> None:
        if body.startswith(b"\5ERROR"):
            return self._fail("refused")
        properties = properties_of(body.removeprefix(b"\5READY")) if body.startswith(b"\5READY") else None
        if properties is None:
            return self._fail("broken")
        self.socket_type = properties.get(b"socket-type", b"").decode("ascii", "replace")
        self.identity = properties.get(b"identity", b"")
        self.is_ready = True

    # -- frames

    def _read_head(self, data: bytes) -> None:
        flags, size = data[0], data[1]
        if (
            flags > MORE | LONG | COMMAND
            or (flags & COMMAND and flags & MORE)
            or not (flags & COMMAND or self.is_ready)
        ):
            self._fail("broken")
            return
        if not flags & COMMAND and not self._frames and not self._is_lost:
            self._first_ns = self._begin_ns
        self._flags = flags
        if flags & LONG:
            self._top = size
            self._read, self._need = self._read_long_head, LONG_HEAD - SHORT_HEAD
        else:
            self._begin_frame(size)

    def _read_long_head(self, data: bytes) -> None:
        self._begin_frame(self._top << 56 | int.from_bytes(data, "big"))

    def _begin_frame(self, size: int) -> None:
        self._read, self._need = self._read_body, size
        if self._flags & COMMAND:
            if size > MAX_COMMAND_BYTES:
                self._fail("broken")
        elif size >= 2**63:
            self._fail("broken")
        elif (
            self._is_lost or size + self._size > self._limits.max_bytes or len(self._frames) >= self._limits.max_frames
        ):
            self._lose_frame(size)

    def _read_body(self, data: bytes) -> None:
        if self._flags & COMMAND:
            self._read, self._need = self._read_head, SHORT_HEAD
            if not self.is_ready:
                self._read_ready(data)
            return
        self._frames.append(data)
        self._size += len(data)
        self._end_frame()

    def _lose_frame(self, rest: int) -> None:
        """Pass over the rest of a frame, and so lose its message; a command may be passed over without a loss."""
        if self._flags & COMMAND:
            if not self.is_ready:
                self._fail("hole")
        else:
            self._is_lost = True
            self._frames, self._size = [], 0
        self._buffer.clear()
        self._skip = rest
        if not rest:
            self._end_frame()

    def _end_frame(self) -> None:
        self._read, self._need = self._read_head, SHORT_HEAD
        if self._flags & (MORE | COMMAND):
            return
        if self._is_lost:
            self.lost_messages += 1
        else:
            self._said.append(ZmtpMessage(self._frames, self._first_ns, self._last_ns))
        self._frames, self._size, self._is_lost = [], 0, False
