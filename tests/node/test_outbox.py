"""A peer that cannot follow: its queue is bounded, and each policy does what it says; everything is accounted for."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.model import Codec, Payload
from hopwire.node import Actor, Node, NodeSettings, Overflow, handles

TOLD = 3000


class Load(Payload, identity="load", codec=Codec.RAW):
    data: bytes


class Takes(Actor):
    def __init__(self) -> None:
        self.count = 0

    @handles
    async def load(self, request: Load) -> None:
        self.count += 1


@pytest.mark.parametrize("overflow", Overflow)
def test_a_full_queue_to_a_peer_waits_refuses_or_drops_the_oldest(overflow: Overflow) -> None:
    async def story() -> tuple[int, int]:
        settings = NodeSettings(overflow=overflow, outbox_messages=20)
        async with Node() as there, Node(peers=[there.uri], settings=settings) as here:
            takes = Takes()
            there.host(takes)
            await here.knows(Load)
            hub, load = here.hub(), Load(b"x" * 1000)
            most = 0
            for _ in range(TOLD):
                await hub.tell(load)
                most = max(most, here.statistics().outbox_messages)
            assert most <= 20
            while takes.count + here.dead_letters.counts["queue_full"] < TOLD:
                await asyncio.sleep(0.005)
            return takes.count, here.dead_letters.counts["queue_full"]

    taken, refused = asyncio.run(asyncio.wait_for(story(), timeout=30))
    assert taken + refused == TOLD
    assert (refused == 0) == (overflow is Overflow.WAIT)
