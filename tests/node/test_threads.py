"""Handlers that block have threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading

import pytest

from hopwire.errors import Unreachable
from hopwire.node import Actor, Node, handles
from hopwire.node.threads import ActorThreads, Threads
from hopwire.testing import Network, run
from tests.node.loopback import told
from tests.node.stories import Count, Greet, Greeting, Number


class Blocked(Actor):
    """Blocks until the test lets it go."""

    concurrency = 40  # more than any pool that is shared has

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.threads: set[str] = set()

    @handles
    def greet(self, request: Greet) -> Greeting:
        self.threads.add(threading.current_thread().name)
        self.let_go.wait(30)
        return Greeting(request.name)


class Quick(Actor):
    @handles
    def count(self, request: Count) -> Number:
        return Number(request.up_to)


def test_a_handler_that_blocks_keeps_only_its_own_actor_waiting() -> None:
    async def story() -> None:
        async with Node() as node:
            blocked = Blocked()
            node.host(blocked)
            node.host(Quick())
            hub = node.hub()
            asked = [asyncio.ensure_future(hub.ask(Greet(str(i)), Greeting, timeout=30)) for i in range(40)]
            try:
                while len(blocked.threads) < 40:
                    await asyncio.sleep(0.001)
                assert await hub.ask(Count(7), Number, timeout=10) == Number(7)
                assert not any(each.done() for each in asked)
            finally:
                blocked.let_go.set()
            assert [each.text for each in await asyncio.gather(*asked)] == [str(i) for i in range(40)]
            assert all(name.startswith("hopwire-Blocked") for name in blocked.threads)

    told(story)


def test_threads_go_with_their_actor() -> None:
    def named() -> int:
        return sum(thread.name.startswith("hopwire-Leaving") for thread in threading.enumerate())

    class Leaving(Quick):
        pass

    async def story() -> None:
        async with Node() as node:
            quick = Leaving()
            node.host(quick)
            assert named() == 0  # none before the first message
            await node.hub().ask(Count(1), Number, timeout=10)
            assert named() == 1
            await node.unhost(quick)
            for _ in range(1000):
                if not named():
                    return
                await asyncio.sleep(0.005)
            raise AssertionError("a thread stayed")

    told(story)


def test_actors_beyond_the_limit_of_threads_share_those_of_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        threads = Threads(3)
        first, second, third = (ActorThreads(threads, 2, name) for name in ("First", "Second", "Third"))

        def name() -> str:
            return threading.current_thread().name.partition("_")[0]

        assert await first.call(name) == "hopwire-First"
        assert [await each.call(name) for each in (second, third)] == ["asyncio", "asyncio"]
        first.close()
        second.close()
        fourth = ActorThreads(threads, 3, "Fourth")
        assert await fourth.call(name) == "hopwire-Fourth"
        fourth.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert [record.args for record in caplog.records] == [("Second",)]  # said once


def test_a_handler_in_a_thread_sees_the_context_variables_of_its_worker() -> None:
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")

    async def story() -> None:
        threads = ActorThreads(Threads(), 1, "Seeing")
        seen.set("something")
        assert await threads.call(seen.get) == "something"
        threads.close()

    asyncio.run(story())


def test_a_node_stops_in_time_although_a_handler_blocks_and_whoever_waits_is_told() -> None:
    async def story(network: Network) -> None:
        blocked = Blocked()
        try:
            async with network.node() as a, network.node(peers=[a.uri]) as b:
                a.host(blocked)
                await b.knows(Greet)
                asked = asyncio.ensure_future(b.hub().ask(Greet("x"), Greeting, timeout=1000))
                while not blocked.threads:
                    await asyncio.sleep(0.001)
                await a.stop()
                with pytest.raises(Unreachable):
                    await asked
        finally:
            blocked.let_go.set()

    run(story)
