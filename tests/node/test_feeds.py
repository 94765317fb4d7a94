"""Streams of answers: in order, backpressured, ended, and cancelled from both sides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from hopwire.errors import (
    Closed,
    Expired,
    HandlerFailed,
    NoRoute,
    QueueFull,
    SettingsError,
    Timeout,
    UnexpectedAnswer,
    Unreachable,
)
from hopwire.model import Message, Payload, contract_of, names
from hopwire.model.payload import body_from_payload
from hopwire.node import Actor, Address, Context, Node, NodeSettings, handles
from hopwire.node.demand import NO_MORE, WINDOW_BYTES, WINDOW_PARTS, Demand, Enough
from hopwire.testing import Faults, Network, run
from tests.node.stories import NETWORKS, Count, Counter, Greet, Greeter, Greeting, Nodes, Number


class Feeder(Actor):
    """Counts, and writes down how far, and whether it was closed."""

    concurrency = 4

    def __init__(self, fails_at: int = -1, pauses_at: int = -1, size_bytes: int = 0) -> None:
        self.fails_at, self.pauses_at, self.size_bytes = fails_at, pauses_at, size_bytes
        self.made = 0
        self.closed = asyncio.Event()
        self.paused = asyncio.Event()

    @handles
    async def count(self, request: Count) -> AsyncIterator[Payload]:
        try:
            for value in range(request.up_to):
                if value == self.fails_at:
                    raise ValueError("counted too far")
                if value == self.pauses_at:
                    self.paused.set()
                    await asyncio.sleep(1e6)
                self.made += 1
                yield Greeting("x" * self.size_bytes) if self.size_bytes else Number(value)
        finally:
            self.closed.set()


async def values(stream: Any) -> list[int]:
    return [part.value async for part in stream]


async def collect(stream: Any, seen: list[int], then: Callable[[int], Awaitable[None]] | None = None) -> None:
    """Write down each value, and do something after it."""
    async for part in stream:
        seen.append(part.value)
        if then is not None:
            await then(part.value)


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("network", NETWORKS)
def test_parts_come_in_order_and_the_stream_ends(network: str) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as far, nodes.node(peers=[far.uri]) as near:
            far.host(Counter())
            await near.knows(Count)
            hub = near.hub()
            assert await values(hub.stream(Count(500), Number, timeout=20)) == list(range(500))
            assert await values(hub.stream(Count(0), Number)) == []
            assert hub.open_promises == 0
            assert not near.dead_letters.counts
            assert not far.dead_letters.counts

    NETWORKS[network](story)


def test_parts_come_from_an_actor_of_the_same_node() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Counter())
            assert await values(node.hub().stream(Count(200), Number)) == list(range(200))
            assert not node.dead_letters.counts

    run(story)


def test_whoever_asks_still_gets_the_first_part() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Counter())
            assert await node.hub().ask(Count(3), Number) == Number(0)

    run(story)


@pytest.mark.parametrize("is_far", [True, False])
def test_producer_waits_when_nobody_takes_the_parts(is_far: bool) -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            (far if is_far else near).host(feeder := Feeder())
            await near.knows(Count)
            async with aclosing(near.hub().stream(Count(10_000), Number, timeout=100)) as stream:
                assert await anext(stream) == Number(0)
                await asyncio.sleep(10)
                assert feeder.made <= WINDOW_PARTS + 1
                for number in range(1, WINDOW_PARTS):
                    assert await anext(stream) == Number(number)
                await asyncio.sleep(10)
                assert WINDOW_PARTS < feeder.made <= 2 * WINDOW_PARTS + 1
            await feeder.closed.wait()

    run(story)


def test_producer_is_bounded_in_bytes_and_large_parts_pass() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder(size_bytes=WINDOW_BYTES // 4 + 1))
            far.host(large := Feeder(size_bytes=2 * WINDOW_BYTES), partition=b"large")
            await near.knows(Count)
            async with aclosing(near.hub().stream(Count(100), Greeting)) as stream:
                await anext(stream)
                await asyncio.sleep(1)
                assert feeder.made <= 6
            options: dict[str, Any] = {"partition": b"large"}
            assert len([part async for part in near.hub().stream(Count(5), Greeting, **options)]) == 5
            assert large.made == 5

    run(story)


@pytest.mark.parametrize("is_far", [True, False])
def test_error_of_the_handler_comes_behind_the_parts_before_it(is_far: bool) -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            (far if is_far else near).host(Feeder(fails_at=40))
            await near.knows(Count)
            seen: list[int] = []
            with pytest.raises(HandlerFailed, match="counted too far") as caught:
                await collect(near.hub().stream(Count(100), Number), seen)
            assert seen == list(range(40))
            assert caught.value.reason == "ValueError"
            assert near.hub().open_promises == 0

    run(story)


@pytest.mark.parametrize("is_far", [True, False])
def test_leaving_the_loop_closes_the_generator(is_far: bool) -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            (far if is_far else near).host(feeder := Feeder())
            await near.knows(Count)
            async for part in near.hub().stream(Count(10**6), Number, timeout=1000):
                if part.value == 3:
                    break
            await asyncio.wait_for(feeder.closed.wait(), 1)
            assert feeder.made <= WINDOW_PARTS + 1
            await until(lambda: not len(far._feeds) + len(near._feeds))
            assert near.hub().open_promises == 0

    run(story)


def test_generator_that_waits_itself_is_closed_too() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder(pauses_at=2))
            await near.knows(Count)
            async for part in near.hub().stream(Count(10), Number, timeout=1000):
                if part.value == 1:
                    break
            await asyncio.wait_for(feeder.closed.wait(), 1)
            assert await near.hub().ask(Count(1), Number, timeout=5) == Number(0)  # the actor goes on

    run(story)


def test_stream_and_its_generator_end_with_the_timeout() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder(pauses_at=2))
            await near.knows(Count)
            seen: list[int] = []
            with pytest.raises(Timeout, match=r"no end of the answers to counter\.count v2 in 3 s"):
                await collect(near.hub().stream(Count(10), Number, timeout=3), seen)
            assert seen == [0, 1]
            await asyncio.wait_for(feeder.closed.wait(), 1)
            assert far.dead_letters.counts["expired"] <= 1

    run(story)


def test_consumer_that_is_slow_gets_what_came_and_then_the_timeout() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder())
            await near.knows(Count)
            with pytest.raises(Timeout):
                await collect(near.hub().stream(Count(10**6), Number, timeout=3), [], lambda _: asyncio.sleep(1))
            await asyncio.wait_for(feeder.closed.wait(), 1)

    run(story)


def test_cancelled_consumer_closes_the_generator() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder(pauses_at=2))
            await near.knows(Count)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await values(near.hub().stream(Count(10), Number, timeout=1000))
            await asyncio.wait_for(feeder.closed.wait(), 1)

    run(story)


def test_generator_is_closed_when_the_node_of_the_consumer_dies() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder())
            await near.knows(Count)
            stream = near.hub().stream(Count(10**6), Number, timeout=1000)
            await anext(stream)
            network.crash(near)
            await asyncio.wait_for(feeder.closed.wait(), 30)
            assert len(far._feeds) == 0
            await stream.aclose()

    run(story)


def test_death_of_the_producer_ends_the_stream() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Feeder(pauses_at=2))
            await near.knows(Count)
            seen: list[int] = []

            async def crash(_: int) -> None:
                network.crash(far)

            with pytest.raises(Unreachable):
                await collect(near.hub().stream(Count(10), Number, timeout=1000), seen, crash)
            assert seen == [0, 1]

    run(story)


@pytest.mark.parametrize("how", ["unhost", "stop"])
def test_actor_that_is_stopped_ends_its_streams(how: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder(pauses_at=2))
            await near.knows(Count)

            async def stop(value: int) -> None:
                if value == 1:
                    await feeder.paused.wait()
                    await (far.unhost(feeder) if how == "unhost" else far.stop())

            with pytest.raises(Unreachable):
                await collect(near.hub().stream(Count(10), Number, timeout=1000), [], stop)
            assert feeder.closed.is_set()

    run(story)


def test_closed_hub_ends_its_streams_on_both_sides() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder(pauses_at=2))
            await near.knows(Count)
            hub = near.hub(new=True)

            async def close(value: int) -> None:
                if value == 1:
                    hub.close()

            with pytest.raises(Closed):
                await collect(hub.stream(Count(10), Number, timeout=1000), [], close)
            await asyncio.wait_for(feeder.closed.wait(), 1)

    run(story)


def test_parts_that_overtake_each_other_come_in_order() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Counter())
            await near.knows(Count)
            network.faults = Faults(jitter=0.2, duplicate=0.3)
            assert await values(near.hub().stream(Count(300), Number, timeout=300)) == list(range(300))

    run(story)


def test_stream_with_a_lost_part_says_so_when_its_time_is_over() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Counter())
            await near.knows(Count)
            carry, carried = network._carry, 0

            def lose_the_third(sender: Any, uri: str, frames: Any) -> None:
                nonlocal carried
                is_part = any(b"counter.number" in frame for frame in frames) and uri == near.uri
                carried += is_part
                if not is_part or carried != 3:
                    carry(sender, uri, frames)

            network._carry = lose_the_third  # type: ignore[method-assign]
            seen: list[int] = []
            with pytest.raises(Timeout, match="part 3 is missing"):
                await collect(near.hub().stream(Count(20), Number, timeout=5), seen)
            assert seen == [0, 1]

    run(story)


@pytest.mark.parametrize("seed", range(8))
def test_every_stream_ends_whatever_is_lost(seed: int) -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Counter())
            await near.knows(Count)
            network.faults = Faults(drop=0.05, jitter=0.01)
            for _ in range(5):
                try:
                    assert await values(near.hub().stream(Count(40), Number, timeout=5)) == list(range(40))
                except (Timeout, Unreachable, NoRoute, Expired):
                    network.faults = Faults()
                    await near.knows(Count)
            assert near.hub().open_promises == 0
            await until(lambda: not len(far._feeds))

    run(story, seed=seed)


def test_handler_that_returns_an_answer_is_a_short_stream() -> None:
    class Two(Actor):
        @handles
        async def count(self, request: Count) -> tuple[Number, Number]:
            return Number(1), Number(2)

    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Greeter())
            far.host(Two())
            await near.knows(Greet)
            for hub in (near.hub(), far.hub()):
                assert [part async for part in hub.stream(Greet("Ada"), Greeting)] == [Greeting("hello Ada")]
                assert await values(hub.stream(Count(1), Number)) == [1, 2]
            with pytest.raises(HandlerFailed):
                await values(near.hub().stream(Greet("nobody"), Greeting))

    run(story)


def test_question_that_is_passed_on_is_answered_by_a_stream() -> None:
    class Clerk(Actor):
        @handles
        async def greet(self, request: Greet) -> Count:
            return Count(50)

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[a.uri, b.uri]) as c:
            b.host(Clerk())
            c.host(feeder := Feeder())
            await a.knows(Greet)
            await a.knows(Count)
            await b.knows(Count)
            assert await values(a.hub().stream(Greet("Ada"), Number)) == list(range(50))
            async for _ in a.hub().stream(Greet("Ada"), Number, timeout=1000):
                break
            await asyncio.wait_for(feeder.closed.wait(), 1)

    run(story)


def test_handlers_stream_within_their_flow() -> None:
    flows: list[bytes] = []

    class Adder(Actor):
        @handles
        async def greet(self, request: Greet, context: Context) -> Greeting:
            numbers = await values(context.stream(Count(4), Number))
            return Greeting(str(sum(numbers)))

    class Source(Actor):
        @handles
        async def count(self, request: Count, context: Context) -> AsyncIterator[Number]:
            flows.append(context.correlation_id)
            left = context.time_left()
            assert left is not None
            assert left <= 7
            for value in range(request.up_to):
                yield Number(value)

    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            near.host(Adder())
            far.host(Source())
            await near.knows(Count)
            greeting = await near.hub().ask(Greet("Ada"), Greeting, correlation_id=b"flow-1", timeout=7)
            assert greeting == Greeting("6")
            assert flows == [b"flow-1"]

    run(story)


def test_stream_that_cannot_begin_ends_with_the_reason() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            with pytest.raises(NoRoute):
                await values(node.hub().stream(Count(1), Number))
            with pytest.raises(SettingsError):
                node.hub().stream(Count(1), Count)
            with pytest.raises(SettingsError):
                node.hub().stream(Count(1), Number, timeout=0)
            with pytest.raises(SettingsError):
                node.hub().stream(Count(1), Number, to="there")  # type: ignore[call-overload]
            to = node.host(Counter(), partition=b"p")
            assert await values(node.hub().stream(Count(2), Number, to=to, partition=b"p")) == [0, 1]
            with pytest.raises(NoRoute):
                await values(node.hub().stream(Count(2), Number, to=Address(node.identity, b"\1gone")))

    run(story)


def test_handler_of_a_stream_that_returns_nothing_or_nonsense_is_told() -> None:
    class Odd(Actor):
        @handles
        async def count(self, request: Count) -> None:
            return None

        @handles
        async def greet(self, request: Greet) -> AsyncIterator[int]:
            yield 5

    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Odd())
            await near.knows(Count)
            with pytest.raises(UnexpectedAnswer):
                await values(near.hub().stream(Count(1), Number))
            with pytest.raises(HandlerFailed):
                await values(near.hub().stream(Greet("Ada"), Greeting))

    run(story)


class Line(Payload, identity="feeds.line", version=1):
    text: str


class Astray(Actor):
    """Answers with something that was not asked for, after some parts; beside a part it does no harm."""

    @handles
    async def count(self, request: Count) -> AsyncIterator[Any]:
        for value in range(request.up_to):
            yield Number(value), Line("beside a part")
        yield Line("in place of a part")
        yield Number(99)

    @handles
    async def greet(self, request: Greet) -> Any:
        return Line("returned") if request.name == "one" else (Line("returned"), Line("returned"))


@pytest.mark.parametrize("is_far", [False, True])
def test_part_of_another_type_that_nobody_takes_ends_the_stream_in_words(is_far: bool) -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Astray())
            await near.knows(Count)
            hub = (near if is_far else far).hub()
            for parts in (0, 3):
                seen: list[int] = []
                with pytest.raises(UnexpectedAnswer) as caught:
                    await collect(hub.stream(Count(parts), Number), seen)
                assert seen == list(range(parts))
                expected = "was answered with feeds.line v1, which nobody takes, expected counter.number v2"
                assert str(caught.value) == f"unexpected_answer: counter.count v2 {expected}"
            for name in ("one", "two"):
                with pytest.raises(UnexpectedAnswer, match=r"greeter.greet v1 was answered with feeds.line v1, which"):
                    await values(hub.stream(Greet(name), Greeting))
            assert hub.open_promises == 0

    run(story)


def test_answer_without_a_number_is_given_and_then_refused_as_a_stream() -> None:
    async def story(network: Network) -> None:
        five = NodeSettings(formats=(5, 4, 3))  # extensions travel in V6 alone
        async with network.node() as far, network.node(peers=[far.uri], settings=five) as near:
            far.host(Counter())
            await near.knows(Count)
            seen: list[int] = []
            with pytest.raises(UnexpectedAnswer) as caught:
                await collect(near.hub().stream(Count(10), Number), seen)
            assert (seen, caught.value.reason) == ([0], "no_stream")

    run(story)


def test_words_of_others_do_not_touch_a_stream() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder())
            await near.knows(Count)
            async with aclosing(near.hub().stream(Count(100), Number)) as stream:
                await anext(stream)
                (node, hub, key) = next(iter(far._feeds._open))
                for payload in (Demand(NO_MORE), Enough(1), Demand(32, 320)):
                    say(far, payload, (node, hub, key), b"other")
                await asyncio.sleep(1)
                assert not feeder.closed.is_set()
                assert feeder.made <= WINDOW_PARTS + 1
            say(far, Greet("Ada"), (node, hub, key), b"")
            assert far.dead_letters.counts["handler_missing"] == 1

    run(story)


def test_producer_that_sends_more_than_was_asked_for_ends_the_stream() -> None:
    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(feeder := Feeder())
            await near.knows(Count)
            async with aclosing(near.hub().stream(Count(1000), Number)) as stream:
                await anext(stream)
                place, feed = next(iter(far._feeds._open.items()))
                say(far, Demand(10**9, 10**9), place, feed.envelope.message.correlation_id)
                await asyncio.sleep(1)
                assert feeder.made <= 2 * WINDOW_PARTS + 1  # nobody can have taken more than was sent
                with pytest.raises(QueueFull, match="more parts came than were asked for"):
                    await values(stream)
            await asyncio.wait_for(feeder.closed.wait(), 1)

    run(story)


def say(node: Node, payload: Payload, place: tuple[bytes, bytes, int], flow: bytes) -> None:
    contract = contract_of(payload)
    message = Message(
        contract.identity,
        contract.version,
        body_frames=(body_from_payload(payload),),
        correlation_id=flow,
        receiver_identity=names.FEEDS,
        receiver_node_identity=node.identity,
        callback_receiver_node_identity=place[0],
        callback_receiver_identity=place[1],
        callback_key=place[2],
    )
    assert node._router.is_home(message)


def test_bad_part_ends_the_stream() -> None:
    class Wrong(Actor):
        @handles
        async def count(self, request: Count) -> AsyncIterator[Number]:
            yield Number(1)
            yield Number("two")  # type: ignore[arg-type]

    async def story(network: Network) -> None:
        async with network.node() as far, network.node(peers=[far.uri]) as near:
            far.host(Wrong())
            await near.knows(Count)
            seen: list[int] = []
            with pytest.raises(HandlerFailed, match="value"):
                await collect(near.hub().stream(Count(1), Number), seen)
            assert seen == [1]

    run(story)
