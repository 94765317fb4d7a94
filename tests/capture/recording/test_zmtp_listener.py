from __future__ import annotations

import random
import struct

import pytest

from hopwire.capture.recording.zmtp_listener import ZmtpListener, ZmtpMessage
from hopwire.model.limits import Limits
from tests.capture.recording.recordings import command, frame, greeting, message, ready

BEGIN = greeting() + ready(b"DEALER", b"me")
SMALL = Limits(max_bytes=1000, max_frames=5)


def begun(limits: Limits = SMALL) -> ZmtpListener:
    talk = ZmtpListener(limits)
    assert talk.hear(BEGIN, 1, 1) == []
    assert (talk.is_ready, talk.socket_type, talk.identity, talk.trouble) == (True, "DEALER", b"me", "")
    return talk


def texts(said: list[ZmtpMessage]) -> list[list[bytes]]:
    return [each.frames for each in said]


def test_messages_are_the_same_however_they_are_cut() -> None:
    chance = random.Random(1)
    sizes = (0, 1, 3, 255, 256, 300)
    sent = [[bytes(chance.choice(sizes)) for _ in range(chance.randrange(1, 4))] for _ in range(30)]
    stream = b"".join(message(frames) + command(b"PING", b"\0\1") for frames in sent)
    for step in (1, 2, 7, 100, 1000, len(stream)):
        talk = begun()
        found = [said for at in range(0, len(stream), step) for said in talk.hear(stream[at : at + step], 2, 2)]
        assert texts(found) == sent
        assert not talk.is_within
        assert talk.waiting_bytes == 0


def test_short_frames_may_be_written_as_long_ones() -> None:
    assert texts(begun().hear(frame(b"a", 1, is_long=True) + frame(b"b"), 1, 1)) == [[b"a", b"b"]]


def test_message_knows_when_its_first_and_its_last_byte_were_seen() -> None:
    talk = begun()
    two = message([b"one"]) + message([b"", b"two"])
    assert talk.hear(two[:1], 10, 10) == []
    assert talk.hear(two[1:7], 20, 25) == [ZmtpMessage([b"one"], 10, 25)]
    assert talk.hear(two[7:], 30, 35) == [ZmtpMessage([b"", b"two"], 20, 35)]


# fmt: off
LOST = (
    # too large                                      why
    message([bytes(1001)]),                        # one frame
    message([bytes(600), bytes(600)]),             # two
    message([b"x"] * 6),                           # too many
    message([b"x"] * 20),
    message([b"x"] * 6 + [b"", b""]),
)
# fmt: on


@pytest.mark.parametrize("large", LOST)
def test_message_beyond_the_limits_is_passed_over(large: bytes) -> None:
    for step in (1, 50, 5000):
        talk = begun()
        stream = message([b"before"]) + large + message([b"after"])
        found = [said for at in range(0, len(stream), step) for said in talk.hear(stream[at : at + step], 1, 1)]
        assert texts(found) == [[b"before"], [b"after"]]
        assert (talk.lost_messages, talk.trouble) == (1, "")
        assert talk.waiting_bytes == 0


@pytest.mark.parametrize("end", [10, 509, 510])
def test_hole_within_a_frame_costs_one_message(end: int) -> None:
    stream = message([bytes(500), b"rest"])
    talk = begun()
    assert talk.hear(stream[:9], 1, 1) == []
    if end > 509:
        assert talk.miss(end - 9) == []
        assert talk.trouble == "hole"
        return
    assert talk.miss(end - 9) == []
    assert texts(talk.hear(stream[end:] + message([b"next"]), 1, 1)) == [[b"next"]]
    assert talk.lost_messages == 1


def test_hole_within_a_command_costs_nothing() -> None:
    talk = begun()
    ping = command(b"PING", bytes(50))
    assert talk.hear(ping[:10], 1, 1) == []
    assert talk.miss(20) == []
    assert texts(talk.hear(ping[30:] + message([b"next"]), 1, 1)) == [[b"next"]]
    assert (talk.lost_messages, talk.trouble) == (0, "")


def test_hole_in_the_handshake_is_the_end() -> None:
    for size in (0, 5, 30, 64, 70):
        talk = ZmtpListener(SMALL)
        talk.hear(BEGIN[:size], 1, 1)
        talk.miss(3)
        assert talk.trouble == "hole"
        assert talk.hear(BEGIN, 1, 1) == []


# fmt: off
BROKEN = (
    frame(b"x", 0x80),                     # a flag that is none
    frame(b"x", 5),                        # a command that goes on
    struct.pack(">BQ", 2, 2**63),          # a length that is none
    struct.pack(">BQ", 6, 2**20),          # a command that large
)
# fmt: on


@pytest.mark.parametrize("data", BROKEN)
def test_broken_rules_end_it(data: bytes) -> None:
    talk = begun()
    assert texts(talk.hear(message([b"before"]) + data + message([b"after"]), 1, 1)) == [[b"before"]]
    assert (talk.trouble, talk.waiting_bytes) == ("broken", 0)
