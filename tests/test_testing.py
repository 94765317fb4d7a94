"""The clock of the network in memory."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import hopwire as hw
from tests.node.stories import Count, Counter, Greet, Greeting, Number


class Blocking(hw.Actor):
    """Works in a thread for a while that is real."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @hw.handles
    def greet(self, request: Greet) -> Greeting:
        time.sleep(self.seconds)
        return Greeting(request.name)


@pytest.mark.slow
def test_the_clock_does_not_run_ahead_of_a_handler_in_a_thread() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Blocking(0.05))
            await b.knows(Greet)
            began = asyncio.get_running_loop().time()
            for number in range(10):
                assert (await b.hub().ask(Greet(str(number)), Greeting, timeout=30)).text == str(number)
            assert 0.5 <= asyncio.get_running_loop().time() - began < 10

    hw.testing.run(story)


@pytest.mark.slow
def test_a_question_to_a_thread_that_is_stuck_still_ends() -> None:
    class Stuck(hw.Actor):
        def __init__(self) -> None:
            self.go = threading.Event()

        @hw.handles
        def greet(self, request: Greet) -> Greeting:
            self.go.wait(20)
            return Greeting("late")

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            stuck = Stuck()
            node.host(stuck)
            try:
                with pytest.raises(hw.Timeout):
                    await node.hub().ask(Greet("x"), Greeting, timeout=0.3)
            finally:
                stuck.go.set()

    hw.testing.run(story)


def test_a_thread_may_wait_for_what_the_loop_does_meanwhile() -> None:
    class Asks(hw.Actor):
        @hw.handles
        def greet(self, request: Greet, context: hw.BlockingContext) -> Greeting:
            return Greeting(str(context.ask(Count(1), Number, timeout=20).value))

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Counter())
            await b.knows(Count)
            b.host(Asks())
            assert await b.hub().ask(Greet("x"), Greeting) == Greeting("0")

    hw.testing.run(story)


def test_a_minute_without_threads_takes_no_time() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            node.host(Blocking(0.0))
            await node.hub().ask(Greet("x"), Greeting)
            await asyncio.sleep(600)

    began = time.monotonic()
    hw.testing.run(story)
    assert time.monotonic() - began < 30
