"""How a question ends that is not answered: which error, with what reason, naming what and where."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from typing import Any

import pytest

import hopwire as hw
from hopwire.errors import DeliveryError, NoRoute, PayloadWarning, QueueFull, Timeout, UnexpectedAnswer, Unreachable
from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.model.outcome import Outcome
from hopwire.node import Actor, Context, Node, NodeSettings, Overflow, handles
from hopwire.node.envelope import Envelope
from hopwire.node.express import KnownMessage
from hopwire.node.mailbox import Mailbox
from hopwire.node.parts import StreamParts
from hopwire.node.promise import Promise, expected_of, judged
from hopwire.node.spawn import words_of
from hopwire.testing import Faults, Network, run
from tests.node.loopback import streams_of, told
from tests.node.stories import NETWORKS, Count, Counter, Greet, Greeter, Greeting, Nodes, Number, Sleeper, until


class Wrong(Actor):
    """Returns whatever the test wants."""

    def __init__(self, result: Any) -> None:
        self.result = result
        self.handled = 0

    @handles
    async def greet(self, request: Greet) -> Any:
        self.handled += 1
        return self.result


class WrongInThreads(Actor):
    @handles
    def greet(self, request: Greet) -> Any:
        return None


class Silent(Actor):
    """A generator that has nothing to say."""

    @handles
    async def greet(self, request: Greet) -> AsyncIterator[Payload]:
        nothing: tuple[Payload, ...] = ()
        for payload in nothing:
            yield payload


class Sink(Actor):
    """Takes numbers, and answers nothing."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    @handles
    async def number(self, request: Number) -> None:
        self.taken.append(request.value)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())
@pytest.mark.parametrize("at_least_once", [False, True])
def test_an_answer_of_another_type_than_asked_for_is_told_at_once_with_both_types(
    network: Any, at_least_once: bool
) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            wrong = Wrong(Number(5))
            a.host(wrong)
            await b.knows(Greet)
            async with asyncio.timeout(10):
                with pytest.raises(UnexpectedAnswer) as caught:
                    await b.hub().ask(Greet("x"), Greeting, timeout=30, at_least_once=at_least_once)
            text = (
                "greeter.greet v1 was answered with counter.number v2, which nobody takes, expected greeter.greeting v1"
            )
            assert str(caught.value) == f"unexpected_answer: {text}"
            assert (caught.value.contract, caught.value.node) == ("counter.number v2", a.identity)
            assert not isinstance(caught.value, NoRoute)
            assert wrong.handled == 1

    network(story)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())
@pytest.mark.parametrize(
    "actor", [Wrong(None), Wrong([]), WrongInThreads(), Silent()], ids=["none", "empty", "thread", "generator"]
)
def test_a_handler_that_returns_nothing_tells_whoever_waits_at_once(network: Any, actor: Any) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            a.host(actor)
            await b.knows(Greet)
            for node in (a, b):
                async with asyncio.timeout(10):
                    with pytest.raises(UnexpectedAnswer) as caught:
                        await node.hub().ask(Greet("x"), Greeting, timeout=30)
                where = f"{type(actor).__name__}.greet"
                text = f"greeter.greet v1 was handled by {where}, which returned nothing, expected greeter.greeting v1"
                assert str(caught.value) == f"no_answer: {text}"
                assert (caught.value.reason, caught.value.node) == ("no_answer", a.identity)
                assert not node.dead_letters.counts

    network(story)


def test_a_handler_that_returns_nothing_says_nothing_where_only_a_receipt_is_wanted() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            wrong = Wrong(None)
            a.host(wrong)
            await b.knows(Greet)
            await b.hub().send(Greet("x"))
            await b.hub().tell(Greet("y"))
            await asyncio.sleep(1)
            assert wrong.handled == 2
            assert not a.dead_letters.counts
            assert not b.dead_letters.counts

    run(story)


def test_what_is_handled_beside_an_answer_and_returns_nothing_disturbs_nobody() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            sink = Sink()
            a.host(Wrong((Number(1), Greeting("the answer"))))
            a.host(sink)
            await b.knows(Greet)
            assert await b.hub().ask(Greet("x"), Greeting) == Greeting("the answer")
            await asyncio.sleep(1)
            assert sink.taken == [1]
            assert not a.dead_letters.counts
            assert not b.dead_letters.counts

    run(story)


