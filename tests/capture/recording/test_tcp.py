from __future__ import annotations

import random

import pytest

from hopwire.capture.recording.packets import FIN, SYN, Piece
from hopwire.capture.recording.tcp import (
    HELD_BYTES,
    HELD_PIECES,
    PIECE_BYTES,
    Room,
    StreamBytes,
    TcpStream,
    is_signature,
)
from tests.capture.recording.recordings import greeting

HERE, THERE = (b"\1\1\1\1", 1), (b"\2\2\2\2", 2)


def piece(sequence: int, data: bytes = b"", flags: int = 0) -> Piece:
    return Piece(HERE, THERE, sequence % 2**32, flags, len(data), data)


def begun(first: int = 100, room: Room | None = None) -> TcpStream:
    flow = TcpStream(room or Room(2**40))
    assert flow.add(piece(first - 1, flags=SYN), 0) == []
    assert flow.first == first % 2**32
    return flow


def test_next_piece_is_given_at_once() -> None:
    flow = begun()
    assert flow.add(piece(100, b"ab"), 1) == [StreamBytes(b"ab", 1)]
    assert flow.add(piece(102, b"c"), 2) == [StreamBytes(b"c", 2)]


def test_later_piece_waits_for_the_one_before() -> None:
    flow = begun()
    assert flow.add(piece(103, b"de"), 1) == []
    assert flow.add(piece(102, b"cd"), 2) == []
    assert flow.add(piece(100, b"ab"), 3) == [StreamBytes(b"ab", 3), StreamBytes(b"cd", 2), StreamBytes(b"e", 1)]


@pytest.mark.parametrize("first", [100, 2**32 - 3, 2**31, 0])
def test_any_order_gives_the_same_bytes(first: int) -> None:
    chance = random.Random(first)
    whole = chance.randbytes(2000)
    for _ in range(20):
        room = Room(2**40)
        flow = begun(first, room)
        pieces = [(at, whole[at : at + chance.randrange(40, 90)]) for at in range(0, 2000, 40)]
        chance.shuffle(pieces)
        found = [part for at, data in pieces for part in flow.add(piece(first + at, data), 0)]
        assert b"".join(part.data for part in found) == whole
        assert room.used_bytes == 0


def test_sequence_numbers_may_wrap_many_times() -> None:
    flow = begun(2**32 - 1)
    at, step = 2**32 - 1, b"x" * 2**20
    for _ in range(3 * 2**12):
        assert flow.add(piece(at, step), 0) == [StreamBytes(step, 0)]
        at += len(step)


def test_repeated_bytes_are_given_once_and_the_first_version_counts() -> None:
    flow = begun()
    flow.add(piece(100, b"abc"), 1)
    assert flow.add(piece(100, b"XYZ"), 2) == []
    assert flow.add(piece(101, b"YZd"), 3) == [StreamBytes(b"d", 3)]
    assert flow.add(piece(103, b""), 4) == []


def test_hole_is_told_at_the_end() -> None:
    flow = begun()
    flow.add(piece(105, b"f"), 1)
    flow.add(piece(110, b"k"), 2)
    assert flow.rest() == [StreamBytes(b"", 1, 5), StreamBytes(b"f", 1), StreamBytes(b"", 2, 4), StreamBytes(b"k", 2)]


@pytest.mark.parametrize("size", [1, 4096])
def test_hole_is_told_when_too_much_is_behind_it(size: int) -> None:
    room = Room(2**40)
    flow = begun(room=room)
    for number in range(1, 2 * HELD_PIECES):
        found = flow.add(piece(100 + number * size, bytes(size)), 0)
        if found:
            break
        assert room.used_bytes <= HELD_BYTES + PIECE_BYTES * HELD_PIECES
    assert found[0].missing == size
    assert sum(len(part.data) for part in found) == number * size
    assert room.used_bytes == 0


def test_nothing_waits_when_there_is_no_room() -> None:
    room = Room(PIECE_BYTES + 10)
    one, other = begun(room=room), begun(room=room)
    assert one.add(piece(105, b"123456"), 1) == []
    assert other.add(piece(105, b"123456"), 1) == [StreamBytes(b"", 1, 5), StreamBytes(b"123456", 1)]
    assert one.rest()[0].missing == 5
    assert room.used_bytes == 0


def test_many_holes_are_told_one_by_one() -> None:
    room = Room(2**40)
    flow = begun(room=room)
    for number in range(1, HELD_PIECES):
        assert flow.add(piece(100 + 2 * number, b"x"), 1) == []
    room.size_bytes = 0
    found = flow.add(piece(100 + 2 * HELD_PIECES, b"x"), 1)
    assert [part.missing for part in found[:4]] == [2, 0, 1, 0]
    assert sum(len(part.data) for part in found) == HELD_PIECES


def test_end_is_known_when_everything_before_it_came() -> None:
    flow = begun()
    flow.add(piece(102, b"c", FIN), 1)
    assert not flow.is_ended
    flow.add(piece(100, b"ab"), 2)
    assert flow.is_ended


def test_beginning_may_be_the_signature_and_may_come_late() -> None:
    flow = TcpStream(Room(2**40))
    assert flow.add(piece(164, b"later"), 1) == []
    assert flow.add(piece(100, greeting()), 2) == [StreamBytes(greeting(), 2), StreamBytes(b"later", 1)]


def test_without_a_beginning_nothing_is_given() -> None:
    room = Room(2**40)
    flow = TcpStream(room)
    assert all(flow.add(piece(100 + at, bytes(1000)), 1) == [] for at in range(0, 100_000, 1000))
    assert flow.is_middle
    assert (flow.rest(), room.used_bytes) == ([], 0)
    few = TcpStream(room)
    few.add(piece(100, b"few"), 1)
    assert (few.is_middle, few.rest(), few.is_middle) == (False, [], True)


def test_piece_from_nowhere_near_is_counted() -> None:
    flow = begun()
    assert flow.add(piece(2**31, b"x"), 1) == []
    assert (flow.strays, flow.rest()) == (1, [])


def test_signature_is_that_of_libzmq() -> None:
    assert is_signature(greeting())
    assert is_signature(b"\xff" + bytes(7) + b"\5\x7f")
    assert not is_signature(greeting()[:9])
    assert not is_signature(b"\xff" + b"\1" * 8 + b"\x7f")
