from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.wire import decode, encode
from hopwire.wire.extension import MAGIC, MAX_EXTENSION_BYTES, Extension, extension_of, read_extension, with_extension

EXTENSIONS = st.builds(
    Extension,
    st.binary(max_size=16),
    st.integers(0, 2**31),
    st.integers(0, 2**63 - 1),
    st.text(max_size=60),
    st.booleans(),
)


@given(EXTENSIONS)
def test_an_extension_travels_with_its_message(extension: Extension) -> None:
    message = with_extension(Message(b"M"), extension)
    assert extension_of(decode(encode(message))) == extension


def test_nothing_to_say_is_no_frame() -> None:
    assert with_extension(Message(b"M"), Extension()).extensions == ()
    assert extension_of(Message(b"M")) == Extension()


def test_a_second_extension_replaces_the_first_and_leaves_the_frames_of_others() -> None:
    message = Message(b"M", extensions=(b"other", b"HWX\x02newer"))
    message = with_extension(with_extension(message, Extension(attempt=1)), Extension(attempt=2))
    assert extension_of(message) == Extension(attempt=2)
    assert message.extensions[:2] == (b"other", b"HWX\x02newer")
    assert len(message.extensions) == 3
    assert with_extension(message, Extension()).extensions == (b"other", b"HWX\x02newer")


def test_fields_of_the_future_are_skipped() -> None:
    message = Message(b"M", extensions=(MAGIC + b"\x82\xa1a\x05\xa3new\x91\x01",))
    assert extension_of(message) == Extension(attempt=5)


@given(st.binary(max_size=40))
def test_a_damaged_extension_is_a_wire_error_and_nothing_else(rest: bytes) -> None:
    try:
        extension_of(Message(b"M", extensions=(MAGIC + rest,)))
    except WireError as error:
        assert error.reason == "bad_extension"


def test_an_extension_has_a_limit() -> None:
    with pytest.raises(WireError, match="bad_extension"):
        extension_of(Message(b"M", extensions=(MAGIC + bytes(MAX_EXTENSION_BYTES),)))


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.none(), inner, max_size=4),
    max_leaves=30,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["i", "a", "t", "p", "o", "new", ""]), NESTED, max_size=4))
def test_whatever_stands_in_an_extension_it_is_read_or_a_wire_error(fields: dict[str, object]) -> None:
    frame = MAGIC + msgspec.msgpack.encode(fields)
    try:
        assert isinstance(read_extension(frame), Extension)
    except WireError as error:
        assert error.reason == "bad_extension"


@pytest.mark.parametrize("opening", [b"\x91", b"\xdc\x00\x01", b"\x81\xa1z", b"\x81\xc0", b"\xde\x00\x01\xa1z"])
@pytest.mark.parametrize("field", [b"new", b"i", b"a", b"p"])
def test_an_extension_of_any_depth_is_read_or_a_wire_error(opening: bytes, field: bytes) -> None:
    refused = 0
    for depth in (0, 1, 2, 10, 100, *range(900, 1100), 1300, 2000, 4000):
        frame = MAGIC + b"\x81" + bytes((0xA0 + len(field),)) + field + opening * depth + b"\xc0"
        try:
            read_extension(frame)
        except WireError as error:
            assert error.reason == "bad_extension"
            assert str(error) != "bad_extension"
            refused += 1
    assert refused
