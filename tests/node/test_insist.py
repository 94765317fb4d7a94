"""When a message that must arrive is sent again: not while it waits in our own queue, and not all at once."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from hopwire.errors import Timeout
from hopwire.node import Node
from hopwire.node.retries import FOR_EACH, FOR_EACH_SECOND
from hopwire.testing import Faults, Network, run
from tests.node.stories import Greet, Greeter, Greeting, Sleeper

MANY = 1000


def watched(network: Network, node: Node) -> list[float]:
    """Let nothing that a node sends arrive, and give the times at which it sends something beside control messages."""
    sent: list[float] = []
    transport = network._transports[node.uri]

    def send(uri: str, frames: list[bytes], size_bytes: int, is_control: bool = False, goes_first: bool = False) -> str:
        if not is_control:
            sent.append(asyncio.get_running_loop().time())
        return ""

    transport.send = send  # type: ignore[method-assign]
    return sent


def since(times: list[float]) -> list[float]:
    return [round(time - times[0], 3) for time in times]


@pytest.mark.parametrize(
    ("chance", "expected"), [(0.0, [0.0, 0.1, 0.3, 0.7, 1.5, 3.1]), (1.0, [0.0, 0.15, 0.45, 1.05, 2.25])]
)
def test_pauses_grow_and_chance_makes_them_longer(chance: float, expected: list[float]) -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            b._timing.chance = lambda: chance
            sent = watched(network, b)
            with pytest.raises(Timeout, match=rf"nothing heard \({len(expected)} attempts\)"):
                await b.hub().send(Greet("x"), timeout=4, at_least_once=True)
            assert since(sent) == expected

    run(story)


def test_what_waits_in_our_own_queue_is_not_sent_again() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            loop = asyncio.get_running_loop()
            sent, asked = watched(network, b), set()
            began = loop.time()

            def is_queued(node: bytes, mark: int) -> bool:
                asked.add((node, mark))
                return loop.time() < began + 2.95

            b._timing.chance = lambda: 0.0
            b._outgoing.mark, b._outgoing.is_queued = lambda node: 40 + len(sent), is_queued  # type: ignore[method-assign]
            with pytest.raises(Timeout, match="2 attempts"):
                await b.hub().ask(Greet("x"), Greeting, timeout=3.2, at_least_once=True)
            first, second = sent
            assert first == began
            assert began + 2.95 + 0.1 <= second < began + 2.95 + 0.21
            assert asked == {(a.identity, 41), (a.identity, 42)}

    run(story)


def test_a_pause_in_which_the_loop_was_held_counts_for_nothing() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            b._timing.chance = lambda: 0.0
            sent, loop = watched(network, b), asyncio.get_running_loop()

            def hold() -> None:
                loop._virtual.clock += 0.5  # type: ignore[attr-defined]

            loop.call_later(0.05, hold)  # the pause ends at 0.55 instead of 0.1: a receipt may lie in the socket
            with pytest.raises(Timeout):
                await b.hub().send(Greet("x"), timeout=1.5, at_least_once=True)
            assert since(sent) == [0.0, 0.75, 0.95, 1.35]

    run(story)


def test_an_answer_ends_the_wait_for_our_own_queue() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            sleeper = Sleeper()
            a.host(sleeper)
            await b.knows(Greet)
            b._outgoing.is_queued = lambda node, mark: True  # type: ignore[method-assign]
            asked = asyncio.ensure_future(b.hub().ask(Greet("x"), Greeting, timeout=1000, at_least_once=True))
            await asyncio.sleep(5)
            sleeper.wake.set()
            assert await asked == Greeting("x")
            assert sleeper.started == ["x"]
            network.cut(a, b)
            with pytest.raises(Timeout, match=r"no receipt for greeter\.greet v1 in 3 s; sent to [^;]+$"):  # once
                await b.hub().send(Greet("y"), timeout=3, at_least_once=True)

    run(story)


@pytest.mark.slow
def test_very_many_at_once_to_a_peer_that_is_slow_are_hardly_ever_sent_twice() -> None:
    async def story(network: Network) -> None:
        loop = asyncio.get_running_loop()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(greeter := Greeter())
            await b.knows(Greet)
            network.faults = Faults(delay=0.4)  # there and back takes eight times as long as the first pause
            hub, before, began = b.hub(), b._outgoing.message_count, loop.time()
            asked = [hub.ask(Greet(str(n)), Greeting, timeout=60, at_least_once=True) for n in range(MANY)]
            assert await asyncio.gather(*asked) == [Greeting(f"hello {n}") for n in range(MANY)]
            assert len(greeter.greeted) == MANY
            budget = FOR_EACH * MANY + FOR_EACH_SECOND * (1 + loop.time() - began)  # of 30,000 less than one in 25
            assert b._outgoing.message_count - before <= MANY + budget

    run(story)


@pytest.mark.slow
def test_a_network_that_loses_a_third_of_everything_answers_two_hundred_questions_a_second() -> None:
    async def story(network: Network) -> int:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            hub, asked = b.hub(), list[asyncio.Future[Greeting]]()
            network.faults = Faults(drop=0.3, delay=0.001)
            for number in range(600):
                question = hub.ask(Greet(str(number)), Greeting, timeout=15, at_least_once=True)
                asked.append(asyncio.ensure_future(question))
                await asyncio.sleep(0.005)
            ends = await asyncio.gather(*asked, return_exceptions=True)
            network.faults = Faults()
            return sum(isinstance(end, Greeting) for end in ends)

    assert run(story) == 600


def test_cancelling_what_ends_in_the_same_moment_is_no_complaint() -> None:
    async def story(network: Network) -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with network.node() as node:
            node.host(Sleeper())
            hub = node.hub(new=True)
            asking = asyncio.ensure_future(hub.ask(Greet("Ada"), Greeting, timeout=50, at_least_once=True))
            while not hub.open_promises:
                await asyncio.sleep(0)
            await asyncio.sleep(1)  # of the story's clock: the question waits for its answer
            hub.close()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        del asking
        gc.collect()
        assert not complaints

    run(story)
