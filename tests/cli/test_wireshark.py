"""The dissector for Wireshark, run by tshark, beside what `decode` says of the same bytes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hopwire.cli.wireshark import dissector
from hopwire.model import Message
from hopwire.node import Node
from hopwire.wire import FORMATS, V6, encode
from hopwire.wire.dissect import dissect
from hopwire.wire.extension import MAGIC, Extension, with_extension
from hopwire.wire.samples import sample_message
from hopwire.wire.train import pack_train
from tests.capture.recording.recordings import CLIENT, SERVER, Recording, command, greeting, heard, message, pcap
from tests.cli.running import ROOT, hopwire
from tests.cli.tshark import ShownMessage, needs_tshark, shown_messages, tshark
from tests.node.foreigners import ANSWERS, PlainGreet, PlainGreeter, PlainGreeting
from tests.wire.golden import golden_vectors
from tests.wire.mutate import mutated

SEGMENT = 1400  # bytes of a packet
BROKEN = 400  # messages


def recorded(path: Path, *said: bytes) -> Path:
    """A connection on which these bytes are said, cut into packets without regard to messages."""
    recording = Recording()
    recording.open()
    recording.greet()
    stream = b"".join(said)
    for at in range(0, len(stream), SEGMENT):
        recording.say(stream[at : at + SEGMENT])
    path.write_bytes(pcap(recording.packets))
    return path


def expected(frames: Sequence[bytes]) -> list[tuple[str, str, str]]:
    """What a dissection of ours says under each name: a number, or bytes in hex."""
    return [_told(item.name, item.value) for item in dissect(list(frames)).items if item.name]


def _told(name: str, value: Any) -> tuple[str, str, str]:
    if isinstance(value, int):
        return name, str(value), ""
    return name, "", (value.encode() if isinstance(value, str) else value).hex()


def shown(found: ShownMessage, like: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What tshark says: numbers where we expect numbers, else bytes."""
    is_number = {name for name, number, _ in like if number}
    return [(name, number, "") if name in is_number else (name, "", data) for name, number, data in found.values]


def compare(found: ShownMessage, frames: Sequence[bytes]) -> None:
    """tshark and `decode` agree: on the reason of a bad message, and on every value of a good one."""
    dissection = dissect(list(frames))
    if dissection.error:
        assert found.facts.get("error") == dissection.error.reason
        assert found.facts.get("error.field", "") == (dissection.error.field or "")
        return
    assert dissection.fmt
    assert "error" not in found.facts
    assert found.facts["format"] == dissection.fmt.name
    wanted = expected(frames)
    assert shown(found, wanted) == wanted


def test_the_dissector_has_a_filter_for_every_field_of_a_message() -> None:
    text = hopwire("wireshark").out
    assert text == dissector()
    for name in Message.__struct_fields__:
        assert f'"{name}"' in text


def test_the_dissector_is_written_into_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hopwire.lua"
    found = hopwire("wireshark", "--output", str(path))
    assert (found.code, found.err) == (0, "")
    assert path.read_text("utf-8") == dissector()
    assert str(path) in found.out


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    found = hopwire("wireshark", "--output", str(tmp_path / "none" / "hopwire.lua"))
    assert (found.code, found.err.count("\n")) == (2, 1)


@needs_tshark
@pytest.mark.slow
def test_every_golden_message_is_shown_as_decode_shows_it(tmp_path: Path) -> None:
    vectors = [each for each in golden_vectors() if sum(map(len, each.frames)) < 1_000_000]
    found = shown_messages(recorded(tmp_path / "golden.pcap", *(message(each.frames) for each in vectors)))
    assert len(found) == len(vectors) > 100
    for one, vector in zip(found, vectors, strict=True):
        compare(one, vector.frames)


@needs_tshark
@pytest.mark.slow
def test_a_broken_message_has_the_reason_that_decode_gives(tmp_path: Path) -> None:
    chance = Random(16)
    vectors = [each.frames for each in golden_vectors() if sum(map(len, each.frames)) < 5000]
    samples = [encode(sample_message(fmt, chance), fmt) for fmt in FORMATS for _ in range(20)]
    broken = [mutated(chance.choice(vectors + samples), chance) for _ in range(BROKEN)]
    broken = [frames for frames in broken if len(frames) > 1]
    found = shown_messages(recorded(tmp_path / "broken.pcap", *(message(frames) for frames in broken)))
    assert len(found) == len(broken)
    reasons = set()
    for one, frames in zip(found, broken, strict=True):
        compare(one, frames)
        reasons.add(one.facts.get("error"))
    assert len(reasons) > 8


EXTENSION = Extension(b"\1\2\3", 4, 1_800_000_000_123_456_789, "00-aa-bb-01", True, 70_000, -(2**63))


