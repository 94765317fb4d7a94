"""What the original pinned of its hubs and promises, and what is pinned here instead."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from hopwire.errors import Closed, NoRoute, SettingsError
from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.model.outcome import Outcome
from hopwire.node import Actor, Context, Hub, handles
from hopwire.testing import Network, run
from hopwire.wire import encode
from tests.node.stories import Count, Greet, Greeter, Greeting, Number, Sleeper
from tests.routing.network import routes_of


def answer(hub: Hub, payload: Payload, key: int, flow: bytes = b"flow") -> list[bytes]:
    """An answer as another node would send it."""
    said = Message(*contract_of(payload), body_frames=(body_from_payload(payload),), correlation_id=flow)
    return encode(said.replace(receiver_identity=hub.identity, callback_key=key, hops=1))


def open_key(hub: Hub) -> int:
    """The key of the only question that is open."""
    (key,) = hub._promises
    return key


def test_an_answer_ends_the_promise_and_a_second_one_finds_nobody() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting, correlation_id=b"flow"))
            await asyncio.sleep(0)
            key = open_key(hub)
            assert await asked == Greeting("hello x")
            assert hub.open_promises == 0
            node._incoming.take_frames(answer(hub, Greeting("late"), key))
            assert dict(node.dead_letters.counts) == {"nobody_waits": 1}

    run(story)


def test_an_answer_to_another_question_ends_nothing() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting, correlation_id=b"flow"))
            await asyncio.sleep(0.1)
            node._incoming.take_frames(answer(hub, Greeting("foreign"), open_key(hub) ^ 1))
            assert not asked.done()
            sleeper.wake.set()
            assert await asked == Greeting("x")

    run(story)


def test_an_answer_of_another_kind_than_asked_for_is_put_aside_and_the_promise_stays() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting, correlation_id=b"flow"))
            await asyncio.sleep(0.1)
            node._incoming.take_frames(answer(hub, Number(5), open_key(hub)))
            await asyncio.sleep(0.1)
            assert node.dead_letters.counts["unexpected_answer"] == 1
            sleeper.wake.set()
            assert await asked == Greeting("x")

    run(story)


def test_hubs_of_one_node_do_not_take_each_others_answers() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            hubs = [b.hub(new=True) for _ in range(5)]
            asked = [hub.ask(Greet(str(place)), Greeting) for place, hub in enumerate(hubs)]
            assert [each.text for each in await asyncio.gather(*asked)] == [f"hello {place}" for place in range(5)]

    run(story)


@pytest.mark.parametrize("reply", [Greet, (Greeting, Greet)])
@pytest.mark.parametrize("partition", [b"", b"west"])
def test_a_question_that_would_be_its_own_answer_is_refused(reply: Any, partition: bytes) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter(), partition=partition)
            hub = node.hub()
            with pytest.raises(SettingsError, match=r"greeter\.greet v1 is asked for as the answer"):
                await hub.ask(Greet("mirror"), reply, timeout=5, partition=partition)
            assert hub.open_promises == 0

    run(story)


def test_an_answer_that_belongs_to_another_flow_ends_nothing() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting, correlation_id=b"flow"))
            await asyncio.sleep(0.1)
            for forged in (Greeting("forged"), Outcome("failed", "ValueError", "forged")):
                node._incoming.take_frames(answer(hub, forged, open_key(hub), b"another flow"))
            assert dict(node.dead_letters.counts) == {"wrong_flow": 2}
            sleeper.wake.set()
            assert await asked == Greeting("x")

    run(story)


def test_the_key_of_a_question_cannot_be_guessed_from_those_before() -> None:
    keys: list[int] = []

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.dead_letters.subscribe(
                lambda letter: keys.append(letter.message.callback_key if letter.message else 0)
            )
            for _ in range(1000):
                with pytest.raises(NoRoute):
                    await node.hub().ask(Greet("x"), Greeting)

    run(story)
    steps = {later - key for key, later in pairwise(keys)}
    assert len(set(keys)) == len(keys) == 1000
    assert len(steps) == 999  # a counter has one step, whatever its start
    assert all(0 < key < 2**63 for key in keys)
    assert sum(key > 2**62 for key in keys) > 400


def test_a_key_that_is_open_is_not_given_twice() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            sleeper.concurrency = 2
            node.host(sleeper)
            hub = node.hub()
            keys = iter([5, 5, 5, 6])
            hub._new_key = keys.__next__
            asked = [asyncio.ensure_future(hub.ask(Greet(name), Greeting)) for name in ("a", "b")]
            await asyncio.sleep(0.1)
            assert [*hub._promises] == [5, 6]
            sleeper.wake.set()
            assert [each.text for each in await asyncio.gather(*asked)] == ["a", "b"]

    run(story)


@pytest.mark.slow
def test_a_hub_for_each_question_is_one_hub_and_is_told_to_nobody() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            said = b._outgoing.message_count
            for _ in range(2000):
                await b.hub().ask(Greet("x"), Greeting)
            assert len(b._hubs) == 1
            assert len(b._tables.local.routes()) == 1
            assert b._outgoing.message_count - said == 2000
            assert routes_of(a._tables.remote, b.identity) == []

    run(story)


def test_after_the_shared_hub_is_closed_others_get_a_new_one_and_handlers_do_not_notice() -> None:
    class Passes(Actor):
        @handles
        async def count(self, request: Count, context: Context) -> Number:
            await context.ask(Greet("within"), Greeting)
            return Number(1)

    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            node.host(Passes())
            own, shared = node.hub(new=True), node.hub()
            assert own is not shared is node.hub()
            asked = asyncio.ensure_future(own.ask(Count(1), Number))
            await asyncio.sleep(0.1)
            shared.close()
            sleeper.wake.set()
            assert await asked == Number(1)
            with pytest.raises(Closed):
                await shared.tell(Greet("x"))
            assert await node.hub().ask(Greet("next"), Greeting) == Greeting("next")

    run(story)


def test_a_flow_gets_a_correlation_id_of_its_own_unless_it_has_one() -> None:
    seen: list[bytes] = []

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.dead_letters.subscribe(
                lambda letter: seen.append(letter.message.correlation_id if letter.message else b"")
            )
            hub = node.hub()
            for _ in range(3):
                await hub.tell(Greet("x"))
            await hub.tell(Greet("x"), correlation_id=b"mine")

    run(story)
    assert len(set(seen)) == 4
    assert all(len(each) == 36 for each in seen[:3])
    assert seen[3] == b"mine"


@pytest.mark.parametrize("call", ["ask", "send"])
def test_a_receipt_or_an_answer_comes_also_from_the_own_node(call: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            hub = node.hub()
            if call == "send":
                assert (await hub.send(Greet("x"))).node == node.identity
            else:
                assert await hub.ask(Greet("x"), Greeting) == Greeting("hello x")

    run(story)
