"""What is known gives the same bytes and the same values as the codec, or is not known."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message
from hopwire.model.limits import Limits
from hopwire.wire import V6, decode, encode
from hopwire.wire.known import LARGEST_BYTES, MOST_ALONE, MOST_KNOWN, KnownMetas, known_meta
from hopwire.wire.train import (
    MAX_TRAIN_BYTES,
    MAX_TRAIN_MESSAGES,
    is_train,
    pack_alone,
    pack_train,
    queued_at_ns,
    unpack_train,
)
from tests.wire.golden import golden_vectors
from tests.wire.strategies import messages

NUMBERS = st.integers(-(2**63), 2**63 - 1)
QUESTION = Message(
    b"bench.ping",
    body_frames=(b"x",),
    correlation_id=b"c" * 36,
    callback_points=(CallbackPoint(b"bench.pong"),),
    callback_key=5,
    callback_receiver_identity=b"\0hub",
    callback_receiver_node_identity=b"node",
    ttl_ticks=7,
    hops=1,
)


def _find(index: KnownMetas[Any], meta: bytes) -> Any:
    """Find a meta frame, also within other bytes."""
    found = index.find(meta, 0, len(meta))
    assert found == index.find(b"in front" + meta + b"behind", 8, len(meta))
    return found


@given(messages(V6), NUMBERS, NUMBERS, st.data())
def test_known_bytes_are_those_of_the_codec(message: Message, key: int, ttl_ticks: int, data: st.DataObject) -> None:
    known = known_meta(message)
    if known is None:
        is_usual = len(message.body_frames) == 1 and not message.extensions and not message.routing
        assert not is_usual or not message.correlation_id or len(encode(message)[-1]) > LARGEST_BYTES
        return
    blob = st.binary(min_size=len(message.correlation_id), max_size=len(message.correlation_id))
    signature = data.draw(st.binary(min_size=len(message.signature), max_size=len(message.signature)))
    other = message.replace(callback_key=key, correlation_id=data.draw(blob), ttl_ticks=ttl_ticks, signature=signature)
    meta = encode(other)[-1]
    index: KnownMetas[str] = KnownMetas()
    index.add(known, "found")
    assert _find(index, meta) == ("found", key, signature, other.correlation_id, ttl_ticks)
    if message.signature:
        assert known.write_signed(key, signature, other.correlation_id, ttl_ticks) == meta
    else:
        assert known.write(key, other.correlation_id, ttl_ticks) == meta


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_byte_that_differs_makes_another_message_or_another_value(at: int, byte: int) -> None:
    known = known_meta(QUESTION)
    assert known is not None
    index: KnownMetas[str] = KnownMetas()
    index.add(known, "found")
    meta = bytearray(encode(QUESTION)[-1])
    meta[at % len(meta)] = byte
    found = _find(index, bytes(meta))
    if found is not None:
        _, key, _, correlation_id, ttl_ticks = found
        read = decode([b"", b"", b"x", bytes(meta)])
        assert read == QUESTION.replace(callback_key=key, correlation_id=correlation_id, ttl_ticks=ttl_ticks)


@given(st.binary(max_size=300))
def test_noise_is_not_known(noise: bytes) -> None:
    known = known_meta(QUESTION)
    assert known is not None
    index: KnownMetas[str] = KnownMetas()
    index.add(known, "found")
    assert _find(index, noise) is None


def test_every_golden_message_is_known_as_it_is_or_not_at_all() -> None:
    seen = 0
    for case in golden_vectors():
        try:
            message = decode(case.frames)
        except WireError:
            continue
        known = known_meta(message) if isinstance(message.version, int) else None
        if known is not None and not known.is_signed:
            seen += 1
            meta = known.write(message.callback_key, message.correlation_id, message.ttl_ticks)
            assert meta == encode(message, V6)[-1]
    assert seen


def test_what_is_remembered_is_bounded_and_learned_again() -> None:
    index: KnownMetas[int] = KnownMetas()
    for number in range(3 * MOST_KNOWN):
        known = known_meta(QUESTION.replace(identity=b"bench.%d" % number))
        assert known is not None
        index.add(known, number)
        assert len(index) <= MOST_KNOWN
    last = QUESTION.replace(identity=b"bench.%d" % (3 * MOST_KNOWN - 1))
    found = _find(index, encode(last)[-1])
    assert found is not None
    assert found[0] == 3 * MOST_KNOWN - 1


def test_meta_frames_of_one_length_that_change_elsewhere_are_told_apart() -> None:
    index: KnownMetas[int] = KnownMetas()
    lengths = range(1, 30)
    for length in lengths:  # the longer the identity, the shorter the correlation id
        message = QUESTION.replace(identity=b"i" * length, correlation_id=b"c" * (40 - length))
        known = known_meta(message)
        assert known is not None
        index.add(known, length)
    found = [
        _find(index, encode(QUESTION.replace(identity=b"i" * n, correlation_id=b"d" * (40 - n)))[-1]) for n in lengths
    ]
    assert [each[0] for each in found if each is not None] == list(lengths)[-4:]  # the others made way


FRAMES = st.lists(st.sampled_from([b"", b"x", b"body", encode(QUESTION)[-1]]), min_size=2, max_size=4)
USUAL = st.tuples(st.just(b""), st.binary(max_size=9), st.sampled_from([b"noise", encode(QUESTION)[-1]])).map(list)


@given(st.lists(st.one_of(USUAL, USUAL, USUAL, FRAMES), min_size=1, max_size=6), st.data())
def test_a_train_is_read_as_unpack_train_reads_it_or_not(messages: list[list[bytes]], data: st.DataObject) -> None:
    train = pack_train([[b"sender", *frames] for frames in messages], data.draw(st.none() | st.integers(0, 2**62)))
    if data.draw(st.booleans()):  # a train that somebody has damaged
        at = data.draw(st.integers(0, len(train) - 1))
        train = train[:at] + data.draw(st.binary(max_size=2)) + train[at + 1 :]
    index: KnownMetas[str] = KnownMetas()
    known = known_meta(QUESTION)
    assert known is not None
    index.add(known, "found")
    if not is_train([b"sender", train]):
        return
    entries = index.uncouple(train, Limits())
    try:
        wanted = unpack_train([b"sender", train], Limits())
    except WireError:
        assert entries is None
        return
    is_usual = all(len(frames) == 4 and not frames[1] for frames in wanted)
    assert (entries is not None) is is_usual
    for (body, at, end, found), frames in zip(entries or (), wanted, strict=is_usual):
        assert [b"sender", b"", body, train[at:end]] == frames
        assert found == _find(index, frames[3])


def test_a_train_beyond_the_limits_is_left_to_whoever_says_so() -> None:
    index: KnownMetas[str] = KnownMetas()
    message = [b"", b"", b"", b"meta"]
    assert index.uncouple(pack_train([message] * MAX_TRAIN_MESSAGES), Limits()) is not None
    assert index.uncouple(pack_train([message] * (MAX_TRAIN_MESSAGES + 1)), Limits()) is None
    assert index.uncouple(pack_train([[b"", b"", bytes(MAX_TRAIN_BYTES), b"meta"]]), Limits()) is None
    assert index.uncouple(pack_train([message]), Limits(max_frames=2)) is None


ALONE = [QUESTION, QUESTION.replace(hops=2), QUESTION.replace(identity=b"bench.long"), QUESTION.replace(hops=1000)]
SIGNED = QUESTION.replace(domain="bench", signature=b"s" * 80)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), NUMBERS, NUMBERS, st.integers(0, 600)), max_size=20))
@example([(0, 3, 1, 2, -1)] * 3 + [(1, 3, 1, 2, -1)] * 3 + [(0, 3, 1, 2, 8)] * 2 + [(0, 3, 1, 2, -1)])
def test_a_train_of_one_is_read_in_one_step_as_in_many(steps: list[tuple[int, int, int, int, int]]) -> None:
    index: KnownMetas[int] = KnownMetas()
    for number, message in enumerate((*ALONE[:3], SIGNED)):
        known = known_meta(message)
        assert known is not None
        index.add(known, number)
    for which, body_size, key, ticks, changed in steps:
        message = (*ALONE, SIGNED, QUESTION.replace(correlation_id=b"c"))[which]
        message = message.replace(body_frames=(b"b" * body_size,), callback_key=key, ttl_ticks=ticks)
        train = bytearray(pack_train([encode(message)], queued_ns=ticks))
        is_changed = 0 <= changed < len(train)
        if is_changed:
            train[changed] ^= 1
        alone = index.alone(bytes(train))
        entries = index.uncouple(bytes(train), Limits())
        if alone is None:
            assert is_changed or which > 2
            continue
        body, queued_ns, what, key, correlation_id, ticks = alone
        assert entries is not None
        (found,) = entries
        assert found[0] == body
        assert found[3] == (what, key, b"", correlation_id, ticks)
        assert queued_ns == queued_at_ns(bytes(train))


def test_what_was_said_of_a_train_of_one_is_forgotten_with_what_is_known() -> None:
    index: KnownMetas[str] = KnownMetas()
    known, train = known_meta(QUESTION), pack_train([encode(QUESTION)], queued_ns=5)
    assert known is not None
    for what in ("first", "second"):
        index.add(known, what)
        for _ in range(4):
            alone = index.alone(train)
            assert alone is not None
            assert alone[2] == what
    index.clear()
    assert index.alone(train) is None


def test_lengths_of_trains_of_one_are_remembered_in_bounds() -> None:
    index: KnownMetas[str] = KnownMetas()
    known = known_meta(QUESTION)
    assert known is not None
    index.add(known, "found")
    for size in range(2 * MOST_ALONE):
        train = pack_train([encode(QUESTION.replace(body_frames=(b"b" * size,)))], queued_ns=5)
        assert [index.alone(train) is not None for _ in range(3)] == [True] * 3
    assert 0 < len(index._alone) <= MOST_ALONE


@given(st.binary(max_size=60), st.integers(-(2**63), 2**63 - 1))
def test_a_train_of_one_is_written_as_any_train(body: bytes, queued_ns: int) -> None:
    frames = [b"sender", b"", body, b"meta"]
    assert pack_alone(frames, queued_ns) == pack_train([frames], queued_ns)
