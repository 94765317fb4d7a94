from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message, RoutingEntry, Selectors, Version
from hopwire.wire import FORMATS, V3, V4, V5, V6, Limits, WireFormat, decode, encode, recognise, select
from hopwire.wire.walk import read
from tests.wire.golden import golden, golden_vectors
from tests.wire.strategies import messages

every_format = pytest.mark.parametrize("fmt", FORMATS, ids=str)


def test_golden_bytes_decode_to_the_golden_message() -> None:
    for vector in golden_vectors():
        assert decode(vector.frames) == vector.message, vector.id


def test_golden_message_encodes_to_the_golden_bytes() -> None:
    for vector in golden_vectors():
        assert encode(vector.message, vector.fmt) == vector.frames, vector.id


def test_golden_bytes_are_recognised() -> None:
    for vector in golden_vectors():
        assert recognise(vector.frames) is vector.fmt, vector.id


def test_the_walk_reads_golden_bytes_as_the_fast_reader_does() -> None:
    for vector in golden_vectors():
        assert read(vector.frames) == (vector.fmt, vector.message), vector.id


def test_selectors_are_those_of_the_whole_message() -> None:
    for vector in golden_vectors():
        expected = Selectors(*(getattr(vector.message, name) for name in Selectors.__struct_fields__))
        assert select(vector.frames) == expected, vector.id


@pytest.mark.slow
@every_format
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same_message(fmt: WireFormat, data: st.DataObject) -> None:
    message = data.draw(messages(fmt))
    frames = encode(message, fmt)
    assert decode(frames) == message
    assert read(frames) == (fmt, message)


@pytest.mark.slow
@every_format
@given(data=st.data(), front=st.lists(st.binary(max_size=8), max_size=3))
def test_frames_in_front_change_nothing(fmt: WireFormat, data: st.DataObject, front: list[bytes]) -> None:
    message = data.draw(messages(fmt))
    assert decode([*front, *encode(message, fmt)]) == message


@pytest.mark.slow
@given(messages(V6))
def test_a_message_without_socket_identity_and_empty_frame_is_read_all_the_same(message: Message) -> None:
    assert decode(encode(message)[2:]) == message.replace(socket_identity=b"")


@given(st.lists(st.binary(max_size=120), max_size=25))
def test_random_frames_raise_a_wire_error_or_nothing(frames: list[bytes]) -> None:
    try:
        decode(frames)
    except WireError as error:
        assert str(error).count("\n") == 0


