"""What happens when things go wrong, on a network in memory with a clock of its own."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.cluster.events import Dialled
from hopwire.errors import DeliveryError, Expired, HandlerFailed, NoRoute, Timeout, Unreachable
from hopwire.model import Message
from hopwire.node import Actor, Node, NodeSettings, handles
from hopwire.testing import Faults, Network, run
from tests.node.stories import Count, Greet, Greeter, Greeting, Sleeper


def test_at_least_once_gets_through_a_bad_network_and_is_handled_once() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            network.faults = Faults(drop=0.4, duplicate=0.3, delay=0.01, jitter=0.1)
            hub = b.hub()
            names = [str(i) for i in range(60)]
            receipts = [hub.send(Greet(name), at_least_once=True, timeout=120) for name in names]
            assert {receipt.node for receipt in await asyncio.gather(*receipts)} == {a.identity}
            assert sorted(greeter.greeted) == sorted(names)
            assert hub.open_promises == 0
            assert "excluded" not in b.dead_letters.counts

    run(story)


def test_every_question_ends_whatever_the_network_does() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            network.faults = Faults(drop=0.5, duplicate=0.2, jitter=0.5)
            hub = b.hub()
            asked = [hub.ask(Greet(str(i)), Greeting, timeout=3) for i in range(200)]
            ended = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(end, Greeting | DeliveryError) for end in ended)
            assert any(isinstance(end, Greeting) for end in ended)
            assert any(isinstance(end, Timeout) for end in ended)
            assert hub.open_promises == 0

    run(story)


def test_questions_to_a_node_that_dies_end_as_soon_as_it_is_missed() -> None:
    async def story(network: Network) -> None:
        loop = asyncio.get_running_loop()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Sleeper())
            await b.knows(Greet)
            asked = asyncio.ensure_future(b.hub().ask(Greet("Ada"), Greeting, timeout=1000))
            await asyncio.sleep(0.1)
            network.crash(a)
            began = loop.time()
            with pytest.raises(Unreachable):
                await asked
            assert loop.time() - began < 10
            assert b.peers == ()

    run(story)


def test_at_least_once_finds_another_node_when_one_dies() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node() as b, network.node(peers=[a.uri, b.uri]) as c:
            a.host(Greeter("a"))
            b.host(Greeter("b"))
            await asyncio.sleep(1)
            network.crash(a)
            asked = [c.hub().ask(Greet(str(i)), Greeting, at_least_once=True, timeout=60) for i in range(10)]
            answers = await asyncio.gather(*asked)
            assert {answer.text[0] for answer in answers} == {"b"}

    run(story)


def test_nodes_find_each_other_again_after_a_partition() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            network.cut(a, b)
            await asyncio.sleep(30)
            assert a.peers == b.peers == ()
            network.heal()
            await b.knows(Greet, timeout=30)
            assert await b.hub().ask(Greet("again"), Greeting) == Greeting("hello again")

    run(story)


def test_a_message_whose_time_is_over_is_not_handled() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            first = asyncio.ensure_future(hub.ask(Greet("first"), Greeting, timeout=10))
            await asyncio.sleep(0.1)
            await hub.tell(Greet("too late"), ttl=1)
            await asyncio.sleep(2)
            sleeper.wake.set()
            await first
            await asyncio.sleep(0.1)
            assert sleeper.started == ["first"]
            assert node.dead_letters.counts["expired"] == 1

    run(story)


class Passes(Actor):
    """Passes a question on after a second."""

    @handles
    async def count(self, request: Count) -> Greet:
        await asyncio.sleep(1)
        return Greet("passed on")


def test_time_to_live_shrinks_by_the_time_spent_in_queues_and_handlers() -> None:
    arrived: list[tuple[bytes, float]] = []

    def spy(node: Node) -> None:
        take = node._incoming._take_message

        def look(message: Message) -> None:
            arrived.append((message.identity, message.ttl_ticks / 1e7))
            take(message)

        node._incoming._take_message = look  # type: ignore[method-assign]

    async def story(network: Network) -> None:
        plain = NodeSettings(express=False)
        async with (
            network.node(settings=plain) as a,
            network.node(settings=plain) as b,
            network.node(peers=[a.uri, b.uri], settings=plain) as c,
        ):
            a.host(Passes())
            await c.knows(Count)
            b._membership._step(Dialled(a.uri))
            b.host(Greeter())
            await a.knows(Greet)
            spy(a)
            spy(b)
            first, second = (asyncio.ensure_future(c.hub().ask(Count(1), Greeting, timeout=8)) for _ in range(2))
            assert [await first, await second] == [Greeting("hello passed on")] * 2
            assert arrived == [(b"counter.count", 8.0)] * 2 + [(b"greeter.greet", 7.0), (b"greeter.greet", 6.0)]

    run(story)


def test_what_waits_when_an_actor_is_taken_away_is_given_up_not_forgotten() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(inbox_messages=10)) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            asked = [asyncio.ensure_future(hub.ask(Greet(str(i)), Greeting)) for i in range(5)]
            await asyncio.sleep(0.1)
            await node.unhost(sleeper)
            ended = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(end, Unreachable) for end in ended)
            assert node.dead_letters.counts["closed"] == 5

    run(story)


class Chatty(Actor):
    """Says three things to another actor for each one that it hears."""

    @handles
    async def count(self, request: Count) -> list[Greet]:
        return [Greet("a"), Greet("b"), Greet("c")]


def test_what_an_actor_says_to_a_full_actor_is_refused_and_counted_not_lost() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(inbox_messages=1)) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            node.host(Chatty())
            await node.hub().tell(Count(1))
            await asyncio.sleep(1)
            waiting = node.statistics().inbox_messages
            assert len(sleeper.started) + waiting + node.dead_letters.counts["queue_full"] == 3
            assert node.dead_letters.counts["queue_full"] >= 1

    run(story)


def test_a_question_that_waits_for_room_ends_when_its_time_is_over() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(inbox_messages=1)) as node:
            node.host(Sleeper())
            hub = node.hub()
            await hub.tell(Greet("at work"))
            await asyncio.sleep(0.1)
            await hub.tell(Greet("waits"))
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises((Timeout, Expired)):
                await hub.ask(Greet("no room"), Greeting, timeout=3)
            with pytest.raises((Timeout, Expired)):
                await hub.ask(Greet("no room"), Greeting, timeout=3, at_least_once=True)
            await hub.tell(Greet("no room"), ttl=1)
            assert loop.time() - began < 8
            assert hub.open_promises == 0
            assert node.dead_letters.counts["expired"] >= 2

    run(story)


class Stillborn(Greeter):
    """Cannot even begin."""

    supervision = "stop"

    async def on_start(self) -> None:
        raise RuntimeError("no database")


def test_an_actor_that_cannot_start_says_so_to_whoever_waits_and_is_not_found_afterwards() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Stillborn())
            with pytest.raises(HandlerFailed, match=r"Stillborn\.on_start: no database"):
                await node.hub().ask(Greet("Ada"), Greeting)
            with pytest.raises(NoRoute):
                await node.hub().ask(Greet("Ada"), Greeting)

    run(story)
