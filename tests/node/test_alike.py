"""Large messages that are alike are read in few steps, and are the messages that any other way of reading gives."""

from __future__ import annotations

import asyncio
import socket
from fcntl import ioctl
from itertools import cycle
from termios import FIONREAD

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hopwire.model.limits import Limits
from hopwire.node.unfinished import Unfinished
from hopwire.node.waking import Waking
from hopwire.node.zmtp_socket import ZmtpSocket
from hopwire.wire.zmtp import GREETING, WHOLE, Zmtp, heads, ready

NAME = b"who"
HANDSHAKE = GREETING + ready(b"DEALER", NAME)
ALIKE = [b"", b"b" * WHOLE, b"meta"]
PING = b"\x04\x07\x04PING\0\0"
KINDS: tuple[list[bytes], ...] = (
    ALIKE,
    [b"", b"c" * WHOLE, b"ta" * 2],
    [b"", b"b" * WHOLE, b"m" * 300],
    [b"", b"b" * WHOLE, b"mm", b""],  # as many bytes as behind the body of the first
    [b"", b"b" * WHOLE, b""],
    [b"", b"b" * (WHOLE + 1), b"meta"],
    [b"", b"small", b"meta"],
    [b"not empty", b"b" * WHOLE, b"meta"],
    [b"", b"b" * WHOLE],
    [b"m" * WHOLE],
    [],  # stands for a PING
)
HEAD, BEHIND = 11, 2 + len(b"meta")  # bytes of a message before and behind its body


def written(frames: list[bytes]) -> bytes:
    return b"".join(heads(frames)) if frames else PING


async def heard(pieces: list[bytes], is_closing: bool = False) -> tuple[list[list[bytes]], int, list[str]]:
    """Give what a connection hears in these pieces, how often it read, and why it ended."""
    ours, theirs = socket.socketpair()
    found: list[list[bytes]] = []
    ends: list[str] = []
    ours.setblocking(False)

    def take(frames: list[bytes]) -> int:
        found.append(frames)
        if is_closing and len(found) == 3:
            connection.close("enough")
        return 1

    connection = ZmtpSocket(
        asyncio.get_running_loop(),
        ours,
        Zmtp(Limits()),
        b"",
        take,
        lambda _: None,
        lambda _, reason: ends.append(reason),
        Waking(),
        Unfinished(asyncio.get_running_loop()),
    )
    turns = 0
    with theirs:
        for piece in (HANDSHAKE, *pieces):
            theirs.sendall(piece)
            while connection.is_open and int.from_bytes(ioctl(ours, FIONREAD, bytes(4)), "little"):
                connection._readable()
                turns += 1
        theirs.shutdown(socket.SHUT_WR)
        if connection.is_open:
            connection._readable()
    return found, turns, ends


def run_heard(pieces: list[bytes], is_closing: bool = False) -> tuple[list[list[bytes]], int, list[str]]:
    return asyncio.run(heard(pieces, is_closing))


@pytest.mark.slow
@given(
    st.lists(st.just(0) | st.integers(0, len(KINDS) - 1), max_size=12),
    st.lists(st.sampled_from((1, 5, HEAD, HEAD + WHOLE, HEAD + WHOLE + BEHIND)) | st.integers(1, 60_000), min_size=1),
)
@example([0] * 8, [HEAD + WHOLE + BEHIND] * 8)  # one by one
@example([0] * 8, [60_000])
@example([0] * 5, [HEAD + WHOLE, BEHIND] * 5)  # the body has come, and nothing of what is behind it
@example([0, 0, 0, 0, 3, 0, 0], [30_000])
@example([0, 0, 0, 0, 6, 0, 0], [HEAD + WHOLE + BEHIND] * 4)  # something else comes where a large frame was awaited
def test_messages_are_the_same_however_they_come(kinds: list[int], cuts: list[int]) -> None:
    messages = [KINDS[kind] for kind in kinds]
    data = b"".join(map(written, messages))
    pieces, cut = [], cycle((*cuts, 30_000))  # a large one among them, so that single bytes come to an end
    while data:
        size = next(cut)
        pieces.append(data[:size])
        data = data[size:]
    found, _, ends = run_heard(pieces)
    assert found == [[NAME, *frames] for frames in messages if frames]
    assert ends == ["closed"]


def test_messages_that_are_alike_need_one_turn() -> None:
    few, turns, _ = run_heard([written(ALIKE) * 4])
    many, turns_of_many, _ = run_heard([written(ALIKE) * 4 + written(ALIKE) * 8])
    assert (len(few), len(many)) == (4, 12)
    assert turns_of_many == turns


def test_a_connection_that_is_closed_by_a_message_hands_over_nothing_behind_it() -> None:
    found, _, ends = run_heard([written(ALIKE) * 8], is_closing=True)
    assert found == [[NAME, *ALIKE]] * 3
    assert ends == ["enough"]


def test_a_fault_with_one_message_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    taken: list[int] = []

    def take(frames: list[bytes]) -> int:
        taken.append(len(frames))
        raise ValueError("a fault of ours")

    async def story() -> None:
        loop = asyncio.get_running_loop()
        connection = ZmtpSocket(
            loop, ours, Zmtp(Limits()), b"", take, lambda _: None, lambda *_: None, Waking(), Unfinished(loop)
        )
        with theirs:
            theirs.sendall(HANDSHAKE)
            connection._readable()
            theirs.sendall(written(ALIKE) * 8)
            while len(taken) < 8:
                connection._readable()
            connection.close("enough")

    asyncio.run(story())
    assert taken == [4] * 8
    assert caplog.text.count("a message could not be taken") == 8
