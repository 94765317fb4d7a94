"""A cut network heals: a peer is reached over another connection, or over its own if that one goes on sooner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from hopwire.node import Address, Node
from hopwire.node.streams import Streams
from hopwire.node.zmtp_socket import ZmtpSocket
from tests.node.stories import Greet, Greeter, Greeting
from tests.node.virtual_sockets import Cables, run_on_sockets
from tests.ports import free_port

HEAL_SECONDS = 60.0  # of a clock that jumps


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(HEAL_SECONDS):
        while not is_so():
            await asyncio.sleep(0.1)


@asynccontextmanager
async def two(cables: Cables, is_mutual: bool) -> AsyncIterator[tuple[Node, Node]]:
    """Start A, which dials B, and B, which may dial A; both have met."""
    uris = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    b = await cables.start(Node(uris[1], peers=[uris[0]] if is_mutual else [], identity=b"B"))
    a = await cables.start(Node(uris[0], peers=[uris[1]], identity=b"A"))
    for node in (a, b):
        node.host(Greeter(), partition=node.identity)
    await a.knows(Greet, partition=b"B")
    await b.knows(Greet, partition=b"A")
    yield a, b
    await a.stop()
    await b.stop()


async def ask(node: Node, other: Node) -> None:
    name = other.identity
    asked = node.hub().ask(Greet("Ada"), Greeting, to=Address(name), partition=name, timeout=5)
    assert await asked == Greeting("hello Ada")


def connection_to(node: Node, other: Node) -> ZmtpSocket | None:
    assert isinstance(node._transport, Streams)
    return node._transport._links[other.uri].connection


@pytest.mark.parametrize("is_noticed_first", [False, True])
@pytest.mark.parametrize("is_mutual", [False, True])
def test_a_peer_is_reached_over_another_connection_where_its_own_is_held_up(
    is_mutual: bool, is_noticed_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        cables = Cables(Random(1))
        monkeypatch.setattr(ZmtpSocket, "has_unread", property(cables.has_arrived))
        async with two(cables, is_mutual) as (a, b):
            former = connection_to(a, b)
            cables.hold_up()
            if not is_noticed_first:
                await until(lambda: not a.peers and not b.peers)
            monkeypatch.setattr(ZmtpSocket, "is_stuck", property(cables.is_held_up))
            await until(lambda: connection_to(a, b) not in (former, None))
            await a.knows(Greet, partition=b"B")
            await b.knows(Greet, partition=b"A")
            await ask(a, b)
            await ask(b, a)

    run_on_sockets(story)


@pytest.mark.parametrize("cut_off", [b"A", b"B"])
@pytest.mark.parametrize("is_mutual", [False, True])
def test_a_connection_that_goes_on_again_before_another_is_ready_keeps_its_place(
    is_mutual: bool, cut_off: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        cables = Cables(Random(1))
        monkeypatch.setattr(ZmtpSocket, "is_stuck", property(cables.is_held_up))
        async with two(cables, is_mutual) as (a, b):
            former = connection_to(a, b)
            cables.cut.add(cut_off)
            await until(lambda: not a.peers and not b.peers)
            cables.cut.clear()
            await a.knows(Greet, partition=b"B")
            await ask(a, b)
            assert connection_to(a, b) is former

    run_on_sockets(story)


def test_a_connection_whose_bytes_were_not_read_yet_is_not_quiet() -> None:
    async def story() -> None:
        async with two(Cables(Random(1)), is_mutual=False) as (_, b):
            assert isinstance(b._transport, Streams)
            (inbound,) = b._transport._inbound
            asyncio.get_running_loop().remove_reader(inbound._sock)
            await until(lambda: not b.peers)
            assert inbound.has_unread
            assert not b._transport._makes_way(inbound, inbound)

    run_on_sockets(story)


def test_what_was_sent_in_part_and_is_refused_does_not_arrive_over_the_former_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        cables = Cables(Random(1))
        monkeypatch.setattr(ZmtpSocket, "has_unread", property(cables.has_arrived))
        async with two(cables, is_mutual=False) as (a, b):
            former = connection_to(b, a)
            assert former is not None
            cables.hold_up()
            while not former.is_writing:
                await b.hub().tell(Greet("x" * 1_000_000), to=Address(b"A"), partition=b"A")
            monkeypatch.setattr(ZmtpSocket, "is_stuck", property(lambda each: each is former))
            await until(lambda: connection_to(b, a) not in (former, None))
            assert b.dead_letters.counts["unreachable"] == 1
            assert not former.is_open

    run_on_sockets(story)
