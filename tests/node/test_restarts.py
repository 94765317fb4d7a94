"""Members that are killed, started again and cut off, again and again: in the end all reach all."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from hopwire.errors import HopwireError
from hopwire.node import Address, Node
from tests.node.stories import Greet, Greeter, Greeting
from tests.node.test_forgotten_hellos import DOMAINS
from tests.node.virtual_sockets import Cables, run_on_sockets
from tests.ports import free_port

SIZE = 8
TROUBLE_SECONDS, QUIET_SECONDS, REACH_SECONDS = 15.0, 8.0, 20.0


class Troubled:
    """Members at fixed addresses, the first of which are the doors, and those who make trouble for them."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.cables = Cables(self.chance)
        ports = [free_port() for _ in range(SIZE)]  # which a process gets again after its restart
        self.addresses = {b"n%d" % number: f"tcp://127.0.0.1:{port}" for number, port in enumerate(ports)}
        self.nodes: dict[bytes, Node] = {}

    async def start(self, name: bytes) -> None:
        doors = [uri for uri in list(self.addresses.values())[:2] if uri != self.addresses[name]]
        node = Node(self.addresses[name], join=doors, identity=name, domains=DOMAINS)
        self.nodes[name] = await self.cables.start(node)
        node.host(Greeter(), partition=name)

    def kill(self, name: bytes) -> None:
        self.cables.kill(self.nodes.pop(name))

    async def restart_some(self, until: float) -> None:
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self.chance.uniform(0.2, 4))
            name = self.chance.choice(list(self.nodes))
            self.kill(name)
            await asyncio.sleep(self.chance.choice([self.chance.uniform(0.01, 0.4), self.chance.uniform(0.3, 4)]))
            await self.start(name)

    async def cut_some(self, until: float) -> None:
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self.chance.uniform(0.5, 4))
            name = self.chance.choice(list(self.addresses))
            self.cables.cut.add(name)
            await asyncio.sleep(self.chance.uniform(2, 12))
            self.cables.cut.discard(name)

    async def talk(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            one, other = self.chance.sample(list(self.addresses), 2)
            if one in self.nodes:
                asyncio.get_running_loop().create_task(self.is_reached(one, other))

    async def is_reached(self, one: bytes, other: bytes) -> bool:
        try:
            await self.nodes[one].hub().ask(Greet("Ada"), Greeting, to=Address(other), partition=other, timeout=3)
        except HopwireError:
            return False
        return True

    async def reach(self, one: bytes, other: bytes) -> bool:
        until = asyncio.get_running_loop().time() + REACH_SECONDS
        while not await self.is_reached(one, other):
            if asyncio.get_running_loop().time() > until:
                return False
            await asyncio.sleep(0.2)
        return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_members_that_restart_behind_cut_cables_all_reach_all_in_the_end(seed: int) -> None:
    async def story() -> None:
        world, now = Troubled(seed), asyncio.get_running_loop().time
        for name in world.addresses:
            await world.start(name)
        await asyncio.sleep(5)
        until, talking = now() + TROUBLE_SECONDS, asyncio.ensure_future(world.talk())
        await asyncio.gather(world.restart_some(until), world.restart_some(until), world.cut_some(until))
        talking.cancel()
        await asyncio.sleep(QUIET_SECONDS)
        pairs = [(one, other) for one in world.addresses for other in world.addresses if one != other]
        reached = await asyncio.gather(*[world.reach(one, other) for one, other in pairs])
        assert [pair for pair, is_so in zip(pairs, reached, strict=True) if not is_so] == []
        assert {len(node.peers) for node in world.nodes.values()} == {SIZE - 1}
        for name in list(world.nodes):
            world.kill(name)

    run_on_sockets(story)
