"""Flow control between nodes: who sends more than another can take waits, and nobody else does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hopwire.cluster.announce import Credit, CreditWanted
from hopwire.errors import QueueFull
from hopwire.model import Message, Payload
from hopwire.node import Actor, Context, Node, NodeSettings, handles, post
from hopwire.node.credit import Consumption, CreditLine, Credits, line_of
from hopwire.testing import Faults, Network, run
from tests.node.loopback import FAITHFUL, SECONDS, told
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number

A = b"A"


class Parcel(Payload, identity="parcels.parcel", version=1):
    number: int
    weight: bytes = b""


class Slow(Actor):
    """Takes parcels, each in its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.taken = seconds, []  # type: ignore[var-annotated]

    @handles
    async def take(self, parcel: Parcel) -> None:
        await asyncio.sleep(self.seconds)
        self.taken.append(parcel.number)


SMALL = NodeSettings(inbox_messages=100)


@pytest.mark.slow
def test_more_messages_than_a_slow_consumer_has_room_for_all_arrive_in_order() -> None:
    async def story(network: Network) -> None:
        slow = Slow(0.001)
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri]) as b:
            a.host(slow)
            await b.knows(Parcel)
            for number in range(5000):
                await b.hub().tell(Parcel(number))
            while len(slow.taken) < 5000:
                await asyncio.sleep(1)
            assert slow.taken == list(range(5000))
            assert not a.dead_letters.counts
            assert not b.dead_letters.counts

    run(story)


def test_a_sender_is_as_far_ahead_as_its_credit_and_no_further() -> None:
    async def story(network: Network) -> None:
        slow = Slow(1.0)
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri]) as b:
            a.host(slow)
            await b.knows(Parcel)
            told = 0
            for number in range(200):
                try:
                    async with asyncio.timeout(0.5):
                        await b.hub().tell(Parcel(number))
                except TimeoutError:
                    break
                told += 1
            assert told <= 34  # a third of the inbox, and one that is at work
            assert a.statistics().inbox_messages <= 100

    run(story)


@pytest.mark.slow
def test_a_consumer_that_is_full_holds_up_no_other_contract_and_no_answer() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri]) as b:
            a.host(Slow(1e6))
            a.host(Greeter())
            b.host(Counter())
            await b.knows(Parcel)
            await a.knows(Count)
            stuck = [asyncio.ensure_future(b.hub().tell(Parcel(number))) for number in range(3000)]
            await asyncio.sleep(1)
            assert not all(each.done() for each in stuck)
            assert await b.hub().ask(Greet("Ada"), Greeting, timeout=2) == Greeting("hello Ada")
            assert await a.hub().ask(Count(1), Number, timeout=2) == Number(0)
            for each in stuck:
                each.cancel()

    run(story)


def test_large_messages_wait_for_bytes() -> None:
    async def story(network: Network) -> None:
        slow = Slow(0.01)
        settings = NodeSettings(inbox_bytes=1_000_000)
        async with network.node(settings=settings) as a, network.node(peers=[a.uri]) as b:
            a.host(slow)
            await b.knows(Parcel)
            most = 0
            for number in range(200):
                await b.hub().tell(Parcel(number, bytes(50_000)))
                most = max(most, a.statistics().inbox_bytes)
            while len(slow.taken) < 200:
                await asyncio.sleep(1)
            assert most <= 1_000_000
            assert not a.dead_letters.counts

    run(story)


@pytest.mark.slow
def test_messages_that_got_lost_with_their_connection_do_not_use_up_credit() -> None:
    async def story(network: Network) -> None:
        slow = Slow(0.0)
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(slow)
            await b.knows(Parcel)
            take = b._transport.send

            def lose(
                uri: str, frames: list[bytes], size_bytes: int, is_control: bool = False, goes_first: bool = False
            ) -> str:
                return take(uri, frames, size_bytes, is_control, goes_first) if is_control else ""

            b._transport.send = lose  # type: ignore[method-assign]
            for number in range(5000):
                await b.hub().tell(Parcel(number))
            b._transport.send = take  # type: ignore[method-assign]
            async with asyncio.timeout(5):
                for number in range(15_000):
                    await b.hub().tell(Parcel(number))
            while len(slow.taken) < 15_000:
                await asyncio.sleep(1)

    run(story)


@pytest.mark.slow
def test_a_node_that_messages_to_got_lost_has_its_turns_again_though_nobody_waits_for_it() -> None:
    async def story(network: Network) -> None:
        first, second = Slow(0.0), Slow(0.0)
        async with (
            network.node() as a,
            network.node() as other,
            network.node(peers=[a.uri, other.uri]) as b,
        ):
            a.host(first)
            other.host(second)
            while sum(member.routes for member in b.overview().members(0)[1]) < 2 * a.overview().totals()[1]:
                await asyncio.sleep(0.1)
            hub, take = b.hub(), b._transport.send

            def lose(
                uri: str, frames: list[bytes], size_bytes: int, is_control: bool = False, goes_first: bool = False
            ) -> str:
                return "" if uri == a.uri and not is_control else take(uri, frames, size_bytes, is_control, goes_first)

            b._transport.send = lose  # type: ignore[method-assign]
            await asyncio.sleep(1)
            while b._credits.lines.get((a.identity, b"parcels.parcel"), CreditLine()).has_room:
                await hub.tell(Parcel(0))  # every second one is lost, until the first node seems to be full
            b._transport.send = take  # type: ignore[method-assign]
            first.taken.clear()
            for number in range(200):
                await hub.tell(Parcel(number))
                await asyncio.sleep(0.1)
            assert len(first.taken) > 50

    run(story)


