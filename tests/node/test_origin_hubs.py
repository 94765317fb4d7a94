"""What the original pinned of its hubs and promises, and what is pinned here instead."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.node import Hub
from hopwire.testing import Network, run
from hopwire.wire import encode
from tests.node.stories import Greet, Greeter, Greeting, Number, Sleeper


def answer(hub: Hub, payload: Payload, key: int) -> list[bytes]:
    """An answer as another node would send it."""
    contract = contract_of(payload)
    body = (body_from_payload(payload),)
    return encode(Message(*contract, body_frames=body, receiver_identity=hub.identity, callback_key=key, hops=1))


def test_an_answer_ends_the_promise_and_a_second_one_finds_nobody() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            hub = node.hub()
            assert await hub.ask(Greet("x"), Greeting) == Greeting("hello x")
            assert hub.open_promises == 0
            node._links.take_frames(answer(hub, Greeting("late"), 1))
            assert dict(node.dead_letters.counts) == {"nobody_waits": 1}

    run(story)


def test_an_answer_to_another_question_ends_nothing() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting))
            await asyncio.sleep(0.1)
            node._links.take_frames(answer(hub, Greeting("foreign"), 77))
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
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting))
            await asyncio.sleep(0.1)
            node._links.take_frames(answer(hub, Number(5), 1))
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
            hubs = [b.hub() for _ in range(5)]
            asked = [hub.ask(Greet(str(place)), Greeting) for place, hub in enumerate(hubs)]
            assert [each.text for each in await asyncio.gather(*asked)] == [f"hello {place}" for place in range(5)]

    run(story)


def test_a_question_that_is_its_own_answer_comes_home_at_once() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            assert await node.hub().ask(Greet("mirror"), Greet, timeout=5) == Greet("mirror")

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
