"""Recordings of a network, made byte by byte: files, packets, and conversations in ZMTP."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from hopwire.capture import Fault, Sighting, sightings_from_batch
from hopwire.capture.recording.sightings import read_pcap

START_NS = 1_800_000_000_000_000_000
STEP_NS = 1_000_000
ETHERNET, RAW, LINUX, LINUX_2, LOOPBACK = 1, 101, 113, 276, 0
FIN, SYN, RST, ACK = 1, 2, 4, 16
CLIENT, SERVER = ("10.0.0.1", 40_000), ("10.0.0.2", 7400)

Address = tuple[str, int]
Timed = tuple[int, bytes]


# -- files


def pcap(packets: Iterable[Timed], link: int = ETHERNET, order: str = "<", is_nano: bool = True) -> bytes:
    """Give a pcap file."""
    unit_ns = 1 if is_nano else 1000
    magic = 0xA1B23C4D if is_nano else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262_144, link)]
    for time_ns, data in packets:
        seconds, rest = divmod(time_ns, 1_000_000_000)
        parts.append(struct.pack(f"{order}IIII", seconds, rest // unit_ns, len(data), len(data)) + data)
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link: int = ETHERNET, order: str = "<", resolution: int | None = 9, offset_s: int | None = None) -> bytes:
    options = b""
    if resolution is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset_s is not None:
        options += struct.pack(f"{order}HHq", 14, 8, offset_s)
    return block(1, struct.pack(f"{order}HHI", link, 0, 0) + options + bytes(4), order)


def packet_block(ticks: int, data: bytes, order: str = "<", number: int = 0) -> bytes:
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(6, head + data, order)


def pcapng(packets: Iterable[Timed], link: int = ETHERNET, order: str = "<") -> bytes:
    """Give a pcapng file in nanoseconds."""
    blocks = [section(order), interface(link, order), *(packet_block(time, data, order) for time, data in packets)]
    return b"".join(blocks)


# -- packets


def tcp(source: Address, target: Address, sequence: int, data: bytes = b"", flags: int = ACK) -> bytes:
    head = struct.pack(">HHIIBBHHH", source[1], target[1], sequence % 2**32, 0, 5 << 4, flags, 65_535, 0, 0)
    return head + data


def ip(source: Address, target: Address, data: bytes, fragment: int = 0) -> bytes:
    from_ip, to_ip = ip_address(source[0]), ip_address(target[0])
    if from_ip.version == 6:
        return struct.pack(">IHBB", 6 << 28, len(data), 6, 64) + from_ip.packed + to_ip.packed + data
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(data), 1, fragment, 64, 6, 0)
    return head + from_ip.packed + to_ip.packed + data


def ethernet(data: bytes, tags: Sequence[int] = ()) -> bytes:
    kind = 0x86DD if data[0] >> 4 == 6 else 0x0800
    vlans = b"".join(struct.pack(">HH", tag, 7) for tag in tags)
    return bytes(12) + vlans + struct.pack(">H", kind) + data


# -- ZMTP


def greeting(mechanism: bytes = b"NULL", major: int = 3, minor: int = 1) -> bytes:
    return b"\xff" + bytes(8) + b"\x7f" + bytes([major, minor]) + mechanism.ljust(20, b"\0") + bytes(32)


def frame(data: bytes, flags: int = 0, is_long: bool = False) -> bytes:
    if is_long or len(data) > 255:
        return struct.pack(">BQ", flags | 2, len(data)) + data
    return bytes([flags, len(data)]) + data


def command(name: bytes, body: bytes = b"") -> bytes:
    return frame(bytes([len(name)]) + name + body, 4)


def ready(socket_type: bytes = b"ROUTER", identity: bytes = b"") -> bytes:
    values = ((b"Socket-Type", socket_type), (b"Identity", identity))
    body = b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value for name, value in values)
    return command(b"READY", body)


def message(frames: Sequence[bytes]) -> bytes:
    return b"".join(frame(data, int(number < len(frames))) for number, data in enumerate(frames, 1))


# -- conversations


@dataclass
class Recording:
    """What was seen of connections, packet by packet, one each millisecond."""

    packets: list[Timed] = field(default_factory=list)
    sequences: dict[tuple[Address, Address], int] = field(default_factory=dict)
    link: int = ETHERNET

    @property
    def now_ns(self) -> int:
        return START_NS + len(self.packets) * STEP_NS

    def put(self, source: Address, target: Address, sequence: int, data: bytes = b"", flags: int = ACK) -> None:
        packet = ip(source, target, tcp(source, target, sequence, data, flags))
        self.packets.append((self.now_ns, ethernet(packet) if self.link == ETHERNET else packet))

    def open(self, client: Address = CLIENT, server: Address = SERVER, first: int = 1000) -> None:
        for source, target, flags in ((client, server, SYN), (server, client, SYN | ACK)):
            self.put(source, target, first, flags=flags)
            self.sequences[source, target] = first + 1

    def say(self, data: bytes, source: Address = CLIENT, target: Address = SERVER) -> None:
        """Send data in one packet."""
        sequence = self.sequences.setdefault((source, target), 5000)
        self.put(source, target, sequence, data)
        self.sequences[source, target] += len(data)

    def miss(self, data: bytes, source: Address = CLIENT, target: Address = SERVER) -> None:
        """Send data that the recording does not see."""
        self.sequences[source, target] += len(data)

    def greet(
        self,
        client: Address = CLIENT,
        server: Address = SERVER,
        types: tuple[bytes, bytes] = (b"ROUTER", b"ROUTER"),
        names: tuple[bytes, bytes] = (b"node-a", b"node-b"),
    ) -> None:
        for source, target, kind, name in ((client, server, types[0], names[0]), (server, client, types[1], names[1])):
            self.say(greeting(), source, target)
            self.say(ready(kind, name), source, target)

    def close(self, client: Address = CLIENT, server: Address = SERVER) -> None:
        for source, target in ((client, server), (server, client)):
            self.put(source, target, self.sequences[source, target], flags=FIN | ACK)


def heard(path: Path, data: bytes) -> tuple[list[Sighting], list[Fault]]:
    """Give what is in a file of these bytes, and what is wrong with it."""
    path.write_bytes(data)
    faults: list[Fault] = []
    return [row for batch in read_pcap(path, faults.append) for row in sightings_from_batch(batch)], faults


def arrived(found: tuple[list[Sighting], list[Fault]]) -> list[list[bytes]]:
    """Give the frames that arrived, without the name in front; there must be no faults."""
    rows, faults = found
    assert faults == []
    return [list(row.frames)[1:] for row in rows if row.direction == "in"]