def test_a_step_on_the_way_that_returns_nothing_leaves_the_answer_to_others() -> None:
    class InParts(Actor):
        @handles
        async def greet(self, request: Greet) -> AsyncIterator[Payload]:
            yield Number(1)
            await asyncio.sleep(5)
            yield Greeting("later")

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(InParts())
            a.host(Sink())
            await b.knows(Greet)
            assert await b.hub().ask(Greet("x"), Greeting) == Greeting("later")

    run(story)


def test_an_answer_comes_home_over_other_actors_and_a_missing_one_is_named() -> None:
    class Last(Actor):
        @handles
        async def number(self, request: Number) -> Greeting:
            return Greeting(str(request.value))

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[a.uri, b.uri]) as c:
            last = Last()
            a.host(Wrong(Number(5)))
            c.host(last)
            await asyncio.sleep(1)
            assert await b.hub().ask(Greet("x"), Greeting) == Greeting("5")
            await c.unhost(last)
            await asyncio.sleep(1)
            with pytest.raises(UnexpectedAnswer, match=r"answered with counter\.number v2, which nobody takes"):
                await b.hub().ask(Greet("x"), Greeting)

    run(story)


def test_what_is_told_through_the_context_is_no_answer() -> None:
    class Tells(Actor):
        @handles
        async def greet(self, request: Greet, context: Context) -> None:
            await context.tell(Number(1))

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Tells())
            node.host(Sink())
            with pytest.raises(UnexpectedAnswer, match=r"no_answer: greeter\.greet v1 was handled by Tells\.greet"):
                await node.hub().ask(Greet("x"), Greeting)

    run(story)


# -- what the errors say


def test_no_route_names_what_nobody_takes_and_where() -> None:
    async def story(network: Network) -> None:
        async with network.node(identity=b"shop") as node:
            with pytest.raises(NoRoute) as caught:
                await node.hub().ask(Greet("x"), Greeting)
            alone = "this node knows no other node: give it peers=[...], or host the actor here"
            nobody = "nobody handles greeter.greet v1 that this node knows of"
            assert str(caught.value) == f"no_route: {nobody}; {alone}"
            assert (caught.value.contract, caught.value.node) == ("greeter.greet v1", b"shop")
            with pytest.raises(NoRoute, match=r"nobody handles greeter\.greet v1 in partition west that this node"):
                await node.hub().send(Greet("x"), partition=b"west")
            with pytest.raises(NoRoute, match=r"nobody handles Greet \(greeter.greet v1\)"):
                await node.knows(Greet, timeout=1)

    run(story)


def test_unreachable_and_queue_full_name_what_and_where() -> None:
    async def story(network: Network) -> None:
        settings = NodeSettings(inbox_messages=1, overflow=Overflow.REFUSE)
        shop = network.node(identity=b"7-31", name="shop", settings=settings)
        async with shop as a, network.node(peers=[a.uri]) as b:
            a.host(Sleeper())
            await b.knows(Greet)
            hub = b.hub()
            asked = asyncio.ensure_future(hub.ask(Greet("x"), Greeting, timeout=1000))
            await asyncio.sleep(1)
            await hub.tell(Greet("waits"))
            await asyncio.sleep(1)
            with pytest.raises(QueueFull, match=r"queue_full: greeter\.greet v1 at shop \(7-31\)"):
                await hub.ask(Greet("x"), Greeting)
            network.crash(a)
            with pytest.raises(Unreachable) as caught:
                await asked
            assert str(caught.value) == (
                "unreachable: greeter.greet v1 at shop (7-31): the node is gone (it says nothing any more); "
                "it may have been handled"
            )
            assert (caught.value.contract, caught.value.node) == ("greeter.greet v1", b"7-31")

    run(story)


