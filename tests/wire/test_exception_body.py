"""The body of the original's exception: written and read, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.wire.exception_body import RaisedError, read_exception, write_exception

# as the BSON of {"Exception": None, "StackTrace": "", "Message": "no", "ExceptionType": "E"} has it
WRITTEN = bytes.fromhex(
    "46000000" "0a457863657074696f6e00" "02537461636b547261636500" "01000000" "00"
    "024d65737361676500" "03000000" "6e6f00" "02457863657074696f6e5479706500" "02000000" "4500" "00"
)  # fmt: skip


def test_exception_is_written_as_bson() -> None:
    assert write_exception(RaisedError("E", "no")) == WRITTEN


def test_zeros_behind_the_document_are_passed_over() -> None:
    assert read_exception(WRITTEN + bytes(100)) == RaisedError("E", "no")


def test_elements_of_other_types_are_passed_over() -> None:
    inner = b"\x05\0\0\0\0"
    elements = [
        (0x01, bytes(8)), (0x03, inner), (0x04, inner), (0x05, b"\2\0\0\0\0xy"), (0x08, b"\1"), (0x09, bytes(8)),
        (0x0A, b""), (0x10, bytes(4)), (0x12, bytes(8)), (0x02, b"\3\0\0\0hi\0"),
    ]  # fmt: skip
    body = b"".join(bytes((kind,)) + b"Message\0" + value for kind, value in elements)
    assert read_exception((len(body) + 5).to_bytes(4, "little") + body + b"\0") == RaisedError("", "hi")


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_was_written_is_read(kind: str, text: str) -> None:
    raised = RaisedError(kind, text)
    assert read_exception(write_exception(raised)) == RaisedError(
        *(each.encode(errors="replace").decode() for each in raised)
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"),
        (b"\5\0\0", "truncated"),
        (b"\4\0\0\0", "bad_length"),
        (b"\xff\xff\xff\xff\0", "bad_length"),
        (b"\xff\xff\xff\x7f\0", "bad_length"),
        (b"\x09\0\0\0\2abc\1", "truncated"),
        (b"\x0c\0\0\0\2a\0\xff\0\0\0\0", "bad_length"),
        (b"\x0c\0\0\0\2a\0\0\0\0\0\0", "bad_length"),
        (b"\x09\0\0\0\x7fa\0\0\0", "bad_value"),
        (b"\x09\0\0\0\1a\0\0\0", "bad_length"),
    ],
)
def test_what_is_no_exception_is_refused_with_a_reason(body: bytes, reason: str) -> None:
    with pytest.raises(WireError) as refused:
        read_exception(body)
    assert refused.value.reason == reason


def test_more_elements_than_any_exception_has_are_refused() -> None:
    body = b"\x0aa\0" * 1000
    with pytest.raises(WireError, match="more than 64"):
        read_exception((len(body) + 5).to_bytes(4, "little") + body + b"\0")


@given(st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: WRITTEN[: len(tail)] + tail))
def test_bytes_of_any_kind_are_read_or_refused(body: bytes) -> None:
    try:
        raised = read_exception(body)
    except WireError:
        return
    assert all(isinstance(each, str) for each in raised)
