"""The batch reader beside the row reader: value for value, reason for reason."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.wire import FORMATS, SCHEMA, V3, V5, V6, Limits, decode, decode_batch, encode, messages_from_batch
from hopwire.wire.batch import decode_apart
from hopwire.wire.walk import read
from tests.wire.golden import golden, golden_vectors
from tests.wire.mutate import mutated
from tests.wire.strategies import messages
from tests.wire.test_walk import CASES

FRAMES = pa.list_(pa.binary())
SMALL = [vector.frames for vector in golden_vectors() if sum(map(len, vector.frames)) < 5000]
DEFAULTS = Limits()


def assert_read_alike(rows: list[Any], limits: Limits = DEFAULTS, kind: pa.DataType = FRAMES) -> pa.RecordBatch:
    """Both readers give the same for every row."""
    batch = decode_batch(pa.array(rows, kind), limits)
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA)
    found = messages_from_batch(batch)
    places = zip(*(batch.column(name).to_pylist() for name in ("reason", "reason_frame", "reason_byte")), strict=True)
    formats = batch.column("wire_format").to_pylist()
    for row, message, place, number in zip(rows, found, places, formats, strict=True):
        try:
            expected = decode(row, limits)
        except WireError as error:
            assert place == (error.reason, error.frame, error.byte), row
            assert message is None
            assert number is None
        else:
            assert place == (None, None, None), row
            assert message == expected
            assert number == read(row, limits)[0].number
    assert_apart_is_the_same(pa.array(rows, kind), limits, batch)
    return batch


def assert_apart_is_the_same(frames: pa.Array, limits: Limits, batch: pa.RecordBatch) -> None:
    """Messages and reasons that are given apart are the rows of the whole batch."""
    apart = decode_apart(frames, limits)
    apart.messages.validate(full=True)
    is_message = batch.column("reason").is_null()
    assert apart.is_message.tolist() == is_message.to_pylist()
    assert apart.messages.equals(batch.filter(is_message))
    assert apart.reasons.equals(batch.filter(pc.invert(is_message)).select(apart.reasons.schema.names))


def test_golden_vectors_of_all_formats_are_read_in_one_batch() -> None:
    assert_read_alike([vector.frames for vector in golden_vectors()])
    batch = decode_batch(pa.array([vector.frames for vector in golden_vectors()], FRAMES))
    assert messages_from_batch(batch) == [vector.message for vector in golden_vectors()]


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_golden_vectors_of_one_format_are_read_in_one_batch(fmt: Any) -> None:
    assert_read_alike([vector.frames for vector in golden_vectors() if vector.fmt is fmt])


def test_broken_messages_leave_the_others_unharmed() -> None:
    rows = [
        frames for case, vector in zip(CASES, golden_vectors(), strict=False) for frames in (case[1], vector.frames)
    ]
    batch = assert_read_alike(rows)
    assert batch.column("reason").null_count == len(rows) // 2


def test_rows_without_frames_have_a_reason_too() -> None:
    batch = assert_read_alike([None, [], [None], [b"", None], golden(V6, "minimal").frames, [b"\6\0"], [b""]])
    assert batch.column("reason").to_pylist()[:4] == ["not_frames", "too_few_frames", "not_frames", "not_frames"]


def test_an_empty_batch_has_the_schema() -> None:
    assert assert_read_alike([]).num_rows == 0


def test_a_message_that_two_formats_claim_is_read_as_the_one_that_fits() -> None:
    message = golden(V3, "every_field_broadcast").message
    bodies = [
        b"\5\0",
        b"\4\0\0\0",
        b"\6\0",
        b"\6\0 and more",
        b"\4\0 and more",
        encode(golden(V6, "minimal").message)[-1],
    ]
    rows = [encode(message.replace(body_frames=(body,)), V3) for body in bodies]
    batch = assert_read_alike([*rows, golden(V6, "routing_1").frames])
    assert batch.column("reason").to_pylist() == [None] * 5 + ["ambiguous_version", None]


def test_limits_hold_in_batches() -> None:
    rows = [vector.frames for vector in golden_vectors()]
    for limits in (Limits(max_frames=20), Limits(max_bytes=300), Limits(max_entries=2)):
        assert_read_alike(rows, limits)


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.binary()),
        pa.list_(pa.large_binary()),
        pa.large_list(pa.large_binary()),
        pa.list_(pa.binary_view()),
    ],
    ids=str,
)
def test_other_arrow_types_for_frames_are_read(kind: pa.DataType) -> None:
    assert_read_alike(SMALL, kind=kind)


def test_slices_and_chunks_are_read_where_they_lie() -> None:
    whole = pa.array([*SMALL, None, [b"x", None]], FRAMES)
    expected = decode_batch(whole)
    sliced = decode_batch(whole.slice(17, 50))
    assert sliced.equals(expected.slice(17, 50))
    flat = pa.ListArray.from_arrays(whole.offsets, pa.concat_arrays([pa.array([b"before"]), whole.values]).slice(1))
    assert decode_batch(flat.slice(3)).num_rows == len(whole) - 3
    assert decode_batch(pa.chunked_array([whole.slice(0, 30), whole.slice(30)])).equals(expected)


@pytest.mark.parametrize(
    "given_",
    [None, [[b""]], pa.array([1, 2]), pa.array([[1]]), pa.array(["text"])],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_a_column_of_frames_is_refused(given_: Any) -> None:
    with pytest.raises(WireError, match="expected"):
        decode_batch(given_)


def test_a_column_of_nulls_is_a_column_of_rows_without_frames() -> None:
    assert decode_batch(pa.nulls(3)).column("reason").to_pylist() == ["not_frames"] * 3


def test_columns_have_the_names_of_the_fields() -> None:
    assert SCHEMA.names[0] == "wire_format"
    assert SCHEMA.names[-3:] == ["reason", "reason_frame", "reason_byte"]
    assert SCHEMA.field("version").type == pa.int32()
    assert SCHEMA.field("version_raw").type == pa.binary()
    assert SCHEMA.field("trace_options").type == pa.int64()
    assert SCHEMA.field("routing").type == pa.list_(pa.struct([("uri", pa.string()), ("identity", pa.binary())]))


@pytest.mark.parametrize("rows", [SMALL, SMALL[:1], [[b"x"]], []], ids=["all", "one", "none", "empty"])
def test_a_column_alone_is_the_same_as_among_all(rows: list[Any]) -> None:
    frames = pa.array(rows, FRAMES)
    for name, expected in zip(SCHEMA.names, decode_batch(frames).columns, strict=True):
        batch = decode_batch(frames, columns=[name])
        assert batch.schema.names == [name]
        assert batch.column(0).equals(expected)


@pytest.mark.slow
@given(st.lists(st.one_of(*(messages(fmt).map(partial(encode, fmt=fmt)) for fmt in FORMATS)), max_size=8))
def test_any_mix_of_messages_is_read_alike(rows: list[list[bytes]]) -> None:
    assert_read_alike(rows)


@pytest.mark.slow
@given(st.lists(st.lists(st.binary(max_size=100), max_size=24), max_size=8))
def test_random_frames_are_read_alike(rows: list[list[bytes]]) -> None:
    assert_read_alike(rows)


@pytest.mark.slow
@given(messages(V5), messages(V6), st.randoms(use_true_random=False))
def test_mutated_messages_are_read_alike(five: Any, six: Any, chance: Random) -> None:
    rows = [mutated(encode(five, V5), chance) for _ in range(6)] + [mutated(encode(six, V6), chance) for _ in range(6)]
    assert_read_alike(rows)


def test_a_long_run_of_entries_beside_short_ones_is_read() -> None:
    long = next(vector.frames for vector in golden_vectors() if vector.name == "callbacks_300" and vector.fmt is V6)
    assert_read_alike([golden(V6, "minimal").frames, long, golden(V6, "callbacks_3").frames, long])