def test_a_failed_handler_and_what_expired_name_what_and_where() -> None:
    async def story(network: Network) -> None:
        async with network.node(identity=b"shop") as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())  # which knows nobody by that name
            a.host(sleeper := Sleeper(), partition=b"slow")
            await b.knows(Greet)
            with pytest.raises(hw.HandlerFailed) as failed:
                await b.hub().ask(Greet("nobody"), Greeting)
            assert (failed.value.contract, failed.value.node) == ("greeter.greet v1", b"shop")
            assert failed.value.__notes__ == ["greeter.greet v1 at shop"]  # a traceback shows it
            first = asyncio.ensure_future(b.hub().ask(Greet("x"), Greeting, timeout=60, partition=b"slow"))
            await asyncio.sleep(1)
            asked = asyncio.ensure_future(b.hub().ask(Greet("y"), Greeting, timeout=60, partition=b"slow"))
            await asyncio.sleep(1)
            _, (key, promise) = b.hub()._promises.items()
            b.hub()._take_outcome(key, promise, Outcome("undelivered", "expired", "", "greeter.greet v1", b"shop"))
            with pytest.raises(hw.Expired, match=r"^expired: greeter\.greet v1 at shop$") as expired:
                await asked
            assert (expired.value.contract, expired.value.node) == ("greeter.greet v1", b"shop")
            sleeper.wake.set()
            await first

    run(story)


@pytest.mark.parametrize("call", ["ask", "send"])
def test_a_timeout_says_what_was_waited_for_and_what_was_heard_last(call: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            hub = node.hub()
            asked = (
                hub.ask(Greet("x"), Greeting, timeout=2, at_least_once=True)
                if call == "ask"
                else hub.send(Greet("x"), timeout=2, at_least_once=True)
            )
            with pytest.raises(Timeout) as caught:
                await asked
            what = {"ask": "no answer to", "send": "no receipt for"}[call]
            assert str(caught.value).startswith(f"timed_out: {what} greeter.greet v1 in 2 s; last: no_route (")
            assert caught.value.contract == "greeter.greet v1"

    run(story)


def test_a_timeout_after_a_receipt_says_that_there_was_one() -> None:
    async def story(network: Network) -> None:
        async with network.node(identity=b"shop") as a, network.node(peers=[a.uri]) as b:
            a.host(Sleeper())
            await b.knows(Greet)
            with pytest.raises(Timeout, match=r"in 0\.9 s; taken by shop; last: received \(\d attempts?\)") as caught:
                await b.hub().ask(Greet("x"), Greeting, timeout=0.9, at_least_once=True)
            assert caught.value.node == b"shop"
            network.faults = Faults(drop=1.0)
            with pytest.raises(
                Timeout, match=r"timed_out: no answer to greeter\.greet v1 in 1 s; sent to shop$"
            ) as caught:
                await b.hub().ask(Greet("x"), Greeting, timeout=1)
            assert caught.value.node == b"shop"

    run(story)


def test_a_timeout_at_this_node_names_no_other() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Sleeper())
            with pytest.raises(Timeout, match=r"v1 in 1 s$") as caught:
                await node.hub().ask(Greet("x"), Greeting, timeout=1)
            assert caught.value.node == b""

    run(story)


GONE = [
    (hw.Address(b"gone"), "unknown_node: greeter.greet v1 at this node: node gone is not known"),
    (hw.Address(b"shop", b"\1gone"), "unknown_receiver: greeter.greet v1 at shop: receiver 0x01676f6e65 is not known"),
]


@pytest.mark.parametrize(("to", "text"), GONE, ids=["node", "actor"])
def test_a_message_to_somebody_whom_nobody_knows_names_whom_it_looked_for(to: hw.Address, text: str) -> None:
    async def story(network: Network) -> None:
        async with network.node(identity=b"shop") as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            with pytest.raises(NoRoute) as caught:
                await b.hub().ask(Greet("x"), Greeting, timeout=1, to=to)
            assert str(caught.value) == text

    run(story)


def test_a_timeout_is_a_timeout_error() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Sleeper())
            with pytest.raises(TimeoutError):
                await node.hub().ask(Greet("x"), Greeting, timeout=1)

    run(story)


@pytest.mark.parametrize("kind", [Timeout, NoRoute, UnexpectedAnswer])
def test_an_error_of_delivery_survives_pickling_with_all_its_facts(kind: type[DeliveryError]) -> None:
    error = kind("reason", "detail", "greeter.greet v1", b"node")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error) == "reason: detail"
    assert (again.reason, again.detail, again.contract, again.node) == ("reason", "detail", "greeter.greet v1", b"node")


def test_what_another_node_says_of_a_failure_cannot_command_a_terminal() -> None:
    assert str(hw.HandlerFailed("ValueError", "\x1b]0;pwned\x07 h\u00e9")) == "ValueError: \\x1b]0;pwned\\x07 h\u00e9"


