"""Columns back to frames: the same bytes as the row writer, the same refusals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.wire import (
    FORMATS,
    SCHEMA,
    V3,
    V4,
    V5,
    V6,
    WireFormat,
    batch_from_messages,
    decode_batch,
    encode,
    encode_batch,
    messages_from_batch,
)
from tests.wire.golden import golden_vectors
from tests.wire.strategies import messages

FRAMES = pa.list_(pa.binary())


def test_golden_vectors_of_all_formats_go_back_to_the_same_bytes() -> None:
    frames = pa.array([vector.frames for vector in golden_vectors()], FRAMES)
    assert encode_batch(decode_batch(frames)).equals(frames)


def test_rows_that_are_no_messages_give_null() -> None:
    rows = [golden_vectors()[0].frames, None, [b"x"], golden_vectors()[-1].frames]
    assert encode_batch(decode_batch(pa.array(rows, FRAMES))).to_pylist() == [rows[0], None, None, rows[3]]
    assert encode_batch(decode_batch(pa.array([None], FRAMES))).to_pylist() == [None]
    assert encode_batch(decode_batch(pa.array([], FRAMES))).to_pylist() == []


@pytest.mark.slow
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@given(data=st.data())
def test_any_messages_are_written_as_the_row_writer_does(fmt: WireFormat, data: st.DataObject) -> None:
    some = data.draw(st.lists(messages(fmt), max_size=5))
    batch = batch_from_messages(some, [fmt] * len(some))
    assert messages_from_batch(batch) == some
    assert encode_batch(batch).to_pylist() == [encode(message, fmt) for message in some]
    assert encode_batch(batch.slice(1), fmt).to_pylist() == [encode(message, fmt) for message in some[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_golden_vectors_are_written_in_another_format_or_refused_as_the_row_writer_does(fmt: WireFormat) -> None:
    for vector in golden_vectors():
        batch = batch_from_messages([vector.message], [vector.fmt])
        try:
            expected: Any = encode(vector.message, fmt)
        except WireError as error:
            with pytest.raises(WireError) as caught:
                encode_batch(batch, fmt)
            assert (caught.value.reason, caught.value.field) == (error.reason, error.field)
        else:
            assert encode_batch(batch, fmt).to_pylist() == [expected]


# fmt: off
REFUSALS = [
    (V6, {"hops": 65536}),
    (V6, {"trace_options": 2**40}),
    (V6, {"distribution": -1}),
    (V6, {"body_frames": ()}),
    (V6, {"callback_points": (CallbackPoint(b"X", b"1.0"),)}),
    (V5, {"callback_points": (CallbackPoint(b"X", 70000),)}),
    (V5, {"extensions": (b"x",)}),
    (V5, {"routing": (RoutingEntry(""),) * 33000}),
    (V6, {"routing": (RoutingEntry(""),) * 65536}),
    (V4, {"callback_key": 1, "version": b"1.0"}),
    (V4, {"version": 1}),
    (V3, {"version": b"1.0", "body_frames": (b"a", b"b")}),
    (V3, {"version": b"1.0", "domain": "d"}),
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize(("fmt", "changes"), REFUSALS, ids=lambda value: str(value)[:40])
def test_the_first_row_that_cannot_be_carried_is_named(fmt: WireFormat, changes: dict[str, Any]) -> None:
    fine = Message(b"M", 1 if fmt.version_type.is_number else b"1.0")
    bad = fine.replace(**changes)
    with pytest.raises(WireError) as expected:
        encode(bad, fmt)
    with pytest.raises(WireError, match="row 1: ") as caught:
        encode_batch(batch_from_messages([fine, bad, bad], [fmt] * 3))
    assert (caught.value.reason, caught.value.field) == (expected.value.reason, expected.value.field)


def test_a_batch_with_other_columns_is_refused_and_further_ones_are_ignored() -> None:
    batch = batch_from_messages([Message(b"M")], [V6])
    assert encode_batch(batch.append_column("extra", pa.array([1]))).to_pylist() == [encode(Message(b"M"))]
    with pytest.raises(WireError, match="no column 'domain'"):
        encode_batch(batch.drop_columns(["domain"]))
    with pytest.raises(WireError, match="expected a RecordBatch"):
        encode_batch([Message(b"M")])
    assert encode_batch(batch.select(SCHEMA.names[::-1])).to_pylist() == [encode(Message(b"M"))]


def test_a_null_where_a_value_belongs_is_refused() -> None:
    batch = batch_from_messages([Message(b"M")], [V6])
    place = SCHEMA.get_field_index("identity")
    with pytest.raises(WireError) as caught:
        encode_batch(batch.set_column(place, "identity", pa.nulls(1, pa.binary())))
    assert (caught.value.reason, caught.value.field) == ("bad_value", "identity")
