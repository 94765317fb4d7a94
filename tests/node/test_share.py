"""Busy actors leave the loop to others: a share of each turn is theirs, and no more."""

from __future__ import annotations

import asyncio
import time

import pytest

from hopwire.node import Actor, Hub, Node, handles
from hopwire.node.share import AT_ONCE, FEWEST, SHARE_SECONDS, Share, in_slices
from tests.node.loopback import told
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting
from tests.node.turns import Turns


def test_a_share_is_over_when_its_time_is_and_begins_anew_with_the_next_turn() -> None:
    now = 100.0

    async def story() -> None:
        nonlocal now
        share = Share(lambda: now)
        assert not share.is_over()
        now += SHARE_SECONDS / 2
        assert not share.is_over()
        now += SHARE_SECONDS
        assert [share.is_over(), share.is_over()] == [True, True]
        await asyncio.sleep(0)
        assert not share.is_over()
        now += SHARE_SECONDS
        assert share.is_over()

    asyncio.run(story())


def test_a_share_is_not_over_in_a_turn_that_began_after_it() -> None:
    now = 100.0

    async def story() -> None:
        nonlocal now
        share = Share(lambda: now)
        for _ in range(5):
            assert not share.is_over()
            now += 10 * SHARE_SECONDS
            await asyncio.sleep(0)

    asyncio.run(story())


def test_fewer_are_let_in_after_a_long_turn_and_more_after_a_short_one() -> None:
    now = 100.0

    async def story() -> None:
        nonlocal now
        share, let_in = Share(lambda: now), 0

        async def wait() -> None:
            nonlocal let_in
            await share.turn()
            let_in += 1

        async def turn(seconds: float) -> int:
            nonlocal now, let_in
            now, let_in = now + seconds, 0
            await asyncio.sleep(0)
            return let_in

        tasks = [asyncio.ensure_future(wait()) for _ in range(1000)]
        await asyncio.sleep(0)
        assert [await turn(0.0) for _ in range(4)] == [0, 2 * FEWEST, 4 * FEWEST, 8 * FEWEST]
        assert [await turn(1.0) for _ in range(6)][1:] == [8 * FEWEST, 4 * FEWEST, 2 * FEWEST, FEWEST, FEWEST]
        for task in tasks:
            task.cancel()

    asyncio.run(story())


class Busy(Actor):
    """Holds the loop for each message, and never waits."""

    def __init__(self) -> None:
        self.handled = 0

    @handles
    async def greet(self, request: Greet) -> Greeting:
        self._work()
        return Greeting("done")

    @handles
    async def count(self, request: Count) -> None:
        self._work()

    def _work(self) -> None:
        self.handled += 1
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass


async def fill(node: Node, hub: Hub) -> None:
    """Put many messages into the queues in one turn, as if they had come from many other nodes."""
    node._timing.hub_share.is_full = lambda: False  # type: ignore[method-assign]
    for _ in range(1500):
        await hub.tell(Count(1))
    del node._timing.hub_share.is_full


@pytest.mark.slow
@pytest.mark.parametrize(("actors", "concurrency"), [(1, 1), (5, 1), (60, 16)])
def test_the_loop_turns_while_busy_actors_have_thousands_of_messages(actors: int, concurrency: int) -> None:
    async def story() -> list[int]:
        async with Node() as node:
            busy = [Busy() for _ in range(actors)]
            for each in busy:
                each.concurrency = concurrency
                node.host(each)
            hub = node.hub()
            await fill(node, hub)
            with Turns(lambda: sum(each.handled for each in busy)) as turns:
                while sum(each.handled for each in busy) < 600:
                    await asyncio.sleep(0.001)
        return turns.steps

    handled = sorted(told(story))
    assert len(handled) > 20  # one, if the loop did not turn
    assert handled[-1] < 50  # 50 ms; 1,500 if nobody gives way, and 960 if each worker handles a message in each turn


@pytest.mark.slow
def test_a_question_does_not_wait_behind_all_messages_of_another_contract_that_are_told_at_once() -> None:
    told = 0

    async def tell(hub: Hub) -> None:
        nonlocal told
        await hub.tell(Count(0))
        told += 1

    async def story() -> int:
        async with Node() as node:
            node.host(Greeter())
            node.host(Counter())
            hub = node.hub()
            telling = [asyncio.ensure_future(tell(hub)) for _ in range(20_000)]
            while not node._timing.hub_share.waiters:
                await asyncio.sleep(0)
            await hub.ask(Greet("Ada"), Greeting)
            behind = told
            await asyncio.gather(*telling)
        return behind

    assert asyncio.run(story()) < 16_000  # 20,000, if all that was said before has to leave before; some thousand are


@pytest.mark.slow
def test_a_question_to_an_idle_actor_does_not_wait_for_the_queue_of_a_busy_one() -> None:
    class Idle(Actor):
        @handles
        async def greet(self, request: Greet) -> Greeting:
            return Greeting("at once")

    class OnlyCounts(Busy):
        @handles
        async def count(self, request: Count) -> None:
            self._work()

        greet = None

    async def story() -> None:
        async with Node() as node:
            busy = OnlyCounts()
            node.host(busy)
            node.host(Idle())
            hub = node.hub()
            await fill(node, hub)
            while not busy.handled:
                await asyncio.sleep(0)
            assert await hub.ask(Greet("x"), Greeting, timeout=10) == Greeting("at once")
            assert busy.handled < 500

    told(story)


@pytest.mark.slow
def test_questions_that_are_asked_all_at_once_leave_the_loop_time_to_turn() -> None:
    async def story() -> int:
        async with Node() as there, Node(peers=[there.uri]) as here:
            there.host(Greeter())
            await here.knows(Greet)
            hub = here.hub()
            names = [str(number) for number in range(10_000)]
            answered = 0

            async def ask(name: str) -> Greeting:
                nonlocal answered
                answer = await hub.ask(Greet(name), Greeting, timeout=60)
                answered += 1
                return answer

            with Turns(lambda: answered) as turns:
                answers = await asyncio.gather(*map(ask, names))
            assert answers == [Greeting(f"hello {name}") for name in names]
            return turns.most

    assert told(story) < 3_000  # 10,000 if they are all answered in one turn


def test_what_is_done_to_very_many_is_done_in_several_turns() -> None:
    async def story() -> None:
        done: list[int] = []
        in_slices(asyncio.get_running_loop(), map(done.append, range(3 * AT_ONCE + 1)))
        counts = [len(done)]
        while len(done) <= 3 * AT_ONCE:
            await asyncio.sleep(0)
            counts.append(len(done))
        assert counts == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE, 3 * AT_ONCE + 1]

    asyncio.run(story())


def test_items_are_given_as_long_as_the_share_lasts_and_then_the_loop_turns() -> None:
    async def story() -> None:
        now, turns = 0.0, 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        share = Share(lambda: now, seconds=10.0)
        given = []
        async for item in share.spread(range(100)):
            given.append(item)
            now += 1
        assert given == list(range(100))
        assert 4 <= turns <= 30

    asyncio.run(story())
