"""The dissector: every byte has a name, a bad message is shown up to its fault, nothing makes it raise."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.model.limits import Limits
from hopwire.wire import FORMATS, V3, V4, V5, V6, WireError, WireFormat, decode, encode
from hopwire.wire.dissect import IN_FRONT, NEWER_BYTES, NEWER_FRAME, RESERVED, UNREAD, Dissection, dissect
from hopwire.wire.samples import break_frames, sample_message

VECTORS = Path(__file__).parents[1] / "vectors"
SMALL = [
    vector
    for number in (3, 4, 5, 6)
    for vector in map(json.loads, (VECTORS / f"v{number}.jsonl").read_text("utf-8").splitlines())
    if all(isinstance(frame, str) for frame in vector["frames"])
]


def frames_of(fmt: WireFormat, seed: int = 1) -> list[bytes]:
    return encode(sample_message(fmt, random.Random(seed)), fmt)


def assert_tiled(dissection: Dissection) -> None:
    at = dict.fromkeys(range(len(dissection.frames)), 0)
    seen = set()
    for item in dissection.items:
        assert item.start == at[item.frame]
        assert item.stop >= item.start
        at[item.frame] = item.stop
        seen.add(item.frame)
    assert [at[index] for index in at] == [len(frame) for frame in dissection.frames]
    assert seen == set(at)
    assert list(dissection.items) == sorted(dissection.items, key=lambda item: (item.frame, item.start))


def titles(dissection: Dissection, frame: int) -> list[str]:
    return [item.name or item.title for item in dissection.items if item.frame == frame]


def test_items_tile_every_frame_of_every_vector() -> None:
    for vector in SMALL:
        dissection = dissect([bytes.fromhex(frame) for frame in vector["frames"]])
        assert dissection.error is None
        assert dissection.fmt is not None
        assert dissection.fmt.name == vector["format"].upper()
        assert dissection.message == decode(list(dissection.frames))
        assert_tiled(dissection)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_nothing_in_a_plain_message_is_without_a_name_from_the_table(fmt: WireFormat) -> None:
    dissection = dissect(frames_of(fmt))
    assert {item.title for item in dissection.items if not item.name} <= {"[0]", "RESERVED", RESERVED}


@pytest.mark.slow
def test_mutated_messages_never_raise_and_stay_tiled() -> None:
    chance = random.Random(11)
    reasons = set()
    for number in range(2_000):
        fmt = FORMATS[number % 4]
        frames = encode(sample_message(fmt, chance), fmt)
        for _ in range(chance.randrange(1, 4)):
            frames = break_frames(frames or [b""], chance)
        dissection = dissect(frames)
        assert (dissection.message is None) != (dissection.error is None)
        assert_tiled(dissection)
        try:
            assert decode(frames) == dissection.message
        except WireError as error:
            assert dissection.error is not None
            assert str(dissection.error) == str(error)
            reasons.add(error.reason)
    assert len(reasons) >= 8


def test_any_bytes_at_all_are_tiled_in_any_format() -> None:
    chance = random.Random(3)
    for number in range(400):
        frames = [chance.randbytes(chance.randrange(0, 12)) for _ in range(chance.randrange(0, 25))]
        assert_tiled(dissect(frames, fmt=FORMATS[number % 4]))


@pytest.mark.parametrize("given", [None, b"bytes", "text", 7, [1, 2], [b"ok", None], {"a": b""}])
def test_what_is_not_frames_is_an_error_like_any_other(given: object) -> None:
    dissection = dissect(given)
    assert dissection.error is not None
    assert (dissection.error.reason, dissection.frames, dissection.items) == ("not_frames", (), ())


def test_no_frames_are_too_few() -> None:
    dissection = dissect([])
    assert dissection.error is not None
    assert (dissection.error.reason, dissection.fmt, dissection.size_bytes) == ("too_few_frames", None, 0)


def test_limits_hold() -> None:
    dissection = dissect(frames_of(V5), Limits(max_frames=3))
    assert dissection.error is not None
    assert dissection.error.reason == "too_many_frames"


def test_frames_in_front_of_the_message_are_said_to_be_there() -> None:
    dissection = dissect([b"router", b"x", *frames_of(V4)])
    assert dissection.error is None
    assert titles(dissection, 0) == titles(dissection, 1) == [IN_FRONT]
    assert titles(dissection, 2) == ["socket_identity"]


def test_frames_between_body_and_meta_frame_are_extensions() -> None:
    message = Message(b"M", extensions=(b"one", b"two"))
    dissection = dissect(encode(message, V6))
    assert dissection.message == message
    assert titles(dissection, 3) == ["extensions[0]"]
    assert titles(dissection, 4) == ["extensions[1]"]


def test_lanes_that_the_document_leaves_open_are_reserved() -> None:
    dissection = dissect(frames_of(V4))
    count = len(dissection.frames)
    assert titles(dissection, count - 5) == ["trace_options", "distribution", RESERVED]
    assert titles(dissection, count - 12)[-1] == RESERVED


def test_newer_frames_on_top_of_an_entry_are_told_from_those_of_the_table() -> None:
    frames = encode(Message(b"M", b"1.0", callback_points=(CallbackPoint(b"C", b"1.0"),)), V4)
    frames.insert(3, b"newer")
    frames[-12] = frames[-12][:4] + b"\4\0" + frames[-12][6:]
    frames[-2] = (20).to_bytes(2, "little") + frames[-2][2:]
    dissection = dissect(frames)
    assert dissection.error is None
    assert [titles(dissection, index)[0] for index in range(3, 7)] == [
        NEWER_FRAME,
        "callback_points[0].partition",
        "callback_points[0].version",
        "callback_points[0].identity",
    ]


def test_newer_bytes_at_the_end_of_a_sized_entry_are_shown() -> None:
    frames = encode(Message(b"M", routing=(RoutingEntry("tcp://a", b"R"),)), V6)
    size = next(item for item in dissect(frames).items if item.name == "routing[0].size")
    last = next(item for item in dissect(frames).items if item.name == "routing[0].identity")
    meta = frames[-1]
    longer = (size.value + 3).to_bytes(4, "little")
    frames[-1] = meta[: size.start] + longer + meta[size.stop : last.stop] + b"new" + meta[last.stop :]
    dissection = dissect(frames)
    assert dissection.message == decode(frames)
    found = next(item for item in dissection.items if item.title == NEWER_BYTES)
    assert (found.start, found.stop, found.value) == (last.stop, last.stop + 3, b"new")
    assert_tiled(dissection)


def test_a_broken_meta_frame_is_shown_up_to_its_fault() -> None:
    frames = frames_of(V6)
    fault = next(item for item in dissect(frames).items if item.name == "signature")
    frames[-1] = frames[-1][: fault.start] + b"\xff\xff\xff\xff" + frames[-1][fault.start + 4 :]
    dissection = dissect(frames)
    assert dissection.error is not None
    assert (dissection.error.reason, dissection.error.frame, dissection.error.byte) == (
        "negative_length",
        3,
        fault.start,
    )
    assert titles(dissection, 3)[-2:] == ["domain", UNREAD]
    assert titles(dissection, 2) == [UNREAD]


def test_bad_text_is_found_last_so_all_else_is_shown() -> None:
    frames = encode(Message(b"M", domain="orders"), V5)
    frames[-15] = b"ord\xffrs"
    dissection = dissect(frames)
    assert dissection.error is not None
    assert (dissection.error.reason, dissection.error.byte) == ("invalid_utf8", 3)
    assert UNREAD not in {item.title for item in dissection.items}


def test_where_two_formats_claim_the_one_that_fits_is_shown() -> None:
    frames = encode(Message(b"M", b"1.0", body_frames=(b"\5\0",)), V3)
    dissection = dissect(frames)
    assert dissection.fmt is V3
    assert dissection.message is not None


def test_where_both_fit_the_first_is_shown_with_the_error_and_a_name_decides() -> None:
    frames = encode(Message(b"M", b"1.0", body_frames=(encode(Message(b"other"), V6)[-1],)), V3)
    dissection = dissect(frames)
    assert dissection.error is not None
    assert (dissection.error.reason, dissection.fmt, dissection.message) == ("ambiguous_version", V3, None)
    assert UNREAD not in {item.title for item in dissection.items}
    assert_tiled(dissection)
    chosen = dissect(frames, fmt=V6)
    assert chosen.message is not None
    assert chosen.message.identity == b"other"


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_a_format_that_is_named_is_used_whatever_the_frames_claim(fmt: WireFormat) -> None:
    frames = frames_of(V5)
    dissection = dissect(frames, fmt=fmt)
    assert dissection.fmt is fmt
    assert (dissection.message is not None) == (fmt is V5)
    assert_tiled(dissection)
