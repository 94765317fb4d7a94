"""The connections in a recording: packets go in, messages come out with the names of both ends.

A packet belongs to the connection between its two addresses, until a SYN uses the addresses for a new connection. A
message waits until both ends have said who they are, or until it is known that one end never will. The memory for all
that waits is bounded, for one connection and for all connections together. A message counts as the memory that it takes
here, not as its size on the wire: an empty message has two bytes on the wire and takes some hundred here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hopwire.capture.recording.packets import FIN, RST, SYN, Endpoint, Piece, address_text, tcp_piece
from hopwire.capture.recording.pcap import Packet
from hopwire.capture.recording.tcp import MODULUS, Room, StreamBytes, TcpStream
from hopwire.capture.recording.troubles import Troubles
from hopwire.capture.recording.zmtp_listener import FRAME_BYTES, ZmtpListener, ZmtpMessage
from hopwire.model.limits import Limits
from hopwire.model.units import MEBIBYTE
from hopwire.wire.connection import claimed_node

__all__ = ["MESSAGE_BYTES", "Connections", "RecordedMessage"]

ROOM_BYTES = 512 * MEBIBYTE  # for all that waits, in all connections
WAITING_BYTES = MEBIBYTE  # of messages of one connection that wait for the other end to say who it is
MESSAGE_BYTES = 256  # the memory that a message takes beside its frames
SLICE_BYTES = 64 * 1024  # read at a time: a packet may have millions of messages in it
MAX_CONNECTIONS = 16_384  # at once; the connection that is silent for longest is given up
MAX_ENDED = 65_536  # ended connections that are remembered, so that late packets do not begin a new connection

# Troubles of one end that hold for both: where the handshake fails, no messages follow.
SHARED_TROUBLES = {"other", "old_zmtp", "curve", "plain", "gssapi", "mechanism", "refused"}


class RecordedMessage(NamedTuple):
    """A message in a recording, and the names of its two ends."""

    sender: bytes
    receiver: bytes
    frames: list[bytes]
    is_routed: bool  # one end is a ROUTER, whose first frame is not on the wire
    first_ns: int
    last_ns: int


class _End:
    """One end of a connection, and what it sends."""

    def __init__(self, endpoint: Endpoint, room: Room, limits: Limits) -> None:
        self.address = address_text(endpoint)
        self.stream = TcpStream(room)
        self.listener = ZmtpListener(limits)
        self.size_bytes = 0  # of all data that this end sent
        self.missing_bytes = 0
        self.counted_bytes = 0  # of what waits in the listener, as the room has counted it

    @property
    def name(self) -> bytes:
        return claimed_node(self.listener.identity) or self.address.encode()

    @property
    def is_known(self) -> bool:
        return self.listener.is_ready or bool(self.listener.trouble)


class _Connection:
    """Two ends, and the messages that wait for both to be known."""

    def __init__(self, piece: Piece, room: Room, limits: Limits) -> None:
        self._room = room
        self.ends = {endpoint: _End(endpoint, room, limits) for endpoint in (piece.source, piece.target)}
        self._waiting: list[tuple[_End, _End, ZmtpMessage]] = []
        self._waiting_bytes = 0

    @property
    def name(self) -> str:
        return " and ".join(end.address for end in self.ends.values())

    @property
    def is_ended(self) -> bool:
        return all(end.stream.is_ended for end in self.ends.values())

    def take(self, piece: Piece, seen_at_ns: int) -> Iterator[RecordedMessage]:
        """Take a piece, and give the messages that are complete now."""
        sender, receiver = self.ends[piece.source], self.ends[piece.target]
        sender.size_bytes += len(piece.data)
        yield from self._listen(sender, receiver, sender.stream.add(piece, seen_at_ns), seen_at_ns)
        if self._waiting:
            yield from self._give(False)

    def rest(self) -> Iterator[RecordedMessage]:
        """Give what is left, although parts of it are missing."""
        one, other = self.ends.values()
        for sender, receiver in ((one, other), (other, one)):
            yield from self._listen(sender, receiver, sender.stream.rest(), 0)
        yield from self._give(True)
        for end in self.ends.values():
            self._room.used_bytes -= end.counted_bytes

    def _listen(self, sender: _End, receiver: _End, found: list[StreamBytes], now_ns: int) -> Iterator[RecordedMessage]:
        """Read the bytes that are in order now, and give messages early if too many wait."""
        listener = sender.listener
        for data, seen_at_ns, missing in found:
            sender.missing_bytes += missing
            for start in range(0, len(data) or 1, SLICE_BYTES):
                piece = data[start : start + SLICE_BYTES] if len(data) > SLICE_BYTES else data
                said = listener.miss(missing) if missing else listener.hear(piece, seen_at_ns, now_ns)
                for message in said:
                    self._wait(sender, receiver, message)
                if self._is_too_much:
                    yield from self._give(False)
        if sender.stream.is_middle:
            listener.fail("middle")
        if self._room.is_full and listener.waiting_bytes:
            listener.fail("crowded")
        if listener.trouble in SHARED_TROUBLES:
            receiver.listener.fail(listener.trouble)
            self._settle(receiver)
        self._settle(sender)

    def _settle(self, end: _End) -> None:
        """Tell the room how much waits in the listener of this end."""
        waiting = end.listener.waiting_bytes
        self._room.used_bytes += waiting - end.counted_bytes
        end.counted_bytes = waiting
        if end.listener.trouble:
            end.stream.stop()

    def _wait(self, sender: _End, receiver: _End, message: ZmtpMessage) -> None:
        size_bytes = MESSAGE_BYTES + FRAME_BYTES * len(message.frames) + sum(map(len, message.frames))
        self._waiting.append((sender, receiver, message))
        self._waiting_bytes += size_bytes
        self._room.used_bytes += size_bytes

    @property
    def _is_too_much(self) -> bool:
        return self._waiting_bytes > WAITING_BYTES or (self._room.is_full and bool(self._waiting))

    def _give(self, is_last: bool) -> list[RecordedMessage]:
        if not (is_last or self._is_too_much or all(end.is_known for end in self.ends.values())):
            return []
        waiting, self._waiting = self._waiting, []
        self._room.used_bytes -= self._waiting_bytes
        self._waiting_bytes = 0
        # A SUB sends its subscriptions; before ZMTP 3.1 subscriptions look like messages.
        return [_recorded(*each) for each in waiting if each[0].listener.socket_type != "SUB"]

    def tell(self, troubles: Troubles) -> None:
        """Count what could not be read."""
        for code in sorted({end.listener.trouble for end in self.ends.values()} - {""}):
            size_bytes = sum(end.size_bytes for end in self.ends.values() if end.listener.trouble == code)
            troubles.add(code, 1, size_bytes, self.name)
        missing = sum(end.missing_bytes for end in self.ends.values())
        counts = {
            "lost": sum(end.listener.lost_messages for end in self.ends.values()),
            "unfinished": sum(end.listener.is_within for end in self.ends.values()),
            "stray": sum(end.stream.strays for end in self.ends.values()),
        }
        if missing:
            troubles.add("missing", 1, missing, self.name)
        for code, count in counts.items():
            if count:
                troubles.add(code, count, 0, self.name)


def _recorded(sender: _End, receiver: _End, said: ZmtpMessage) -> RecordedMessage:
    types = {sender.listener.socket_type, receiver.listener.socket_type}
    is_routed = "ROUTER" in types or "" in types  # an end that stays unknown is taken for a ROUTER
    return RecordedMessage(sender.name, receiver.name, said.frames, is_routed, said.first_ns, said.last_ns)


class Connections:
    """All connections of a recording."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = Room(ROOM_BYTES)
        self._open: dict[frozenset[Endpoint], _Connection] = {}  # the latest packet's connection stands last
        self._ended: dict[frozenset[Endpoint], None] = {}
        self.troubles = Troubles()

    def hear(self, packet: Packet) -> Iterable[RecordedMessage]:
        """Take a packet, and give the messages that are complete now."""
        piece = tcp_piece(packet.link, packet.data)
        if isinstance(piece, str):
            self.troubles.add(piece, 1, len(packet.data), f"link type {packet.link}")
        elif piece is not None and (piece.data or piece.flags & (SYN | RST | FIN)):
            return self._take(piece, packet.seen_at_ns)
        return ()

    def rest(self) -> Iterator[RecordedMessage]:
        """Give what is left at the end of the recording."""
        while self._open:
            yield from self._end(next(iter(self._open)))

    def _take(self, piece: Piece, seen_at_ns: int) -> Iterator[RecordedMessage]:
        key = frozenset((piece.source, piece.target))
        if self._is_new(key, piece):
            yield from self._end(key)
        connection = self._open.pop(key, None)
        if connection is None:
            if len(key) < 2 or key in self._ended or not (piece.data or piece.flags & SYN):
                return
            connection = _Connection(piece, self._room, self._limits)
        self._open[key] = connection
        yield from connection.take(piece, seen_at_ns)
        if piece.flags & RST or connection.is_ended:
            yield from self._end(key)
        elif len(self._open) > MAX_CONNECTIONS:
            silent = next(iter(self._open))
            self.troubles.add("crowded", 1, 0, self._open[silent].name)
            yield from self._end(silent)

    def _is_new(self, key: frozenset[Endpoint], piece: Piece) -> bool:
        """Tell whether a SYN begins a new connection between known addresses: its sequence number is a new one."""
        if not piece.flags & SYN:
            return False
        self._ended.pop(key, None)
        known = self._open.get(key)
        first = known.ends[piece.source].stream.first if known else None
        return first is not None and first != (piece.sequence + 1) % MODULUS

    def _end(self, key: frozenset[Endpoint]) -> Iterator[RecordedMessage]:
        connection = self._open.pop(key)
        yield from connection.rest()
        connection.tell(self.troubles)
        self._ended[key] = None
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]
