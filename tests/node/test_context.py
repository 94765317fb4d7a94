"""What a handler learns from its context, and how it goes on within the flow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import hopwire as hw
from tests.node.stories import Count, Counter, Greet, Greeting, Number


class Relay(hw.Actor):
    """Asks another actor, tells a third, and says what it knows."""

    def __init__(self) -> None:
        self.seen: list[hw.Context] = []
        self.left: list[float | None] = []

    @hw.handles
    async def greet(self, request: Greet, context: hw.Context) -> Greeting:
        self.seen.append(context)
        self.left.append(context.time_left())
        number = await context.ask(Count(1), Number)
        await context.tell(Count(0))
        return Greeting(f"{request.name} {number.value}")


class Watched(Counter):
    """Writes down the correlation ids of what it handles."""

    def __init__(self) -> None:
        self.flows: list[bytes] = []

    @hw.handles
    async def count(self, request: Count, context: hw.Context) -> list[Number]:
        self.flows.append(context.correlation_id)
        return [Number(i) for i in range(request.up_to)]


def test_a_handler_goes_on_within_the_flow_of_its_message() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            relay, watched = Relay(), Watched()
            a.host(watched)
            await b.knows(Count)
            b.host(relay)
            hub = a.hub()
            await a.knows(Greet)
            answer = await hub.ask(Greet("x"), Greeting, correlation_id=b"flow-1", trace=True, timeout=20)
            assert answer == Greeting("x 0")
            (context,) = relay.seen
            assert context.correlation_id == b"flow-1"
            assert context.caller == hw.Address(a.identity, hub.identity)
            assert [entry.identity for entry in context.route] == [a.identity]
            assert relay.left[0] is not None
            assert 19 < relay.left[0] <= 20
            while len(watched.flows) < 2:
                await asyncio.sleep(0.01)
            assert watched.flows == [b"flow-1", b"flow-1"]

    hw.testing.run(story)


class Insists(hw.Actor):
    """Speaks in all ways, for no longer than it says."""

    def __init__(self) -> None:
        self.ended: list[object] = []

    @hw.handles
    async def greet(self, request: Greet, context: hw.Context) -> Greeting:
        self.ended.append(await context.send(Count(1), at_least_once=True, timeout=5))
        self.ended.append(await context.ask(Count(1), Number, at_least_once=True))
        await context.tell(Count(1), ttl=5)
        for call in (
            context.ask(Number(1), Greeting, timeout=2, at_least_once=True),
            context.send(Number(1), timeout=100, at_least_once=True),
        ):
            with pytest.raises(hw.Timeout) as caught:
                await call
            self.ended.append(str(caught.value).partition(";")[0])
        return Greeting("done")


def test_a_handler_may_insist_and_says_for_how_long() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            insists, watched = Insists(), Watched()
            node.host(insists)
            node.host(watched)
            with pytest.raises(hw.Timeout):
                await node.hub().ask(Greet("x"), Greeting, timeout=10, correlation_id=b"flow-1")
            await asyncio.sleep(1)
            assert insists.ended == [
                hw.Receipt(node.identity),
                Number(0),
                "timed_out: no answer to counter.number v2 in 2 s",
                "timed_out: no receipt for counter.number v2 in 8 s",  # what the flow has left, not 100 s
            ]
            assert watched.flows == [b"flow-1"] * 3

    hw.testing.run(story)


@pytest.mark.parametrize("seconds", [0, -1, "1"])
def test_a_time_within_a_flow_is_more_than_nothing(seconds: Any) -> None:
    class Bad(hw.Actor):
        @hw.handles
        async def greet(self, request: Greet, context: hw.Context) -> Greeting:
            await context.ask(Count(1), Number, timeout=seconds)
            return Greeting("never")

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            node.host(Bad())
            with pytest.raises(hw.HandlerFailed, match=r"SettingsError: .*timeout must be a number of seconds from"):
                await node.hub().ask(Greet("x"), Greeting)

    hw.testing.run(story)


def test_without_a_time_limit_there_is_no_time_left_to_tell() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            relay = Relay()
            node.host(relay)
            node.host(Watched())
            await node.hub().tell(Greet("x"))
            while not relay.left:
                await asyncio.sleep(0.01)
            assert relay.left == [None]
            assert relay.seen[0].caller is None

    hw.testing.run(story)


class Thread(hw.Actor):
    """Its handlers are no coroutines: what they say within their flow, they wait for."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hw.handles
    def greet(self, request: Greet, context: hw.BlockingContext) -> Greeting:
        number = context.ask(Count(3), Number, timeout=5)
        receipt = context.send(Count(0), at_least_once=True)
        context.tell(Count(0))
        context.broadcast(Count(0))
        way = context.trace(Count(0))
        parts = [part.value for part in context.stream(Count(40), Number)]
        first = next(iter(context.stream(Count(10_000), Number))).value
        left = context.time_left()
        assert left is not None
        self.seen += [number, receipt.node, way.node, parts, first, context.correlation_id, left > 0]
        return Greeting(request.name)


def test_handler_in_a_thread_has_a_context_that_blocks() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Counter())
            await b.knows(Count)
            b.host(thread := Thread())
            assert await b.hub().ask(Greet("x"), Greeting, correlation_id=b"flow-1", timeout=20) == Greeting("x")
            here = a.identity
            assert thread.seen == [Number(0), here, here, list(range(40)), 0, b"flow-1", True]
            while len(a._feeds):
                await asyncio.sleep(0.01)

    hw.testing.run(story)


def test_blocking_context_ends_with_the_time_of_its_flow_and_tells_errors() -> None:
    class Waits(hw.Actor):
        @hw.handles
        def greet(self, request: Greet, context: hw.BlockingContext) -> Greeting:
            return Greeting(str(context.ask(Count(1), Number).value))

    class Silent(hw.Actor):
        @hw.handles
        async def count(self, request: Count) -> Number:
            await asyncio.sleep(100)
            return Number(1)

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            node.host(Waits())
            with pytest.raises(hw.HandlerFailed, match="no_route"):
                await node.hub().ask(Greet("x"), Greeting, timeout=5)
            node.host(Silent())
            with pytest.raises(hw.DeliveryError):
                await node.hub().ask(Greet("x"), Greeting, timeout=0.05)

    hw.testing.run(story)


def test_blocking_context_on_the_loop_is_refused() -> None:
    caught: list[hw.BlockingContext] = []

    class Keeps(hw.Actor):
        @hw.handles
        def greet(self, request: Greet, context: hw.BlockingContext) -> Greeting:
            caught.append(context)
            return Greeting("kept")

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            node.host(Keeps())
            await node.hub().ask(Greet("x"), Greeting)
            with pytest.raises(hw.SettingsError, match="would wait for itself"):
                caught[0].ask(Count(1), Number)

    hw.testing.run(story)


def test_coroutine_that_wants_a_blocking_context_is_refused() -> None:
    class Mixed(hw.Actor):
        @hw.handles
        async def greet(self, request: Greet, context: hw.BlockingContext) -> Greeting:
            return Greeting("never")

    with pytest.raises(hw.SettingsError, match="BlockingContext"):
        hw.Node().host(Mixed())
