"""The transport alone: what it tells of its queues, and that whoever waits for room gets some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from hopwire.node.outbox import EARLY_MESSAGES
from hopwire.node.streams import Streams
from hopwire.node.transport import Frames, OutboxLimits
from hopwire.testing import Network, run
from hopwire.wire import Limits
from hopwire.wire.connection import claimed_node
from hopwire.wire.train import TRAIN_MESSAGES, is_train, unpack_train

NOWHERE = "tcp://127.0.0.1:1"
FRAMES = [b"", b"", b"body", b"meta"]
Started: TypeAlias = tuple[Streams, str, list[Frames], list[str]]


@asynccontextmanager
async def streams(identity: bytes, limits: OutboxLimits | None = None) -> AsyncIterator[Started]:
    """A transport, its address, what arrives and what is refused."""
    heard: list[Frames] = []
    refused: list[str] = []

    def take(frames: Frames) -> int:
        heard.append(frames)
        return 1

    transport = Streams(identity, "tcp://127.0.0.1:0", limits)
    uri = transport.start(take, lambda uri, frames, reason: refused.append(reason))
    try:
        yield transport, uri, heard, refused
    finally:
        await transport.close(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def uncoupled(heard: list[Frames]) -> list[Frames]:
    """The messages of what arrived, one by one."""
    trains = [unpack_train(frames, Limits()) if is_train(frames) else [frames] for frames in heard]
    assert max(map(len, trains), default=0) <= TRAIN_MESSAGES
    return [message for train in trains for message in train]


def test_a_message_is_queued_until_it_has_left() -> None:
    async def story() -> None:
        async with streams(b"here") as (here, _, _, refused):
            assert (here.mark(NOWHERE), here.is_queued(NOWHERE, 99)) == (0, False)
            here.connect(NOWHERE)
            here.send(NOWHERE, FRAMES, 8)
            first = here.mark(NOWHERE)
            here.send(NOWHERE, FRAMES, 8)
            assert here.mark(NOWHERE) > first
            assert here.is_queued(NOWHERE, first)
            here.empty(NOWHERE)
            assert not here.is_queued(NOWHERE, first)
            here.send(NOWHERE, FRAMES, 8)
            assert not here.is_queued(NOWHERE, first)
            assert here.is_queued(NOWHERE, here.mark(NOWHERE))
            here.disconnect(NOWHERE)
            assert (here.mark(NOWHERE), here.is_queued(NOWHERE, 99)) == (0, False)
            assert refused == ["unreachable"] * len(refused)

    asyncio.run(story())


def test_what_has_left_is_queued_no_more() -> None:
    async def story() -> None:
        async with streams(b"there") as (_, uri, heard, _), streams(b"here") as (here, _, _, _):
            here.connect(uri)
            for _ in range(10):
                here.send(uri, FRAMES, 8)
            mark = here.mark(uri)
            await until(lambda: len(heard) == 10)
            assert not here.is_queued(uri, mark)
            assert {claimed_node(frames[0]) for frames in heard} == {b"here"}

    asyncio.run(story())


def test_most_of_a_long_turn_leaves_before_its_end_and_in_order() -> None:
    async def story() -> None:
        async with streams(b"there") as (_, uri, heard, _), streams(b"here") as (here, _, _, _):
            here.connect(uri)
            here.allow_trains(uri)
            here.send(uri, FRAMES, 8)
            await until(lambda: len(heard) == 1)
            for number in range(3 * EARLY_MESSAGES):
                here.send(uri, [b"", b"", b"%d" % number, b"meta"], 8)
            waiting, _ = here.waiting()
            assert waiting < EARLY_MESSAGES
            await until(lambda: len(uncoupled(heard)) == 1 + 3 * EARLY_MESSAGES)
            bodies = [frames[2] for frames in uncoupled(heard)[1:]]
            assert bodies == [b"%d" % number for number in range(3 * EARLY_MESSAGES)]

    asyncio.run(story())


def test_control_messages_and_long_ones_go_alone_and_in_order() -> None:
    async def story() -> None:
        async with streams(b"there") as (_, uri, heard, _), streams(b"here") as (here, _, _, _):
            here.connect(uri)
            here.allow_trains(uri)
            many = [b"", *[b"x"] * 100]
            for number in range(600):
                if number == 300:
                    here.send(uri, [b"", b"", b"control", b"meta"], 11, is_control=True)
                    here.send(uri, many, 100)
                here.send(uri, [b"", b"", b"%d" % number, b"meta"], 8)
            await until(lambda: len(uncoupled(heard)) == 602)
            bodies = [frames[2] if len(frames) == 4 else b"many" for frames in uncoupled(heard)]
            numbers = [b"%d" % number for number in range(600)]
            assert bodies == [*numbers[:300], b"control", b"many", *numbers[300:]]
            assert [b"", b"control", b"meta"] in [frames[1:] for frames in heard]

    asyncio.run(story())


def test_who_waits_for_room_gets_some_though_those_before_it_put_nothing_there() -> None:
    async def story() -> None:
        async with streams(b"there") as (_, uri, _, _), streams(b"here", OutboxLimits(2)) as (here, _, _, _):
            here.connect(uri)
            while not here.send(uri, FRAMES, 8):
                pass
            waiting = [asyncio.ensure_future(here.room(uri)) for _ in range(1000)]
            assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == [""] * 1000

    asyncio.run(story())


def test_a_message_that_is_larger_than_the_queue_waits_until_the_queue_is_empty() -> None:
    async def story() -> None:
        async with streams(b"there") as (_, uri, heard, _), streams(b"here", OutboxLimits(100, 50)) as (here, _, _, _):
            here.connect(uri)
            large = [b"", b"", bytes(1000), b"meta"]
            for _ in range(20):
                while here.send(uri, large, 1004):
                    assert await asyncio.wait_for(here.room(uri), 10) == ""
            await until(lambda: len(heard) == 20)

    asyncio.run(story())


def test_a_node_tells_whether_what_it_sent_still_waits() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            assert b._outgoing.mark(a.identity) == 0
            assert not b._outgoing.is_queued(a.identity, 5)
            assert b._outgoing.mark(b"nobody") == 0
            assert not b._outgoing.is_queued(b"nobody", 5)

    run(story)