@pytest.mark.parametrize(
    "given_",
    [None, 7, "text", b"bytes", object(), {}, [None], ["text"], [b"", 5], [[b""]], (), [], iter([b""])],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_frames_raises_a_wire_error_and_nothing_else(given_: Any) -> None:
    for reader in (decode, recognise, select):
        with pytest.raises(WireError) as caught:
            reader(given_)
        assert caught.value.reason in ("not_frames", "too_few_frames")


def test_frames_may_be_any_bytes_in_any_sequence() -> None:
    vector = golden(V6, "routing_1")
    assert decode(tuple(vector.frames)) == vector.message
    assert decode([memoryview(frame) for frame in vector.frames]) == vector.message  # type: ignore[misc]
    assert decode([bytearray(frame) for frame in vector.frames]) == vector.message  # type: ignore[misc]


# -- what the documents promise to readers


@pytest.mark.parametrize("fmt", [V4, V5, V6], ids=str)
def test_several_body_frames_are_read_and_written(fmt: WireFormat) -> None:
    message = Message(b"M", b"1.0" if fmt is V4 else 1, body_frames=(b"a", b"", b"ccc"))
    frames = encode(message, fmt)
    assert frames[2:5] == [b"a", b"", b"ccc"]
    assert decode(frames) == message


def test_extension_frames_are_kept_as_they_are() -> None:
    message = Message(b"M", extensions=(b"new", b"", b"\x81\xa1a\x01"))
    frames = encode(message)
    assert frames[3:6] == [b"new", b"", b"\x81\xa1a\x01"]
    assert decode(frames) == message


@pytest.mark.parametrize("width", [b"\5\0", b"\5\0\0\0"])
def test_both_widths_of_the_number_of_v5_are_read(width: bytes) -> None:
    vector = golden(V5, "every_field")
    assert decode([*vector.frames[:-1], width]) == vector.message


def test_a_meta_frame_with_the_number_4_is_read_as_v6() -> None:
    vector = golden(V6, "routing_5")
    frames = [*vector.frames[:-1], b"\4\0" + vector.frames[-1][2:]]
    assert recognise(frames) is V6
    assert decode(frames) == vector.message


def _raw(version: Version) -> bytes:
    return version if isinstance(version, bytes) else version.to_bytes(2, "little")


def _with_larger_divisors(message: Message, fmt: WireFormat) -> list[bytes]:
    """The message as a newer writer would send it: one unknown frame on top of each entry."""
    bare = encode(message.replace(routing=(), callback_points=()), fmt)
    tail = bare[-fmt.tail :]
    routing = [frame for entry in message.routing for frame in (b"new!", entry.uri.encode(), entry.identity)]
    points = [
        f for p in message.callback_points for f in (b"newer!", b"new!", p.partition, _raw(p.version), p.identity)
    ]
    point_offset, route_offset = fmt.tail + 1, fmt.tail + 1 + len(points)
    counts = (len(message.routing), len(message.callback_points))
    if fmt is V3:
        values = {20: 5, 19: 3, 15: counts[0], 14: route_offset, 7: counts[1], 6: point_offset}
        for k, value in values.items():
            tail[-k] = value.to_bytes(4, "little")
    else:
        lanes = (route_offset, counts[0], 3, message.hops), (point_offset, counts[1], 5, 0xBEEF)
        tail[-13], tail[-12] = (b"".join(lane.to_bytes(2, "little") for lane in word) for word in lanes)
        body_offset = route_offset + len(routing)
        tail[-2] = body_offset.to_bytes(2, "little") + b"\1\0" + b"\xff\xff\xff\xff"
    front = [message.socket_identity, b""] + ([] if fmt is V3 else list(message.body_frames))
    return [*front, *routing, *points, *tail]


@pytest.mark.parametrize("fmt", [V3, V4, V5], ids=str)
def test_newer_frames_on_top_of_entries_are_skipped(fmt: WireFormat) -> None:
    version = 7 if fmt is V5 else b"2.1"
    message = Message(
        b"M",
        version,
        body_frames=(b"body",),
        hops=2,
        socket_identity=b"socket",
        routing=(RoutingEntry("tcp://a:1", b"A"), RoutingEntry("tcp://b:2", b"B")),
        callback_points=(CallbackPoint(b"X", version, b"p"), CallbackPoint(b"Y", version, b"q")),
    )
    assert decode(_with_larger_divisors(message, fmt)) == message


def test_unknown_bytes_at_the_end_of_a_sized_entry_are_skipped() -> None:
    message = Message(b"M", routing=(RoutingEntry("tcp://a:1", b"A"),), callback_points=(CallbackPoint(b"X"),))
    *front, meta = encode(message)
    for entry, size in ((b"tcp://a:1\1\0\0\0A", 18), (b"\0\0\0\0\1\0\1\0\0\0X", 11)):
        start = meta.index(entry)
        sized = size.to_bytes(4, "little")
        at = meta.rindex(sized, 0, start + 4)
        end = at + 4 + size
        meta = meta[:at] + (size + 3).to_bytes(4, "little") + meta[at + 4 : end] + b"new" + meta[end:]
    assert decode([*front, meta]) == message


def test_open_lanes_are_ignored_on_read() -> None:
    vector = golden(V5, "every_field")
    frames = list(vector.frames)
    frames[-5] = frames[-5][:4] + b"\xff\xff\xff\xff"
    frames[-2] = frames[-2][:4] + b"\xff\xff\xff\xff"
    assert decode(frames) == vector.message


def test_in_v3_an_offset_of_minus_one_means_no_entries() -> None:
    vector = golden(V3, "hops_1_no_routing")
    frames = list(vector.frames)
    frames[-14] = b"\xff\xff\xff\xff"
    frames[-15] = b"\1\0\0\0"
    assert decode(frames) == vector.message


def test_the_order_of_entries_is_the_order_on_the_wire() -> None:
    for fmt in FORMATS:
        version = 1 if fmt.version_type.is_number else b"1.0"
        entries = tuple(RoutingEntry(f"tcp://h:{i}", bytes([i])) for i in range(5))
        points = tuple(CallbackPoint(bytes([i]), version) for i in range(4))
        assert decode(encode(Message(b"M", version, routing=entries, callback_points=points), fmt)).routing == entries


# -- limits


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(max_frames=20), "too_many_frames"),
        (Limits(max_bytes=100), "too_many_bytes"),
        (Limits(max_entries=2), "too_many_entries"),
    ],
)
def test_limits_are_settings(limits: Limits, reason: str) -> None:
    frames = golden(V5, "callbacks_3_routing_5").frames
    with pytest.raises(WireError, match=reason):
        decode(frames, limits)
    assert decode(frames, replace(limits, max_frames=1000, max_bytes=10_000, max_entries=5))


