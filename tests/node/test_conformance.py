"""The same stories in memory and on sockets: what a user is promised."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hopwire.errors import Closed, HandlerFailed, NoRoute, SettingsError, Timeout
from hopwire.model import Message
from hopwire.node import Actor, Address, Context, Node, NodeSettings, Overflow, handles
from hopwire.security import Domain, Domains, Key
from hopwire.wire import recognise
from tests.node.stories import NETWORKS, Count, Counter, Greet, Greeter, Greeting, Nodes, Number, Sleeper

pytestmark = pytest.mark.parametrize("tell", NETWORKS.values(), ids=NETWORKS)
Tell = Any


def test_an_actor_of_the_same_node_answers(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            node.host(Greeter())
            assert await node.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")

    tell(story)


def test_an_actor_of_another_node_answers_whoever_dialled(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            a.host(Greeter("from a"))
            b.host(Counter())
            await b.knows(Greet)
            await a.knows(Count)
            assert await b.hub().ask(Greet("Ada"), Greeting) == Greeting("from a Ada")
            assert await a.hub().ask(Count(1), Number) == Number(0)

    tell(story)


def test_a_question_that_nobody_handles_ends_at_once(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            hub = node.hub()
            with pytest.raises(NoRoute, match="no_route"):
                await hub.ask(Greet("Ada"), Greeting, timeout=1000)
            assert node.dead_letters.counts["no_route"] == 1
            assert hub.open_promises == 0

    tell(story)


@pytest.mark.parametrize("distance", ["here", "there"])
def test_an_error_of_a_handler_reaches_the_caller_as_data(tell: Tell, distance: str) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            asking = a if distance == "here" else b
            with pytest.raises(HandlerFailed) as caught:
                await asking.hub().ask(Greet("nobody"), Greeting)
            assert caught.value.reason == "ValueError"
            assert caught.value.detail == "Greeter.greet: nobody cannot be greeted"

    tell(story)


@pytest.mark.parametrize("at_least_once", [False, True])
def test_a_receipt_names_the_node_that_took_the_message(tell: Tell, at_least_once: bool) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            for asking in (a, b):
                receipt = await asking.hub().send(Greet("Ada"), at_least_once=at_least_once)
                assert receipt.node == a.identity

    tell(story)


def test_a_message_to_an_actor_by_its_address_goes_there_and_nowhere_else(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            greeters = [Greeter(str(i)) for i in range(3)]
            addresses = [a.host(greeter) for greeter in greeters]
            await b.knows(Greet)
            hub = b.hub()
            for _ in range(4):
                assert await hub.ask(Greet("x"), Greeting, to=addresses[1]) == Greeting("1 x")
            assert (await hub.ask(Greet("x"), Greeting, to=Address(a.identity))).text in ("0 x", "1 x", "2 x")
            with pytest.raises(NoRoute):
                await hub.ask(Greet("x"), Greeting, to=Address(b"no such node"))

    tell(story)


def test_unicast_takes_turns_over_all_actors_here_and_there(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            greeters = [Greeter("a"), Greeter("b1"), Greeter("b2")]
            a.host(greeters[0])
            await b.knows(Greet)
            b.host(greeters[1])
            b.host(greeters[2])
            hub = b.hub()
            for _ in range(30):
                await hub.ask(Greet("x"), Greeting)
            assert [len(greeter.greeted) for greeter in greeters] == [10, 10, 10]

    tell(story)


def test_broadcast_reaches_every_actor_on_every_node_once(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b, nodes.node(peers=[a.uri]) as c:
            greeters = [Greeter() for _ in range(5)]
            for node, greeter in zip((a, a, b, c, c), greeters, strict=True):
                node.host(greeter)
            while len(list(a._tables.candidates[(b"greeter.greet", 1, b"")].remote)) < 2:
                await asyncio.sleep(0.001)
            await a.hub().broadcast(Greet("all"))
            while not all(greeter.greeted for greeter in greeters):
                await asyncio.sleep(0.001)
            assert [greeter.greeted for greeter in greeters] == [["all"]] * 5

    tell(story)


class AsksOn(Actor):
    """Asks somebody else before it answers, and writes down which flow that is."""

    def __init__(self, flows: list[bytes]) -> None:
        self.flows = flows

    @handles
    async def greet(self, request: Greet, context: Context) -> Greeting:
        self.flows.append(context.correlation_id)
        number = await context.ask(Count(1), Number)
        return Greeting(f"{request.name} {number.value}")


class Follows(Actor):
    def __init__(self, flows: list[bytes]) -> None:
        self.flows = flows

    @handles
    async def count(self, request: Count, context: Context) -> Number:
        self.flows.append(context.correlation_id)
        return Number(request.up_to)


def test_everything_within_a_flow_has_one_correlation_id_and_answers_find_home(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            flows: list[bytes] = []
            a.host(AsksOn(flows))
            b.host(Follows(flows))
            await b.knows(Greet)
            await a.knows(Count)
            for flow in (b"flow-1", b"flow-2"):
                answer = await b.hub().ask(Greet("x"), Greeting, correlation_id=flow, trace=True)
                assert answer == Greeting("x 1")
            assert flows == [b"flow-1", b"flow-1", b"flow-2", b"flow-2"]
            assert not a.dead_letters.counts
            assert not b.dead_letters.counts

    tell(story)


def test_an_unhosted_actor_is_forgotten_everywhere(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            await a.unhost(greeter)
            with pytest.raises(NoRoute):
                await b.hub().ask(Greet("Ada"), Greeting, timeout=5)
            with pytest.raises(SettingsError, match="not hosted"):
                await a.unhost(greeter)

    tell(story)


def test_a_question_without_answer_ends_when_its_time_is_over(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            node.host(Sleeper())
            hub = node.hub()
            with pytest.raises(Timeout):
                await hub.ask(Greet("Ada"), Greeting, timeout=0.05)
            assert hub.open_promises == 0

    tell(story)


def test_a_stopped_node_ends_every_promise_and_takes_nothing_more(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        node = nodes.node()
        await node.start()
        sleeper = Sleeper()
        node.host(sleeper)
        hub = node.hub()
        asked = asyncio.ensure_future(hub.ask(Greet("Ada"), Greeting))
        while not sleeper.started:
            await asyncio.sleep(0.001)
        await node.stop()
        with pytest.raises(Closed):
            await asked
        for use in (lambda: node.host(Greeter()), node.hub):
            with pytest.raises(Closed):
                use()
        with pytest.raises(Closed):
            await hub.tell(Greet("Ada"))
        await node.stop()

    tell(story)


def test_one_message_at_a_time_unless_the_actor_says_otherwise(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            one, three = Sleeper(), Sleeper()
            three.concurrency = 3
            hub = node.hub()
            for sleeper, most in ((one, 1), (three, 3)):
                address = node.host(sleeper)
                asked = [asyncio.ensure_future(hub.ask(Greet(str(i)), Greeting, to=address)) for i in range(6)]
                while len(sleeper.started) < most:
                    await asyncio.sleep(0.001)
                sleeper.wake.set()
                assert [greeting.text for greeting in await asyncio.gather(*asked)] == list("012345")
                assert sleeper.most_at_work == most

    tell(story)


@pytest.mark.parametrize("overflow", list(Overflow))
def test_a_full_queue_waits_refuses_or_drops_the_oldest(tell: Tell, overflow: Overflow) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node(settings=NodeSettings(inbox_messages=2, overflow=overflow)) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            await hub.tell(Greet("0"))
            while not sleeper.started:
                await asyncio.sleep(0.001)
            told = [asyncio.ensure_future(hub.tell(Greet(str(i)))) for i in range(1, 5)]
            while len([each for each in told if each.done()]) < (2 if overflow is Overflow.WAIT else 4):
                await asyncio.sleep(0.001)
            sleeper.wake.set()
            await asyncio.gather(*told)
            expected = {"wait": "01234", "refuse": "012", "drop_oldest": "034"}[overflow]
            while len(sleeper.started) < len(expected):
                await asyncio.sleep(0.001)
            assert sleeper.started == list(expected)
            assert node.dead_letters.counts["queue_full"] == (0 if overflow is Overflow.WAIT else 2)

    tell(story)


@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_a_peer_that_reads_only_an_older_format_gets_that_format(tell: Tell, number: int) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node(settings=NodeSettings(formats=(number,))) as old, nodes.node(peers=[old.uri]) as new:
            greeter = Greeter()
            old.host(greeter)
            await new.knows(Greet)
            sent = _spied(new)
            await new.hub().tell(Greet("Ada"))
            while not greeter.greeted:
                await asyncio.sleep(0.001)
            assert number in sent
            if number >= 5:
                assert await new.hub().ask(Greet("Bob"), Greeting) == Greeting("hello Bob")
            else:  # V3 and V4 have no place for the key and the node of a callback
                with pytest.raises(NoRoute, match="cannot_carry"):
                    await new.hub().ask(Greet("Bob"), Greeting)

    tell(story)


def _spied(node: Node) -> list[int]:
    """The formats of the messages that a node sends from now on."""
    sent: list[int] = []
    send = node._transport.send

    def spy(uri: str, frames: list[bytes], size_bytes: int, is_control: bool = False, goes_first: bool = False) -> str:
        sent.append(recognise(frames).number)
        return send(uri, frames, size_bytes, is_control, goes_first)

    node._transport.send = spy  # type: ignore[method-assign]
    return sent


def _domains(secret: bytes) -> Domains:
    shop = Domain("shop", [Key("k1", secret)], ["greeter.*", "counter.*"])
    wires = Domain("wires", [Key("k1", secret)], ["hopwire.*"])
    return Domains([shop, wires])


def test_signed_messages_pass_between_nodes_that_share_a_key_and_no_others(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        good, bad = _domains(b"0123456789abcdef"), _domains(b"fedcba9876543210")
        async with nodes.node(domains=good) as a, nodes.node(domains=good, peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            assert await b.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")
            async with nodes.node(domains=bad, peers=[a.uri]) as stranger:
                while not a.dead_letters.counts["bad_signature"]:
                    await asyncio.sleep(0.01)
                assert stranger.identity not in a.peers
                assert stranger.peers == ()

    tell(story)


def test_what_is_not_a_message_is_a_dead_letter_with_the_reason_of_the_wire(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            node._incoming.take_frames([b"sender", b"", b"noise"])
            (letter,) = node.dead_letters.latest
            assert letter.reason == "unknown_version"
            assert letter.frames == (b"sender", b"", b"noise")

    tell(story)


def test_a_subscriber_hears_of_every_dead_letter(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            heard: list[Message | None] = []

            def broken(letter: object) -> None:
                raise RuntimeError("a subscriber that fails")

            node.dead_letters.subscribe(broken)
            node.dead_letters.subscribe(lambda letter: heard.append(letter.message))
            hub = node.hub()
            await hub.tell(Greet("nobody there"))
            await hub.tell(Greet("still nobody"))
            assert len(heard) == 2

    tell(story)


def test_bad_arguments_are_refused_at_once(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            hub = node.hub()
            for timeout in (0, -1, float("nan")):
                with pytest.raises(SettingsError, match="timeout"):
                    await hub.ask(Greet("x"), Greeting, timeout=timeout)
            with pytest.raises(SettingsError, match="ttl"):
                await hub.tell(Greet("x"), ttl=0)
            greeter = Greeter()
            node.host(greeter)
            with pytest.raises(SettingsError, match="hosted already"):
                node.host(greeter)
            with pytest.raises(Closed):
                await node.start()

    tell(story)


def test_a_question_that_is_cancelled_leaves_nothing_behind(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("Ada"), Greeting))
            while not sleeper.started:
                await asyncio.sleep(0.001)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert hub.open_promises == 0
            sleeper.wake.set()
            while not node.dead_letters.counts["nobody_waits"]:
                await asyncio.sleep(0.001)

    tell(story)


def test_a_drained_node_finishes_its_work_and_gets_no_more(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            sleeper = Sleeper()
            a.host(sleeper)
            await b.knows(Greet)
            hub = b.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("last"), Greeting))
            while not sleeper.started:
                await asyncio.sleep(0.001)
            assert not await a.drain(timeout=0.05)
            sleeper.wake.set()
            assert await a.drain(timeout=5)
            assert await asked == Greeting("last")
            with pytest.raises(NoRoute):
                await hub.ask(Greet("too late"), Greeting, timeout=5)

    tell(story)


def test_one_of_several_answers_may_come(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            node.host(Greeter())
            node.host(Counter())
            hub = node.hub()
            assert await hub.ask(Greet("Ada"), (Number, Greeting)) == Greeting("hello Ada")
            assert await hub.ask(Count(1), (Number, Greeting)) == Number(0)

    tell(story)


def test_partitions_keep_actors_of_one_contract_apart(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            a.host(Greeter("west"), partition=b"west")
            a.host(Greeter("east"), partition=b"east")
            await b.knows(Greet, partition=b"west")
            await b.knows(Greet, partition=b"east")
            hub = b.hub()
            with pytest.raises(NoRoute):
                await hub.ask(Greet("x"), Greeting)
            assert await hub.ask(Greet("x"), Greeting, partition=b"east") == Greeting("east x")
            assert await hub.ask(Greet("x"), Greeting, partition=b"west") == Greeting("west x")

    tell(story)


def test_an_actor_for_this_node_only_is_not_announced(tell: Tell) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            a.host(Greeter(), local_only=True)
            a.host(Counter())
            await b.knows(Count)
            with pytest.raises(NoRoute):
                await b.hub().ask(Greet("x"), Greeting)
            assert await a.hub().ask(Greet("x"), Greeting) == Greeting("hello x")

    tell(story)
