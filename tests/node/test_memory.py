"""Memory stays within its bounds between two processes, and no message is lost from the books."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable
from contextlib import suppress

import pytest

from benchmarks.memory import Story, ask_story, slow_story, stopped_story
from hopwire.errors import HandlerFailed
from hopwire.node import Actor, NodeSettings, Overflow, handles
from hopwire.node.transport import OutboxLimits
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeting, Sleeper

MB = 2**20
SLACK_BYTES = 24 * MB  # what the interpreter, its allocator and the buffers of the kernel take beside the queues
OVERHEAD = 1.5  # memory for a message in a queue, to its body
QUEUE = NodeSettings().inbox_messages
BODY = bytes(4096)


class Failing(Actor):
    @handles
    async def greet(self, greet: Greet) -> Greeting:
        raise ValueError(greet.name)


def told(story: Awaitable[Story]) -> Story:
    async def tell() -> Story:
        return await asyncio.wait_for(story, timeout=60)

    return asyncio.run(tell())


def growth(samples: list[int]) -> int:
    return max(samples) - samples[0]


@pytest.mark.slow
def test_questions_leave_nothing_behind() -> None:
    story = told(ask_story(20_000, bytes(256)))
    assert story.missing == 0
    assert not story.dead_letters
    assert not story.counted.dead_letters
    assert growth(story.here) < SLACK_BYTES
    assert growth(story.there) < SLACK_BYTES


@pytest.mark.slow
def test_a_slow_consumer_costs_its_queue_and_no_more() -> None:
    inbox_messages = 1_000
    story = told(slow_story(4_000, BODY, inbox_messages))
    assert story.missing == 0
    assert story.counted.handled < 4_000
    assert story.counted.inbox_messages <= inbox_messages
    assert story.counted.inbox_bytes <= inbox_messages * 2 * len(BODY)
    assert growth(story.here) < QUEUE * len(BODY) * OVERHEAD + SLACK_BYTES
    assert growth(story.there) < (inbox_messages + QUEUE) * len(BODY) * OVERHEAD + SLACK_BYTES


@pytest.mark.slow
def test_a_peer_that_stops_reading_costs_its_queue_and_no_more() -> None:
    story = told(stopped_story(25_000, BODY))
    assert story.missing == 0
    assert story.counted.handled < 25_000
    assert growth(story.here) < OutboxLimits().max_messages * len(BODY) * OVERHEAD + SLACK_BYTES


@pytest.mark.slow
def test_large_messages_to_a_peer_that_stops_reading_cost_the_bytes_of_its_queue() -> None:
    body = bytes(8 * MB)
    story = told(stopped_story(40, body))
    assert story.missing == 0
    assert story.counted.handled < 40
    assert growth(story.here) < OutboxLimits().max_bytes + 3 * len(body) + SLACK_BYTES  # 320 MB if messages count


@pytest.mark.parametrize("overflow", [Overflow.REFUSE, Overflow.DROP_OLDEST])
def test_a_full_queue_holds_its_limit_and_the_rest_are_dead_letters(overflow: Overflow) -> None:
    async def story(network: Network) -> None:
        settings = NodeSettings(inbox_messages=10, overflow=overflow)
        async with network.node(settings=settings) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            for number in range(5_000):
                await hub.tell(Greet(str(number)))
                await asyncio.sleep(0)
            statistics = node.statistics()
            assert statistics.inbox_messages == 10
            assert len(sleeper.started) + 10 + statistics.dead_letters["queue_full"] == 5_000

    run(story)


def test_a_full_queue_that_is_waited_for_holds_its_limit_and_loses_nothing() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(inbox_messages=10)) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            telling = [asyncio.ensure_future(hub.tell(Greet(str(number)))) for number in range(2_000)]
            await asyncio.sleep(1)
            assert node.statistics().inbox_messages == 10
            sleeper.wake.set()
            await asyncio.gather(*telling)
            assert await node.drain()
            assert len(sleeper.started) == 2_000
            assert "queue_full" not in node.statistics().dead_letters

    run(story)


@pytest.mark.slow
@pytest.mark.parametrize("at_least_once", [False, True])
def test_question_that_fails_leaves_nothing_behind_that_only_the_collector_frees(at_least_once: bool) -> None:
    async def story(network: Network) -> None:
        there = network.node()
        await there.start()
        here = network.node(peers=[there.uri])
        await here.start()
        there.host(Failing())
        await here.knows(Greet)
        hub, left = here.hub(), list[type]()
        for _ in range(3):  # the first one takes the ordinary way, the others the express way
            gc.collect()
            gc.disable()
            try:
                with suppress(HandlerFailed):
                    await hub.ask(Greet("Ada"), Greeting, timeout=5, at_least_once=at_least_once)
                    raise AssertionError("the handler fails")
                await asyncio.sleep(0.1)
                left += [type(each) for each in gc.get_objects() if isinstance(each, HandlerFailed)]
            finally:
                gc.enable()
        assert left == []
        await here.stop()
        await there.stop()

    run(story)