def test_an_outcome_of_a_node_that_names_no_contract_is_understood() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Sleeper())
            node.host(Greeter())
            node.host(Counter())
            hub = node.hub()
            asked = asyncio.ensure_future(hub.ask(Count(1), Greeting, timeout=5))
            await asyncio.sleep(0)
            ((key, promise),) = hub._promises.items()
            hub._take_outcome(key, promise, Outcome("undelivered", "no_route"))
            with pytest.raises(NoRoute, match=r"no_route: counter\.count v2"):
                await asked

    run(story)


def test_an_answer_whose_body_makes_no_sense_is_unexpected_and_a_dead_letter() -> None:
    with pytest.warns(PayloadWarning, match="greeter.greeting"):

        class Numbered(Payload, identity="greeter.greeting", version=1):
            text: int

    class Wrongly(Actor):
        @handles
        async def greet(self, request: Greet) -> Payload:
            return Numbered(5)

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Wrongly())
            await b.knows(Greet)
            with pytest.raises(UnexpectedAnswer, match="makes no sense") as caught:
                await b.hub().ask(Greet("x"), Greeting)
            assert (caught.value.reason, caught.value.node) == ("bad_payload", a.identity)
            assert b.dead_letters.counts == {"bad_payload": 1}

    run(story)


def test_waiting_for_a_turn_counts_against_the_timeout() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            share = node._timing.hub_share
            share.clock = lambda: 1.0
            share.ends_at, share._is_same_turn = 0.5, True  # the share of this turn is over
            share._let_in = lambda: None  # type: ignore[method-assign] # and no other turn comes
            began = asyncio.get_running_loop().time()
            for _ in range(2):
                with pytest.raises(Timeout, match=r"greeter.greet v1 did not leave in 0.5 s"):
                    await node.hub().ask(Greet("Ada"), Greeting, timeout=0.5)
            assert asyncio.get_running_loop().time() - began < 1.1

    run(story)


def test_what_expires_while_it_waits_to_be_sent_is_expired_and_not_without_a_route() -> None:
    async def story(network: Network) -> None:
        async with network.node() as there, network.node(peers=[there.uri]) as here:
            there.host(Greeter())
            await here.knows(Greet)
            message = Message(b"greeter.greet", 1, body_frames=(body_from_payload(Greet("Ada")),), correlation_id=b"c")
            late = Envelope(message, asyncio.get_running_loop().time() - 1.0)
            assert here._outgoing.send(there.identity, late) == "expired"
            known = Envelope(None, late.deadline, known=KnownMessage(message), body=b"x", correlation_id=b"c")
            assert here._outgoing.send(there.identity, known) == "expired"

    run(story)


@pytest.mark.parametrize("is_known", [True, False])
def test_closing_a_hub_ends_who_waits_for_room_and_nothing_is_sent_afterwards(is_known: bool) -> None:
    async def story(network: Network) -> None:
        options = NodeSettings(inbox_messages=1, express=is_known)
        async with network.node(settings=options) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            hub = node.hub(new=True)
            asked = [asyncio.ensure_future(hub.ask(Greet(str(n)), Greeting, timeout=60)) for n in range(5)]
            told = [asyncio.ensure_future(hub.tell(Greet(str(n)))) for n in range(5)]
            await asyncio.sleep(0.1)
            hub.close()
            ends = await asyncio.wait_for(asyncio.gather(*asked, *told, return_exceptions=True), 1.0)
            assert all(end is None or isinstance(end, hw.Closed) for end in ends)
            assert sum(isinstance(end, hw.Closed) for end in ends) >= 8
            started = len(sleeper.started)
            sleeper.wake.set()
            await asyncio.sleep(0.1)
            assert len(sleeper.started) <= started + 1, "only what was in the queue before"
            assert not hub._deadlines._timers
            assert not hub._waits._timers

    run(story)


def test_a_large_message_that_waits_for_room_is_not_overtaken_for_ever() -> None:
    async def story() -> None:
        box: Mailbox[str] = Mailbox(100, 100)
        box.offer("first", 90)
        large = asyncio.ensure_future(box.put("large", 80))
        await asyncio.sleep(0)
        small = [asyncio.ensure_future(box.put(f"small {n}", 15)) for n in range(4)]
        await asyncio.sleep(0)
        taken = []
        for _ in range(6):
            taken.append(await box.take())
            await asyncio.sleep(0)
        await asyncio.gather(large, *small)
        assert taken.index("large") == 1

    asyncio.run(story())


