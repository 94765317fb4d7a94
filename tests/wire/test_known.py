"""What is known gives the same bytes and the same values as the codec, or is not known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message
from hopwire.wire import V6, decode, encode
from hopwire.wire.known import LARGEST_BYTES, MOST_KNOWN, KnownMetas, known_meta
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
    assert index.find(meta) == ("found", key, signature, other.correlation_id, ttl_ticks)
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
    found = index.find(bytes(meta))
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
    assert index.find(noise) is None


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
    found = index.find(encode(last)[-1])
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
        index.find(encode(QUESTION.replace(identity=b"i" * n, correlation_id=b"d" * (40 - n)))[-1]) for n in lengths
    ]
    assert [each[0] for each in found if each is not None] == list(lengths)[-4:]  # the others made way
