"""`hopwire decode`: messages from anywhere, shown whole or up to their fault."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from itertools import cycle
from pathlib import Path

import pytest

from hopwire.model import Message, RoutingEntry
from hopwire.security import Domain, Domains, Key, sign
from hopwire.wire import FORMATS, V5, V6, WireFormat, encode
from hopwire.wire.dissect import dissect
from hopwire.wire.extension import MAGIC, Extension, with_extension
from hopwire.wire.samples import break_frames, sample_message
from hopwire.wire.train import pack_train
from hopwire.wire.zmtp import GREETING, heads, ready
from tests.cli.running import VECTORS, hopwire

FRAMES = encode(Message(b"MSG", correlation_id=b"c-1", ttl_ticks=300_000_000), V6)
HEX = [frame.hex() for frame in FRAMES]
LINE = " ".join(text or "-" for text in HEX)


def test_arguments_are_the_frames_of_one_message() -> None:
    found = hopwire("decode", *HEX)
    assert found.code == 0
    assert found.out.splitlines()[0] == f"V6  4 frames, {sum(map(len, FRAMES))} bytes  fine"
    assert "correlation_id" in found.out
    assert "30 s" in found.out


SPACED = [" ".join(f"{byte:02x}" for byte in frame) or "-" for frame in FRAMES]
COLONS = [":".join(f"{byte:02X}" for byte in frame) or '""' for frame in FRAMES]
PREFIXED = [f"0x{text}" for text in HEX]


@pytest.mark.parametrize("frames", [SPACED, COLONS, PREFIXED])
def test_hex_may_be_written_in_many_ways(frames: list[str]) -> None:
    assert hopwire("decode", "--json", *frames).out == hopwire("decode", "--json", *HEX).out


# fmt: off
WRITTEN = [
    LINE,
    f"# a comment\n\n{LINE}\n",
    ",".join(HEX),
    ", ".join(SPACED),
    json.dumps(HEX),
    json.dumps(HEX, indent=2),
    json.dumps({"frames": HEX}),
    json.dumps({"frames": HEX}, indent=2),
    json.dumps([{"frames": HEX}], indent=2),
    json.dumps([HEX], indent=2),
    "\ufeff" + json.dumps(HEX),
]
# fmt: on


@pytest.mark.parametrize("text", WRITTEN, ids=range(len(WRITTEN)))
@pytest.mark.parametrize("where", ["file", "stdin", "-f -", "-"])
def test_a_file_may_hold_messages_in_many_ways(text: str, where: str, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_text(text, "utf-8")
    arguments = {"file": ("--file", str(file)), "stdin": (), "-f -": ("-f", "-"), "-": ("-",)}[where]
    found = hopwire("decode", "--json", *arguments, given="" if where == "file" else text)
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["frames"] == HEX


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_every_vector_is_decoded_and_encoded_back_to_the_same_frames(number: int) -> None:
    file = VECTORS / f"v{number}.jsonl"
    vectors = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    decoded = hopwire("decode", "--json", "--file", str(file))
    assert (decoded.code, decoded.err) == (0, "")
    found = [json.loads(line) for line in decoded.out.splitlines()]
    assert [each["name"] for each in found] == [vector["name"] for vector in vectors]
    assert {each["format"] for each in found} == {f"V{number}"}
    encoded = hopwire("encode", given=decoded.out)
    assert encoded.err == ""
    lines = [[text.replace("-", "") for text in line.split(" ")] for line in encoded.out.splitlines()]
    assert lines == [each["frames"] for each in found]
    for vector, frames in zip(vectors, lines, strict=True):
        known = [(text, frame) for text, frame in zip(vector["frames"], frames, strict=True) if isinstance(text, str)]
        assert all(text == frame for text, frame in known)
        assert len(known) >= len(frames) - 1


@pytest.mark.slow
def test_every_vector_is_shown_by_its_name() -> None:
    for number in (3, 4, 5, 6):
        file = VECTORS / f"v{number}.jsonl"
        found = hopwire("decode", "--file", str(file))
        count = len(file.read_text("utf-8").splitlines())
        assert found.code == 0
        assert len(re.findall(rf"^\w+  V{number}  \d+ frames, \d+ bytes  fine$", found.out, re.MULTILINE)) == count
        assert found.out.endswith(f"\n{count} messages: {count} fine, 0 bad\n")


# -- bad messages


def broken(name: str, change: bytes, at: int = 0) -> tuple[list[bytes], int]:
    """A message with some bytes changed from the start of a value, and where that is."""
    start = next(item.start for item in dissect(FRAMES).items if item.name == name) + at
    meta = FRAMES[-1]
    return [*FRAMES[:-1], meta[:start] + change + meta[start + len(change) :]], start


CASES = {
    "negative_length": broken("signature", b"\xff\xff\xff\xff"),
    "bad_length": broken("correlation_id", b"\x99"),
    "bad_count": broken("routing.count", b"\x99"),
    "bad_offset": broken("body_frames.offset", b"\x99"),
}


@pytest.mark.parametrize("columns", [120, 60, 40])
@pytest.mark.parametrize("reason", CASES)
def test_the_bad_byte_of_a_message_is_marked(reason: str, columns: int) -> None:
    frames, byte = CASES[reason]
    found = hopwire("decode", *(frame.hex() for frame in frames), columns=columns)
    assert found.code == 1
    assert found.out.splitlines()[0].endswith(f"bad: {reason}")
    lines = found.out.splitlines()
    caret = next(index for index, line in enumerate(lines) if line.endswith("^^"))
    column = lines[caret].index("^^")
    assert int(lines[caret - 1][:6]) + (column - 8) // 3 == byte
    assert lines[caret - 1][column : column + 2] == f"{frames[-1][byte]:02x}"


def test_a_bad_message_says_reason_meaning_place_and_detail() -> None:
    frames, byte = CASES["bad_length"]
    found = hopwire("decode", *(frame.hex() for frame in frames))
    assert "\nbad_length: a length or size beyond the end of what holds it\n" in found.out
    assert f"\nframe 3 (n-1), byte {byte}, correlation_id: found 153, there is room for 19\n" in found.out
    assert "<-- bad_length" in found.out
    assert "(not read)" in found.out


def test_a_byte_that_is_missing_is_marked_behind_the_last() -> None:
    frames = encode(Message(b"MSG"), V5)
    frames[-3] = frames[-3][:5]
    found = hopwire("decode", *(frame.hex() for frame in frames))
    lines = found.out.splitlines()
    caret = next(index for index, line in enumerate(lines) if line.endswith("^^"))
    assert lines[caret - 1] == "     0  00 00 00 00 00                                   ....."
    assert lines[caret] == " " * (8 + 5 * 3) + "^^"


def test_the_summary_counts_the_bad_by_reason() -> None:
    lines = [LINE, *(" ".join(f.hex() or "-" for f in frames) for frames, _ in CASES.values()), LINE]
    found = hopwire("decode", given="\n".join(lines))
    assert found.code == 1
    summary = found.out.splitlines()[-1]
    assert summary.startswith("6 messages: 2 fine, 4 bad (1 negative_length, ")


def test_json_has_one_object_on_each_line_also_for_the_bad() -> None:
    bad = " ".join(frame.hex() or "-" for frame in CASES["bad_count"][0])
    found = hopwire("decode", "--json", given=f"{LINE}\n{bad}\n")
    assert found.code == 1
    fine, error = map(json.loads, found.out.splitlines())
    assert (fine["error"], error["fields"], error["error"]["reason"]) == (None, None, "bad_count")


def test_a_format_may_be_forced() -> None:
    found = hopwire("decode", "--format", "v5", *HEX)
    assert found.code == 1
    assert found.out.startswith("V5  4 frames")
    assert "too_few_frames" in found.out


# -- the screen


WIDTHS = (1, 2, 5, 10, 20, 39, 59, 60, 80, 109, 110, 300)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "first"), [*zip(WIDTHS, cycle(FORMATS))], ids=str)
def test_no_screen_is_too_narrow(columns: int, first: WireFormat, is_long: bool) -> None:
    """Each width with one of the formats, which take turns; `make long` has each width with all formats."""
    for fmt in FORMATS if is_long else (first,):
        chance = random.Random(columns)
        frames = encode(sample_message(fmt, chance), fmt)
        for each in (frames, break_frames(frames, chance)):
            assert hopwire("decode", *(frame.hex() for frame in each), columns=columns).code in (0, 1)


@pytest.mark.parametrize(("columns", "head"), [
    (120, "frame n-k bytes name type raw meaning"),
    (80, "frame n-k bytes name meaning"),
    (50, "frame bytes name meaning"),
])  # fmt: skip
def test_columns_are_left_out_where_there_is_no_room(columns: int, head: str) -> None:
    found = hopwire("decode", *HEX, columns=columns)
    assert found.out.splitlines()[1].split() == head.split()


def test_output_that_is_not_a_terminal_has_no_colours() -> None:
    assert "\x1b" not in hopwire("decode", *HEX).out


def test_bytes_from_outside_cannot_write_to_the_terminal() -> None:
    evil = "\x1b[31m[red]:boom:\u202e"
    message = Message(evil.encode(), body_frames=(evil.encode(),), domain=evil, routing=(RoutingEntry(evil),))
    frames = [frame.hex() for frame in encode(message, V6)]
    shown = hopwire("decode", given=json.dumps({"name": evil, "frames": frames})).out
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "[red]:boom:" in hopwire("decode", *(f.hex() for f in encode(Message(b"[red]:boom:"), V6))).out


def test_a_long_body_is_cut_unless_all_of_it_is_asked_for() -> None:
    frames = [frame.hex() for frame in encode(Message(b"MSG", body_frames=(b"abc" * 500 + b"THE END",)), V6)]
    assert "1507 bytes: abcabc" in hopwire("decode", *frames).out
    assert "THE END" not in hopwire("decode", *frames).out
    full = hopwire("decode", "--full", *frames).out
    assert "THE END" in full.replace("\n", "")
    assert "frame 2 (n-2), 1507 bytes\n     0  61 62 63 " in full


@pytest.mark.slow
def test_many_entries_are_cut_in_the_middle_unless_all_are_asked_for() -> None:
    message = Message(b"MSG", routing=tuple(RoutingEntry(f"tcp://node-{number}") for number in range(300)))
    frames = [frame.hex() for frame in encode(message, V6)]
    short = hopwire("decode", *frames).out
    assert "more (--full)" in short
    assert "tcp://node-299" in short
    assert "tcp://node-150" not in short
    assert "tcp://node-150" in hopwire("decode", "--full", *frames).out


# -- bad input


# fmt: off
NO_MESSAGES = [
    ("",                    "stdin: is empty"),
    ("hello",               "stdin, line 1, frame 0: found 'hello', expected frames in hex, JSON or JSON lines"),
    ("00 0",                "stdin, line 1, frame 1: found '0', expected frames in hex, JSON or JSON lines"),
    ("[1]",                 "stdin, line 1, frame 0: found int, expected hex"),
    ('["0"]',               "stdin, line 1, frame 0: found '0', expected hex"),
    ('{"a": 1}',            "stdin, line 1: expected a list of frames in hex, or an object that has one as `frames`"),
    ('{"frames": "00"}',    "stdin, line 1: expected a list of frames in hex, or an object that has one as `frames`"),
    ('[\n "00",\n oops]',   "stdin: is not JSON at line 3, column 2: Expecting value"),
    ('\n\n{"frames": [',    "stdin: is not JSON at line 3, column 13: Expecting value"),
    ("[" * 100_000,         "stdin: is not JSON that can be read: RecursionError"),
    (b"\x00\xff\xfe",       "stdin, line 1: is not text; expected frames in hex, JSON or JSON lines"),
    ('{"frames": [{"len": 1, "sha256": ""}]}', "stdin, line 1, frame 0: found dict, expected hex"),
    ('{"frames": [{"len": 1, "sha256": ""}], "fields": {"body": {"rule": "(i*31+7)&255", "len": 1}}}',
     "stdin, line 1, frame 0: length or sha256 is not that of the body by its rule"),
]
# fmt: on


@pytest.mark.parametrize(("text", "line"), NO_MESSAGES, ids=[line for _, line in NO_MESSAGES])
def test_input_that_is_no_message_is_named_in_one_line(text: str | bytes, line: str) -> None:
    found = hopwire("decode", given=text)
    assert (found.code, found.err) == (2, f"hopwire: {line}\n")


def test_a_bad_line_is_named_after_the_good_ones_are_shown() -> None:
    found = hopwire("decode", "--json", given=f"{json.dumps(HEX)}\n{json.dumps(HEX)}\n[\n")
    assert (found.code, len(found.out.splitlines())) == (2, 2)
    assert found.err.startswith("hopwire: stdin, line 3: is not JSON at line 1, column 2")


# fmt: off
WRONG_USAGE = [
    (("x.txt",),                    "argument 1: found 'x.txt', expected one frame in hex; a file is read with --file"),
    (("00", "--file", "x"),         "found frames and --file, expected one of them"),
    (("--file", "/no/such/file"),   "/no/such/file: No such file or directory"),
    (("--file", "/"),               "/: Is a directory"),
    (("--format", "V9", "00"),      "--format: found 'V9', expected one of V3, V4, V5, V6"),
    (("--domains", "/no/such", "00"), "cannot read the domains /no/such: No such file or directory"),
]
# fmt: on


@pytest.mark.parametrize(("arguments", "line"), WRONG_USAGE)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], line: str) -> None:
    found = hopwire("decode", *arguments)
    assert (found.code, found.out, found.err) == (2, "", f"hopwire: {line}\n")


# -- signatures

DOMAINS = """
[domains.orders]
identities = ["orders.*"]
scheme = "legacy"
keys = [{id = "k", secret_name = "ORDERS_KEY"}]
"""


@pytest.mark.parametrize(("secret", "verdict", "code"), [("s3cret", "valid", 0), ("other", "invalid", 1)])
def test_signatures_are_judged_by_the_domains(
    secret: str, verdict: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "domains.toml"
    file.write_text(DOMAINS, "utf-8")
    monkeypatch.setenv("ORDERS_KEY", secret)
    domains = Domains([Domain("orders", [Key("k", b"s3cret")], ["orders.*"], "legacy", "sha256")])
    message = sign(Message(b"orders.create"), domains, 0, bytes(16))
    frames = [frame.hex() for frame in encode(message, V6)]
    found = hopwire("decode", "--domains", str(file), *frames)
    assert found.code == code
    assert f"\nsignature: {verdict}" in found.out
    assert found.out.splitlines()[0].endswith(f"  bad: signature {verdict}" if code else "  fine")
    as_json = hopwire("decode", "--json", "--domains", str(file), *frames)
    told = json.loads(as_json.out)
    assert (as_json.code, told["signature"], told["is_accepted"]) == (code, verdict, code == 0)


# -- dumps of others


def dumped(data: bytes, *program: str) -> str:
    """What a program of others writes; the test is skipped where the program is missing."""
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not here")
    return subprocess.run(program, input=data, capture_output=True, check=True).stdout.decode()


DUMPS = [("xxd",), ("xxd", "-g", "1"), ("xxd", "-u", "-c", "7"), ("xxd", "-a"), ("hexdump", "-C")]
ZEROS = Message(b"MSG", correlation_id=b"c-1", body_frames=(bytes(100) + b"| 00  41 |",))


@pytest.mark.parametrize("program", DUMPS, ids=" ".join)
def test_dumps_of_frames_are_one_message(program: tuple[str, ...]) -> None:
    frames = encode(ZEROS, V6)
    text = "".join(dumped(frame, *program) if frame else "-\n" for frame in frames)
    found = hopwire("decode", "--json", given=f"# two messages\n{text}\n{text}")
    assert (found.code, found.err) == (0, "")
    assert [json.loads(line)["frames"] for line in found.out.splitlines()] == [[f.hex() for f in frames]] * 2


@pytest.mark.parametrize("program", DUMPS, ids=" ".join)
@pytest.mark.parametrize("hello", [b"", GREETING + ready(b"ROUTER", b"node-a")], ids=["frames", "connection"])
def test_a_dump_of_a_connection_is_its_messages(program: tuple[str, ...], hello: bytes) -> None:
    one, other = encode(ZEROS, V6)[1:], encode(Message(b"OTHER"), V5)[1:]
    train = [pack_train([[b"", *one], [b"", *one]])]
    said = hello + b"".join(part for frames in (one, other, train) for part in heads(frames))
    found = hopwire("decode", "--json", given=dumped(said, *program))
    assert (found.code, found.err) == (0, "")
    coupled = [b"", *one]
    expected = [one, other, coupled, coupled]
    assert [json.loads(line)["frames"] for line in found.out.splitlines()] == [
        [frame.hex() for frame in frames] for frames in expected
    ]


# fmt: off
BAD_DUMPS = [
    ("00000000: 41\n00000002: 41",             "line 2: the dump goes on at offset 0x2, expected 0x1"),
    ("00000010: 41",                           "line 1: the dump begins at offset 0x10, expected 0"),
    ("00000000: 41\n*\nfffffffff0: 41",        "line 3: 1 bytes do not repeat from 0x1 to 0xfffffffff0"),
    ("00000000: 41\nnonsense",                 "line 2: found 'nonsense', expected a line of xxd or of hexdump -C"),
    ("00000000: 41\n00000001: " + "41" * 5000 + "g",
     "line 2: found '00000001: 41414141414141414141414141414, expected a line of xxd or of hexdump -C"),
    ("00000000  41  |A|\n00000002",            "line 2: the dump goes on at offset 0x2, expected 0x1"),
]
# fmt: on


@pytest.mark.parametrize(("text", "line"), BAD_DUMPS, ids=[line for _, line in BAD_DUMPS])
def test_a_dump_with_something_missing_is_named_in_one_line(text: str, line: str) -> None:
    found = hopwire("decode", given=text)
    assert (found.code, found.err) == (2, f"hopwire: stdin, {line}\n")


def test_every_message_of_a_train_is_shown() -> None:
    train = pack_train([FRAMES, FRAMES])
    for frames in ([train.hex()], ["-", train.hex()]):
        found = hopwire("decode", *frames)
        assert (found.code, found.out.count("fine")) == (0, 3)
    assert "bad: bad_train" in hopwire("decode", train[:-1].hex()).out


# -- what only hopwire says


def test_the_extension_of_hopwire_is_explained() -> None:
    extension = Extension(b"\1\2", 3, 1_800_000_000_123_456_789, "00-4bf9-00f0-01", part=2)
    frames = [frame.hex() for frame in encode(with_extension(Message(b"MSG"), extension), V6)]
    words = (
        "hopwire's own: message_id 0x0102, attempt 3, sent_at_ns 1800000000123456789 "
        "(2027-01-15T08:00:00.123456789 UTC), traceparent 00-4bf9-00f0-01, part 2"
    )
    assert words in [item["meaning"] for item in json.loads(hopwire("decode", "--json", *frames).out)["items"]]
    shown = hopwire("decode", *frames, columns=200).out
    assert "hopwire's own: message_id 0x0102" in shown
    assert "part 2" in shown


def test_an_extension_that_cannot_be_read_is_said_to_be_so() -> None:
    frames = [frame.hex() for frame in encode(Message(b"MSG", extensions=(MAGIC + b"\x01", b"other")), V6)]
    shown = hopwire("decode", *frames, columns=200).out
    assert "hopwire's own, and cannot be read: " in shown
    assert "kept as it is, 5 bytes: other" in shown
