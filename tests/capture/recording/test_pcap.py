from __future__ import annotations

import io
import struct

import pytest

from hopwire.capture.recording.pcap import CutOff, Packet, read_packets
from tests.capture.recording.recordings import (
    ETHERNET,
    START_NS,
    block,
    interface,
    packet_block,
    pcap,
    pcapng,
    section,
)

PACKETS = [(START_NS + 1000, b"one"), (START_NS + 2000, b""), (START_NS + 3000, b"three")]
EXPECTED = [Packet(time_ns, ETHERNET, data) for time_ns, data in PACKETS]


def packets(data: bytes) -> list[Packet]:
    return list(read_packets(io.BytesIO(data)))


def read_until_cut(data: bytes) -> tuple[list[Packet], CutOff | None]:
    found: list[Packet] = []
    try:
        for packet in read_packets(io.BytesIO(data)):
            found.append(packet)
    except CutOff as cut:
        return found, cut
    return found, None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("is_nano", [True, False])
def test_pcap_of_every_order_and_unit_is_read(order: str, is_nano: bool) -> None:
    assert packets(pcap(PACKETS, order=order, is_nano=is_nano)) == EXPECTED


def test_pcap_may_say_how_long_checksums_are() -> None:
    assert packets(pcap(PACKETS, link=0x2400_0001)) == EXPECTED


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_of_both_orders_is_read(order: str) -> None:
    assert packets(pcapng(PACKETS, order=order)) == EXPECTED


# fmt: off
RESOLUTIONS = (
    # option  offset  ticks                      nanoseconds
    (None,    None,   1_500_000,                 1_500_000_000),
    (6,       None,   1_500_000,                 1_500_000_000),
    (3,       None,   1_500,                     1_500_000_000),
    (0x80|1,  None,   3,                         1_500_000_000),
    (9,       10,     1,                        10_000_000_001),
    (9,       -10,    1,                                     0),
    (0,       None,   2**64 - 1,                     2**63 - 1),
)
# fmt: on


@pytest.mark.parametrize(("resolution", "offset_s", "ticks", "time_ns"), RESOLUTIONS)
def test_pcapng_says_how_long_its_ticks_are(
    resolution: int | None, offset_s: int | None, ticks: int, time_ns: int
) -> None:
    file = section() + interface(resolution=resolution, offset_s=offset_s) + packet_block(ticks, b"x")
    assert packets(file) == [Packet(time_ns, ETHERNET, b"x")]


def test_pcapng_has_interfaces_of_several_kinds_and_sections_of_both_orders() -> None:
    first = section() + interface(1) + interface(101, resolution=6) + packet_block(7, b"a", number=1)
    second = section(">") + interface(113, ">") + packet_block(8, b"b", ">")
    assert packets(first + second) == [Packet(7000, 101, b"a"), Packet(8, 113, b"b")]


def test_other_blocks_are_passed_over_and_simple_packets_have_the_time_of_the_one_before() -> None:
    simple = block(3, struct.pack("<I", 3) + b"two")
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 9, 5, 5) + b"three")
    file = section() + block(4, b"names") + interface() + packet_block(5, b"one") + simple + old
    assert packets(file) == [Packet(5, 1, b"one"), Packet(5, 1, b"two"), Packet(9, 1, b"three")]


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_file_that_is_cut_off_anywhere_is_read_as_far_as_it_goes(write: type) -> None:
    whole = write(PACKETS)
    for size in range(1, len(whole)):
        found, cut = read_until_cut(whole[:size])
        assert found == EXPECTED[: len(found)]
        assert cut is None or 0 <= cut.position <= size
    assert read_until_cut(whole) == (EXPECTED, None)


def test_length_that_cannot_be_is_not_believed() -> None:
    found, cut = read_until_cut(pcap(PACKETS) + struct.pack("<IIII", 0, 0, 2**32 - 1, 0))
    assert found == EXPECTED
    assert str(cut).endswith("a packet of 4294967295 bytes")
    found, cut = read_until_cut(pcapng(PACKETS) + struct.pack("<II", 6, 2**32 - 4))
    assert found == EXPECTED
    assert cut is not None


@pytest.mark.parametrize("rest", [packet_block(1, b"x", number=1), block(6, b"x"), block(3, b""), block(1, b"x")])
def test_block_that_makes_no_sense_ends_the_file(rest: bytes) -> None:
    assert str(read_until_cut(section() + interface() + rest)[1]).startswith("is damaged at byte 60: a block of kind")


@pytest.mark.parametrize(("data", "words"), [(b"", "is empty"), (b"PK\3\4....", "is neither pcap nor pcapng")])
def test_foreign_file_is_refused(data: bytes, words: str) -> None:
    found, cut = read_until_cut(data)
    assert (found, str(cut)) == ([], words)
