"""What happens to a node, as its user hears of it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from hopwire import sync
from hopwire.node import Node
from hopwire.node.news import (
    KEPT_EVENTS,
    ActorStarted,
    ActorStopped,
    Events,
    EventsSkipped,
    MessageGivenUp,
    News,
    NodeEvent,
    PeerLost,
    PeerMet,
    RoutesUpdated,
)
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter


async def rest(events: Events) -> list[NodeEvent]:
    return [event async for event in events]


def test_events_tell_of_peers_routes_actors_and_dead_letters_in_order() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a:
            events = a.events()
            async with network.node(peers=[a.uri]) as b:
                greeter = Greeter()
                address = b.host(greeter)
                await a.knows(Greet)
                await b.unhost(greeter)
                await asyncio.sleep(0.1)
                await a.hub().tell(Greet("nobody"))
                own = Greeter()
                mine = a.host(own)
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)
        assert address.node == b.identity
        assert await rest(events) == [
            PeerMet(b.identity, b.uri),
            RoutesUpdated(b.identity, 1, 0, is_all=True),
            RoutesUpdated(b.identity, 0, 1),
            MessageGivenUp("no_route", "greeter.greet v1", ""),
            ActorStarted(mine, "Greeter"),
            RoutesUpdated(a.identity, 1, 0),
            PeerLost(b.identity, "left"),
            ActorStopped(mine, "Greeter", "closed"),
        ]

    run(story)


def test_a_peer_that_falls_silent_is_lost_with_that_reason() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            events = a.events()
            while not a.peers:
                await asyncio.sleep(0.01)
            network.cut(a, b)
            lost = [event async for event in _until_lost(events)]
            assert lost[-1] == PeerLost(b.identity, "silent")

    async def _until_lost(events: Events):  # type: ignore[no-untyped-def]
        async for event in events:
            yield event
            if isinstance(event, PeerLost):
                return

    run(story)


def test_a_slow_reader_loses_the_oldest_events_and_is_told_how_many() -> None:
    async def story() -> None:
        news = News()
        slow, quick = news.read(), news.read()
        for number in range(KEPT_EVENTS + 3):
            news.tell(PeerLost(str(number).encode(), "left"))
            assert await anext(quick) == PeerLost(str(number).encode(), "left")
        news.end()
        told = await rest(slow)
        assert told[:2] == [EventsSkipped(3), PeerLost(b"3", "left")]
        assert len(told) == 1 + KEPT_EVENTS
        assert await rest(quick) == []

    asyncio.run(story())


def test_a_reader_that_is_forgotten_is_not_told_any_more() -> None:
    news = News()
    assert not news
    events = news.read()
    assert news
    del events
    gc.collect()
    assert not news


def test_readers_end_with_the_node_and_one_that_comes_later_ends_at_once() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            waiting = [asyncio.ensure_future(rest(node.events())) for _ in range(3)]
            await asyncio.sleep(1)
        assert await asyncio.gather(*waiting) == [[], [], []]
        assert await rest(node.events()) == []
        never = network.node()
        events = never.events()
        await never.stop()
        assert await rest(events) == []

    run(story)


def test_a_reader_may_close_and_give_up_waiting() -> None:
    async def story() -> None:
        news = News()
        events = news.read()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.01)
        news.tell(PeerLost(b"a", "left"))
        events.close()
        news.tell(PeerLost(b"b", "left"))
        assert await rest(events) == [PeerLost(b"a", "left")]

    asyncio.run(story())


def test_a_node_that_nobody_listens_to_has_no_subscriber_to_its_dead_letters() -> None:
    assert Node()._dead._subscribers == []


def test_blocking_code_reads_events_too() -> None:
    with sync.Node() as node:
        events = node.events()
        node.host(Greeter())
        assert {type(next(events)) for _ in range(2)} == {RoutesUpdated, ActorStarted}
        left = iter(events)
    assert [type(event) for event in left] == [ActorStopped]
