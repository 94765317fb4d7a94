"""Every reason, with its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.model.reasons import DECODE_REASONS, WIRE_REASONS
from hopwire.wire import FORMATS, V3, V4, V5, V6, WireFormat, decode, encode, recognise
from tests.wire.golden import golden

Frames = list[bytes]


def _u16(*values: int) -> bytes:
    return b"".join(value.to_bytes(2, "little") for value in values)


def _i32(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def _vector(fmt: WireFormat, name: str) -> Frames:
    return list(golden(fmt, name).frames)


def _with(frames: Frames, k: int, frame: bytes) -> Frames:
    """The frames with frame n-k replaced."""
    changed = list(frames)
    changed[-k] = frame
    return changed


def _meta(frames: Frames, at: int, new: bytes) -> Frames:
    meta = frames[-1]
    return [*frames[:-1], meta[:at] + new + meta[at + len(new) :]]


ROUTED5 = _vector(V5, "callbacks_3_routing_5")
ROUTED3 = _vector(V3, "callbacks_3_routing_5")
PLAIN6 = _vector(V6, "minimal")
ROUTED6 = _vector(V6, "routing_1")
N5, N3 = len(ROUTED5), len(ROUTED3)
META = len(PLAIN6) - 1
SIZE6 = len(PLAIN6[-1])
LAST = SIZE6 - 8  # where the last word of the meta frame stands
ENTRY = ROUTED6[-1].index(b"tcp://") - 8  # where the size of the routing entry stands
DOMAIN4 = _vector(V4, "domain_ascii")

# fmt: off
CASES: list[tuple[str, Frames, str, int | None, int | None]] = [
    # what                         frames                                            reason              frame    byte
    ("no frames",                 [],                                               "too_few_frames",   None,    None),
    ("one frame",                 [b"x"],                                           "too_few_frames",   None,    None),
    ("a lone meta frame",         PLAIN6[-1:],                                      "too_few_frames",   None,    None),
    ("V5 without body",           ROUTED5[-17:],                                    "too_few_frames",   None,    None),
    ("V3 tail too short",         ROUTED3[-19:],                                    "too_few_frames",   None,    None),
    ("nothing known",             [b"", b"", b"body", b"head"],                     "unknown_version",  3,       0),
    ("a future meta frame",       _meta(PLAIN6, 0, b"\7\0"),                        "unknown_version",  3,       0),
    ("V1",                        _with(ROUTED3, 3, _i32(1)),                       "retired_version",  N3 - 3,  0),
    ("V2",                        _with(ROUTED3, 3, _i32(2)),                       "retired_version",  N3 - 3,  0),
    ("V5 TTL too short",          _with(ROUTED5, 3, b"\0" * 4),                     "bad_width",        N5 - 3,  4),
    ("V5 TTL too long",           _with(ROUTED5, 3, b"\0" * 9),                     "bad_width",        N5 - 3,  8),
    ("V5 version of one byte",    _with(ROUTED5, 7, b"\1"),                         "bad_width",        N5 - 7,  1),
    ("V5 lanes too short",        _with(ROUTED5, 13, b"\0" * 6),                    "bad_width",        N5 - 13, 6),
    ("V5 long callback version",  _with(ROUTED5, 19, b"1.0"),                       "bad_width",        N5 - 19, 2),
    ("V3 hops left empty",        _with(ROUTED3, 16, b""),                          "bad_width",        N3 - 16, 0),
    ("V3 no empty frame",         _with(ROUTED3, 2, b"x"),                          "bad_width",        N3 - 2,  0),
    ("V3 count of two bytes",     _with(ROUTED3, 15, b"\5\0"),                      "bad_width",        N3 - 15, 2),
    ("V5 offset into the tail",   _with(ROUTED5, 12, _u16(17, 3, 3, 0)),            "bad_offset",       N5 - 12, 0),
    ("V5 offset of zero",         _with(ROUTED5, 12, _u16(0, 3, 3, 0)),             "bad_offset",       N5 - 12, 0),
    ("V5 offset too large",       _with(ROUTED5, 12, _u16(999, 3, 3, 0)),           "bad_offset",       N5 - 12, 0),
    ("V5 routing in callbacks",   _with(ROUTED5, 13, _u16(20, 5, 2, 1)),            "bad_offset",       N5 - 13, 0),
    ("V5 body into the routing",  _with(ROUTED5, 2, _u16(30, 1, 0, 0)),             "bad_offset",       N5 - 2,  0),
    ("V5 body too high",          _with(ROUTED5, 2, _u16(N5 + 1, 1, 0, 0)),         "bad_offset",       N5 - 2,  0),
    ("V5 no body",                _with(ROUTED5, 2, _u16(N5 - 2, 0, 0, 0)),         "bad_count",        N5 - 2,  2),
    ("V5 too many bodies",        _with(ROUTED5, 2, _u16(N5 - 2, 9, 0, 0)),         "bad_count",        N5 - 2,  2),
    ("V5 too many callbacks",     _with(ROUTED5, 12, _u16(18, 20, 3, 0)),           "bad_count",        N5 - 12, 2),
    ("V5 divisor too small",      _with(ROUTED5, 12, _u16(18, 3, 2, 0)),            "bad_stride",       N5 - 12, 4),
    ("V3 negative count",         _with(ROUTED3, 7, _i32(-3)),                      "bad_count",        N3 - 7,  0),
    ("V3 huge count",             _with(ROUTED3, 7, _i32(2**31 - 1)),               "too_many_entries", N3 - 7,  0),
    ("V3 negative offset",        _with(ROUTED3, 6, _i32(-2)),                      "bad_offset",       N3 - 6,  0),
    ("V3 negative divisor",       _with(ROUTED3, 20, _i32(-3)),                     "bad_stride",       N3 - 20, 0),
    ("V4 with a tail of 13",      _with(DOMAIN4, 2, _u16(14, 1, 0, 0)),             "retired_layout",   16,      0),
    ("V4 with a tail of 14",      _with(DOMAIN4, 2, _u16(15, 1, 0, 0)),             "retired_layout",   16,      0),
    ("V4 with a tail of 16",      [b"", *_with(DOMAIN4, 2, _u16(17, 1, 0, 0))],     "retired_layout",   17,      0),
    ("V4 with a gap on the tail", [b""] * 3 + _with(DOMAIN4, 2, _u16(19, 1, 0, 0)), "bad_offset",       19,      0),
    ("V4 domain is not text",     _with(DOMAIN4, 15, b"ab\xff"),                    "invalid_utf8",     3,       2),
    ("V5 URI is not text",        _with(ROUTED5, 28, b"tcp://\xc3"),                "invalid_utf8",     N5 - 28, 6),
    ("V6 only the number",        [*PLAIN6[:-1], b"\6\0"],                          "truncated",        META,    2),
    ("V6 cut in a length",        [*PLAIN6[:-1], PLAIN6[-1][:10]],                  "truncated",        META,    8),
    ("V6 cut in the last word",   [*PLAIN6[:-1], PLAIN6[-1][:-1]],                  "truncated",        META,    LAST),
    ("V6 negative length",        _meta(PLAIN6, 2, _i32(-1)),                       "negative_length",  META,    2),
    ("V6 huge length",            _meta(PLAIN6, 2, _i32(2**31 - 1)),                "bad_length",       META,    2),
    ("V6 one byte too many",      [*PLAIN6[:-1], PLAIN6[-1] + b"\0"],               "trailing_bytes",   META,    SIZE6),
    ("V6 too many entries",       _meta(ROUTED6, ENTRY - 8, _u16(65535)),           "bad_count",        META,    ENTRY - 8),
    ("V6 negative entry",         _meta(ROUTED6, ENTRY, _i32(-4)),                  "negative_length",  META,    ENTRY),
    ("V6 entry too large",        _meta(ROUTED6, ENTRY, _i32(5000)),                "bad_length",       META,    ENTRY),
    ("V6 entry cut short",        _meta(ROUTED6, ENTRY, _i32(2)),                   "truncated",        META,    ENTRY + 4),
    ("V6 text too long",          _meta(ROUTED6, ENTRY + 4, _i32(500)),             "bad_length",       META,    ENTRY + 4),
    ("V6 URI is not text",        _meta(ROUTED6, ENTRY + 9, b"\xff"),               "invalid_utf8",     META,    ENTRY + 9),
    ("V6 body too low",           _meta(PLAIN6, LAST, _u16(1, 1)),                  "bad_offset",       META,    LAST),
    ("V6 body too high",          _meta(PLAIN6, LAST, _u16(5, 1)),                  "bad_offset",       META,    LAST),
    ("V6 too many bodies",        _meta(PLAIN6, LAST, _u16(2, 2)),                  "bad_count",        META,    LAST + 2),
    ("V6 no body",                _meta(PLAIN6, LAST, _u16(2, 0)),                  "bad_count",        META,    LAST + 2),
]
# fmt: on


@pytest.mark.parametrize(
    ("frames", "reason", "frame", "byte"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_broken_message_has_a_reason_and_a_place(
    frames: Frames, reason: str, frame: int | None, byte: int | None
) -> None:
    with pytest.raises(WireError) as caught:
        decode(frames)
    assert (caught.value.reason, caught.value.frame, caught.value.byte) == (reason, frame, byte)


def test_every_reason_is_shown_by_a_case() -> None:
    elsewhere = {"not_frames", "too_many_frames", "too_many_bytes", "ambiguous_version", "bad_extension", "bad_train"}
    assert {case[2] for case in CASES} | elsewhere == set(DECODE_REASONS)


def test_every_reason_has_a_meaning_of_one_line() -> None:
    assert all(meaning and "\n" not in meaning for meaning in WIRE_REASONS.values())


def test_the_text_of_an_error_is_one_line_with_the_culprit() -> None:
    with pytest.raises(WireError) as caught:
        decode(_with(ROUTED5, 3, b"\0" * 4))
    assert str(caught.value) == f"bad_width at frame {N5 - 3}, byte 4, ttl_ticks: found 4 bytes, expected 8"


# -- a V3 body can imitate the others


def _v3_with_body(body: bytes) -> Frames:
    return encode(golden(V3, "every_field_broadcast").message.replace(body_frames=(body,)), V3)


@pytest.mark.parametrize("body", [b"\5\0", b"\5\0\0\0", b"\4\0\0\0", b"\6\0", b"\6\0 and more", b"\4\0 and more"])
def test_a_v3_body_that_looks_like_another_format_is_still_a_body(body: bytes) -> None:
    frames = _v3_with_body(body)
    assert recognise(frames) is V3
    assert decode(frames).body == body


def _ambiguous() -> Frames:
    """A V3 message whose body is a meta frame that finds the empty frame above it for its own body."""
    meta = encode(Message(b"M"))[-1]
    return _v3_with_body(meta)


def test_a_message_that_fits_two_formats_whole_is_ambiguous() -> None:
    frames = _ambiguous()
    with pytest.raises(WireError) as caught:
        decode(frames)
    assert (caught.value.reason, caught.value.frame, caught.value.byte) == ("ambiguous_version", len(frames) - 1, 0)
    with pytest.raises(WireError, match="ambiguous_version"):
        recognise(frames)


def test_where_two_formats_claim_a_message_and_none_fits_the_reason_is_that_of_the_older() -> None:
    frames = _with(_v3_with_body(b"\5\0"), 4, b"short")
    with pytest.raises(WireError, match="bad_width") as caught:
        decode(frames)
    assert caught.value.field == "ttl_ticks"


def test_a_broken_message_still_has_the_format_that_it_claims() -> None:
    assert recognise([*PLAIN6[:-1], b"\6\0"]) is V6
    assert recognise(_with(ROUTED5, 3, b"")) is V5


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_cut_of_a_message_is_refused_or_another_message(fmt: WireFormat) -> None:
    frames = encode(Message(b"M", 1 if fmt.version_type.is_number else b"1"), fmt)
    readers: list[Callable[[Frames], Message]] = [decode]
    for count in range(len(frames)):
        for read in readers:
            try:
                assert read(frames[:count]) != read(frames)
            except WireError as error:
                assert error.reason in WIRE_REASONS
