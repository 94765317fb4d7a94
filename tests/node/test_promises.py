"""Promises and counts at the worst moments: what is said of a message is true, and every question ends."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.errors import DeliveryError, Expired, HandlerFailed, PayloadError, Timeout, Unreachable
from hopwire.model import Message, Payload, contract_of
from hopwire.node import Actor, Context, NodeSettings, Overflow, handles
from hopwire.node.dead import DeadLetter
from hopwire.node.share import AT_ONCE
from hopwire.testing import Faults, Network, run
from hopwire.wire import V3, encode
from tests.node.stories import Count, Greet, Greeter, Greeting, Number, Sleeper
from tests.node.turns import Turns


@pytest.mark.parametrize("overflow", [Overflow.WAIT, Overflow.REFUSE])
def test_a_receipt_means_that_the_message_was_taken_also_after_it_was_refused_before(overflow: Overflow) -> None:
    async def story(network: Network) -> None:
        settings = NodeSettings(inbox_messages=1, overflow=overflow)
        async with network.node(settings=settings) as a, network.node(peers=[a.uri]) as b:
            sleeper = Sleeper()
            a.host(sleeper)
            await b.knows(Greet)
            hub = b.hub()
            await hub.tell(Greet("at work"))
            await asyncio.sleep(0.1)
            await hub.tell(Greet("waits"))
            sent = asyncio.ensure_future(hub.send(Greet("must arrive"), at_least_once=True, timeout=60))
            await asyncio.sleep(5)
            assert not sent.done()
            sleeper.wake.set()
            await sent
            await asyncio.sleep(1)
            assert sleeper.started.count("must arrive") == 1

    run(story)


def test_what_must_be_answered_is_asked_elsewhere_when_the_node_that_took_it_dies() -> None:
    async def story(network: Network) -> None:
        loop = asyncio.get_running_loop()
        async with network.node() as a, network.node() as c, network.node(peers=[a.uri, c.uri]) as b:
            a.host(Sleeper())
            await b.knows(Greet)
            asked = asyncio.ensure_future(b.hub().ask(Greet("Ada"), Greeting, at_least_once=True, timeout=1000))
            await asyncio.sleep(1)
            c.host(Greeter("the other"))
            network.crash(a)
            began = loop.time()
            assert await asked == Greeting("the other Ada")
            assert loop.time() - began < 7  # the silence of a node is borne for five seconds

    run(story)


def test_what_must_be_answered_and_finds_nobody_any_more_ends_with_its_time() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Sleeper())
            await b.knows(Greet)
            asked = asyncio.ensure_future(b.hub().ask(Greet("Ada"), Greeting, at_least_once=True, timeout=20))
            await asyncio.sleep(1)
            network.crash(a)
            with pytest.raises((Timeout, Expired), match=r"greeter\.greet"):
                await asked

    run(story)


def test_answers_that_get_lost_are_asked_for_again_and_nothing_is_handled_twice() -> None:
    async def story(network: Network) -> None:
        greeter = Greeter()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(greeter)
            await b.knows(Greet)
            network.faults = Faults(drop=0.3)
            names = [str(number) for number in range(100)]
            hub = b.hub()
            answers = await asyncio.gather(
                *(hub.ask(Greet(name), Greeting, timeout=300, at_least_once=True) for name in names)
            )
            assert answers == [Greeting(f"hello {name}") for name in names]
            assert sorted(greeter.greeted) == sorted(names)

    run(story)


def test_an_error_that_got_lost_is_told_again_and_nothing_is_handled_twice() -> None:
    async def story(network: Network) -> None:
        greeter = Greeter()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(greeter)
            await b.knows(Greet)
            network.faults = Faults(drop=0.5)
            hub = b.hub()
            asked = [hub.ask(Greet("nobody"), Greeting, timeout=300, at_least_once=True) for _ in range(30)]
            ended = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(error) for error in ended} == {HandlerFailed}
            assert len(greeter.greeted) == 30

    run(story)


class TwoThings(Actor):
    """Says something that nobody wants, then answers."""

    @handles
    async def greet(self, request: Greet) -> tuple[Payload, ...]:
        return Number(1), Greeting("the answer")


def test_an_answer_arrives_though_something_else_that_was_said_with_it_finds_nobody() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(TwoThings())
            assert await node.hub().ask(Greet("x"), Greeting) == Greeting("the answer")
            assert node.dead_letters.counts["no_route"] == 1

    run(story)


class Late(Actor):
    """Goes on within a flow whose time is over."""

    def __init__(self) -> None:
        self.ended: list[Exception | None] = []

    @handles
    async def greet(self, request: Greet, context: Context) -> None:
        await asyncio.sleep(5)
        try:
            await context.ask(Count(1), Number)
        except Exception as error:
            self.ended.append(error)
        else:
            self.ended.append(None)


def test_a_flow_whose_time_is_over_gets_no_new_time() -> None:
    class Counts(Actor):
        @handles
        async def count(self, request: Count) -> Number:
            return Number(1)

    async def story(network: Network) -> None:
        async with network.node() as node:
            late = Late()
            node.host(late)
            node.host(Counts())
            await node.hub().tell(Greet("x"), ttl=2)
            await asyncio.sleep(60)
            (ended,) = late.ended
            assert isinstance(ended, Expired | Timeout)

    run(story)


class Asks(Actor):
    @handles
    async def greet(self, request: Greet, context: Context) -> Greeting:
        return Greeting(str((await context.ask(Count(1), Number)).value))


def test_a_hub_that_was_closed_is_gone_and_handlers_do_not_miss_it() -> None:
    class Counts(Actor):
        @handles
        async def count(self, request: Count) -> Number:
            return Number(7)

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Asks())
            node.host(Counts())
            first, second = node.hub(new=True), node.hub(new=True)
            first.close()
            assert await second.ask(Greet("x"), Greeting) == Greeting("7")

    run(story)


def test_a_closed_hub_is_unregistered_here_and_elsewhere() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            hub = a.hub(new=True)
            while not b._tables.remote.nodes_of(hub.identity):
                await asyncio.sleep(0.01)
            hub.close()
            await asyncio.sleep(1)
            assert hub.identity not in a._tables.local
            assert b._tables.remote.nodes_of(hub.identity) == ()

    run(story)


def test_every_count_of_a_dead_letter_has_its_letter() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            letters: list[DeadLetter] = []
            a.dead_letters.subscribe(letters.append)
            a.host(Greeter())
            await b.knows(Greet)
            network.faults = Faults(duplicate=1.0)
            await b.hub().send(Greet("twice"), at_least_once=True)
            network.faults = Faults()
            with pytest.raises(DeliveryError):
                await b.hub().ask(Greet("nobody"), Greeting)
            await asyncio.sleep(1)
            assert a.dead_letters.counts.total() == len(letters) > 0

    run(story)


def test_a_payload_that_cannot_be_read_is_counted_once() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            node._incoming.take_frames(encode(Message(*contract_of(Greet), body_frames=(b"\xc1",))))
            await asyncio.sleep(1)
            assert dict(node.dead_letters.counts) == {"bad_payload": 1}

    run(story)


def test_a_message_that_cannot_be_read_back_is_given_up_when_its_peer_is_gone() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            ambiguous = encode(Message(b"x", b"1", body_frames=(encode(Message(b"y"))[-1],)), V3)
            node._incoming.take_refused("memory://gone", ambiguous, "unreachable")
            assert node.dead_letters.counts["unreachable"] == 1

    run(story)


def test_the_network_in_memory_keeps_the_order_of_messages_where_no_fault_is_asked_for() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            hub = b.hub()
            names = [str(i) for i in range(50)]
            for name in names:
                await hub.tell(Greet(name))
            await asyncio.sleep(1)
            assert greeter.greeted == names

    run(story)


def test_a_node_that_only_passes_a_message_on_gives_no_receipt_for_it() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[b.uri]) as c:
            greeter = Greeter()
            c.host(greeter)
            await b.knows(Greet)
            known = a._tables.remote.node(b.identity)
            assert known is not None
            a._tables.remote.register(known, b"\1long gone", [contract_of(Greet)])
            network.cut(b, c)
            sent = asyncio.ensure_future(a.hub().send(Greet("x"), at_least_once=True, timeout=600))
            await asyncio.sleep(3)
            assert not sent.done()
            network.heal()
            while "x" not in greeter.greeted:
                await asyncio.sleep(1)
            sent.cancel()

    run(story)


def test_a_node_that_is_drained_and_stopped_loses_no_question() -> None:
    async def story(network: Network) -> None:
        a = network.node()
        await a.start()
        async with network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            network.faults = Faults(delay=0.2)
            asked = asyncio.ensure_future(b.hub().ask(Greet("on the way"), Greeting, timeout=60))
            await asyncio.sleep(0.1)
            assert await a.drain()
            await a.stop()
            assert await asked == Greeting("hello on the way")

    run(story)


def test_payload_that_breaks_its_contract_is_refused_where_it_is_sent() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            hub, wrong = node.hub(), Greet(5)  # type: ignore[arg-type]
            for call in (hub.ask(wrong, Greeting), hub.send(wrong), hub.tell(wrong), hub.broadcast(wrong)):
                with pytest.raises(PayloadError, match=r"Greet cannot be written as msgpack: .*\$\.name"):
                    await call
            with pytest.raises(PayloadError, match=r"Greet cannot be written as msgpack: .*\$\.name"):
                await anext(hub.stream(wrong, Greeting))
            assert hub.open_promises == 0
            assert not node.dead_letters.counts

    run(story)


def test_what_takes_long_to_answer_is_asked_for_now_and_then_and_not_all_the_time() -> None:
    async def story(network: Network) -> None:
        sleeper = Sleeper()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(sleeper)
            await b.knows(Greet)
            asked = asyncio.ensure_future(b.hub().ask(Greet("x"), Greeting, at_least_once=True, timeout=1000))
            await asyncio.sleep(60)
            sleeper.wake.set()
            assert await asked == Greeting("x")
            assert sleeper.started == ["x"]
            assert 3 <= a.dead_letters.counts["duplicate"] <= 9  # after 1, 3, 7, 15 s, then every 10 s, and chance

    run(story)


def test_who_insists_and_found_nobody_tries_again_as_soon_as_there_is_somebody() -> None:
    async def story(network: Network) -> None:
        loop = asyncio.get_running_loop()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.1)
            asked = asyncio.ensure_future(b.hub().ask(Greet("x"), Greeting, at_least_once=True, timeout=100))
            await asyncio.sleep(20)  # the pauses are long by now
            a.host(Greeter())
            began = loop.time()
            assert await asked == Greeting("hello x")
            assert loop.time() - began < 0.2

    run(story)


@pytest.mark.slow
def test_the_loss_of_a_node_with_very_many_questions_is_told_in_several_turns() -> None:
    class Never(Sleeper):
        concurrency = 3 * AT_ONCE

    async def story(network: Network) -> int:
        told = 0
        a = network.node()
        await a.start()
        a.host(Never())
        async with network.node(peers=[a.uri]) as b:
            await b.knows(Greet)
            hub = b.hub()

            async def ask(number: int) -> None:
                nonlocal told
                with pytest.raises(Unreachable):
                    await hub.ask(Greet(str(number)), Greeting, timeout=60)
                told += 1

            asking = [asyncio.ensure_future(ask(number)) for number in range(3 * AT_ONCE)]
            await asyncio.sleep(1)
            network.kill(a)
            with Turns(lambda: told) as turns:
                await asyncio.gather(*asking)
        assert told == 3 * AT_ONCE
        return turns.most

    assert run(story) == AT_ONCE