@pytest.mark.slow
def test_who_waits_for_a_node_that_dies_is_told() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri]) as b:
            a.host(Slow(1e6))
            await b.knows(Parcel)
            waiting = [asyncio.ensure_future(b.hub().tell(Parcel(number))) for number in range(2000)]
            await asyncio.sleep(1)
            assert not all(each.done() for each in waiting)
            network.crash(a)
            async with asyncio.timeout(60):
                await asyncio.gather(*waiting)
            assert b.dead_letters.counts["unreachable"] >= 900

    run(story)


@pytest.mark.slow
def test_through_a_bad_network_everything_goes_on() -> None:
    async def story(network: Network) -> None:
        slow = Slow(0.0)
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri]) as b:
            a.host(slow)
            await b.knows(Parcel)
            network.faults = Faults(drop=0.1)
            async with asyncio.timeout(600):
                for number in range(5000):
                    await b.hub().tell(Parcel(number))
            assert len(slow.taken) > 3000

    run(story)


def test_what_one_node_has_no_room_for_goes_to_another_that_has() -> None:
    async def story(network: Network) -> None:
        slow, quick = Slow(1e6), Slow(0.0)
        async with network.node(settings=SMALL) as a, network.node(settings=SMALL) as c:
            a.host(slow)
            c.host(quick)
            async with network.node(peers=[a.uri, c.uri]) as b:
                while len(b.peers) < 2:
                    await asyncio.sleep(0.1)
                await b.knows(Parcel)
                await asyncio.sleep(1)
                async with asyncio.timeout(60):
                    for number in range(1000):
                        await b.hub().tell(Parcel(number))
                    while len(quick.taken) < 960:
                        await asyncio.sleep(0.1)
            assert not b.dead_letters.counts

    run(story)


class Letter(Payload, identity="parcels.letter", version=1):
    number: int


class SlowPost(Slow):
    """Takes letters as slowly as parcels, out of the same inbox."""

    @handles
    async def letter(self, letter: Letter) -> None:
        await asyncio.sleep(self.seconds)
        self.taken.append(letter.number)


@pytest.mark.slow
def test_contracts_of_one_actor_share_the_room_of_its_inbox() -> None:
    async def story(network: Network) -> None:
        slow = SlowPost(0.001)
        async with (
            network.node(settings=SMALL) as a,
            network.node(peers=[a.uri]) as b,
            network.node(peers=[a.uri]) as c,
        ):
            to = a.host(slow)
            await b.knows(Letter)
            await c.knows(Letter)
            tells = [hub.tell(kind(1)) for kind in (Parcel, Letter) for hub in (b.hub(), c.hub()) for _ in range(300)]
            tells += [hub.tell(Parcel(1), to=to) for hub in (b.hub(), c.hub()) for _ in range(300)]
            await asyncio.gather(*tells)
            while len(slow.taken) < len(tells):
                await asyncio.sleep(1)
            assert not a.dead_letters.counts

    run(story)


class Relay(Actor):
    """Sends two parcels on for each that comes, so that a circle of relays is soon full."""

    def __init__(self) -> None:
        self.refused = 0

    @handles
    async def take(self, parcel: Parcel, context: Context) -> None:
        await asyncio.sleep(0.01)  # while there is work, the clock of the story stands still
        for _ in range(2):
            try:
                await context.tell(Parcel(parcel.number + 1), ttl=600)
            except QueueFull:
                self.refused += 1


def test_actors_that_fill_each_other_in_a_circle_are_refused_in_words_and_go_on() -> None:
    async def story(network: Network) -> None:
        one, other = Relay(), Relay()
        async with network.node(settings=SMALL) as a, network.node(settings=SMALL, peers=[a.uri]) as b:
            first, second = a.host(one), b.host(other)
            while not (a.peers and b.peers):
                await asyncio.sleep(0.1)
            for number in range(20):
                await b.hub().tell(Parcel(number), to=first)
                await a.hub().tell(Parcel(number), to=second)
            await asyncio.sleep(100)
            refused = one.refused + other.refused
            assert refused > 0
            await asyncio.sleep(100)
            assert one.refused + other.refused > refused  # the circle goes on
            assert a.statistics().inbox_messages <= 100

    run(story)


# -- the counting itself


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, b"orders.order"),
        ({"receiver_identity": b"\1actor"}, b"\1actor"),
        ({"receiver_identity": b"\0hub"}, b""),
        ({"distribution": 1}, b""),
    ],
)
def test_credit_is_for_a_contract_or_an_actor_and_answers_and_broadcasts_need_none(
    fields: dict[str, Any], expected: bytes
) -> None:
    assert line_of(Message(b"orders.order", 1, **fields)) == expected


