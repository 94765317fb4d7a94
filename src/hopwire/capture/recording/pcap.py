"""Recordings of a network: the packets in pcap and pcapng files, whoever wrote them.

    pcap      a head that tells byte order and unit of time, then packets
    pcapng    blocks: a section head (SHB), its interfaces (IDB), packets (EPB, SPB, and the old PB), others to skip

A file is read as far as it makes sense. A length above `MAX_PACKET_BYTES` is taken for damage: behind it nothing is
known, and reading ends. So a damaged length costs neither memory nor time.

The trap: a simple packet (SPB) has no time, and gets the time of the packet before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from hopwire.model.units import MEBIBYTE, NS_PER_SECOND, NS_PER_US

__all__ = ["MAGICS", "CutOff", "Packet", "read_packets"]

MAX_PACKET_BYTES = 16 * MEBIBYTE  # tcpdump takes at most 256 KB of a packet; a block has options beside it
MAX_TIME_NS = 2**63 - 1
LINK_BITS = 0xFFFF  # above them a pcap says whether packets end with a checksum

# fmt: off
PCAP = {
    # first bytes          order  nanoseconds of a unit
    b"\xd4\xc3\xb2\xa1":   ("<",  NS_PER_US),
    b"\xa1\xb2\xc3\xd4":   (">",  NS_PER_US),
    b"\x4d\x3c\xb2\xa1":   ("<",  1),
    b"\xa1\xb2\x3c\x4d":   (">",  1),
}
SECTION = b"\n\r\r\n"
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
MAGICS = (*PCAP, SECTION)

INTERFACE_BLOCK, OLD_PACKET_BLOCK, SIMPLE_BLOCK, PACKET_BLOCK = 1, 2, 3, 6
END_OPTION, RESOLUTION_OPTION, OFFSET_OPTION = 0, 9, 14
# fmt: on


class Packet(NamedTuple):
    """One packet, and the kind of network that it was on."""

    seen_at_ns: int
    link: int
    data: bytes


class CutOff(Exception):
    """The file makes no sense from `position` on."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(detail)
        self.position = position


def read_packets(file: BinaryIO) -> Iterator[Packet]:
    """Give the packets of a file, and raise CutOff where it ends too early; a foreign file is cut off at 0."""
    magic = file.read(4)
    if magic in PCAP:
        return _read_pcap(file, *PCAP[magic])
    if magic == SECTION:
        return _read_blocks(file)
    raise CutOff(0, "is neither pcap nor pcapng" if magic else "is empty")


def _exactly(file: BinaryIO, size: int, begin: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise CutOff(begin, "ends within a packet")
    return data


def _refuse_size(size: int, begin: int) -> None:
    if size > MAX_PACKET_BYTES:
        raise CutOff(begin, f"is damaged at byte {begin}: a packet of {size} bytes")


# -- pcap


def _read_pcap(file: BinaryIO, order: str, unit_ns: int) -> Iterator[Packet]:
    link = struct.unpack(f"{order}I", _exactly(file, 20, 0)[16:])[0] & LINK_BITS
    head = struct.Struct(f"{order}IIII")
    at = 24
    while begin := file.read(head.size):
        if len(begin) < head.size:
            raise CutOff(at, "ends within a packet")
        seconds, rest, size, _ = head.unpack(begin)
        _refuse_size(size, at)
        yield Packet(seconds * NS_PER_SECOND + rest * unit_ns, link, _exactly(file, size, at))
        at += head.size + size


# -- pcapng


@dataclass(frozen=True, slots=True)
class _Interface:
    link: int
    snap_bytes: int
    ticks_per_s: int = 1_000_000
    offset_s: int = 0

    def time_ns(self, high: int, low: int) -> int:
        time_ns = ((high << 32 | low) * NS_PER_SECOND) // self.ticks_per_s + self.offset_s * NS_PER_SECOND
        return max(0, min(time_ns, MAX_TIME_NS))


class _Section:
    """A section of a pcapng file: its byte order and its interfaces, which the packets behind them refer to."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.interfaces: list[_Interface] = []
        self.now_ns = 0

    def packet(self, kind: int, body: bytes) -> Packet | None:
        """Take a block, and give the packet in it, if there is one."""
        if kind == INTERFACE_BLOCK:
            self.interfaces.append(self._interface(body))
        elif kind == PACKET_BLOCK:
            return self._packet(body, *self._unpack("IIIII", body))
        elif kind == OLD_PACKET_BLOCK:
            number, _, *rest = self._unpack("HHIIII", body)
            return self._packet(body, number, *rest)
        elif kind == SIMPLE_BLOCK:
            interface, (size,) = self.interfaces[0], self._unpack("I", body)
            return Packet(self.now_ns, interface.link, body[4 : 4 + min(size, interface.snap_bytes or size)])
        return None

    def _unpack(self, form: str, body: bytes) -> tuple[int, ...]:
        return struct.unpack_from(self.order + form, body)

    def _packet(self, body: bytes, number: int, high: int, low: int, size: int, _: int) -> Packet:
        interface = self.interfaces[number]
        self.now_ns = interface.time_ns(high, low)
        return Packet(self.now_ns, interface.link, body[20 : 20 + size])

    def _interface(self, body: bytes) -> _Interface:
        link, _, snap_bytes = self._unpack("HHI", body)
        options = dict(self._options(body))
        power = options.get(RESOLUTION_OPTION, b"\6")[0]
        ticks_per_s = 2 ** (power & 0x7F) if power & 0x80 else 10**power
        offset = options.get(OFFSET_OPTION, bytes(8))
        return _Interface(link, snap_bytes, ticks_per_s, *struct.unpack(f"{self.order}q", offset))

    def _options(self, body: bytes) -> Iterator[tuple[int, bytes]]:
        at = 8
        while at + 4 <= len(body):
            code, size = struct.unpack_from(f"{self.order}HH", body, at)
            if code == END_OPTION:
                return
            yield code, body[at + 4 : at + 4 + size]
            at += 4 + (size + 3 & ~3)


def _read_blocks(file: BinaryIO) -> Iterator[Packet]:
    section, at, begin = _Section("<"), 0, SECTION
    while begin:
        head = begin + _exactly(file, 8 - len(begin), at)
        if head[:4] == SECTION:
            mark = _exactly(file, 4, at)
            if mark not in ORDERS:
                raise CutOff(at, f"is damaged at byte {at}: a section without a byte order")
            section = _Section(ORDERS[mark])
        kind, size = struct.unpack(f"{section.order}II", head)
        _refuse_size(size, at)
        read = 12 if head[:4] == SECTION else 8
        if size % 4 or size < read + 4:
            raise CutOff(at, f"is damaged at byte {at}: a block of {size} bytes")
        body = _exactly(file, size - read, at)[:-4]
        try:
            packet = section.packet(kind, body)
        except (struct.error, IndexError):
            raise CutOff(at, f"is damaged at byte {at}: a block of kind {kind}") from None
        if packet is not None:
            yield packet
        at += size
        begin = file.read(4)
