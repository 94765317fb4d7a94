"""The bytes of batches: the same as those that Arrow writes."""

from __future__ import annotations

import random

import pytest

from hopwire.capture.batch_bytes import MOST_FRAMES, BatchBytes
from hopwire.capture.records import Origin, Row, batch_from_rows
from hopwire.model.sighting import Direction

ORIGIN = Origin(b"\x00node", "Wörth", 2**40)


def row(chance: random.Random, number: int, frame_count: int) -> Row:
    frames = tuple(chance.randbytes(chance.choice((0, 1, 7, 8, 9, 300))) for _ in range(frame_count))
    texts = chance.choice(("", "no_route")), chance.choice(("", "nobody is in Zürich"))
    way, peer = chance.choice(list(Direction)), chance.randbytes(chance.randrange(20))
    return number, chance.getrandbits(62), way, peer, frames, *texts, chance.randrange(9), chance.randrange(9)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 333])
@pytest.mark.parametrize("frame_count", [0, 1, 2, 5])
def test_the_bytes_of_a_batch_are_those_that_arrow_writes(count: int, frame_count: int) -> None:
    chance = random.Random(count * 10 + frame_count)
    rows = [row(chance, number, chance.randint(0, frame_count)) for number in range(count)]
    assert b"".join(BatchBytes(ORIGIN).parts(rows)) == batch_from_rows(ORIGIN, rows).serialize().to_pybytes()


def test_one_writer_of_bytes_serves_batches_of_all_sizes() -> None:
    chance, written = random.Random(7), BatchBytes(ORIGIN)
    for count in (300, 1, 50, 1):
        rows = [row(chance, number, 2) for number in range(count)]
        assert b"".join(written.parts(rows)) == batch_from_rows(ORIGIN, rows).serialize().to_pybytes()


def test_large_frames_are_handed_on_and_many_small_ones_are_joined() -> None:
    train = bytes(60_000)
    assert any(part is train for part in BatchBytes(ORIGIN).parts([(0, 1, "in", b"", (b"", train), "", "", 0, 9)]))
    many = [(number, 1, "in", b"", (b"a", b"b"), "", "", 0, 0) for number in range(MOST_FRAMES)]
    assert len(BatchBytes(ORIGIN).parts(many)) < 100


# fmt: off
NO_RECORDS = [
    (0, 1, "in", b"", ("text",), "", "", 0, 0),
    (0, 1, "in", b"", (7,), "", "", 0, 0),
    (0, 1, "in", b"", (b"",), "", "", 0, 2**63),
    (0, 1, "in", "peer", (b"",), "", "", 0, 0),
    (0, 1, b"in", b"", (b"",), "", "", 0, 0),
    (0, 1, "in", b"", (b"",), "", "\ud800", 0, 0),
    (0, 1),
]
# fmt: on


@pytest.mark.parametrize("wrong", NO_RECORDS, ids=range(len(NO_RECORDS)))
def test_what_is_no_record_is_refused_before_anything_is_written(wrong: Row) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError, AttributeError)):
        BatchBytes(ORIGIN).parts([wrong])