def test_a_line_has_room_for_so_many_messages_and_for_one_of_any_size() -> None:
    line = CreditLine()
    line.grant(0, 0, 3, 100)
    assert line.has_room
    line.sent, line.sent_bytes = 1, 1000
    assert not line.has_room
    line.sent, line.sent_bytes = 2, 20
    assert line.has_room
    line.sent = 3
    assert not line.has_room
    line.grant(1, 0, 3, 100)
    assert line.has_room


def test_a_peer_that_does_not_know_of_credit_has_no_line() -> None:
    credits = Credits()
    assert credits.line(A, b"x") is None
    credits.meet(A)
    assert credits.line(A, b"x") is credits.line(A, b"x") is not None
    assert credits.line(A, b"") is None
    credits.forget(A)
    assert credits.line(A, b"x") is None


def test_a_receiver_tells_after_each_quarter_of_a_window_and_answers_who_asks() -> None:
    told: list[Credit] = []
    consumption = Consumption(b"here", 7, 300, 1_500_000, lambda node, credit: told.append(credit))
    consumption.take(A, b"orders.order", 10)
    assert told == []
    consumption.meet(A)
    consumption.welcome(A)
    consumption.welcome(A)
    assert told.pop() == Credit(b"here", 7, b"", 0, 0, 100, 500_000)
    for _ in range(101):
        consumption.take(A, b"orders.order", 10)
    assert [credit.taken for credit in told] == [1, 26, 51, 76, 101]
    assert told[-1] == Credit(b"here", 7, b"orders.order", 101, 1010, 100, 500_000)
    consumption.answer(CreditWanted(A, 1, b"orders.order", 500, 5000), 30, 300)
    assert (told[-1].taken, told[-1].taken_bytes) == (470, 4700)
    consumption.meet(b"B")
    consumption.answer(CreditWanted(A, 1, b"orders.order", 500, 5000), 0, 0)
    assert told[-1].max_messages == 50
    consumption.host(5)
    consumption.answer(CreditWanted(A, 1, b"orders.order", 500, 5000), 0, 0)
    assert told[-1].max_messages == 10


def test_questions_for_credit_that_make_no_sense_or_come_too_often_are_passed_over() -> None:
    consumption = Consumption(b"here", 7, 300, 10**6, lambda node, credit: None)
    sane = CreditWanted(A, 1, b"x", 5, 50)
    assert not consumption.is_due(sane, 0.0)  # a node that was not met
    consumption.meet(A)
    for sent in (-1, 2**62, 2**64 - 1):
        assert not consumption.is_due(CreditWanted(A, 1, b"x", sent, 0), 0.0)
        assert not consumption.is_due(CreditWanted(A, 1, b"x", 0, sent), 0.0)
    assert [consumption.is_due(sane, 0.5) for _ in range(20)] == [True] * 10 + [False] * 10
    assert consumption.is_due(sane, 1.6)


@pytest.mark.slow
def test_very_many_messages_to_a_slow_consumer_all_arrive_and_others_are_unharmed(is_long: bool) -> None:
    count = 50_000 if is_long else 15_000

    async def story() -> None:
        async with Node(settings=NodeSettings(inbox_messages=1000)) as a, Node() as c, Node(peers=[a.uri, c.uri]) as b:
            a.host(slow := Slow(0.0))
            c.host(Greeter())
            await b.knows(Parcel)
            await b.knows(Greet)

            async def tell() -> None:
                for first in range(0, count, 1000):
                    await asyncio.gather(*(b.hub().tell(Parcel(first + number)) for number in range(1000)))

            telling = asyncio.ensure_future(tell())
            while not telling.done():
                assert await b.hub().ask(Greet("x"), Greeting, timeout=SECONDS) == Greeting("hello x")
                assert a.statistics().inbox_messages <= 1000
                await asyncio.sleep(0.1)
            await telling
            while len(slow.taken) < count:
                await asyncio.sleep(0.01)
            assert slow.taken == list(range(count))
            assert not a.dead_letters.counts
            assert not b.dead_letters.counts

    told(story)


@pytest.mark.slow
def test_a_link_that_breaks_again_and_again_stops_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "ASK_FOR_CREDIT_SECONDS", 1000.0)  # who waits for that waits for ever

    async def story() -> None:
        small = replace(FAITHFUL, inbox_messages=100)
        async with Node(settings=small) as a, Node(peers=[a.uri], settings=FAITHFUL) as b:
            a.host(slow := Slow(0.0))
            await b.knows(Parcel)
            streams = b._transport
            for number in range(2000):
                await b.hub().tell(Parcel(number, bytes(1000)))
                if number % 300 == 299:
                    (link,) = streams._links.values()  # type: ignore[attr-defined]
                    link.connection.close("cut")
                    while link.connection is None:
                        await asyncio.sleep(0.001)
            assert len(slow.taken) > 1000

    told(story)
