"""Sample messages: every format carries them, the seed decides them, and faults are faults."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hopwire.wire import FORMATS, V3, V6, WireError, WireFormat, decode, encode
from hopwire.wire.samples import FAULTS, break_frames, sample_message

SEEDS = range(200)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_samples_come_back_as_they_went(fmt: WireFormat) -> None:
    for seed in SEEDS:
        message = sample_message(fmt, random.Random(seed))
        assert decode(encode(message, fmt)) == message


def test_samples_have_the_size_of_ordinary_traffic() -> None:
    sizes = [sum(map(len, encode(sample_message(fmt, random.Random(seed)), fmt))) for seed in SEEDS for fmt in FORMATS]
    assert 600 < sum(sizes) / len(sizes) < 700
    bodies = [len(sample_message(V6, random.Random(seed)).body) for seed in SEEDS]
    assert min(bodies) >= 128
    assert max(bodies) < 384


def test_the_same_seed_gives_the_same_message_in_every_format() -> None:
    for seed in SEEDS:
        old, new = sample_message(V3, random.Random(seed)), sample_message(V6, random.Random(seed))
        assert (old.identity, old.correlation_id, old.body) == (new.identity, new.correlation_id, new.body)


def test_traffic_is_mixed() -> None:
    messages = [sample_message(V6, random.Random(seed)) for seed in SEEDS]
    assert len({message.identity for message in messages}) == 10
    assert {message.distribution for message in messages} == {0, 1}
    assert len({len(message.routing) for message in messages}) > 3
    assert all(not message.receiver_identity for message in messages if message.distribution == 1)
    assert all(len(message.correlation_id) == 36 for message in messages)


def test_faults_give_many_reasons_and_leave_the_frames_alone() -> None:
    chance = random.Random(5)
    reasons: Counter[str] = Counter()
    for number in range(1_000):
        fmt = FORMATS[number % 4]
        frames = encode(sample_message(fmt, chance), fmt)
        before = list(frames)
        broken = break_frames(frames, chance)
        assert frames == before
        try:
            decode(broken)
        except WireError as error:
            reasons[error.reason] += 1
    assert reasons.total() > 300
    assert len(reasons) >= 8


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("frames", [[b""], [b"", b""], [b"x"]])
def test_faults_work_on_next_to_nothing(fault: object, frames: list[bytes]) -> None:
    assert callable(fault)
    for seed in range(20):
        fault(list(frames), random.Random(seed))
