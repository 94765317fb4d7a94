from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.wire import Limits
from hopwire.wire.train import MAGIC, is_train, pack_train, unpack_train

MESSAGES = st.lists(st.lists(st.binary(max_size=20), min_size=2, max_size=40), max_size=5)
LIMITS = Limits()


@given(MESSAGES, st.binary(max_size=8))
def test_what_is_coupled_is_uncoupled_with_the_identity_of_the_sender(
    messages: list[list[bytes]], sender: bytes
) -> None:
    train = [sender, pack_train(messages)]
    assert is_train(train)
    assert unpack_train(train, LIMITS) == [[sender, *frames[1:]] for frames in messages]


@given(st.binary(max_size=60))
def test_a_damaged_train_is_a_wire_error_and_nothing_else(rest: bytes) -> None:
    try:
        messages = unpack_train([b"", MAGIC + rest], LIMITS)
    except WireError as error:
        assert error.reason == "bad_train"
    else:
        assert pack_train(messages) == MAGIC + rest


@given(MESSAGES.filter(bool), st.data())
def test_a_train_that_is_cut_is_refused(messages: list[list[bytes]], data: st.DataObject) -> None:
    train = pack_train(messages)
    whole = [len(pack_train(messages[:count])) for count in range(len(messages) + 1)]
    cut = data.draw(st.integers(len(MAGIC), len(train) - 1).filter(lambda at: at not in whole))
    with pytest.raises(WireError, match="bad_train"):
        unpack_train([b"", train[:cut]], LIMITS)


def test_a_train_has_limits() -> None:
    with pytest.raises(WireError, match="too_many_frames"):
        unpack_train([b"", pack_train([[b""] * 12])], Limits(max_frames=10))


def test_ordinary_messages_are_no_trains() -> None:
    assert not is_train([b"sender", b"", b"body", b"meta"])
    assert not is_train([b"sender", b"other"])
    assert not is_train([MAGIC])
