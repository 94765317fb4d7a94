"""What a node keeps has a limit, in number and in bytes, whatever others do."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from hopwire.cluster.announce import Hello
from hopwire.cluster.peers import MAX_PEERS
from hopwire.errors import NoRoute, SettingsError
from hopwire.model import CallbackPoint, Message, RoutingEntry, body_from_payload, contract_of
from hopwire.node import Node, NodeSettings, Overflow
from hopwire.node.dead import KEPT_BYTES
from hopwire.node.envelope import Envelope
from hopwire.node.mailbox import Mailbox
from hopwire.node.news import MessageGivenUp
from hopwire.sync import _Portal
from hopwire.testing import Network, run
from hopwire.wire import encode
from tests.attacks.stranger import said
from tests.node.loopback import told
from tests.node.stories import Greet, Greeting, Sleeper

MEGABYTE = 1024 * 1024


def test_those_who_gave_up_waiting_for_room_are_forgotten() -> None:
    async def story(network: Network) -> None:
        box: Mailbox[int] = Mailbox(1, 100)
        box.offer(0, 1)
        for i in range(100):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(box.put(i, 1), 0.01)
        assert len(box.putters) == 0

    run(story)


def test_those_who_gave_up_waiting_for_a_route_are_forgotten() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            for _ in range(100):
                with pytest.raises(NoRoute):
                    await node.knows(Greet, timeout=0.01)
            assert len(node._watchers) == 0

    run(story)


def test_dead_letters_keep_no_more_than_some_megabytes() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            noise = b"x" * MEGABYTE
            for _ in range(500):
                node._incoming.take_frames([b"stranger", b"", noise])
            kept = sum(len(frame) for letter in node.dead_letters.latest for frame in letter.frames)
            assert kept <= 64 * MEGABYTE

    run(story)


GREETED = Message(*contract_of(Greet), body_frames=(body_from_payload(Greet("x")),))
LONG = [
    GREETED.replace(correlation_id=bytes(MEGABYTE)),
    GREETED.replace(callback_points=(CallbackPoint(bytes(MEGABYTE)),)),
    GREETED.replace(routing=(RoutingEntry("x" * MEGABYTE),)),
    GREETED.replace(callback_receiver_node_identity=bytes(MEGABYTE)),
    GREETED.replace(body_frames=(b"",) * 22_000),
]


@pytest.mark.parametrize("message", LONG, ids=["flow", "points", "routing", "callback", "frames"])
def test_what_is_very_long_beside_the_body_counts_in_queues_and_among_dead_letters(message: Message) -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(inbox_bytes=10 * MEGABYTE)) as node:
            sleeper = Sleeper()
            node.host(sleeper)
            await asyncio.sleep(0)
            for _ in range(40):
                node._incoming.take_frames([b"stranger", *encode(message)[1:]])
            waiting = node.statistics()
            assert waiting.inbox_messages <= 10
            assert node.dead_letters.counts["queue_full"] >= 29  # one may be at work
            assert len(node.dead_letters.latest) <= KEPT_BYTES // MEGABYTE
            sleeper.wake.set()

    run(story)


def test_events_and_details_hold_no_more_than_some_characters_of_names() -> None:
    long = bytes(MEGABYTE)
    unknown = [
        GREETED.replace(identity=long),
        GREETED.replace(receiver_node_identity=long),
        GREETED.replace(receiver_identity=b"\1" + long),
    ]

    async def story(network: Network) -> None:
        async with network.node() as node:
            events = node.events()
            for message in unknown:
                node._incoming.take_frames([b"stranger", *encode(message)[1:]])
            told = [await anext(events) for _ in unknown]
        given_up = [event for event in told if isinstance(event, MessageGivenUp)]
        assert [event.reason for event in given_up] == ["no_route", "unknown_node", "unknown_receiver"]
        assert all(len(event.contract) + len(event.detail) <= 2000 for event in given_up)
        assert all(len(letter.detail) <= 1000 for letter in node.dead_letters.latest)

    run(story)


@pytest.mark.slow
def test_strangers_cannot_make_a_node_meet_any_number_of_nodes() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            for i in range(1500):
                node._incoming.take_frames([b"X%d" % i, *said(Hello(b"X%d" % i, 1, f"memory://x{i}"))])
            assert len(node.peers) == MAX_PEERS

    run(story)


def test_hubs_that_are_closed_are_not_kept() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            for _ in range(100):
                node.hub().close()
            assert len(node._hubs) == 0

    run(story)


def test_blocking_calls_from_the_thread_of_the_node_are_refused_instead_of_waiting_for_ever() -> None:
    portal = _Portal()
    ended = threading.Event()

    async def inner() -> None:
        pass

    async def outer() -> None:
        try:
            portal.call(60, inner)
        finally:
            ended.set()

    def call() -> None:
        with contextlib.suppress(SettingsError):
            portal.call(60, outer)

    threading.Thread(target=call, daemon=True).start()
    assert ended.wait(1)
    portal.close()


@pytest.mark.slow
def test_a_queue_that_drops_the_oldest_drops_one_for_one() -> None:
    async def story() -> None:
        settings = NodeSettings(overflow=Overflow.DROP_OLDEST, outbox_messages=100)
        async with Node(settings=settings) as node:
            node._incoming.take_frames([b"X", *said(Hello(b"X", 1, "tcp://127.0.0.1:1"))])
            answer = Message(
                *contract_of(Greeting),
                receiver_identity=b"\0hub",
                receiver_node_identity=b"X",
                callback_key=1,
                callback_receiver_identity=b"\0hub",
                callback_receiver_node_identity=b"X",
            )
            while not node.dead_letters.counts["queue_full"]:
                node._router.route(Envelope(answer))
                await asyncio.sleep(0)
            assert node.dead_letters.counts["queue_full"] < 10

    told(story)


def test_whoever_waits_for_room_is_not_overtaken() -> None:
    async def story(network: Network) -> None:
        box: Mailbox[int] = Mailbox(1, 100)
        box.offer(0, 1)
        puts = [asyncio.ensure_future(box.put(i, 1)) for i in (1, 2)]
        await asyncio.sleep(0)
        assert await box.take() == 0
        box.offer(99, 1)  # comes while the first of those who wait is being woken
        taken = [await box.take() for _ in range(3 if box.size_bytes else 2)]
        await asyncio.gather(*puts)
        assert [item for item in taken if item != 99] == [1, 2]

    run(story)
