"""Three processes on loopback: every call, to anyone, to a node and to all, out and back, in every way to talk.

| axis | values |
|---|---|
| call | those of the delivery table |
| to | anyone, a node, an actor on it, everyone |
| from | this process to the others, another process to this one |
| format | V3, V4, V5, V6, as announced and as captured |
| signed | no, `hopwire-1` |
| encrypted | no, TLS |

The processes live as long as the module; each has a node for each of the sixteen ways.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopwire.capture import read_capture
from hopwire.errors import HandlerFailed
from hopwire.model.sighting_batch import sightings_from_batch
from hopwire.node import Actor, Address, Hub, Node, handles
from hopwire.wire import decode, recognise
from tests.node.matrix_child import (
    WAYS,
    Count,
    Echo,
    Echoed,
    Heard,
    Mirror,
    Tried,
    Try,
    Way,
    called,
    node_of,
)

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("matrix")]

CALLS = {
    "ask": "an answer",
    "ask at least once": "an answer",
    "send": "receipt",
    "send at least once": "receipt",
    "tell": "told",
    "broadcast": "told",
}
AT_LEAST_ONCE = ("ask at least once", "send at least once")
CAN_ANSWER = (5, 6)  # V3 and V4 have no place for the node and the key of a callback
CAN_SIGN = (4, 5, 6)  # V3 has no place for a signature


class World:
    """This process with its nodes, and the two others."""

    def __init__(self, runner: asyncio.Runner, captures: Path) -> None:
        self.runner, self.captures = runner, captures
        self.processes: list[subprocess.Popen[str]] = []
        self.others: list[list[tuple[str, bytes, bytes]]] = []  # address, node, and an actor on it
        self.nodes: dict[Way, Node] = {}
        self.hubs: dict[Way, Hub] = {}
        self.mirrors: dict[Way, Mirror] = {}
        self.texts = 0

    def start_process(self, name: str) -> None:
        peers = [",".join(uri for uri, _, _ in nodes) for nodes in self.others]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        command = [sys.executable, "-m", "tests.node.matrix_child", name, *peers]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=ROOT
        )
        self.processes.append(process)
        assert process.stdout is not None
        lines = [each.split("|") for each in process.stdout.readline().strip().split(",")]
        self.others.append([(uri, identity.encode(), bytes.fromhex(actor)) for uri, identity, actor in lines])

    async def start_node(self, way: Way) -> None:
        place = WAYS.index(way)
        captures = self.captures / str(place)
        node = node_of(way, [nodes[place][0] for nodes in self.others], str(captures))
        await node.start()
        self.nodes[way], self.hubs[way], self.mirrors[way] = node, node.hub(), Mirror("here")
        while len(node._tables.candidates[(b"matrix.echo", 1, b"")].remote) < len(self.others):
            await asyncio.sleep(0.005)

    def identities(self, way: Way) -> list[bytes]:
        return [nodes[WAYS.index(way)][1] for nodes in self.others]

    def new_text(self) -> str:
        self.texts += 1
        return f"text {self.texts}"

    def run(self, story: Any) -> Any:
        return self.runner.run(asyncio.wait_for(story, timeout=20))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asyncio.Runner() as runner:
        world = World(runner, tmp_path_factory.mktemp("captures"))
        try:
            world.start_process("one")
            world.start_process("two")
            yield world
            for node in world.nodes.values():
                runner.run(node.stop())
        finally:
            for process in world.processes:
                process.kill()
                process.communicate()


@pytest.fixture
def way(world: World, request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    if way not in world.nodes:
        world.run(world.start_node(way))
    return way


def name_of(way: Way) -> str:
    return f"V{way.number}{'-signed' if way.is_signed else ''}{'-encrypted' if way.is_encrypted else ''}"


every_way = pytest.mark.parametrize("way", WAYS, ids=name_of, indirect=True)
every_way_that_asks = pytest.mark.parametrize(
    "way", [way for way in WAYS if way.number in CAN_ANSWER], ids=name_of, indirect=True
)
every_old_way = pytest.mark.parametrize(
    "way", [way for way in WAYS if way.number not in CAN_ANSWER], ids=name_of, indirect=True
)
every_call = pytest.mark.parametrize("call", CALLS)


def expected(way: Way, call: str, text: str) -> str:
    """What a call ends with: what it promises, or that the format has no place for it."""
    said = {"an answer": text}.get(CALLS[call], CALLS[call])
    if call in ("tell", "broadcast"):
        return said
    if way.number in CAN_ANSWER:
        return said
    return "NoRoute cannot_carry"


def can_be_told(way: Way) -> bool:
    return not way.is_signed or way.number in CAN_SIGN


@every_call
@pytest.mark.parametrize("to", ["anyone", "a node", "an actor"])
@every_way
def test_every_call_to_other_processes_keeps_its_promise(world: World, way: Way, to: str, call: str) -> None:
    async def story() -> None:
        text, hub = world.new_text(), world.hubs[way]
        _, node, actor = world.others[0][WAYS.index(way)]
        address = {"anyone": None, "a node": Address(node), "an actor": Address(node, actor)}[to]
        assert await called(hub, call, text, address, 10) == expected(way, call, text)
        if way.number in CAN_ANSWER:
            wanted = 4 if call == "broadcast" else 1
            while await heard(world, way, text) < wanted:
                await asyncio.sleep(0.005)
            if call not in AT_LEAST_ONCE:  # whose messages are sent again where nothing is heard for long
                assert await heard(world, way, text) == wanted

    world.run(story())


async def heard(world: World, way: Way, text: str) -> int:
    """How often the actors of the other processes were told something; each process has two, which take turns."""
    hub, asked = world.hubs[way], [Address(node) for node in world.identities(way) for _ in range(2)]
    return sum([(await hub.ask(Heard(text), Count, to=to)).number for to in asked])


@every_call
@every_way_that_asks
def test_every_call_from_another_process_to_this_one_keeps_its_promise(world: World, way: Way, call: str) -> None:
    async def story() -> None:
        node, mirror, text = world.nodes[way], world.mirrors[way], world.new_text()
        node.host(mirror)
        try:
            caller = Address(world.identities(way)[1])
            tried = await world.hubs[way].ask(Try(call, node.identity, text), Tried, to=caller)
            assert tried.result == expected(way, call, text)
            if call != "broadcast":  # it may have left before this actor was announced
                while text not in mirror.heard:
                    await asyncio.sleep(0.005)
                assert mirror.heard.count(text) == 1 or call in AT_LEAST_ONCE
        finally:
            await node.unhost(mirror)

    world.run(story())


@every_way_that_asks
def test_an_error_of_a_handler_in_another_process_is_told(world: World, way: Way) -> None:
    async def story() -> None:
        with pytest.raises(HandlerFailed, match=r"Mirror\.echo: as you wish"):
            await world.hubs[way].ask(Echo("fail"), Echoed)

    world.run(story())


@every_way_that_asks
def test_questions_to_anyone_are_shared_out_evenly(world: World, way: Way) -> None:
    async def story() -> None:
        asked = [world.hubs[way].ask(Echo("turn"), Echoed) for _ in range(40)]
        answers = [answer.process for answer in await asyncio.gather(*asked)]
        assert sorted(answers) == ["one"] * 20 + ["two"] * 20

    world.run(story())


class Listener(Actor):
    """Hears what comes back to nobody in particular."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @handles
    async def echoed(self, request: Echoed) -> None:
        self.heard.append(request.text)


