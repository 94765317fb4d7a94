"""Stories that could freeze the event loop; each runs in a process of its own, so that a test can tell."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopwire.cluster.announce import Hello, Routes
from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.node import Node
from hopwire.wire import encode
from tests.node.stories import Greet, Greeter

ROOT = Path(__file__).parents[2]


def said(payload: Payload) -> list[bytes]:
    contract = contract_of(payload)
    body = (body_from_payload(payload),)
    return [payload.node, *encode(Message(contract.identity, contract.version, body_frames=body))[1:]]  # type: ignore[attr-defined]


async def a_node_at_an_address_that_cannot_be_connected_to() -> None:
    async with Node() as node:
        node._incoming.take_frames(said(Hello(b"X", 5, "tcp://*:1")))
        node._incoming.take_frames(said(Routes(b"X", 5, 2, 0, ((b"\1actor", b"greeter.greet", 1, b""),))))
        await node.hub().tell(Greet("x"), ttl=1)


async def full(node: Node, peer: Node) -> asyncio.Future[None]:
    """Let somebody wait for room in the queue of a peer."""
    peer.host(Greeter())
    await node.knows(Greet)
    node._transport.send = lambda *_: "queue_full"  # type: ignore[method-assign]
    waiting = asyncio.ensure_future(node.hub().tell(Greet("x")))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    return waiting


async def a_node_that_stops_while_somebody_waits_for_room_at_a_peer() -> None:
    async with Node() as a, Node(peers=[a.uri]) as b:
        waiting = await full(b, a)
        await b.stop()
        await asyncio.wait([waiting], timeout=30)
        assert waiting.done()


async def a_peer_that_leaves_while_somebody_waits_for_room_at_it() -> None:
    async with Node() as a, Node(peers=[a.uri]) as b:
        waiting = await full(b, a)
        await a.stop()
        await asyncio.wait([waiting], timeout=30)
        assert waiting.done()


STORIES = {
    story.__name__: story
    for story in (
        a_node_at_an_address_that_cannot_be_connected_to,
        a_node_that_stops_while_somebody_waits_for_room_at_a_peer,
        a_peer_that_leaves_while_somebody_waits_for_room_at_it,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_nothing_freezes_the_loop_and_nobody_waits_for_ever(name: str) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", "tests.node.test_frozen", name]
    subprocess.run(command, env=environ, cwd=ROOT, timeout=60, check=True, capture_output=True)


if __name__ == "__main__":
    asyncio.run(STORIES[sys.argv[1]]())
