"""One direction of a TCP connection, put together from its pieces: the bytes in order, each byte once, and the holes.

| what comes | what is done |
|---|---|
| the next piece | the piece is given out at once |
| a retransmission, whole or in part | its new bytes are given out; bytes that were given out before stay as they were |
| a later piece | the piece is held until the hole before it is filled |
| too much behind a hole | the hole is given out as a hole, and reading goes on behind it |
| a piece from before the beginning | ignored |
| a piece more than 1 GiB away | ignored, and counted as a stray |

The beginning is the SYN. Where the recording missed the SYN, the beginning is a piece that begins as ZeroMQ does.
Without a beginning nothing is given out: in the middle of a connection it is not known where a message begins.

Positions count from 0 and do not wrap. Sequence numbers wrap after 4 GiB.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from hopwire.capture.recording.packets import FIN, SYN, Piece
from hopwire.model.units import MEBIBYTE
from hopwire.wire.zmtp import SIGNATURE_BYTES

__all__ = ["Room", "StreamBytes", "TcpStream", "is_signature"]

MODULUS = 2**32
MAX_WINDOW = 2**30  # TCP never has more bytes than this on the way
HELD_BYTES, HELD_PIECES = 8 * MEBIBYTE, 8192  # behind a hole; more than is usually on the way
EARLY_BYTES, EARLY_PIECES = 64 * 1024, 64  # held before the beginning is seen: the beginning can only be a little late
PIECE_BYTES = 256  # the memory that a held piece takes beside its data


class StreamBytes(NamedTuple):
    """Bytes in order, or a hole of `missing` bytes."""

    data: bytes
    seen_at_ns: int
    missing: int = 0


class Room:
    """How much may wait in memory, in all connections together."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more should wait."""
        return self.used_bytes > self.size_bytes


def is_signature(data: bytes) -> bool:
    """Tell whether data begins with the signature of ZMTP, exactly as libzmq writes it."""
    return len(data) >= SIGNATURE_BYTES and data[0] == 0xFF and data[9] == 0x7F and not any(data[1:8])


class TcpStream:
    """One direction of a connection."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._base: int | None = None  # the sequence number at position 0
        self._at: int | None = None  # position of the next byte
        self._end: int | None = None  # position of the FIN
        self._held: list[tuple[int, int, int, bytes]] = []  # position, number, time, data
        self._held_bytes = 0
        self._number = 0
        self._is_stopped = False
        self.first: int | None = None  # the sequence number of the first byte
        self.is_middle = False  # the recording began in the middle: too much came without a beginning
        self.strays = 0  # pieces that are more than MAX_WINDOW away

    @property
    def is_ended(self) -> bool:
        """Whether everything up to the FIN was given out, or nothing more will be given out."""
        if self._end is None:
            return False
        return self._is_stopped or (self._at is not None and self._at >= self._end)

    def add(self, piece: Piece, seen_at_ns: int) -> list[StreamBytes]:
        """Take a piece, and give what is in order now."""
        position = self._position(piece)
        if abs(position - (self._at or 0)) > MAX_WINDOW:
            self.strays += 1
            return []
        if piece.flags & FIN:
            self._end = position + piece.size
        if piece.data and not self._is_stopped:
            if position == self._at and not self._held:
                self._at += len(piece.data)
                return [StreamBytes(piece.data, seen_at_ns)]
            self._hold(position, seen_at_ns, piece.data)
        return self._in_order() if self._held else []

    def rest(self) -> list[StreamBytes]:
        """Give the pieces that are held, and the holes between them: the recording has no more pieces."""
        found: list[StreamBytes] = []
        if self._at is None:
            self.is_middle |= bool(self._held)
            self.stop()
        while self._held:
            found += [self._hole(), *self._ready()]
        return found

    def stop(self) -> None:
        """Give nothing more out."""
        self._is_stopped = True
        while self._held:
            self._take()

    def _position(self, piece: Piece) -> int:
        """Give the position of the first byte of a piece; if the piece is the beginning, remember so."""
        sequence = piece.sequence + bool(piece.flags & SYN)
        if self._base is None:
            self._base = sequence
        near = self._at or 0
        position = near + _signed(sequence - self._base - near)
        if self._at is None and (piece.flags & SYN or is_signature(piece.data)):
            self._at, self.first = position, sequence % MODULUS
        return position

    def _hold(self, position: int, seen_at_ns: int, data: bytes) -> None:
        if self._at is not None and position + len(data) <= self._at:
            return
        self._number += 1
        heappush(self._held, (position, self._number, seen_at_ns, data))
        self._held_bytes += len(data)
        self._room.used_bytes += len(data) + PIECE_BYTES

    def _take(self) -> tuple[int, int, bytes]:
        position, _, seen_at_ns, data = heappop(self._held)
        self._held_bytes -= len(data)
        self._room.used_bytes -= len(data) + PIECE_BYTES
        return position, seen_at_ns, data

    def _in_order(self) -> list[StreamBytes]:
        if self._at is None:
            if self._held_bytes > EARLY_BYTES or len(self._held) > EARLY_PIECES or self._room.is_full:
                self.is_middle = True
                self.stop()
            return []
        found = self._ready()
        while self._held and self._is_too_much:
            found += [self._hole(), *self._ready()]
        return found

    @property
    def _is_too_much(self) -> bool:
        return self._held_bytes > HELD_BYTES or len(self._held) > HELD_PIECES or self._room.is_full

    def _ready(self) -> list[StreamBytes]:
        """Give the held bytes up to the next hole."""
        assert self._at is not None
        found: list[StreamBytes] = []
        while self._held and self._held[0][0] <= self._at:
            position, seen_at_ns, data = self._take()
            new = data[self._at - position :]
            if new:
                found.append(StreamBytes(new, seen_at_ns))
                self._at += len(new)
        return found

    def _hole(self) -> StreamBytes:
        """Go on behind the hole."""
        assert self._at is not None
        missing = self._held[0][0] - self._at
        self._at = self._held[0][0]
        return StreamBytes(b"", self._held[0][2], missing)


def _signed(difference: int) -> int:
    difference %= MODULUS
    return difference - MODULUS if difference >= MODULUS // 2 else difference