@every_old_way
def test_what_is_told_in_an_old_format_arrives_and_what_follows_comes_back(world: World, way: Way) -> None:
    async def story() -> None:
        node, hub, listener, text = world.nodes[way], world.hubs[way], Listener(), world.new_text()
        node.host(listener)
        before = node.dead_letters.counts.total()
        while can_be_told(way) and text not in listener.heard:  # until the others know that somebody listens here
            await hub.tell(Echo(text))
            await hub.broadcast(Echo(text))
            await asyncio.sleep(0.01)
        if can_be_told(way):
            assert node.dead_letters.counts.total() == before
        else:
            await hub.tell(Echo(text))
            assert node.dead_letters.counts.total() == before + 1

    world.run(story())


@every_way
def test_on_the_wire_is_the_format_that_was_announced(world: World, way: Way) -> None:
    if way.number in CAN_ANSWER:
        world.run(world.hubs[way].ask(Echo("captured"), Echoed))
    else:
        test_what_is_told_in_an_old_format_arrives_and_what_follows_comes_back(world, way)
    world.run(world.nodes[way].stop())
    captures = world.captures / str(WAYS.index(way))
    del world.nodes[way]
    found: set[tuple[str, int, bool]] = set()
    for batch in read_capture(captures):
        for sighting in sightings_from_batch(batch):
            frames = list(sighting.frames)
            message = decode(frames)
            if message.identity.startswith(b"matrix.") and sighting.direction in ("in", "out"):
                found.add((sighting.direction, recognise(frames).number, bool(message.signature)))
    directions = {"in", "out"} if can_be_told(way) else set()
    assert found == {(direction, way.number, way.is_signed) for direction in directions}
