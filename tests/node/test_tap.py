"""What a node captures is what it received, sent and gave up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from hopwire.capture import CaptureWriter, Sighting, read_capture
from hopwire.model.sighting_batch import sightings_from_batch
from hopwire.node import Node
from hopwire.node.tap import TICK_SECONDS, Tap
from hopwire.wire import decode
from hopwire.wire.train import pack_train
from tests.node.stories import Greet, Greeter, Greeting, until


def _of(sightings: list[Sighting], identity: bytes) -> list[Sighting]:
    return [each for each in sightings if decode(list(each.frames)).identity == identity]


def test_the_capture_of_two_nodes_tells_the_whole_story(tmp_path: Path) -> None:
    async def story() -> tuple[bytes, bytes]:
        async with (
            Node(name="there", capture=tmp_path) as there,
            Node(name="here", peers=[there.uri], capture=tmp_path) as here,
        ):
            there.host(Greeter())
            await here.knows(Greet)
            hub = here.hub()
            for i in range(50):
                await hub.ask(Greet(str(i)), Greeting)
            await hub.tell(Greeting("nobody handles this"))
            assert there.capture_status is not None
            return there.identity, here.identity

    there, here = asyncio.run(story())
    sightings = [each for batch in read_capture(tmp_path) for each in sightings_from_batch(batch)]
    counts: dict[tuple[str, str, bytes], int] = {}
    for sighting in sightings:
        key = (sighting.node_name, sighting.direction, decode(list(sighting.frames)).identity)
        counts[key] = counts.get(key, 0) + 1
    for identity, sender, receiver in ((b"greeter.greet", "here", "there"), (b"greeter.greeting", "there", "here")):
        assert counts[(sender, "out", identity)] == 50
        assert counts[(receiver, "in", identity)] == 50
        left = [each for each in sightings if (each.node_name, each.direction) == (sender, "out")]
        came = [each for each in sightings if (each.node_name, each.direction) == (receiver, "in")]
        for out, arrived in zip(_of(left, identity), _of(came, identity), strict=True):
            assert out.seen_at_ns <= arrived.seen_at_ns  # nothing arrives before it left
    assert counts[("here", "dead", b"greeter.greeting")] == 1
    (dead,) = [sighting for sighting in sightings if sighting.direction == "dead"]
    assert dead.reason == "no_route"
    asked = [s for s in sightings if s.direction == "out" and decode(list(s.frames)).identity == b"greeter.greet"]
    assert {sighting.peer for sighting in asked} == {there}
    answered = [s for s in sightings if s.direction == "in" and decode(list(s.frames)).identity == b"greeter.greet"]
    assert {sighting.peer for sighting in answered} == {here}


def _trains(directory: Path) -> list[int]:
    """Give for each record of a capture how many messages its train has; 0 is a message alone."""
    found: list[int] = []
    for path in sorted(directory.glob("*.arrows")):
        with pa.ipc.open_stream(path) as records:
            found += records.read_all().column("train").to_pylist()
    return found


def test_a_train_is_one_record_and_a_sighting_for_each_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with Node(name="there", capture=tmp_path) as there, Node(name="here", peers=[there.uri]) as here:
            there.host(Greeter())
            await here.knows(Greet)
            hub = here.hub()
            answers = await asyncio.gather(*(hub.ask(Greet(str(i)), Greeting) for i in range(200)))
            assert len(answers) == 200

    asyncio.run(story())
    sightings = [each for batch in read_capture(tmp_path) for each in sightings_from_batch(batch)]
    asked = [each for each in _of(sightings, b"greeter.greet") if each.direction == "in"]
    assert len({each.frames[2] for each in asked}) == 200
    assert [each.sequence for each in sightings] == list(range(len(sightings)))
    assert max(_trains(tmp_path)) > 1, "questions that are asked at once come in trains"


def test_the_tap_knows_a_train_of_one_from_a_message(tmp_path: Path) -> None:
    messages = [[b"", b"", b"%d" % number, b"meta"] for number in range(3)]

    async def story() -> None:
        tap = Tap(tmp_path, b"node", 1, "")
        tap.saw_in([b"peer", pack_train(messages)], 3)
        tap.saw_in([b"peer", pack_train(messages[:1])], 1)
        tap.saw_in([b"peer", *messages[0][1:]])
        tap.saw_sent([b"peer", pack_train(messages, 5)], 3)
        tap.saw_sent([b"peer", *messages[1][1:]], 1)
        assert tap.status.offered == 9
        await tap.stop()
        assert (tap.status.written, tap.status.skipped) == (9, 0)

    asyncio.run(story())
    (batch,) = read_capture(tmp_path)
    assert _trains(tmp_path) == [3, 1, 0, 3, 0]
    found = sightings_from_batch(batch)
    assert [each.sequence for each in found] == list(range(9))
    assert [each.frames for each in found[:5]] == [[b"peer", *messages[n][1:]] for n in (0, 1, 2, 0, 0)]
    assert [(each.peer, each.frames) for each in found[5:]] == [(b"peer", messages[n]) for n in (0, 1, 2, 1)]
    assert len({each.seen_at_ns for each in found[5:8]}) == 1


def test_disk_that_begins_to_refuse_is_told_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(CaptureWriter, "tick", lambda *_: None)  # or the next batch finds room

    async def story() -> None:
        async with Node(name="full", capture=tmp_path) as node:
            assert node._tap is not None
            node._tap._writer._buffer.trouble = "No space left on device"
            await until(lambda: caplog.records)
            await asyncio.sleep(2 * TICK_SECONDS)

    asyncio.run(story())
    (record,) = caplog.records
    words = f"the capture in '{tmp_path}' is not written: No space left on device; what is missing is counted"
    assert (record.levelname, record.getMessage()) == ("WARNING", words)
