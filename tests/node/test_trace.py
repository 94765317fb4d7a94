"""Which way a message would take: told without delivering it, in memory and on sockets."""

from __future__ import annotations

from typing import Any

import pytest

from hopwire.errors import NoRoute
from hopwire.node import Address, NodeSettings
from tests.node.stories import NETWORKS, Greet, Greeter, Greeting, Nodes

pytestmark = pytest.mark.parametrize("tell", NETWORKS.values(), ids=NETWORKS)


def test_the_way_to_an_actor_here_is_short(tell: Any) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            greeter = Greeter()
            address = node.host(greeter)
            way = await node.hub().trace(Greet("Ada"))
            assert (way.node, way.uri, way.receivers, way.passed) == (node.identity, node.uri, (address.receiver,), ())
            assert greeter.greeted == []

    tell(story)


def test_the_way_to_another_node_names_who_would_get_it_there(tell: Any) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as a, nodes.node(peers=[a.uri]) as b:
            greeter = Greeter()
            address = a.host(greeter)
            await b.knows(Greet)
            way = await b.hub().trace(Greet("Ada"))
            assert (way.node, way.uri, way.receivers) == (a.identity, a.uri, (address.receiver,))
            assert way.passed == ((b.uri, b.identity),)
            assert greeter.greeted == []
            assert not a.dead_letters.counts
            assert not b.dead_letters.counts

    tell(story)


def test_traces_take_no_room_from_messages_however_many_there_are(tell: Any) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node(settings=NodeSettings(inbox_messages=3)) as a, nodes.node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            await b.hub().ask(Greet("Ada"), Greeting)
            ways = [await b.hub().trace(Greet("Ada")) for _ in range(30)]  # one message may be on the way
            assert {way.node for way in ways} == {a.identity}

    tell(story)


def test_a_way_that_leads_nowhere_says_why_and_leaves_no_dead_letter(tell: Any) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            with pytest.raises(NoRoute, match="no_route"):
                await node.hub().trace(Greet("Ada"))
            with pytest.raises(NoRoute, match="unknown_node"):
                await node.hub().trace(Greet("Ada"), to=Address(b"nobody"))
            assert not node.dead_letters.counts

    tell(story)


def test_a_trace_is_not_handled_by_a_peer_that_knows_no_traces(tell: Any) -> None:
    async def story(nodes: Nodes) -> None:
        old = NodeSettings(formats=(5, 4, 3))
        async with nodes.node(settings=old, identity=b"old") as a, nodes.node(peers=[a.uri]) as b:
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            with pytest.raises(NoRoute) as caught:
                await b.hub().trace(Greet("Ada"))
            words = "greeter.greet v1 at this node: node 'old' reads no V6, so it would handle the message"
            assert str(caught.value) == f"cannot_carry: {words}"
            assert await b.hub().ask(Greet("Bob"), Greeting) == Greeting("hello Bob")
            assert greeter.greeted == ["Bob"]

    tell(story)


def test_looking_takes_nobodys_turn(tell: Any) -> None:
    async def story(nodes: Nodes) -> None:
        async with nodes.node() as node:
            for name in ("first", "second"):
                node.host(Greeter(name))
            hub = node.hub()
            said = []
            for _ in range(4):
                await hub.trace(Greet("Ada"))
                said.append((await hub.ask(Greet("Ada"), Greeting)).text)
            assert said == ["first Ada", "second Ada", "first Ada", "second Ada"]

    tell(story)
