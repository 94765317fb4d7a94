"""Nodes that know one door find everybody, on a network in memory: talk, deaths, partitions, routes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hopwire.node import Node
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter, Greeting


async def until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait on the clock of the test until something is so."""
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.05)


async def cluster(network: Network, size: int) -> list[Node]:
    """A door, and others that know only the door."""
    nodes = [network.node(join=[])]
    await nodes[0].start()
    for _ in range(size - 1):
        node = network.node(join=[nodes[0].uri])
        await node.start()
        nodes.append(node)
    await until(lambda: all(len(node.peers) == size - 1 for node in nodes))
    return nodes


async def stop(*nodes: Node) -> None:
    for node in nodes:
        await node.stop()


def test_nodes_that_know_one_door_find_everybody_and_ask_each_other() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 6)
        nodes[3].host(Greeter())
        for node in nodes:
            await node.knows(Greet)
            assert (await node.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await stop(*nodes)

    run(story)


def test_everything_goes_on_without_the_door() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 6)
        nodes[3].host(Greeter())
        await nodes[5].knows(Greet)
        network.crash(nodes[0])
        await until(lambda: all(len(node.peers) == 4 for node in nodes[1:]))
        assert (await nodes[5].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        late = network.node(join=[nodes[2].uri])
        await late.start()
        assert (await late.hub().ask(Greet("Bob"), Greeting, timeout=5)).text == "hello Bob"
        await until(lambda: len(late.peers) == 5)
        await stop(*nodes[1:], late)

    run(story)
