from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.wire import Limits
from hopwire.wire.train import (
    MAGIC,
    MAX_TRAIN_BYTES,
    MAX_TRAIN_MESSAGES,
    SMALLEST,
    TRAIN_BYTES,
    TRAIN_FRAMES,
    TRAIN_MESSAGES,
    is_train,
    pack_train,
    queued_at_ns,
    unpack_train,
)

MESSAGES = st.lists(st.lists(st.binary(max_size=20), min_size=SMALLEST + 1, max_size=80), min_size=1, max_size=5)
LIMITS = Limits()


@pytest.mark.slow
@given(MESSAGES, st.binary(max_size=8))
def test_what_is_coupled_is_uncoupled_with_the_identity_of_the_sender(
    messages: list[list[bytes]], sender: bytes
) -> None:
    for queued_ns in (None, 0, -1, 2**63 - 1):
        train = [sender, pack_train(messages, queued_ns)]
        assert is_train(train)
        assert queued_at_ns(train[1]) == queued_ns
        assert unpack_train(train, LIMITS) == [[sender, *frames[1:]] for frames in messages]


@given(st.binary(max_size=60))
def test_a_damaged_train_is_a_wire_error_and_nothing_else(rest: bytes) -> None:
    try:
        messages = unpack_train([b"", MAGIC + rest], LIMITS)
    except WireError as error:
        assert error.reason == "bad_train"
    else:
        assert pack_train(messages) == MAGIC + rest


@pytest.mark.slow
@given(MESSAGES, st.data())
def test_a_train_that_is_cut_is_refused(messages: list[list[bytes]], data: st.DataObject) -> None:
    train = pack_train(messages)
    whole = [len(pack_train(messages[:count])) for count in range(1, len(messages) + 1)]
    cut = data.draw(st.integers(len(MAGIC), len(train) - 1).filter(lambda at: at not in whole))
    with pytest.raises(WireError, match="bad_train"):
        unpack_train([b"", train[:cut]], LIMITS)


def test_a_train_has_limits() -> None:
    with pytest.raises(WireError, match="too_many_frames"):
        unpack_train([b"", pack_train([[b""] * 12])], Limits(max_frames=10))


def test_a_train_of_messages_without_frames_is_refused_before_it_is_unpacked() -> None:
    train = MAGIC + bytes(2 * 500_000)
    tracemalloc.start()
    with pytest.raises(WireError, match="a message of 0 frames, the smallest has 2"):
        unpack_train([b"", train], LIMITS)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < len(train)  # 263 MB for 4 MB, if entries are unpacked before they are judged


def test_a_train_without_a_message_is_neither_made_nor_read() -> None:
    with pytest.raises(ValueError, match="at least one message"):
        pack_train([])
    with pytest.raises(WireError, match="no message in it"):
        unpack_train([b"", MAGIC], LIMITS)


@pytest.mark.parametrize("count", [TRAIN_MESSAGES, MAX_TRAIN_MESSAGES, MAX_TRAIN_MESSAGES + 1])
def test_a_train_has_so_many_messages_and_no_more(count: int) -> None:
    train = [b"", pack_train([[b"", b"", b"m"]] * count)]
    if count <= MAX_TRAIN_MESSAGES:
        assert len(unpack_train(train, LIMITS)) == count
    else:
        with pytest.raises(WireError, match="more than 1024 messages"):
            unpack_train(train, LIMITS)


def test_a_train_has_so_many_bytes_and_no_more() -> None:
    with pytest.raises(WireError, match="too_many_bytes"):
        unpack_train([b"", MAGIC + bytes(MAX_TRAIN_BYTES)], LIMITS)


def test_the_longest_train_of_a_sender_is_within_the_limits_of_a_reader() -> None:
    message = [b"", *[b"x" * (TRAIN_BYTES // TRAIN_MESSAGES // TRAIN_FRAMES)] * TRAIN_FRAMES]
    train = pack_train([message] * TRAIN_MESSAGES)
    assert len(train) > TRAIN_BYTES
    assert len(unpack_train([b"", train], LIMITS)) == TRAIN_MESSAGES


def test_ordinary_messages_are_no_trains() -> None:
    assert not is_train([b"sender", b"", b"body", b"meta"])
    assert not is_train([b"sender", b"other"])
    assert not is_train([MAGIC])


@pytest.mark.parametrize("cut", range(4, 12))
def test_a_train_that_ends_within_its_time_is_bad(cut: int) -> None:
    train = pack_train([[b"", b"", b"m"]], 5)[:cut]
    assert queued_at_ns(train) is None
    with pytest.raises(WireError, match="bad_train"):
        unpack_train([b"", train], LIMITS)
