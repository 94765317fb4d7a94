"""Many trains at once: the same messages as one by one, and no message of a train that is not right."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.model.limits import Limits
from hopwire.wire.batch.trains import FEW, find_messages
from hopwire.wire.train import MAX_TRAIN_BYTES, MAX_TRAIN_MESSAGES, SMALLEST, is_train, pack_train, unpack_train

USUAL = st.tuples(st.just(b""), st.just(b""), st.binary(max_size=9), st.binary(max_size=9)).map(list)
ANY = st.lists(st.binary(max_size=5), min_size=SMALLEST + 1, max_size=70)
TRAINS = st.lists(st.lists(USUAL | USUAL | ANY, min_size=1, max_size=6), max_size=6)


def found(trains: Sequence[bytes], messages: Sequence[int]) -> list[list[list[bytes]] | None]:
    """Give the messages of each train without their first frame, or None if the train is not right."""
    data = b"".join(trains).ljust(64, b"\x03")
    stop = np.cumsum([len(train) for train in trains], dtype=np.int64)
    start = stop - np.array([len(train) for train in trains], dtype=np.int64)
    each = find_messages(np.frombuffer(data, np.uint8), start, stop, np.array(messages, dtype=np.int64))
    sizes, rows = iter(each.frame_bytes.tolist()), iter(zip(each.start, each.stop, each.frame_count, strict=True))
    answer: list[list[list[bytes]] | None] = []
    for is_right, count in zip(each.is_right, messages, strict=True):
        answer.append([_cut(data, *next(rows), sizes) for _ in range(count)] if is_right else None)
    assert next(rows, None) is None
    assert next(sizes, None) is None
    return answer


def _cut(data: bytes, at: int, stop: int, count: int, sizes: object) -> list[bytes]:
    frames = []
    for _ in range(count):
        size = next(sizes)  # type: ignore[call-overload]
        frames.append(data[at : at + size])
        at += size
    assert at == stop
    return frames


def law(train: bytes, said: int) -> list[list[bytes]] | None:
    """Give what the careful reader says."""
    if not is_train([b"", train]):
        return None
    try:
        messages = [frames[1:] for frames in unpack_train([b"", train], Limits())]
    except WireError:
        return None
    return messages if len(messages) == said else None


@pytest.mark.slow
@given(TRAINS, st.sampled_from([None, 0, 2**62]))
def test_trains_have_the_messages_that_were_coupled(trains: list[list[list[bytes]]], queued_ns: int | None) -> None:
    packed = [pack_train(messages, queued_ns) for messages in trains]
    expected = [[frames[1:] for frames in messages] for messages in trains]
    assert found(packed, [len(messages) for messages in trains]) == expected


def _some_train(chance: random.Random) -> tuple[bytes, int]:
    kinds = [3, 3, 3, 3, 2, 5, 70]
    messages = [
        [b"", *(chance.randbytes(chance.randrange(6)) for _ in range(chance.choice(kinds)))]
        for _ in range(chance.choice((1, 2, 9, 30)))
    ]
    return pack_train(messages, chance.choice((None, 5))), len(messages)


@pytest.mark.slow
def test_many_trains_go_side_by_side() -> None:
    chance = random.Random(3)
    trains, counts = zip(*(_some_train(chance) for _ in range(4 * FEW)), strict=True)
    usual = [pack_train([[b"", b"", b"%d" % n, b"meta"] for n in range(size)]) for size in range(1, 3 * FEW)]
    given, said = [*usual, *trains], [*range(1, 3 * FEW), *counts]
    assert found(given, said) == [law(*each) for each in zip(given, said, strict=True)]
    assert None not in found(given, said)


@pytest.mark.fuzz
@pytest.mark.slow
def test_damaged_trains_are_right_for_both_readers_or_for_none(fuzz_cases: int) -> None:
    chance = random.Random(11)
    for _ in range(max(fuzz_cases // 1_000, 3)):
        trains, counts = [], []
        for _ in range(3 * FEW):
            train, count = _some_train(chance)
            data = bytearray(train)
            for _ in range(chance.choice((0, 0, 1, 2))):
                data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 3, 4, 255, chance.randrange(256)))
            cut = chance.randrange(len(data)) if chance.random() < 0.1 else len(data)
            trains.append(bytes(data[:cut]))
            counts.append(count + chance.choice((0, 0, 0, 0, 1, -1)))
        assert found(trains, counts) == [law(*each) for each in zip(trains, counts, strict=True)]


SMALL = pack_train([[b"", b"", b""]])


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (SMALL, 0),
        (SMALL, -1),
        (SMALL, 2),
        (SMALL, 2**62),
        (b"", 1),
        (b"HWT", 1),
        (b"HWT\x01", 1),
        (b"HWT\x02\0\0", 1),
        (b"HWT\x03" + SMALL[4:], 1),
        (SMALL + b"\0", 1),
        (SMALL[:-1], 1),
        (b"HWT\x01\xff\xff" + b"\xff" * 40, 1),
        (b"HWT\x01" + SMALL[4:] * (MAX_TRAIN_MESSAGES + 1), MAX_TRAIN_MESSAGES + 1),
        (b"HWT\x01\x02\x00\x00\x00\x00\x00" + (MAX_TRAIN_BYTES).to_bytes(4, "little") + bytes(MAX_TRAIN_BYTES), 1),
    ],
    ids=range(14),
)
def test_what_is_not_right_is_not_looked_into(train: bytes, said: int) -> None:
    assert law(train, said) is None
    assert found([SMALL, train, SMALL], [1, said, 1]) == [[[b"", b""]], None, [[b"", b""]]]
    many = FEW + 1
    assert found([train] * many, [said] * many) == [None] * many
