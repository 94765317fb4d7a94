"""What a node captures is what it received, sent and gave up."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hopwire.capture import Sighting, read_capture
from hopwire.model.sighting import sightings_from_batch
from hopwire.node import Node
from hopwire.wire import decode
from tests.node.stories import Greet, Greeter, Greeting


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
