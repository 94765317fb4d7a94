"""Hops of flows as a recording of the network (pcapng), for Wireshark with the dissector of `hopwire wireshark`.

The bytes of the messages are those that were captured. The packets around them are made up: every node has an address,
and two nodes that talk have one connection, which begins with the greeting of ZeroMQ. A message is sent when it left
its node, corrected; where nobody saw it leave, when it arrived. The names of the nodes are in the file.

Each message has a comment with what the lake knows of it: its fate, when it arrived, whether the clocks are corrected.
A dead letter goes to the address of `nobody`. A hop whose bytes are in no capture is a comment alone.

The trap: packets hold 65,535 bytes at most. A long message is many packets of one time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from typing import NamedTuple

from hopwire.report.words import node_label
from hopwire.wire.zmtp import GREETING, heads, ready

__all__ = ["ExportedHop", "pcapng_from_hops"]

SECTION, INTERFACE, NAMES, PACKET = 0x0A0D0D0A, 1, 4, 6
END_OF_OPTIONS, COMMENT, IPV4_NAME = 0, 1, 1
TIME_RESOLUTION, NANOSECONDS = 9, 9
RAW_IP = 101
FIRST_ADDRESS, NOBODY_ADDRESS = IPv4Address("10.0.0.1"), IPv4Address("10.255.255.254")
NOBODY = b""  # dead letters go there, and messages of which nobody knows the node
SERVER_PORT, FIRST_PORT = 7400, 40_000
SYN, ACK, PUSH = 2, 16, 8
MOST = 60_000  # bytes of a message in one packet
MOST_TEXT = 32_000  # bytes of a comment or a name: the length of an option has 16 bits
WINDOW = 65_535


class ExportedHop(NamedTuple):
    """One hop of a message, and the message as it was captured; without frames where no capture has them."""

    at_ns: int
    from_node: bytes
    to_node: bytes
    is_dead: bool
    frames: Sequence[bytes]
    comment: str


def pcapng_from_hops(hops: Iterable[ExportedHop], names: Mapping[bytes, str]) -> Iterator[bytes]:
    """Give the blocks of a file with these hops, in the order of time."""
    ordered = sorted(hops, key=lambda hop: hop.at_ns)
    nodes = dict.fromkeys(node for hop in ordered for node in (hop.from_node, hop.to_node) if node)
    addresses = {node: FIRST_ADDRESS + number for number, node in enumerate(nodes)} | {NOBODY: NOBODY_ADDRESS}
    yield _block(SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    yield _block(INTERFACE, struct.pack("<HHI", RAW_IP, 0, 0) + _options((TIME_RESOLUTION, bytes([NANOSECONDS]))))
    known = {address: node_label(node, names.get(node, "")) for node, address in addresses.items() if node}
    yield _block(NAMES, _records({**known, NOBODY_ADDRESS: "nobody"}))
    connections: dict[frozenset[bytes], _TwoNodes] = {}
    for hop in ordered:
        to_node = NOBODY if hop.is_dead else hop.to_node
        pair = frozenset((hop.from_node, to_node))
        if pair not in connections:
            connections[pair] = _TwoNodes(hop.from_node, to_node, addresses, FIRST_PORT + len(connections) % 20_000)
            yield from connections[pair].opened(hop.at_ns)
        yield from connections[pair].said(hop)


class _TwoNodes:
    """Two nodes that talk, and how many bytes each has said."""

    def __init__(self, client: bytes, server: bytes, addresses: Mapping[bytes, IPv4Address], port: int) -> None:
        self.nodes = (client, server)
        self.ends = {client: (addresses[client], port), server: (addresses[server], SERVER_PORT)}
        self.next = {client: 0, server: 0}

    def opened(self, at_ns: int) -> Iterator[bytes]:
        client, server = self.nodes
        for source, flags in ((client, SYN), (server, SYN | ACK)):
            yield self._packet(at_ns, source, b"", flags, "")
            self.next[source] += 1
        yield self._packet(at_ns, client, b"", ACK, "")
        for source in self.nodes:
            yield from self._send(
                at_ns, source, GREETING + ready(b"ROUTER", source), "made up: captures hold no greetings"
            )

    def said(self, hop: ExportedHop) -> Iterator[bytes]:
        behind = list(hop.frames[1:])  # the first frame names the socket, and does not travel
        data = b"".join(heads(behind)) if behind else b""
        yield from self._send(hop.at_ns, hop.from_node, data, hop.comment)

    def _send(self, at_ns: int, source: bytes, data: bytes, comment: str) -> Iterator[bytes]:
        for at in range(0, max(1, len(data)), MOST):
            part = data[at : at + MOST]
            yield self._packet(at_ns, source, part, ACK | PUSH if part else ACK, comment if at == 0 else "")
            self.next[source] += len(part)

    def _packet(self, at_ns: int, source: bytes, data: bytes, flags: int, comment: str) -> bytes:
        target = next((node for node in self.nodes if node != source), source)
        (address, port), (to_address, to_port) = self.ends[source], self.ends[target]
        numbers = [self.next[each] % 2**32 for each in (source, target)]
        tcp = struct.pack(">HHIIBBHHH", port, to_port, *numbers, 5 << 4, flags, WINDOW, 0, 0)
        size = 20 + len(tcp) + len(data)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 6, 0, address.packed, to_address.packed)
        packet = ip[:10] + _checksum(ip) + ip[12:] + tcp + data
        time_ns = max(0, at_ns)
        time = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), len(packet))
        told = _options((COMMENT, _text(comment))) if comment else b""
        return _block(PACKET, time + _padded(packet) + told)


def _checksum(header: bytes) -> bytes:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", total ^ 0xFFFF)


# -- blocks


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(_padded(body)))
    return struct.pack("<I", kind) + size + _padded(body) + size


def _options(*options: tuple[int, bytes]) -> bytes:
    found = b"".join(struct.pack("<HH", code, len(data)) + _padded(data) for code, data in options)
    return found + struct.pack("<HH", END_OF_OPTIONS, 0)


def _records(names: Mapping[IPv4Address, str]) -> bytes:
    return _options(*((IPV4_NAME, address.packed + _text(name) + b"\0") for address, name in names.items()))


def _text(text: str) -> bytes:
    """The bytes of a text; of a text that is longer than an option its beginning, in whole characters."""
    return text.encode("utf-8", "replace")[:MOST_TEXT].decode("utf-8", "ignore").encode()


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
