from __future__ import annotations

import struct

import pytest

from hopwire.capture.recording.packets import Piece, address_text, tcp_piece
from tests.capture.recording.recordings import CLIENT, SERVER, ethernet, ip, tcp

IP = ip(CLIENT, SERVER, tcp(CLIENT, SERVER, 17, b"data"))
IP6 = ip(("::1", 1), ("::2", 2), tcp(("::1", 1), ("::2", 2), 17, b"data"))
PIECE = Piece((b"\n\0\0\1", 40_000), (b"\n\0\0\2", 7400), 17, 16, 4, b"data")
PIECE6 = Piece((bytes(15) + b"\1", 1), (bytes(15) + b"\2", 2), 17, 16, 4, b"data")

# fmt: off
LINKS = (
    # link  packet                                          piece
    (1,     ethernet(IP),                                   PIECE),
    (1,     ethernet(IP6),                                  PIECE6),
    (1,     ethernet(IP, tags=[0x8100]),                    PIECE),
    (1,     ethernet(IP, tags=[0x88A8, 0x8100]),            PIECE),
    (1,     ethernet(IP) + bytes(30),                       PIECE),
    (113,   bytes(14) + b"\x08\x00" + IP,                   PIECE),
    (113,   bytes(14) + b"\x86\xdd" + IP6,                  PIECE6),
    (276,   b"\x08\x00" + bytes(18) + IP,                   PIECE),
    (101,   IP,                                             PIECE),
    (101,   IP6,                                            PIECE6),
    (12,    IP,                                             PIECE),
    (228,   IP,                                             PIECE),
    (229,   IP6,                                            PIECE6),
    (0,     b"\2\0\0\0" + IP,                               PIECE),
    (0,     b"\0\0\0\x1e" + IP6,                            PIECE6),
    (108,   b"\0\0\0\2" + IP,                               PIECE),
    (101,   IP[:2] + b"\0\0" + IP[4:],                      PIECE),        # hardware makes longer ones than IP can say
    (101,   IP[:-2],                                        PIECE._replace(data=b"da")),
    (101,   IP[:9] + b"\x11" + IP[10:],                     None),         # UDP
    (1,     bytes(12) + b"\x08\x06" + bytes(28),            None),         # ARP
    (1,     b"short",                                       "short"),
    (101,   b"",                                            "short"),
    (101,   IP[:30],                                        "short"),
    (101,   IP[:32] + b"\x10" + IP[33:],                    "short"),      # a TCP header of 4 bytes
    (147,   IP,                                             "link"),
    (101,   IP[:6] + b"\x00\x10" + IP[8:],                  "fragment"),
)
# fmt: on


@pytest.mark.parametrize(("link", "packet", "piece"), LINKS)
def test_piece_is_found_behind_its_headers(link: int, packet: bytes, piece: Piece | str | None) -> None:
    assert tcp_piece(link, packet) == piece


def extended(kind: int, *headers: bytes) -> bytes:
    """Give the packet of IPv6 with headers before TCP."""
    middle = b"".join(headers)
    return IP6[:4] + struct.pack(">HB", len(IP6) - 40 + len(middle), kind) + IP6[7:40] + middle + IP6[40:]


def test_extension_headers_are_passed_over() -> None:
    options = extended(0, b"\x2b\0" + bytes(6), b"\x3c\1" + bytes(14), b"\6\0" + bytes(6))
    assert tcp_piece(101, options) == PIECE6
    assert tcp_piece(101, extended(51, b"\6\4" + bytes(22))) == PIECE6
    assert tcp_piece(101, extended(44, b"\6\0\0\0" + bytes(4))) == PIECE6
    assert tcp_piece(101, extended(44, b"\6\0\0\1" + bytes(4))) == "fragment"


def test_address_is_written_as_zeromq_does() -> None:
    assert address_text((b"\n\0\0\1", 7400)) == "tcp://10.0.0.1:7400"
    assert address_text((bytes(15) + b"\1", 7400)) == "tcp://[::1]:7400"
