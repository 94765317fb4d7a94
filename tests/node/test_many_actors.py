"""Many actors: each costs the same, however many there are."""

from __future__ import annotations

import asyncio
from time import process_time

import pytest

from hopwire.model import contract_of
from hopwire.node.news import RoutesUpdated
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter, Greeting


def test_all_that_is_hosted_in_one_turn_of_the_loop_is_announced_at_once() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            events = b.events()
            greeters = [Greeter() for _ in range(200)]
            for greeter in greeters:
                a.host(greeter)
            await b.knows(Greet)
            assert len(b._tables.remote.handlers_of(contract_of(Greet))) == 200
            assert await anext(events) == RoutesUpdated(a.identity, 200, 0)
            await asyncio.gather(*(a.unhost(greeter) for greeter in greeters))
            assert await anext(events) == RoutesUpdated(a.identity, 0, 200)

    run(story)


def test_very_many_routes_are_announced_in_some_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.node.membership.ROUTES_TOLD_AT_ONCE", 40)

    async def story(network: Network) -> None:
        async with (
            network.node(join=[]) as a,
            network.node(peers=[a.uri]) as plain,
            network.node(join=[a.uri]) as member,
        ):
            while not plain.peers or not member.peers:
                await asyncio.sleep(0.01)
            told, turns, events = list[int](), 0, a.events()
            greeters = [Greeter() for _ in range(380)]
            for greeter in greeters:
                a.host(greeter)
            await a.unhost(greeters.pop())  # before it was its turn
            while sum(told) < 379:
                while (event := events.take()) is not None:
                    told += [event.added] if isinstance(event, RoutesUpdated) and event.node == a.identity else []
                turns += 1
                await asyncio.sleep(0)
            assert max(told) == 40
            assert turns > 8  # others had their turns between
            for node in (plain, member):
                while len(node._tables.remote.handlers_of(contract_of(Greet))) != 379:
                    await asyncio.sleep(0.01)
            assert await a.drain()  # takes all of them back
            assert not plain._tables.remote.handlers_of(contract_of(Greet))

    run(story)


def test_what_comes_and_goes_within_one_turn_is_not_announced() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            revision = a._membership._cluster.revision
            greeter = Greeter()
            a.host(greeter)
            await a.unhost(greeter)
            await asyncio.sleep(5)
            assert a._membership._cluster.revision == revision

    run(story)


def test_a_drained_node_announces_nothing_that_starts_again() -> None:
    class Late(Greeter):
        failures = 1

        async def on_start(self) -> None:
            if self.failures:
                self.failures -= 1
                raise OSError("no database")

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            a.host(Late())
            await asyncio.sleep(0.05)
            assert await a.drain()
            await asyncio.sleep(1)
            assert b._tables.remote.handlers_of(contract_of(Greet)) == []
            assert await a.hub().ask(Greet("Ada"), Greeting, timeout=5) == Greeting("hello Ada")

    run(story)


@pytest.mark.slow
def test_an_actor_costs_the_same_among_few_and_among_many() -> None:
    async def cost(network: Network, count: int) -> float:
        """Host, announce and stop so many actors; gives the time of the processor."""
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            began = process_time()
            for _ in range(count):
                a.host(Greeter())
            while len(b._tables.remote.handlers_of(contract_of(Greet))) < count:
                await asyncio.sleep(0.01)
            await a.stop()
            return process_time() - began

    async def story(network: Network) -> None:
        few, many = await cost(network, 500), await cost(network, 8000)
        assert many / few < 48  # 16 if each costs the same, and 256 if each costs as much as there are others

    run(story)
