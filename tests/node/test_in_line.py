"""Questions that wait for credit: each ends as on the ordinary way, whatever happens while it waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hopwire.errors import Closed, PayloadError, Timeout, Unreachable
from hopwire.model import Payload
from hopwire.node import Actor, Node, NodeSettings, handles
from hopwire.node.share import AT_ONCE
from hopwire.testing import Network, run
from tests.node import loopback
from tests.node.loopback import until
from tests.node.turns import Turns

BOTH_WAYS = pytest.mark.parametrize("is_express", [True, False])
SMALL = NodeSettings(inbox_messages=30)  # ten of one peer may be on the way
ROOM = 11  # these ten, and one that is being handled: the receiver tells at once that it waits no more
IN_FLIGHT = 40


class Parcel(Payload, identity="line.parcel", version=1):
    number: int
    weight: int = 0
    what: bytes = b""


class Signed(Payload, identity="line.signed", version=1):
    number: int


class Doorman(Actor):
    """Takes a parcel when the door is open."""

    def __init__(self) -> None:
        self.door, self.taken = asyncio.Event(), []  # type: ignore[var-annotated]

    @handles
    async def take(self, parcel: Parcel) -> Signed:
        if parcel.number:
            await self.door.wait()
        self.taken.append(parcel.number)
        return Signed(parcel.number)


class Lots(Payload, identity="line.lots", version=1):
    numbers: list[int]


class Sum(Payload, identity="line.sum", version=1):
    total: int


class Adder(Actor):
    def __init__(self) -> None:
        self.door = asyncio.Event()

    @handles
    async def add(self, lots: Lots) -> Sum:
        await self.door.wait()
        return Sum(sum(lots.numbers))


Story = Callable[[Node, Node, Doorman], Awaitable[None]]


def told(story: Story, is_express: bool) -> None:
    """Tell a story of a node that has no room, and of one that asks it."""

    async def tell(network: Network) -> None:
        settings, doorman = NodeSettings(express=is_express), Doorman()
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri], settings=settings) as b:
            a.host(doorman)
            await b.knows(Parcel)
            for _ in range(3):  # the way is known, and so is the room
                await b.hub().ask(Parcel(0), Signed)
            doorman.taken.clear()
            await story(a, b, doorman)

    run(tell)


def asked(node: Node, timeout: float = 30.0) -> list[asyncio.Task[Signed]]:
    hub = node.hub()
    return [asyncio.ensure_future(hub.ask(Parcel(number), Signed, timeout=timeout)) for number in range(1, IN_FLIGHT)]


async def endings(tasks: list[asyncio.Task[Signed]]) -> Counter[str]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return Counter(type(each).__name__ for each in found)


@BOTH_WAYS
def test_they_are_asked_when_there_is_room(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b)
        await asyncio.sleep(1)
        assert a.statistics().inbox_messages == ROOM - 1
        doorman.door.set()
        assert await asyncio.gather(*tasks) == [Signed(number) for number in range(1, IN_FLIGHT)]
        assert sorted(doorman.taken) == list(range(1, IN_FLIGHT))
        assert not a.dead_letters.counts
        assert not b.dead_letters.counts

    told(story, is_express)


@BOTH_WAYS
def test_those_whose_time_is_over_never_leave(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b, timeout=2)
        await asyncio.sleep(5)
        assert await endings(tasks) == {"Timeout": IN_FLIGHT - 1}
        assert b.dead_letters.counts["expired"] == IN_FLIGHT - 1 - ROOM
        assert b.dead_letters.counts["nobody_waits"] == 0, "who asked knows by itself"
        doorman.door.set()
        assert await b.hub().ask(Parcel(0), Signed) == Signed(0)
        assert len(doorman.taken) <= ROOM + 1  # what has waited there is expired, or taken when the door opens

    told(story, is_express)


def test_those_whose_turn_comes_behind_their_time_name_the_time_that_they_had() -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b, timeout=2)
        await asyncio.sleep(2.01)  # a promise may end 1/32 of its time late
        doorman.door.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        late = [str(each) for each in found if isinstance(each, Timeout)]
        assert len(late) >= IN_FLIGHT - 1 - ROOM
        assert all(each.startswith("timed_out: no answer to line.parcel v1 in 2 s") for each in late), late
        assert b.dead_letters.counts["expired"] == IN_FLIGHT - 1 - ROOM

    told(story, is_express=True)


@BOTH_WAYS
def test_who_gives_up_leaves_the_line_and_the_next_is_asked(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b)
        await asyncio.sleep(1)
        for task in tasks[20:]:
            task.cancel()
        doorman.door.set()
        assert await asyncio.gather(*tasks[:20]) == [Signed(number) for number in range(1, 21)]
        assert await b.hub().ask(Parcel(0), Signed) == Signed(0)
        assert sorted(doorman.taken) == list(range(21))
        assert not b.statistics().open_promises

    told(story, is_express)


@BOTH_WAYS
def test_when_the_node_is_lost_all_end(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b)
        await asyncio.sleep(1)
        await a.stop()
        assert await endings(tasks) == {"Unreachable": IN_FLIGHT - 1}

    told(story, is_express)


@BOTH_WAYS
def test_a_window_of_bytes_holds_also_for_large_ones_behind_small_ones(is_express: bool) -> None:
    async def tell(network: Network) -> None:
        settings, doorman = NodeSettings(express=is_express), Doorman()
        room = NodeSettings(inbox_messages=10_000, inbox_bytes=3_000_000)  # a million of one peer
        async with network.node(settings=room) as a, network.node(peers=[a.uri], settings=settings) as b:
            a.host(doorman)
            await b.knows(Parcel)
            doorman.door.set()
            for _ in range(500):
                await b.hub().ask(Parcel(0), Signed)
            doorman.door.clear()
            hub = b.hub()
            tasks = [asyncio.ensure_future(hub.ask(Parcel(n, 0, bytes(100_000)), Signed)) for n in range(1, 60)]
            for _ in range(5):
                await asyncio.sleep(1)  # each second the sender asks for credit
                assert a.statistics().inbox_bytes <= 1_200_000
            doorman.door.set()
            assert await endings(tasks) == {"Signed": 59}
            assert not a.dead_letters.counts

    run(tell)


def test_questions_in_line_do_not_overtake_what_was_told_before() -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        hub, tasks = b.hub(), list[asyncio.Future[object]]()
        for number in range(1, 200):
            said = hub.tell(Parcel(number)) if number % 3 else hub.ask(Parcel(number), Signed)
            tasks.append(asyncio.ensure_future(said))
        await asyncio.sleep(1)
        doorman.door.set()
        await asyncio.gather(*tasks)
        while len(doorman.taken) < 199:
            await asyncio.sleep(0.1)
        assert doorman.taken == list(range(1, 200))

    told(story, is_express=True)


@BOTH_WAYS
def test_what_can_be_changed_is_asked_as_it_was(is_express: bool) -> None:
    async def tell(network: Network) -> None:
        settings, adder = NodeSettings(express=is_express), Adder()
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri], settings=settings) as b:
            a.host(adder)
            await b.knows(Lots)
            adder.door.set()
            await b.hub().ask(Lots([1]), Sum)
            adder.door.clear()
            lots, hub = [Lots([number]) for number in range(IN_FLIGHT)], b.hub()
            tasks = [asyncio.ensure_future(hub.ask(each, Sum)) for each in lots]
            await asyncio.sleep(1)
            for each in lots:
                each.numbers.append(1000)
            adder.door.set()
            assert await asyncio.gather(*tasks) == [Sum(number) for number in range(IN_FLIGHT)]

    run(tell)


@BOTH_WAYS
def test_when_the_hub_is_closed_all_end(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b)
        await asyncio.sleep(1)
        b.hub().close()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, Closed) for each in ended), ended

    told(story, is_express)


@BOTH_WAYS
def test_a_payload_that_cannot_be_written_is_told_to_who_asks_and_stops_nobody(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman) -> None:
        tasks = asked(b)
        wrong = asyncio.ensure_future(b.hub().ask(Parcel(7, "heavy"), Signed, timeout=1))  # type: ignore[arg-type]
        last = asyncio.ensure_future(b.hub().ask(Parcel(99), Signed))
        await asyncio.sleep(0.1)
        with pytest.raises(PayloadError):  # at once
            wrong.result()
        await asyncio.sleep(1)
        doorman.door.set()
        assert await last == Signed(99)
        await asyncio.gather(*tasks)

    told(story, is_express)


@BOTH_WAYS
@pytest.mark.parametrize("call", ["ask", "send", "insist"])
def test_who_waits_for_a_full_node_goes_to_one_that_comes_later(is_express: bool, call: str) -> None:
    async def story(network: Network) -> None:
        shut, open_ = Doorman(), Doorman()
        open_.door.set()
        settings = NodeSettings(express=is_express)
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri], settings=settings) as client:
            a.host(shut)
            await client.knows(Parcel)
            hub = client.hub()
            await hub.ask(Parcel(0), Signed)
            if call == "ask":
                waiting = [asyncio.ensure_future(hub.ask(Parcel(n), Signed)) for n in range(1, IN_FLIGHT + 1)]
            elif call == "send":
                waiting = [asyncio.ensure_future(hub.send(Parcel(n))) for n in range(1, IN_FLIGHT + 1)]  # type: ignore
            else:
                asked = (hub.ask(Parcel(n), Signed, at_least_once=True) for n in range(1, IN_FLIGHT + 1))
                waiting = [asyncio.ensure_future(each) for each in asked]
            await asyncio.sleep(1)
            async with network.node(peers=[client.uri], settings=SMALL) as b:
                b.host(open_)
                await asyncio.sleep(3)
                taken = len(open_.taken)
                assert taken >= IN_FLIGHT - ROOM  # all but those that the first node has room for
                shut.door.set()
                await asyncio.gather(*waiting)
                assert sorted({*shut.taken, *open_.taken}) == list(range(IN_FLIGHT + 1))
                if call != "insist":
                    assert len(shut.taken) + len(open_.taken) == IN_FLIGHT + 1

    run(story)


def test_who_moved_to_another_node_hears_when_that_node_is_lost() -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=SMALL) as a, network.node(peers=[a.uri]) as client:
            a.host(Doorman())
            await client.knows(Parcel)
            hub = client.hub()
            waiting = [asyncio.ensure_future(hub.ask(Parcel(n), Signed)) for n in range(1, IN_FLIGHT + 1)]
            await asyncio.sleep(1)
            b = network.node(peers=[client.uri])
            await b.start()
            b.host(Doorman())
            await asyncio.sleep(1)
            network.kill(b)
            await asyncio.sleep(1)
            gone = [each for each in waiting if each.done()]
            assert gone
            assert all(isinstance(each.exception(), Unreachable) for each in gone)
            assert {each.exception().node for each in gone} == {b.identity}  # type: ignore[union-attr]
            for each in waiting:
                each.cancel()

    run(story)


class Boxes(Payload, identity="line.boxes", version=1):
    number: int


class Porter(Doorman):
    """Gives the boxes of a parcel one by one, when the door is open."""

    @handles
    async def boxes(self, boxes: Boxes) -> AsyncIterator[Signed]:
        await self.door.wait()
        self.taken.append(boxes.number)
        yield Signed(boxes.number)


@pytest.mark.parametrize("call", ["ask", "stream"])
def test_what_had_not_left_for_a_node_that_dies_is_asked_elsewhere(call: str) -> None:
    async def story(network: Network) -> None:
        there = [Porter(), Porter()]
        async with (
            network.node(settings=SMALL) as a,
            network.node(settings=SMALL) as b,
            network.node(peers=[a.uri, b.uri]) as client,
        ):
            for node, porter in zip((a, b), there, strict=True):
                node.host(porter)
            await until(lambda: len(client.peers) == 2)
            await asyncio.gather(client.knows(Parcel), client.knows(Boxes))
            await asyncio.sleep(1)
            hub = client.hub()

            async def stream(number: int) -> Signed:
                [part] = [part async for part in hub.stream(Boxes(number), Signed)]
                return part

            numbers = range(1, 2 * IN_FLIGHT + 1)
            calls = [hub.ask(Parcel(n), Signed) if call == "ask" else stream(n) for n in numbers]
            asking = [asyncio.ensure_future(each) for each in calls]
            await asyncio.sleep(1)  # of the story's clock: both are full, and the rest waits
            had = a.statistics().inbox_messages + 1  # one is being handled
            assert had < IN_FLIGHT / 2
            network.kill(a)
            await until(lambda: client.peers == (b.identity,))
            there[1].door.set()
            ended = Counter(type(each) for each in await asyncio.gather(*asking, return_exceptions=True))
            assert ended == {Unreachable: had, Signed: 2 * IN_FLIGHT - had}
            assert len(there[1].taken) == 2 * IN_FLIGHT - had

    run(story)


@BOTH_WAYS
def test_what_has_moved_to_an_actor_here_is_not_lost_with_the_node_that_it_waited_for(is_express: bool) -> None:
    async def story(a: Node, b: Node, doorman: Doorman, network: Network) -> None:
        here = Doorman()
        asking = [asyncio.ensure_future(b.hub().ask(Parcel(number), Signed)) for number in range(1, 1 + IN_FLIGHT)]
        await asyncio.sleep(1)  # of the story's clock
        b.host(here)
        await asyncio.sleep(1)
        there = a.statistics().inbox_messages + 1  # one is being handled
        network.kill(a)
        await asyncio.sleep(5)
        here.door.set()
        ended = Counter(type(each) for each in await asyncio.gather(*asking, return_exceptions=True))
        assert ended == {Unreachable: there, Signed: IN_FLIGHT - there}
        assert len(here.taken) == IN_FLIGHT - there
        assert not b.dead_letters.counts

    async def tell(network: Network) -> None:
        doorman = Doorman()
        async with network.node(settings=SMALL) as a:
            a.host(doorman)
            async with network.node(peers=[a.uri], settings=NodeSettings(express=is_express)) as b:
                await b.knows(Parcel)
                for _ in range(3):  # the way is known, and so is the room
                    await b.hub().ask(Parcel(0), Signed)
                await story(a, b, doorman, network)

    run(tell)


@BOTH_WAYS
def test_what_finds_a_node_full_goes_to_an_actor_here_that_has_room(is_express: bool) -> None:
    async def tell(network: Network) -> None:
        async with network.node(settings=SMALL) as a:
            a.host(Doorman())  # whose door stays shut
            async with network.node(peers=[a.uri], settings=NodeSettings(express=is_express)) as b:
                here = Doorman()
                here.door.set()
                b.host(here)
                await b.knows(Parcel)
                await until(lambda: b.peers)
                asking = [asyncio.ensure_future(b.hub().ask(Parcel(n), Signed)) for n in range(1, 1 + 2 * IN_FLIGHT)]
                await asyncio.sleep(1)  # of the story's clock
                there = a.statistics().inbox_messages + 1  # one is being handled
                assert there <= ROOM
                assert len(here.taken) == sum(each.done() for each in asking) == 2 * IN_FLIGHT - there
                for each in asking:
                    each.cancel()

    run(tell)


@BOTH_WAYS
def test_what_waits_for_a_full_node_is_called_by_an_actor_here_that_is_idle_again(is_express: bool) -> None:
    async def tell(network: Network) -> None:
        async with network.node(settings=SMALL) as a:
            a.host(Doorman())  # whose door stays shut
            settings = NodeSettings(express=is_express, inbox_messages=10)
            async with network.node(peers=[a.uri], settings=settings) as b:
                here = Doorman()
                b.host(here)
                await b.knows(Parcel)
                await until(lambda: b.peers)
                asking = [asyncio.ensure_future(b.hub().ask(Parcel(n), Signed)) for n in range(1, 1 + 2 * IN_FLIGHT)]
                await asyncio.sleep(1)  # of the story's clock: all places are full
                here.door.set()
                await asyncio.sleep(1)
                there = a.statistics().inbox_messages + 1
                assert there <= ROOM
                assert len(here.taken) == sum(each.done() for each in asking) == 2 * IN_FLIGHT - there
                for each in asking:
                    each.cancel()

    run(tell)


def test_a_full_actor_here_leaves_what_comes_to_a_node_that_has_room() -> None:
    async def tell(network: Network) -> None:
        there, here = Doorman(), Doorman()
        there.door.set()
        async with network.node() as a, network.node(peers=[a.uri], settings=NodeSettings(inbox_messages=5)) as b:
            a.host(there)
            b.host(here)
            await b.knows(Parcel)
            await until(lambda: b.peers)
            asking = [asyncio.ensure_future(b.hub().ask(Parcel(n), Signed)) for n in range(1, 1 + IN_FLIGHT)]
            await asyncio.sleep(1)
            assert len(there.taken) >= IN_FLIGHT - 6  # all but those that the actor here has room for
            here.door.set()
            await asyncio.gather(*asking)

    run(tell)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["ask", "tell"])
def test_a_hub_that_is_closed_lets_some_end_in_each_turn_of_the_loop(call: str) -> None:
    count, ended = 10 * AT_ONCE, 0

    async def story() -> None:
        async with Node(settings=SMALL) as a, Node(peers=[a.uri]) as b:
            a.host(Doorman())
            await b.knows(Parcel)
            hub = b.hub()

            async def wait() -> None:
                nonlocal ended
                with contextlib.suppress(Closed):
                    await (hub.ask(Parcel(1), Signed) if call == "ask" else hub.tell(Parcel(1)))
                ended += 1

            waiting = [asyncio.ensure_future(wait()) for _ in range(count)]
            await until(lambda: a.statistics().inbox_messages >= 8)
            before = ended
            with Turns(lambda: ended) as turns:
                hub.close()
                await asyncio.gather(*waiting)
            assert ended - before > count // 2
            assert turns.most <= 3 * AT_ONCE  # those who wait for a turn of their hub are let in besides

    loopback.told(story)


@pytest.mark.slow
def test_a_node_that_stops_has_ended_all_promises_first() -> None:
    async def story() -> None:
        async with Node(settings=SMALL) as a, Node(peers=[a.uri]) as b:
            a.host(Doorman())
            await b.knows(Parcel)
            waiting = [asyncio.ensure_future(b.hub().ask(Parcel(1), Signed)) for _ in range(5 * AT_ONCE)]
            await until(lambda: a.statistics().inbox_messages >= 8)
            await b.stop()
            await asyncio.sleep(0)
            assert all(isinstance(each.exception(), Closed) for each in waiting if each.done())
            assert all(each.done() for each in waiting)

    loopback.told(story)
