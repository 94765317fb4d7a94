from __future__ import annotations

import pytest

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message
from hopwire.wire import FORMATS, V3, V4, V5, V6, WireFormat, decode, encode, transcode
from hopwire.wire.transcode import check
from tests.wire.golden import golden_vectors


@pytest.mark.parametrize("to", FORMATS, ids=str)
def test_transcoding_golden_vectors_loses_nothing_or_is_refused(to: WireFormat) -> None:
    done = 0
    for vector in golden_vectors():
        try:
            moved = transcode(vector.message, to)
        except WireError as error:
            assert error.reason in ("cannot_carry", "overflow")
            assert error.field
            continue
        done += 1
        back = transcode(decode(encode(moved, to)), vector.fmt)
        assert back == vector.message
    assert done > 40


def test_the_text_1_0_is_the_number_1() -> None:
    old = Message(b"M", b"1.0", callback_points=(CallbackPoint(b"X", b"1.0"),))
    new = Message(b"M", 1, callback_points=(CallbackPoint(b"X", 1),))
    assert transcode(old, V6) == new
    assert transcode(new, V4) == old
    assert transcode(new, V5) is not None
    assert transcode(old, V3) == old


def test_a_version_without_mapping_is_refused_and_with_one_is_not() -> None:
    message = Message(b"M", b"2.3")
    with pytest.raises(WireError, match=r"no mapping for b'2.3'") as caught:
        transcode(message, V6)
    assert (caught.value.reason, caught.value.field) == ("cannot_carry", "version")
    assert transcode(message, V6, versions={b"2.3": 23}).version == 23


def test_a_mapping_that_is_not_exact_on_the_way_back_is_refused() -> None:
    with pytest.raises(WireError, match="2 mappings for 1"):
        transcode(Message(b"M", 1), V4, versions={b"1.0": 1, b"1": 1})
    with pytest.raises(WireError, match=r"callback_points\[0\].version"):
        transcode(Message(b"M", 1, callback_points=(CallbackPoint(b"X", 9),)), V4)


@pytest.mark.parametrize(
    ("to", "field", "value"),
    [
        (V3, "domain", "d"),
        (V3, "signature", b"s"),
        (V3, "callback_key", 1),
        (V4, "callback_key", 1),
        (V4, "callback_receiver_node_identity", b"n"),
        (V5, "extensions", (b"e",)),
    ],
)
def test_what_the_format_has_no_place_for_is_refused(to: WireFormat, field: str, value: object) -> None:
    with pytest.raises(WireError) as caught:
        transcode(Message(b"M", 1).replace(**{field: value}), to)
    assert (caught.value.reason, caught.value.field) == ("cannot_carry", field)


def test_hops_of_v3_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WireError, match="overflow"):
        transcode(Message(b"M", b"1.0", hops=70000), V6)


def test_what_is_not_a_message_is_refused() -> None:
    with pytest.raises(WireError, match="expected a Message"):
        transcode(None, V6)  # type: ignore[arg-type]


def test_a_message_that_fits_passes_the_check() -> None:
    for vector in golden_vectors():
        check(vector.message, vector.fmt)
