"""What the original pinned of its actors, and what is pinned here instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hopwire.errors import HandlerFailed, NoRoute
from hopwire.model import Message, contract_of
from hopwire.node import Actor, Context, Node, handles
from hopwire.testing import Network, run
from hopwire.wire import encode
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number


class InThreads(Actor):
    """A method for each way to fail."""

    @handles
    def greet(self, request: Greet) -> Greeting:
        raise KeyError("in a thread")

    @handles
    async def count(self, request: Count) -> AsyncIterator[Number]:
        if request.up_to:
            raise LookupError("before an answer")
        yield Number(0)


def test_an_error_in_a_thread_or_in_a_generator_reaches_the_caller() -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(InThreads())
            hub = node.hub()
            with pytest.raises(HandlerFailed, match=r"KeyError: InThreads\.greet: 'in a thread'"):
                await hub.ask(Greet("x"), Greeting)
            with pytest.raises(HandlerFailed, match=r"LookupError: InThreads\.count: before an answer"):
                await hub.ask(Count(1), Number)

    asyncio.run(story())


class Relay(Actor):
    """Passes a greeting on as a count, whose answer goes to whoever asked first."""

    @handles
    async def greet(self, request: Greet) -> Count:
        return Count(1)


@pytest.mark.parametrize("is_far", [False, True])
def test_the_answer_of_the_last_actor_goes_to_whoever_asked_the_first(is_far: bool) -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            (b if is_far else a).host(Relay())
            a.host(Counter())
            await a.knows(Greet)
            await b.knows(Count)
            assert await a.hub().ask(Greet("x"), Number) == Number(0)

    run(story)


class TwoOfOneVersion(Actor):
    @handles
    async def greet(self, request: Greet) -> Greeting:
        return Greeting("greeted")

    @handles
    async def greeting(self, request: Greeting) -> None: ...


def test_an_actor_that_is_named_and_has_no_method_says_so() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            address = node.host(TwoOfOneVersion())
            hub = node.hub()
            unknown = Message(b"never heard of", 1, receiver_identity=address.receiver)
            node._incoming.take_frames(encode(unknown))
            await asyncio.sleep(1)
            assert node.dead_letters.counts["handler_missing"] == 1
            with pytest.raises(NoRoute, match="receiver_does_not_handle"):
                await hub.ask(Count(1), Number, to=address)

    run(story)


def test_two_actors_of_one_class_have_a_queue_and_a_turn_each() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            first, second = Greeter("first"), Greeter("second")
            assert node.host(first).receiver != node.host(second).receiver
            answers = [(await node.hub().ask(Greet("x"), Greeting)).text for _ in range(4)]
            assert answers == ["first x", "second x"] * 2

    run(story)


class Failing(Actor):
    """Fails at what an error message is in the original: an outcome."""

    @handles
    async def greet(self, request: Greet, context: Context) -> None:
        raise ValueError("again")


def test_an_error_that_nobody_waits_for_is_counted_and_causes_no_further_message() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Failing())
            await node.hub().tell(Greet("x"))
            await asyncio.sleep(1)
            assert node.dead_letters.counts["handler_failed"] == 1
            assert node.dead_letters.counts.total() == 1

    run(story)


def test_an_answer_is_of_the_flow_of_its_question_and_begins_with_no_hops() -> None:
    arrived: list[Message] = []

    class Last(Actor):
        @handles
        async def count(self, request: Count, context: Context) -> Number:
            arrived.append(context.message)
            return Number(0)

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Relay())
            a.host(Last())
            await b.knows(Greet)
            await b.hub().ask(Greet("x"), Number, correlation_id=b"flow", trace=True, timeout=20)
            (message,) = arrived
            assert (message.correlation_id, message.hops, message.trace_options) == (b"flow", 0, 1)
            assert [entry.identity for entry in message.routing] == [b.identity]
            assert 0 < message.ttl_ticks <= 20 * 10_000_000

    run(story)


def test_a_handler_is_chosen_by_identity_version_and_partition() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            node._incoming.take_frames(encode(Message(contract_of(Greet).identity, 2)))
            node._incoming.take_frames(encode(Message(contract_of(Greet).identity, 1, b"elsewhere")))
            assert node.dead_letters.counts["no_route"] == 2

    run(story)