# -- writing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fmt", "changes", "reason", "field"),
    [
        (V6, {"hops": 65536}, "overflow", "hops"),
        (V6, {"hops": -1}, "overflow", "hops"),
        (V6, {"version": 65536}, "overflow", "version"),
        (V6, {"ttl_ticks": 2**63}, "overflow", "ttl_ticks"),
        (V6, {"callback_key": -(2**63) - 1}, "overflow", "callback_key"),
        (V6, {"version": b"1.0"}, "cannot_carry", "version"),
        (V5, {"callback_points": (CallbackPoint(b"X", b"1.0"),)}, "cannot_carry", "callback_points[0].version"),
        (V5, {"callback_points": (CallbackPoint(b"X", 70000),)}, "overflow", "callback_points[0].version"),
        (V5, {"extensions": (b"x",)}, "cannot_carry", "extensions"),
        (V5, {"callback_points": (CallbackPoint(b"X"),) * 22000}, "overflow", "body_frames.offset"),
        (V6, {"callback_points": (CallbackPoint(b"X"),) * 65536}, "overflow", "callback_points.count"),
        (V6, {"body_frames": (b"",) * 65536}, "overflow", "body_frames.offset"),
        (V4, {"version": 1}, "cannot_carry", "version"),
        (V4, {"version": b"1.0", "callback_key": 5}, "cannot_carry", "callback_key"),
        (
            V4,
            {"version": b"1.0", "callback_receiver_node_identity": b"n"},
            "cannot_carry",
            "callback_receiver_node_identity",
        ),
        (V3, {"version": b"1.0", "domain": "d"}, "cannot_carry", "domain"),
        (V3, {"version": b"1.0", "signature": b"s"}, "cannot_carry", "signature"),
        (V3, {"version": b"1.0", "body_frames": (b"a", b"b")}, "cannot_carry", "body_frames"),
        (V6, {"body_frames": ()}, "bad_value", "body_frames"),
        (V6, {"body_frames": b"abc"}, "bad_value", "body_frames"),
        (V6, {"body_frames": ("abc",)}, "bad_value", "body_frames[0]"),
        (V6, {"identity": "text"}, "bad_value", "identity"),
        (V6, {"identity": None}, "bad_value", "identity"),
        (V6, {"domain": b"bytes"}, "bad_value", "domain"),
        (V6, {"domain": "\ud800"}, "invalid_utf8", "domain"),
        (V6, {"routing": (RoutingEntry("\udfff"),)}, "invalid_utf8", "routing[0].uri"),
        (V6, {"routing": (("tcp://a:1", b"A"),)}, "bad_value", "routing[0]"),
        (V6, {"hops": 1.5}, "bad_value", "hops"),
        (V6, {"socket_identity": 5}, "bad_value", "socket_identity"),
        (V5, {"correlation_id": "text"}, "bad_value", "correlation_id"),
        (V3, {"version": b"", "hops": 2**31}, "overflow", "hops"),
    ],
)
def test_what_a_format_cannot_carry_is_refused_by_name(
    fmt: WireFormat, changes: dict[str, Any], reason: str, field: str
) -> None:
    with pytest.raises(WireError) as caught:
        encode(Message(b"M").replace(**changes), fmt)
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_what_is_not_a_message_is_refused() -> None:
    with pytest.raises(WireError, match="expected a Message"):
        encode(b"bytes")  # type: ignore[arg-type]


def test_the_largest_counts_that_fit_are_written_and_read() -> None:
    message = Message(b"M", callback_points=(CallbackPoint(b"X"),) * 21839)
    assert decode(encode(message, V5)) == message
    message = Message(b"M", routing=(RoutingEntry(""),) * 65535)
    assert decode(encode(message, V6)) == message


def test_selectors_of_a_message_that_two_formats_claim_are_read_with_care() -> None:
    message = golden(V3, "minimal").message.replace(body_frames=(b"\5\0",))
    assert select(encode(message, V3)).identity == message.identity
