"""From a packet to the piece of a TCP connection in it: link, IP and TCP, header by header.

The data ends where the length of IP says: Ethernet fills up short packets, and a recording may cut off long packets. A
packet that was cut off gives the data that is there. The missing data becomes a hole in the connection.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias

__all__ = ["FIN", "RST", "SYN", "Endpoint", "Piece", "address_text", "tcp_piece"]

Endpoint: TypeAlias = tuple[bytes, int]  # address of IP, port

FIN, SYN, RST = 1, 2, 4
TCP = 6
IPV4, IPV6 = 0x0800, 0x86DD
VLANS = {0x8100, 0x88A8, 0x9100}
MAX_TAGS = 4  # of VLANs within VLANs; two are common
MAX_EXTENSIONS = 8  # headers between IPv6 and TCP
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60

# fmt: off
LINKS = {
    # link      bytes of header, where the kind of packet stands (None: the first half byte behind the header tells)
    0:          (4,  None),   # BSD loopback
    1:          (14, 12),     # Ethernet
    12:         (0,  None),   # IP without anything in front, by its three numbers
    14:         (0,  None),
    101:        (0,  None),
    108:        (4,  None),   # OpenBSD loopback
    113:        (16, 14),     # Linux, all interfaces
    228:        (0,  None),   # IPv4
    229:        (0,  None),   # IPv6
    276:        (20, 0),      # Linux, all interfaces, version 2
}
# fmt: on

_TCP_HEAD = struct.Struct(">HHIIBB")


class Piece(NamedTuple):
    """A piece of one direction of a connection."""

    source: Endpoint
    target: Endpoint
    sequence: int
    flags: int
    size: int  # of the data, of which the recording may have cut off the end
    data: bytes


@lru_cache(maxsize=4096)
def address_text(endpoint: Endpoint) -> str:
    """Give an address as ZeroMQ writes it: tcp://10.0.0.1:7400."""
    address, port = endpoint
    text = ip_address(address).compressed
    return f"tcp://[{text}]:{port}" if len(address) == 16 else f"tcp://{text}:{port}"


def tcp_piece(link: int, data: bytes) -> Piece | str | None:
    """Give the piece of TCP in a packet; None if there is none; a code of `troubles.py` if it cannot be read."""
    if link not in LINKS:
        return "link"
    start, place = LINKS[link]
    try:
        if place is None:
            kind = IPV6 if data[start] >> 4 == 6 else IPV4
        else:
            (kind,) = struct.unpack_from(">H", data, place)
        for _ in range(MAX_TAGS):
            if kind in VLANS:
                (kind,) = struct.unpack_from(">H", data, start + 2)
                start += 4
        if kind == IPV4:
            return _from_ipv4(data, start)
        return _from_ipv6(data, start) if kind == IPV6 else None
    except (struct.error, IndexError):
        return "short"


def _from_ipv4(data: bytes, start: int) -> Piece | str | None:
    length, _, fragment, _, protocol = struct.unpack_from(">HHHBB", data, start + 2)
    if data[start] >> 4 != 4 or protocol != TCP:
        return None
    if fragment & 0x3FFF:
        return "fragment"
    end = start + length if length else len(data)  # 0: longer than IP can say, as hardware makes them
    addresses = data[start + 12 : start + 16], data[start + 16 : start + 20]
    return _from_tcp(data, start + 4 * (data[start] & 15), end, *addresses)


def _from_ipv6(data: bytes, start: int) -> Piece | str | None:
    length, protocol = struct.unpack_from(">HB", data, start + 4)
    end = start + 40 + length if length else len(data)
    at = start + 40
    for _ in range(MAX_EXTENSIONS):
        if protocol in (HOP_BY_HOP, ROUTING, DESTINATION):
            protocol, at = data[at], at + 8 + 8 * data[at + 1]
        elif protocol == AUTHENTICATION:
            protocol, at = data[at], at + 8 + 4 * data[at + 1]
        elif protocol == FRAGMENT:
            if struct.unpack_from(">H", data, at + 2)[0] & 0xFFF9:
                return "fragment"
            protocol, at = data[at], at + 8
        else:
            break
    if protocol != TCP:
        return None
    return _from_tcp(data, at, end, data[start + 8 : start + 24], data[start + 24 : start + 40])


def _from_tcp(data: bytes, at: int, end: int, source: bytes, target: bytes) -> Piece | str:
    source_port, target_port, sequence, _, words, flags = _TCP_HEAD.unpack_from(data, at)
    begin = at + 4 * (words >> 4)
    if words >> 4 < 5 or begin > end:
        return "short"
    return Piece((source, source_port), (target, target_port), sequence, flags, end - begin, data[begin:end])
