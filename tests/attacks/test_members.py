"""What a member of the network can make others keep has a limit."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.cluster import peers
from hopwire.cluster.announce import Hello, Routes, RoutesWanted
from hopwire.node import Actor, Node, NodeSettings
from hopwire.node.outbox import CONTROL_MESSAGES
from hopwire.testing import Network, run
from tests.attacks.stranger import said
from tests.node.loopback import told
from tests.node.stories import Greeter
from tests.routing.network import routes_of

NOBODY = "tcp://127.0.0.1:1"


def taken(node: Node, *said_by_x: list[bytes]) -> None:
    for frames in said_by_x:
        node._incoming.take_frames([b"X", *frames])


def test_who_asks_for_all_routes_again_and_again_makes_a_node_queue_two_answers() -> None:
    async def story() -> None:
        async with Node() as node:
            actors: list[Actor] = [Greeter() for _ in range(100)]
            for actor in actors:
                node.host(actor)
            taken(node, said(Hello(b"X", 1, NOBODY)))
            for _ in range(2000):
                taken(node, said(RoutesWanted(b"X", 1)))
                await asyncio.sleep(0)
            assert node.statistics().outbox_messages <= 2 + 64

    told(story)


def test_control_messages_have_more_room_than_others_but_not_any() -> None:
    async def story() -> None:
        async with Node(settings=NodeSettings(outbox_messages=10)) as node:
            taken(node, said(Hello(b"X", 1, NOBODY)))
            for _ in range(2 * CONTROL_MESSAGES):
                node._membership._say(NOBODY, RoutesWanted(b"me", 1))
            assert node.statistics().outbox_messages <= CONTROL_MESSAGES + 10
            assert node.dead_letters.counts["queue_full"] > 0

    told(story)


@pytest.mark.parametrize("is_all", [True, False])
def test_a_peer_announces_so_many_routes_and_no_more(is_all: bool) -> None:
    async def story(network: Network) -> None:
        async with network.node(settings=NodeSettings(peer_routes=50)) as node:
            taken(node, said(Hello(b"X", 1, "memory://x")))
            routes = tuple((b"\1actor", b"contract.%d" % number, 1, b"") for number in range(40))
            more = tuple((b"\1actor", b"another.%d" % number, 1, b"") for number in range(40))
            taken(node, said(Routes(b"X", 1, 2, 0, routes)))
            taken(node, said(Routes(b"X", 1, 3, 0, routes + more) if is_all else Routes(b"X", 1, 3, 2, more)))
            assert len(routes_of(node._tables.remote, b"X")) == 50
            assert node.dead_letters.counts["bad_control"] == 1
            taken(node, said(Routes(b"X", 1, 4, 3, more[20:25], routes)))
            assert len(routes_of(node._tables.remote, b"X")) == 15

    run(story)


def test_very_many_routes_of_a_plain_peer_come_in_pages_with_all_that_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "PAGE_ROUTES", 10)

    async def story(network: Network) -> None:
        async with network.node() as owner:
            actors: list[Actor] = [Greeter() for _ in range(95)]
            for actor in actors:
                owner.host(actor)
            await asyncio.sleep(1)
            async with (
                network.node(peers=[owner.uri]) as reader,
                network.node(peers=[owner.uri], settings=NodeSettings(peer_routes=50)) as narrow,
            ):
                for actor in actors[:20]:  # pages go out between the changes
                    await owner.unhost(actor)
                    owner.host(Greeter())
                await asyncio.sleep(3)  # of the story's clock: the revisions of beats are right, or all is asked for
                known = {route.receiver for route in routes_of(reader._tables.remote, owner.identity)}
                assert known == {route.receiver for route in owner._tables.local.public_routes()}
                assert len(known) == 95
                assert not reader.dead_letters.counts
                assert len(routes_of(narrow._tables.remote, owner.identity)) == 50
                asked = owner.statistics().messages_in
                await asyncio.sleep(5)
                assert owner.statistics().messages_in - asked <= 2 * 6  # beats alone

    run(story)