def _close_turns(node: hw.Node) -> None:
    """Let the share of this turn be over, and no other turn come."""
    share = node._timing.hub_share
    share.clock = lambda: 1.0
    share.ends_at, share._is_same_turn = 0.5, True
    share._let_in = lambda: None  # type: ignore[method-assign]


def test_who_insists_and_waits_for_a_turn_to_send_again_ends_in_time() -> None:
    async def story(network: Network) -> None:
        async with network.node() as there, network.node(peers=[there.uri]) as here:
            there.host(Greeter())
            await here.knows(Greet)
            network.faults = Faults(drop=1.0)
            began = asyncio.get_running_loop().time()
            asked = asyncio.ensure_future(here.hub().ask(Greet("x"), Greeting, timeout=2, at_least_once=True))
            await asyncio.sleep(0.05)  # the first attempt has left, and is lost
            _close_turns(here)
            with pytest.raises(Timeout):
                await asyncio.wait_for(asked, 10)
            assert asyncio.get_running_loop().time() - began < 2.1

    run(story)


def test_a_stream_that_waits_for_a_turn_ends_in_time() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Greeter())
            _close_turns(node)
            with pytest.raises(Timeout, match=r"did not leave in 0\.5 s"):
                await asyncio.wait_for(anext(node.hub().stream(Greet("x"), Greeting, timeout=0.5)), 10)

    run(story)


def test_an_answer_ends_a_question_of_which_a_copy_waits_for_room() -> None:
    async def story(network: Network) -> None:
        loop = asyncio.get_running_loop()
        async with network.node(settings=NodeSettings(inbox_messages=1)) as there:
            sleeper = Sleeper()
            there.host(sleeper)
            async with network.node(peers=[there.uri]) as here:
                await here.knows(Greet)
                hub = here.hub()
                first = asyncio.ensure_future(hub.ask(Greet("first"), Greeting, timeout=60, at_least_once=True))
                while not sleeper.started:
                    await asyncio.sleep(0.01)
                others = [asyncio.ensure_future(hub.ask(Greet(str(each)), Greeting, timeout=60)) for each in range(50)]
                await asyncio.sleep(5)  # the first is asked for again, and there is no room for that
                wake, sleeper.wake = sleeper.wake, asyncio.Event()  # only the first is answered
                wake.set()
                began = loop.time()
                assert await first == Greeting("first")
                assert loop.time() - began < 0.1
                for other in others:
                    other.cancel()
                sleeper.wake.set()

    run(story)


def test_error_of_what_could_not_leave_names_the_node_and_its_address() -> None:
    async def story() -> None:
        async with Node(name="billing") as there, Node(peers=[there.uri]) as here:
            there.host(Greeter())
            await here.knows(Greet)
            streams = streams_of(here)
            streams._links[there.uri].connection = None  # as if it were just opened anew: what is sent waits
            asking = asyncio.ensure_future(here.hub().ask(Greet("Ada"), Greeting))
            await until(lambda: len(streams._peers[there.uri]) > 0)
            streams.empty(there.uri)
            with pytest.raises(Unreachable) as caught:
                await asking
            who = f"billing ({there.identity.decode()}) at {there.uri}"
            assert str(caught.value) == f"unreachable: greeter.greet v1 could not be sent to {who}"

    told(story)


def test_stream_whose_producer_cannot_be_told_anything_more_ends_in_its_own_name() -> None:
    async def story() -> None:
        expected = expected_of(Number, b"")
        question = Message(*contract_of(Count), callback_points=expected.points)
        future = asyncio.get_running_loop().create_future()
        promise = Promise(future, expected.types, Envelope(question), b"", sent_to=(b"there",), parts=StreamParts())
        lost = Outcome("undelivered", "unreachable", "there at tcp://there:1", "hopwire.demand v1", b"here")
        is_last, error = judged(promise, lost, b"here", str, bytes.decode)
        assert is_last
        assert isinstance(error, Unreachable)
        asked = words_of(contract_of(Count))
        words = f"{asked}: no more of its answers can be asked for, there at tcp://there:1"
        assert (str(error), error.contract, error.node) == (f"unreachable: {words}", asked, b"there")

    asyncio.run(story())