@needs_tshark
@pytest.mark.slow
def test_a_train_and_the_extension_are_taken_apart(tmp_path: Path) -> None:
    chance = Random(7)
    coupled = [encode(with_extension(sample_message(V6, chance), EXTENSION), V6) for _ in range(5)]
    train = pack_train(coupled, queued_ns=-5)
    path = recorded(tmp_path / "train.pcap", message([train]), message([train[:-1]]), message([train[:4]]))
    found = shown_messages(path)
    assert len(found) == 5 + 4  # the second train is cut off within its last message
    for one, frames in zip(found, coupled + coupled[:4], strict=True):
        compare(one, frames[1:])
        assert one.extension == {
            "message_id": ("01:02:03", "010203"),
            "attempt": ("4", "04"),
            "sent_at_ns": ("1800000000123456789", one.extension["sent_at_ns"][1]),
            "traceparent": ("00-aa-bb-01", b"00-aa-bb-01".hex()),
            "trace_only": ("1", "c3"),
            "part": ("70000", one.extension["part"][1]),
            "chosen_by": (str(-(2**63)), "8000000000000000"),
        }
    said = tshark(path, "-T", "fields", "-e", "hopwire.train.message_count", "-e", "hopwire.train.queued_at_ns")
    assert said.replace(",", " ").split() == ["5", "-5", "4", "0", "-5"]  # the third train has no room for a time
    assert tshark(path, "-T", "fields", "-e", "hopwire.error").split() == ["bad_train,bad_train"]


@needs_tshark
@pytest.mark.slow
def test_an_extension_that_makes_no_sense_is_said_to_be_bad(tmp_path: Path) -> None:
    bad = [b"", b"\x81", b"\xc1", b"\x01", b"\x80\x80", b"\x81\xa1a\xa1x", b"\x91" * 40, b"\xdf\xff\xff\xff\xff"]
    good = [b"\x80", b"\x81\xa1z\x92\xc0\xcb12345678", b"\xde\x00\x01\xa1a\xcd\x01\x00"]
    sent = [encode(Message(b"a.b", extensions=(MAGIC + each,)), V6) for each in (*bad, *good)]
    found = shown_messages(recorded(tmp_path / "extensions.pcap", *(message(frames) for frames in sent)))
    assert [one.facts.get("extension_error") for one in found] == ["bad_extension"] * len(bad) + [None] * len(good)
    assert found[-1].extension == {"attempt": ("256", "0100")}


@needs_tshark
@pytest.mark.slow
def test_what_is_no_message_does_no_harm(tmp_path: Path) -> None:
    recording = Recording()
    recording.open()
    for source, target in ((CLIENT, SERVER), (SERVER, CLIENT)):
        recording.say(greeting(b"CURVE")[:10], source, target)
        recording.say(greeting(b"CURVE")[10:], source, target)
    recording.say(command(b"HELLO", b"secret") + command(b"") + b"\4\0")
    recording.say(message([b"MESSAGE" + bytes(30)]))
    recording.say(b"\x09 this is no frame")
    other = (CLIENT[0], CLIENT[1] + 1)
    recording.open(other)
    recording.say(b"\xff but no greeting at all", other)
    path = tmp_path / "strange.pcap"
    path.write_bytes(pcap(recording.packets))
    said = tshark(path)
    assert "greeting CURVE" in said
    assert "encrypted" in said
    assert "not ZMTP" in said
    assert "hopwire" not in said.splitlines()[-1]


# -- real traffic


@asynccontextmanager
async def relay(target: str, recording: Recording, client: tuple[str, int]) -> AsyncIterator[str]:
    """Listen, and pass on every byte between whoever comes and the target, writing down what was said."""
    host, _, port = target.removeprefix("tcp://").rpartition(":")
    pumps: list[asyncio.Task[None]] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *ways: tuple[str, int]) -> None:
        try:
            while data := await reader.read(65_536):
                for at in range(0, len(data), SEGMENT):
                    recording.say(data[at : at + SEGMENT], *ways)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ways = (client[0], client[1] + len(pumps)), SERVER
        recording.open(*ways)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        pumps.append(asyncio.create_task(pump(reader, far_writer, *ways)))
        pumps.append(asyncio.create_task(pump(far_reader, writer, *reversed(ways))))

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn


async def foreigners_ask(recording: Recording) -> None:
    """A node is asked in all four formats by programs with libzmq, and by another node over trains."""
    async with asyncio.timeout(60), Node(settings=ANSWERS) as node:
        node.host(PlainGreeter())
        for number, fmt in enumerate(FORMATS):
            async with relay(node.uri, recording, ("10.0.1.1", 40_000 + 100 * number)) as uri:
                asks = [sys.executable, str(ROOT / "examples" / "foreign" / "asks.py"), uri, fmt.name, "Ada"]
                program = await asyncio.create_subprocess_exec(*asks, stdout=asyncio.subprocess.PIPE)
                assert (await program.communicate())[0].strip() == b"hello Ada"
        async with relay(node.uri, recording, ("10.0.2.1", 40_000)) as uri, Node(peers=[uri]) as other:
            await other.knows(PlainGreet)
            hub = other.hub()
            names = [f"friend {number}" for number in range(30)]
            answers = await asyncio.gather(*(hub.ask(PlainGreet(name), PlainGreeting) for name in names))
            assert answers == [PlainGreeting(f"hello {name}") for name in names]


@needs_tshark
@pytest.mark.slow
def test_real_traffic_in_all_four_formats_is_shown_as_decode_shows_it(tmp_path: Path) -> None:
    recording = Recording()
    asyncio.run(foreigners_ask(recording))
    path = tmp_path / "real.pcap"
    path.write_bytes(pcap(recording.packets))
    found = shown_messages(path)
    sightings, faults = heard(path, path.read_bytes())
    assert faults == []
    arrived = [row.frames for row in sightings if row.direction == "in"]
    assert {one.facts["format"] for one in found} == {fmt.name for fmt in FORMATS}
    assert len(found) == len(arrived)
    for one, frames in zip(found, arrived, strict=True):
        compare(one, frames[1:])
