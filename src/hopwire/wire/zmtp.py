"""ZMTP 3.1, the protocol of ZeroMQ (RFC 37), without input and output: bytes go in, messages come out.

    greeting    64 bytes: signature, version, mechanism (NULL), filler
    READY       a command: socket type, identity
    then        messages of one or more frames, and commands: PING is answered, the rest is passed over

    frame       flags (1 more follow, 2 long, 4 command), length (1 byte, or 8 if long), data

The owner of the connection reads into `room()`, says with `took()` how many bytes came, and sends what is in `replies`.

| limit | why |
|---|---|
| bytes and frames of one message | counted over all frames, also while the message is not complete |
| size of a command | commands are short; a long command is an attack |
| memory for a large frame | its announced size, once, within the limit on bytes; a smaller limit for strangers |

Everything that is not ZMTP raises `ZmtpError` with a short reason, and the connection has to be closed. The reader of
recordings (`capture/recording/zmtp_listener.py`) shares the constants and `properties_of`. It has a reader of its own,
because a recording has holes and nobody to answer: it must go on where a node closes the connection.

Large frames that follow one another are read without a copy, where the owner can (`reads_exactly`). As soon as two of
them have come, it is known how many bytes lie between the end of one and the beginning of the next. `wanted` says how
many bytes there are up to that place. When the head of a large frame is the last that was read, `is_whole` says so: the
owner receives the frame as one object of `wanted` bytes, and gives it to `put`. If fewer bytes come, or the guess was
wrong, the frame is read as any other. What lies between is compared with what lay there before, and only the meta frame
in it is cut out. While `behind` says how many bytes that are, the owner may receive them as one object too, and ask
`meta_in` for the meta frame: then nothing changes here from one message to the next. What `meta_in` does not know is
given back (`give_back`).

The trap: the buffer is used again. So `took` gives copies.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TypeAlias

from hopwire.errors import WireError
from hopwire.model.limits import Limits

__all__ = [
    "COMMAND",
    "GREETING",
    "GREETING_BYTES",
    "LONG",
    "LONG_HEAD",
    "MECHANISM_AT",
    "MECHANISM_END",
    "MORE",
    "SHORT_HEAD",
    "SIGNATURE_BYTES",
    "VERSION_AT",
    "Frames",
    "Zmtp",
    "ZmtpError",
    "framed",
    "heads",
    "properties_of",
    "ready",
]

Frames: TypeAlias = list[bytes]

MORE, LONG, COMMAND = 1, 2, 4
MECHANISM = b"NULL".ljust(20, b"\0")
SIGNATURE_BYTES, GREETING_BYTES = 10, 64
VERSION_AT, MECHANISM_AT, MECHANISM_END = 10, 12, 32  # places in the greeting
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\3\1" + MECHANISM + bytes(32)
SHORT_HEAD, LONG_HEAD = 2, 9
MAX_SHORT = 255
MAX_COMMAND_BYTES = 4096
PING_HEAD = 7  # the name behind its length, then two bytes of a time to live
MAX_CONTEXT = 16  # bytes of a PING that come back in the PONG
FIRST_BUFFER_BYTES, BUFFER_BYTES = 4 * 1024, 256 * 1024  # a buffer that was filled grows: most connections say little
WHOLE, MOST_WHOLE = 16 * 1024, 256 * 1024  # a frame of these sizes is read as one object where that is possible
MOST_BETWEEN = 4 * 1024  # bytes between two such frames
LARGE = 128 * 1024  # a frame from this size on that is not here yet is read into a place of its own
FIRST_PLACE_BYTES, MOST_PLACE_BYTES = 1024 * 1024, 16 * 1024 * 1024  # of that place, and of those that follow it
FRAME_BYTES = 64  # that a frame takes in memory beside its data
TYPES = frozenset((b"ROUTER", b"DEALER", b"REQ"))  # that may talk to a ROUTER
USUAL = 3  # frames of a message
EMPTY_MORE = bytes((MORE, 0))
TAIL = len(EMPTY_MORE) + LONG_HEAD  # bytes of a usual message before its large frame
_LONG_HEAD, _USUAL_HEAD = struct.Struct(">BQ").pack, struct.Struct(">BBBQ").pack
SHORT_HEADS = [bytes((0, size)) for size in range(MAX_SHORT + 1)]
SHORT_HEADS_MORE = [bytes((MORE, size)) for size in range(MAX_SHORT + 1)]


class ZmtpError(WireError):
    """The other side does not speak ZMTP, or goes beyond the limits."""


def framed(frame: bytes) -> bytes:
    """Give the bytes of a message of one frame as they are written, in one piece."""
    size = len(frame)
    return (_LONG_HEAD(LONG, size) if size > MAX_SHORT else SHORT_HEADS[size]) + frame


@lru_cache(maxsize=1024)  # large messages that follow one another are alike
def _usual_heads(size: int, meta_size: int) -> tuple[bytes, bytes]:
    """Give the heads of an empty frame and a body, in one piece, and that of a meta frame."""
    head = _USUAL_HEAD(MORE, 0, MORE | LONG, size) if size > MAX_SHORT else EMPTY_MORE + SHORT_HEADS_MORE[size]
    return head, _LONG_HEAD(LONG, meta_size) if meta_size > MAX_SHORT else SHORT_HEADS[meta_size]


def heads(frames: Frames) -> Frames:
    """Give the bytes of a message as they are written: the heads of its frames, and what is not empty of them."""
    if len(frames) == 1 and frames[0]:  # a train
        size = len(frames[0])
        return [_LONG_HEAD(LONG, size) if size > MAX_SHORT else SHORT_HEADS[size], frames[0]]
    if len(frames) == USUAL and not frames[0]:  # nearly all: an empty frame, a body, a meta frame
        _, body, meta = frames
        head, last_head = _usual_heads(len(body), len(meta))
        return [head, body, last_head, meta]
    written: Frames = []
    head, last = b"", len(frames) - 1
    for number, frame in enumerate(frames):
        size = len(frame)
        if size > MAX_SHORT:
            head += _LONG_HEAD(LONG if number == last else LONG | MORE, size)
        else:
            head += SHORT_HEADS[size] if number == last else SHORT_HEADS_MORE[size]
        if size:
            written += (head, frame)
            head = b""
    if head:
        written.append(head)
    return written


def ready(socket_type: bytes, identity: bytes) -> bytes:
    """Write the command that ends the handshake."""
    body = b"\5READY"
    for name, value in ((b"Socket-Type", socket_type), (b"Identity", identity)):
        body += bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value
    return _command(body)


def _command(body: bytes) -> bytes:
    if len(body) <= MAX_SHORT:
        return bytes((COMMAND, len(body))) + body
    return bytes((COMMAND | LONG,)) + len(body).to_bytes(8, "big") + body


class Zmtp:
    """What the other side of one connection says."""

    __slots__ = (
        "_ahead",
        "_at",
        "_buffer",
        "_end",
        "_filled",
        "_frames",
        "_has_greeted",
        "_large",
        "_large_end",
        "_large_flags",
        "_large_left",
        "_limits",
        "_most_alone",
        "_piece",
        "_places",
        "_places_bytes",
        "_ready",
        "_size",
        "_usual_between",
        "_view",
        "behind",
        "buffer_bytes",
        "frame_bytes",
        "identity",
        "is_ready",
        "is_whole",
        "reads_exactly",
        "replies",
        "socket_type",
        "wanted",
    )

    def __init__(self, limits: Limits, identity: bytes = b"", socket_type: bytes = b"ROUTER") -> None:
        self._limits, self._ready = limits, ready(socket_type, identity)
        self._most_alone = min(WHOLE, limits.max_bytes + 1)  # bytes of a frame alone are fewer
        self.buffer_bytes, self.frame_bytes = BUFFER_BYTES, limits.max_bytes  # the most of a buffer, and of a frame
        self._buffer = bytearray(FIRST_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._at = self._end = 0  # what was received and not yet read
        self._frames: Frames = []  # of the message that is not complete
        self._size = 0  # their bytes
        self._large: bytearray | None = None  # a frame that is read into a place of its own
        self._filled = self._large_flags = self._large_left = 0  # and what is still to come behind that place
        self._places: list[bytearray] = []  # of the same frame that are full
        self._places_bytes = 0
        self._has_greeted = False
        self.reads_exactly = self.is_whole = False
        self.wanted = 0  # bytes to read and no more; 0 where that does not matter
        self._ahead = self._large_end = 0  # bytes between two large frames, and where the last of them ended
        self._usual_between = (b"", b"", 0)  # how bytes between large frames begin and end, and how many
        self.behind = 0  # bytes behind a large frame that `is_whole`, up to the next, if all is as it was before
        self._piece = b""  # what came of a frame that is read as one object
        self.replies: Frames = []  # what has to be sent back
        self.is_ready = False
        self.socket_type = self.identity = b""

    def room(self) -> memoryview:
        """Give the place for the next bytes."""
        if self.is_whole:
            self.is_whole, self.behind, self._large, self._filled = False, 0, bytearray(self.wanted), 0
            self._large_left = 0
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return self._view[self._end :]

    def put(self, piece: bytes) -> None:
        """Take the next bytes as an object, where `is_whole` says that a frame begins here; `took` reads them."""
        self._piece = piece

    def meta_in(self, piece: bytes) -> bytes:
        """Give the meta frame in what came of the `behind` bytes between two large frames; nothing where unusual."""
        head, tail, usual = self._usual_between
        if not piece.startswith(head):
            return b""
        if len(piece) == usual and piece.endswith(tail):
            return piece[len(head) : -len(tail)]
        if len(piece) + len(tail) != usual:
            return b""
        self._frames, self.is_whole, self.behind = [], False, 0  # the next message has not begun to come
        self._large_end, self.wanted = -len(piece), len(tail)
        return piece[len(head) :]

    def give_back(self, piece: bytes) -> None:
        """Put bytes into the buffer that were received as an object; `took` reads them. They are at most `behind`."""
        self._view[self._end : self._end + len(piece)] = piece

    def let_in(self) -> None:
        """Let the other side say as much as the limits of messages allow: it is no stranger any more."""
        self.buffer_bytes, self.frame_bytes = BUFFER_BYTES, self._limits.max_bytes

    def more_room(self) -> memoryview | None:
        """Give the place for the bytes behind `room()`, if they are read at once: what follows a large frame."""
        return None if self._large is None or self._large_left else self._view

    @property
    def waiting_bytes(self) -> int:
        """How much is held of a message that is not complete, and for it."""
        return self.begun_bytes + self._end - self._at

    @property
    def is_begun(self) -> bool:
        """Whether frames of a message are here, or a large one in part, and the message is not complete."""
        return self._size > 0 or self._large is not None

    @property
    def begun_bytes(self) -> int:
        """The same without what lies in the buffer, which has a limit of its own."""
        large = 0 if self._large is None else len(self._large)
        return self._size + FRAME_BYTES * len(self._frames) + self._places_bytes + large

    def took(self, count: int) -> list[Frames]:
        """Read so many bytes more, and give the messages that end in them."""
        if self.is_whole:
            return self._took_whole()
        if self._large is not None:
            missing = len(self._large) - self._filled
            messages = self._took_large(min(count, missing))
            if count <= missing:
                return messages
            self._end = count - missing  # a large frame leaves nothing in the buffer
            return messages + self._read()
        if self._ahead and self._at == self._end:
            if count == self._ahead and len(self._frames) == USUAL - 1:
                messages = self._took_between(count)
                if messages:
                    return messages
            elif count == TAIL and not self._frames and self._is_tail():
                self._begin_alike()
                return []
        self._end += count
        if not self.is_ready and not self._shake_hands():
            return []
        return self._read()

    def room_alone(self) -> bytearray | None:
        """Give the place for the next bytes if nothing is held, so that they may be one frame alone, as a train is."""
        if self._end or self._ahead or self._frames or self.is_whole or self._large is not None or not self.is_ready:
            return None
        return self._buffer

    def took_alone(self, count: int) -> bytes:
        """Give what came into `room_alone` if it is one frame alone; if it is not, `took` reads it."""
        length = count - LONG_HEAD
        if not 0 < length < self._most_alone or not self._buffer.startswith(_LONG_HEAD(LONG, length)):
            return b""
        self._large_end -= count  # the buffer is empty again
        return bytes(self._view[LONG_HEAD:count])

    def _took_between(self, count: int) -> list[Frames]:
        """Read the bytes between two large frames if they are as those before but for the meta frame; else nothing."""
        head, tail, usual = self._usual_between
        piece = bytes(self._view[self._end : self._end + count])
        if count != usual or not piece.startswith(head) or not piece.endswith(tail):
            return []
        message = self._frames
        message.append(piece[len(head) : -len(tail)])
        self._begin_alike()
        return [message]

    def _is_tail(self) -> bool:
        """Tell whether what came is how the bytes between two large frames ended before."""
        _, tail, usual = self._usual_between
        return usual == self._ahead and self._view[self._end : self._end + TAIL] == tail

    def _begin_alike(self) -> None:
        """Begin a message with a large frame of the size of the one before."""
        _, tail, usual = self._usual_between
        self._frames, self._size, self._at, self._end = [b""], 0, 0, 0
        self.is_whole, self._large_flags, self.wanted = True, tail[2], int.from_bytes(tail[3:], "big")
        self.behind = usual if self._large_flags & MORE else 0

    def _remember_between(self, meta: bytes, end: int) -> None:
        """Remember how the bytes between two large frames begin and end that hold a meta frame and an empty frame."""
        piece = bytes(self._view[end - self._ahead : end])
        tail = piece[-TAIL:]
        head = piece[: -len(meta) - TAIL]
        if meta and tail.startswith(EMPTY_MORE) and len(head) in (SHORT_HEAD, LONG_HEAD):
            self._usual_between = head, tail, len(piece)  # the head says how long the meta frame is
            self.behind = len(piece) if self._large_flags & MORE else 0

    def _took_whole(self) -> list[Frames]:
        messages: list[Frames] = []
        piece, self._piece = self._piece, b""
        if len(piece) == self.wanted:
            self.is_whole, self.behind, self.wanted = False, 0, self._ahead
            self._large_end = self._at
            self._add(piece, self._large_flags, messages)
        else:
            self.room()[: len(piece)] = piece
            self._filled = len(piece)
            self.wanted -= len(piece)
        return messages

    def _took_large(self, count: int) -> list[Frames]:
        assert self._large is not None
        self._filled += count
        missing = len(self._large) - self._filled + self._large_left
        if missing:
            self.wanted = missing if self._ahead else 0
            if self._filled == len(self._large):
                self._next_place(self._large)
            return []
        frame = b"".join((*self._places, self._large)) if self._places else bytes(self._large)
        self._large, self._filled, self._places, self._places_bytes = None, 0, [], 0
        self._large_end, self.wanted = self._at, self._ahead
        messages: list[Frames] = []
        self._add(frame, self._large_flags, messages)
        return messages

    def _next_place(self, full: bytearray) -> None:
        """Go on with a large frame in another place: what was announced may never come."""
        self._places.append(full)
        self._places_bytes += len(full)
        size = min(2 * len(full), MOST_PLACE_BYTES, self._large_left)
        self._large, self._filled = bytearray(size), 0
        self._large_left -= size

    def _add(self, frame: bytes, flags: int, messages: list[Frames]) -> None:
        self._frames.append(frame)
        if flags & MORE:
            self._size += len(frame)
        else:
            messages.append(self._frames)
            self._frames, self._size = [], 0

    def _read(self) -> list[Frames]:
        """Read all frames that are complete, and make room for the rest."""
        buffer, view, at, end = self._buffer, self._view, self._at, self._end
        frames, size, limits = self._frames, self._size, self._limits
        most_bytes, most_frames = limits.max_bytes, limits.max_frames
        messages: list[Frames] = []
        need = SHORT_HEAD
        while end - at >= SHORT_HEAD:
            flags, length, begin = buffer[at], buffer[at + 1], at + SHORT_HEAD
            if flags > MORE:
                if flags > MORE | LONG:
                    self._at = at
                    stop = self._read_command()
                    if not stop:
                        need = MAX_COMMAND_BYTES + LONG_HEAD
                        break
                    at = stop
                    continue
                begin = at + LONG_HEAD
                if begin > end:
                    need = LONG_HEAD
                    break
                length = int.from_bytes(view[at + 1 : begin], "big")
            if size + length > most_bytes:
                raise ZmtpError("too_large", f"a message of more than {most_bytes} bytes")
            stop = begin + length
            if length >= WHOLE and self.reads_exactly:
                between, self._large_end = begin - self._large_end, stop
                self._ahead = between if 0 < between <= MOST_BETWEEN else 0
            if stop > end:
                if length >= LARGE or length >= len(buffer) // 2 or (length >= WHOLE and self._ahead):
                    self._begin_large(length, flags, begin, end)
                    at = end
                else:
                    need = stop - at
                break
            frames.append(bytes(view[begin:stop]))
            at = stop
            if flags & MORE:
                size += length
                if len(frames) >= most_frames:
                    raise ZmtpError("too_many_frames", f"a message of more than {most_frames} frames")
            else:
                messages.append(frames)
                frames, size = [], 0
        self._frames, self._size = frames, size
        if self.is_whole and frames == [b""] and len(messages) == 1 and self._at == end - self._ahead:
            self._remember_between(messages[0][-1], end)
        if self._ahead and self._large is None and not self.is_whole:
            self.wanted = self._large_end + self._ahead - end
            if self.wanted <= 0:
                self._ahead = self.wanted = 0  # the guess was wrong
        self._keep(at, end, need)
        return messages

    def _begin_large(self, length: int, flags: int, begin: int, end: int) -> None:
        if length > self.frame_bytes:
            raise ZmtpError("too_large", f"a frame of {length} bytes, the limit is {self.frame_bytes}")
        here = end - begin
        self.wanted = length - here if self._ahead else 0
        if self._ahead and not here and WHOLE <= length <= MOST_WHOLE:
            self.is_whole, self._large_flags = True, flags
            return
        size = min(length, FIRST_PLACE_BYTES)
        self._large, self._large_left = bytearray(size), length - size
        self._large_flags, self._filled = flags, here
        self._large[:here] = self._view[begin:end]

    def _keep(self, at: int, end: int, need: int) -> None:
        """Keep what was not read, where there is room for what is needed next."""
        size, before = len(self._buffer), at
        if end == size and size < self.buffer_bytes:
            rest = end - at
            larger = bytearray(min(4 * size, self.buffer_bytes))
            larger[:rest] = self._view[at:end]
            self._buffer, self._view, at, end = larger, memoryview(larger), 0, rest
        elif at == end:
            at = end = 0
        elif at + max(need, size // 8) > size:
            rest = end - at
            self._view[:rest] = self._view[at:end]  # they may overlap
            at, end = 0, rest
        self._at, self._end = at, end
        self._large_end += at - before

    # -- commands

    def _shake_hands(self) -> bool:
        """Read greeting and READY, and tell whether messages may follow."""
        if not self._has_greeted and not self._read_greeting():
            return False
        while not self.is_ready:
            if self._end - self._at >= 1 and not self._buffer[self._at] & COMMAND:
                raise ZmtpError("not_ready", "a message before the handshake is over")
            at = self._read_command()
            if not at:
                return False
            self._at = at
        return True

    def _read_greeting(self) -> bool:
        here = bytes(self._view[: min(self._end, GREETING_BYTES)])
        if (here and here[0] != 0xFF) or (len(here) >= SIGNATURE_BYTES and not here[9] & 1):
            raise ZmtpError("not_zmtp", f"begins with {here[:10]!r}")
        if len(here) > VERSION_AT and here[VERSION_AT] < 3:
            raise ZmtpError("old_zmtp", f"speaks version {here[VERSION_AT]}, and 3 is the oldest that is read")
        if len(here) < GREETING_BYTES:
            return False
        if (mechanism := here[MECHANISM_AT:MECHANISM_END]) != MECHANISM:
            raise ZmtpError("mechanism", f"wants {mechanism.rstrip(bytes(1))!r}, and only NULL is spoken")
        self._has_greeted, self._at = True, GREETING_BYTES
        self.replies.append(self._ready)
        return True

    def _read_command(self) -> int:
        """Read the command at hand, and give where the command ends; 0 if the command is not complete."""
        at, end, buffer = self._at, self._end, self._buffer
        if end - at < SHORT_HEAD:
            return 0
        flags, size, begin = buffer[at], buffer[at + 1], at + SHORT_HEAD
        if flags not in (COMMAND, COMMAND | LONG):
            raise ZmtpError("bad_flags", f"found {flags}")
        if flags & LONG:
            begin = at + LONG_HEAD
            if begin > end:
                return 0
            size = int.from_bytes(self._view[at + 1 : begin], "big")
        if size > MAX_COMMAND_BYTES:
            raise ZmtpError("bad_command", f"a command of {size} bytes, the limit is {MAX_COMMAND_BYTES}")
        stop = begin + size
        if stop > end:
            return 0
        self._obey(bytes(self._view[begin:stop]))
        return stop

    def _obey(self, body: bytes) -> None:
        name = body[1 : 1 + body[0]] if body else b""
        if not self.is_ready:
            self._begin(name, body)
        elif name == b"PING" and PING_HEAD <= len(body) <= PING_HEAD + MAX_CONTEXT:
            if len(self.replies) < MAX_CONTEXT:  # a peer that asks faster than it reads gets no more answers
                self.replies.append(_command(b"\4PONG" + body[PING_HEAD:]))
        elif name == b"ERROR":
            raise ZmtpError("refused", f"the other side says {body[6:80]!r}")

    def _begin(self, name: bytes, body: bytes) -> None:
        if name == b"ERROR":
            raise ZmtpError("refused", f"the other side says {body[6:80]!r}")
        if name != b"READY":
            raise ZmtpError("bad_command", f"found {name[:20]!r} instead of READY")
        properties = properties_of(body[6:])
        if properties is None:
            raise ZmtpError("bad_command", "a property of READY is cut off")
        self.socket_type = properties.get(b"socket-type", b"")
        if self.socket_type not in TYPES:
            raise ZmtpError("socket_type", f"a socket of type {self.socket_type[:20]!r} cannot talk to a node")
        self.identity = properties.get(b"identity", b"")
        if len(self.identity) > MAX_SHORT:
            raise ZmtpError("bad_command", f"an identity of {len(self.identity)} bytes")
        self.is_ready = True


def properties_of(data: bytes) -> dict[bytes, bytes] | None:
    """Read the names, in small letters, and values of a READY; None where they are cut off."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        value_at = name_end + 4
        value_end = value_at + int.from_bytes(data[name_end:value_at], "big")
        if value_end > len(data) or value_at > len(data):
            return None
        found[data[at + 1 : name_end].lower()] = data[value_at:value_end]
        at = value_end
    return found
