from __future__ import annotations

import pytest

from hopwire.model import Message
from hopwire.wire import FORMATS, V6, WireFormat, decode, encode
from hopwire.wire.compile import SHAPES_KEPT, compiled, source


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_the_code_can_be_printed_and_has_no_loop_over_the_table(fmt: WireFormat) -> None:
    text = source(fmt)
    assert all(f"def {name}(" in text for name in ("decode", "select", "encode"))
    assert max(map(len, text.splitlines())) < 1000
    assert "WireFormat" not in text


def test_every_field_that_a_format_carries_is_written_and_read() -> None:
    for fmt in FORMATS:
        text = source(fmt)
        for name in fmt.carried - {"body_frames"}:
            assert f"m.{name}" in text


def test_the_cache_of_shapes_is_bounded() -> None:
    encoder = compiled(V6)["encode"]
    shapes = encoder.__globals__["shapes"]
    for size in range(3 * SHAPES_KEPT):
        encoder(Message(b"x" * size))
        assert len(shapes) <= SHAPES_KEPT


def test_messages_of_every_shape_are_written_right_while_the_cache_turns_over() -> None:
    for size in range(0, 5000, 7):
        message = Message(b"x" * size, partition=b"p" * (size % 13))
        assert decode(encode(message)) == message
