"""ZMTP without sockets: however bytes are cut, the same messages come out; whatever they are, only ZmtpError does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hopwire.model.limits import Limits
from hopwire.wire.zmtp import (
    BUFFER_BYTES,
    FIRST_BUFFER_BYTES,
    GREETING,
    LARGE,
    WHOLE,
    Zmtp,
    ZmtpError,
    framed,
    heads,
    ready,
)

SMALL = Limits(max_frames=10, max_bytes=100_000)
HANDSHAKE = GREETING + ready(b"DEALER", b"who")
MOST_PIECES = 3000  # that data is cut into: pieces of a byte would be hundreds of thousands
SIZES = st.sampled_from((0, 1, 2, 255, 256, 1000, WHOLE, WHOLE + 1, LARGE - 1, LARGE, LARGE + 1))


def heard(
    data: bytes, cuts: list[int], limits: Limits = SMALL, reads_exactly: bool = False
) -> tuple[Zmtp, list[list[bytes]]]:
    """Let a connection hear bytes in pieces of these sizes, again and again; never more than it wants."""
    zmtp, messages, at, turn = Zmtp(limits), [], 0, 0
    zmtp.reads_exactly = reads_exactly
    while at < len(data):
        most = min(cuts[turn % len(cuts)], len(data) - at, zmtp.wanted or len(data))
        if zmtp.is_whole:
            zmtp.put(data[at : at + most])
            messages += taken(zmtp, most)
            at, turn = at + most, turn + 1
            continue
        room, more = zmtp.room(), zmtp.more_room()
        count = min(len(room) + len(more or b""), most)
        first = min(count, len(room))
        room[:first] = data[at : at + first]
        if more is not None:
            more[: count - first] = data[at + first : at + count]
        messages += taken(zmtp, count)
        at, turn = at + count, turn + 1
    return zmtp, messages


def taken(zmtp: Zmtp, count: int) -> list[list[bytes]]:
    """Read as a socket does."""
    train = b"" if zmtp.room_alone() is None else zmtp.took_alone(count)
    return [[train]] if train else zmtp.took(count)


def written(messages: list[list[bytes]]) -> bytes:
    return b"".join(part for frames in messages for part in heads(frames))


@pytest.mark.slow
@given(
    st.lists(st.lists(SIZES, min_size=1, max_size=3), max_size=12),
    st.lists(st.integers(1, 5000) | st.just(BUFFER_BYTES), min_size=1, max_size=5),
    st.booleans(),
)
def test_messages_are_the_same_however_their_bytes_are_cut(
    sizes: list[list[int]], cuts: list[int], reads_exactly: bool
) -> None:
    messages = [[bytes((n % 256,)) * size for n, size in enumerate(each)] for each in sizes]
    data = HANDSHAKE + written(messages)
    cuts = [max(cut, len(data) // MOST_PIECES) for cut in cuts]
    assert heard(data, cuts, Limits(), reads_exactly)[1] == messages


@pytest.mark.parametrize("reads_exactly", [False, True])
def test_a_large_frame_takes_memory_as_its_bytes_come(reads_exactly: bool) -> None:
    messages = [[b"", bytes((number,)) * 5_000_000, b"meta"] for number in range(3)]
    data = HANDSHAKE + written(messages)
    zmtp, found = heard(data[:2_000_000], [BUFFER_BYTES], Limits(), reads_exactly)
    assert (found, 2_000_000 < zmtp.waiting_bytes < 4_100_000) == ([], True)
    assert heard(data, [BUFFER_BYTES, 1000], Limits(), reads_exactly)[1] == messages


def test_large_frames_that_follow_one_another_are_not_copied() -> None:
    zmtp = Zmtp(Limits())
    zmtp.reads_exactly = True
    body, data, at, whole = b"b" * WHOLE, HANDSHAKE, 0, 0
    data += written([[b"", body, b"meta"]] * 6)
    messages = []
    while at < len(data):
        piece = data[at : at + (zmtp.wanted or len(data))]
        if zmtp.is_whole:
            whole += 1
            zmtp.put(piece)
        else:
            room = zmtp.room()
            piece = piece[: len(room)]
            room[: len(piece)] = piece
        messages += zmtp.took(len(piece))
        at += len(piece)
    assert messages == [[b"", body, b"meta"]] * 6
    assert whole >= 3, "all but those before the pattern was known"


@given(st.lists(SIZES, min_size=1, max_size=8), st.booleans())
def test_a_train_that_comes_alone_is_read_as_any_other(sizes: list[int], reads_exactly: bool) -> None:
    trains = [[bytes((n,)) * size] for n, size in enumerate(sizes)]
    data = [HANDSHAKE, *(written([train]) for train in trains), *(written([[b"", b"b" * WHOLE, b"meta"]]),) * 4]
    zmtp, found = Zmtp(Limits()), []
    zmtp.reads_exactly = reads_exactly
    for piece in data:  # each by itself, as far as there is room for it
        while piece:
            count = min(len(piece), zmtp.wanted or len(piece))
            if zmtp.is_whole:
                zmtp.put(piece[:count])
            else:
                room = zmtp.room()
                count = min(count, len(room))
                room[:count] = piece[:count]
            found += taken(zmtp, count)
            piece = piece[count:]
    assert found == [*trains, *[[b"", b"b" * WHOLE, b"meta"]] * 4]


@given(st.binary(min_size=1, max_size=600))
def test_one_frame_is_written_in_one_piece_as_in_several(frame: bytes) -> None:
    assert framed(frame) == written([[frame]])


def test_a_train_above_the_limits_is_refused_also_if_it_comes_alone() -> None:
    with pytest.raises(ZmtpError, match="more than 1000 bytes"):
        heard(HANDSHAKE + written([[bytes(1001)]]), [len(HANDSHAKE), 5000], Limits(max_bytes=1000))


USUAL = [[b"", bytes((size % 251,)) * size, meta] for size in (WHOLE, WHOLE + 1) for meta in (b"meta", b"m" * 300)]
UNUSUAL = [[b"", b"small", b"meta"], [b"not empty", b"b" * WHOLE, b"meta"], [b"", b"b" * WHOLE], [b"m" * WHOLE]]
PING = b"\x04\x07\x04PING\0\0"


KINDS = (*USUAL, *UNUSUAL, [])  # nothing stands for a PING


@given(st.lists(st.just(0) | st.integers(0, len(KINDS) - 1), max_size=16), st.booleans())
@example([0, 0, 0, 5, 8, 0], False)  # as many bytes as lay there last, and not as many as those that are remembered
def test_what_lies_between_large_frames_is_read_as_any_other(kinds: list[int], differs: bool) -> None:
    messages = [KINDS[kind] for kind in kinds]
    if differs:
        messages = [[*frames[:-1], bytes((n,)) + frames[-1][1:]] if frames else [] for n, frames in enumerate(messages)]
    data = b"".join(written([frames]) if frames else PING for frames in messages)
    _, found = heard(HANDSHAKE + data, [BUFFER_BYTES], Limits(), reads_exactly=True)
    assert found == [frames for frames in messages if frames]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_whatever_comes_only_a_zmtp_error_leaves(noise: bytes, cut: int) -> None:
    for data in (noise, GREETING[:12] + noise, GREETING + noise, HANDSHAKE + noise):
        try:
            heard(data, [cut])
        except ZmtpError as error:
            assert error.reason


@given(st.integers(0, 63), st.integers(0, 255))
def test_a_greeting_with_any_byte_changed_is_read_or_refused(at: int, value: int) -> None:
    changed = GREETING[:at] + bytes((value,)) + GREETING[at + 1 :]
    try:
        zmtp, _ = heard(changed + ready(b"DEALER", b""), [7])
        assert zmtp.is_ready
    except ZmtpError as error:
        assert error.reason in ("not_zmtp", "old_zmtp", "mechanism")


def test_the_other_side_is_known_by_type_and_identity_and_is_answered_with_ready() -> None:
    zmtp, _ = heard(HANDSHAKE, [1])
    assert (zmtp.is_ready, zmtp.socket_type, zmtp.identity) == (True, b"DEALER", b"who")
    assert zmtp.replies == [ready(b"ROUTER", b"")]


def test_a_ping_is_answered_with_its_context() -> None:
    zmtp, messages = heard(HANDSHAKE + b"\4\x0a\4PING\0\1abc" + written([[b"x"]]), [3])
    assert zmtp.replies[1:] == [b"\4\x08\4PONGabc"]
    assert messages == [[b"x"]]


def test_a_flood_of_pings_is_answered_a_few_times_only() -> None:
    zmtp, _ = heard(HANDSHAKE + b"\4\7\4PING\0\1" * 10_000, [BUFFER_BYTES])
    assert len(zmtp.replies) < 20


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n", "not_zmtp"),
        (b"\xff" + bytes(8) + b"\x7f\1", "old_zmtp"),
        (GREETING[:12] + b"CURVE".ljust(20, b"\0") + bytes(32), "mechanism"),
        (GREETING + written([[b"too soon"]]), "not_ready"),
        (GREETING + ready(b"PUB", b""), "socket_type"),
        (GREETING + b"\4\6\5ERROR\0", "refused"),
        (GREETING + b"\6" + (5000).to_bytes(8, "big"), "bad_command"),
        (GREETING + b"\4\x09\5READY\xffab", "bad_command"),
        (HANDSHAKE + b"\x08\0", "bad_flags"),
        (HANDSHAKE + b"\5\0", "bad_flags"),
        (HANDSHAKE + b"\2" + (2**62).to_bytes(8, "big"), "too_large"),
        (HANDSHAKE + written([[b"x" * 60_000, b"x" * 60_000]]), "too_large"),
        (HANDSHAKE + written([[b""] * 11]), "too_many_frames"),
    ],
)
@pytest.mark.parametrize("cut", [1, 64, BUFFER_BYTES])
def test_what_is_no_message_of_zmtp_is_refused_with_its_reason(data: bytes, reason: str, cut: int) -> None:
    with pytest.raises(ZmtpError) as caught:
        heard(data, [cut])
    assert caught.value.reason == reason


def test_a_frame_is_given_the_memory_that_it_announces_only_within_the_limit() -> None:
    claimed = HANDSHAKE + b"\3" + (90_000).to_bytes(8, "big") + b"y"
    zmtp, _ = heard(claimed, [BUFFER_BYTES])
    assert zmtp.waiting_bytes == 90_000, "what is announced is held"
    with pytest.raises(ZmtpError, match="more than"):
        heard(claimed + b"y" * 89_999 + b"\2" + (20_000).to_bytes(8, "big"), [BUFFER_BYTES])


def test_a_stranger_may_announce_less_than_a_peer() -> None:
    zmtp = Zmtp(SMALL)
    zmtp.frame_bytes = 80_000
    zmtp.room()[: len(HANDSHAKE)] = HANDSHAKE
    zmtp.took(len(HANDSHAKE))
    claimed = b"\3" + (90_000).to_bytes(8, "big") + b"y"
    zmtp.room()[: len(claimed)] = claimed
    with pytest.raises(ZmtpError, match="the limit is 80000"):
        zmtp.took(len(claimed))


@pytest.mark.slow
def test_a_buffer_grows_with_what_is_said() -> None:
    zmtp, messages = heard(HANDSHAKE, [BUFFER_BYTES])
    assert len(zmtp._buffer) == FIRST_BUFFER_BYTES
    said = [[bytes([number])] * 3 for number in range(256)]
    zmtp, messages = heard(HANDSHAKE + written(said * 400), [BUFFER_BYTES])
    assert len(zmtp._buffer) == BUFFER_BYTES
    assert messages == said * 400
