"""Who holds the loop is named, with the time; a task that is cancelled from inside is told from one that is stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hopwire.node import Actor, Context, handles
from hopwire.node.stepping import HELD_SECONDS, Stepping
from hopwire.testing import Network, run
from tests.node.stories import Count, Greet, Greeting, Number


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Holding(Actor):
    """Holds the loop for as long as a test says, as far as the clock of the test goes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    @handles
    async def greet(self, request: Greet) -> Greeting:
        self.clock.now += float(request.name)
        return Greeting(request.name)

    @handles
    async def count(self, request: Count, context: Context) -> Number:
        await asyncio.sleep(5)
        self.clock.now += request.up_to
        await asyncio.sleep(5)
        return Number(request.up_to)

    @handles
    def number(self, request: Number) -> Number:
        self.clock.now += 1  # in a thread, which holds nobody
        return Number(request.value)


def held(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if getattr(each, "hopwire_event", "") == "held_loop"]


def test_a_handler_that_holds_the_loop_is_named_with_its_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            clock = Clock()
            node._timing.share.clock = clock
            node.host(Holding(clock))
            hub = node.hub()
            await hub.ask(Greet(str(HELD_SECONDS / 2)), Greeting, timeout=5)
            assert held(caplog) == []
            await hub.ask(Greet("0.3"), Greeting, timeout=5)
            (text,) = held(caplog)
            assert text.startswith("Holding.greet held the loop for 0.3 s")
            await hub.ask(Count(2), Number, timeout=50)
            assert held(caplog)[1].startswith("Holding.count held the loop for 2.0 s")

    run(story)


def test_a_handler_that_holds_the_loop_all_the_time_is_named_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            clock = Clock()
            node._timing.share.clock = clock
            node.host(Holding(clock))
            for _ in range(10):
                await node.hub().ask(Greet("0.2"), Greeting, timeout=5)
            await asyncio.sleep(61)
            await node.hub().ask(Greet("0.2"), Greeting, timeout=5)
            first, second = held(caplog)
            assert "9 more like this" not in first
            assert "9 more like this" in second

    run(story)


def test_the_time_in_which_a_handler_waits_counts_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node._timing.share.clock = asyncio.get_running_loop().time
            node.host(Holding(Clock()))
            await node.hub().ask(Count(0), Number, timeout=50)

    with caplog.at_level(logging.WARNING):
        run(story)
    assert held(caplog) == []


def stepping() -> Stepping:
    return Stepping(lambda: 0.0, lambda work, seconds: None)


def test_values_and_errors_pass_through_the_steps() -> None:
    seen: list[Any] = []

    async def work(_: Stepping) -> None:
        seen.append(await asyncio.sleep(0, "value"))
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(100)
        except TimeoutError:
            seen.append("timeout")
        raise ValueError("an error")

    with pytest.raises(ValueError, match="an error"):
        asyncio.run(stepping().drive(work))
    assert seen == ["value", "timeout"]


def test_a_task_that_is_cancelled_from_outside_ends() -> None:
    async def story() -> None:
        steps, ends = stepping(), []

        async def work(_: Stepping) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError as error:
                ends.append(steps.is_ending(error))
                raise

        task = asyncio.ensure_future(steps.drive(work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends == [True]

    asyncio.run(story())


def test_a_coroutine_that_is_thrown_away_is_closed() -> None:
    closed: list[bool] = []
    steps = stepping()

    async def work(_: Stepping) -> None:
        try:
            await asyncio.sleep(100)
        except GeneratorExit as error:
            closed.append(steps.is_ending(error))
            raise

    async def story() -> None:
        task = asyncio.ensure_future(steps.drive(work))
        await asyncio.sleep(0)
        task.get_coro().close()
        task.cancel()

    asyncio.run(story())
    assert closed == [True]
