"""What the original pinned of its router and listener, and what is pinned here instead."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.cluster.announce import Beat, Bye, Hello, Routes
from hopwire.errors import NoRoute, QueueFull
from hopwire.model import Message, Payload, contract_of
from hopwire.node import Actor, NodeSettings, Overflow, handles
from hopwire.routing import RemoteNode as KnownNode
from hopwire.testing import Network, run
from tests.attacks.stranger import said
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number
from tests.routing.network import routes_of


class Eavesdropper(Actor):
    """Would like to handle the words of the nodes among themselves."""

    def __init__(self) -> None:
        self.heard = 0

    @handles
    async def beat(self, request: Beat) -> None:
        self.heard += 1


def test_control_messages_of_other_nodes_reach_no_actor() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]):
            spy = Eavesdropper()
            a.host(spy)
            await asyncio.sleep(10)
            assert spy.heard == 0
            assert not a.dead_letters.counts

    run(story)


def test_a_question_led_astray_by_an_old_route_ends_at_once() -> None:
    async def story(network: Network) -> None:
        loop = asyncio.get_running_loop()
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Counter())
            await b.knows(Count)
            known = b._tables.remote.node(a.identity)
            assert known is not None
            b._tables.remote.register(known, b"\1long gone", [contract_of(Greet)])
            began = loop.time()
            with pytest.raises(NoRoute, match="no_route"):
                await b.hub().ask(Greet("x"), Greeting, timeout=1000)
            assert loop.time() - began < 1
            assert a.dead_letters.counts["no_route"] == 1

    run(story)


def test_a_message_that_old_routes_send_in_a_circle_ends_at_the_hop_limit() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not a.peers or not b.peers:
                await asyncio.sleep(0.01)
            for here, there in ((a, b), (b, a)):
                known = here._tables.remote.node(there.identity)
                assert known is not None
                here._tables.remote.register(known, b"\1long gone", [contract_of(Greet)])
            with pytest.raises(NoRoute, match="hop_limit"):
                await b.hub().ask(Greet("x"), Greeting, timeout=1000)

    run(story)


def test_a_peer_whose_queue_is_full_is_told_to_the_sender() -> None:
    async def story(network: Network) -> None:
        settings = NodeSettings(overflow=Overflow.REFUSE)
        async with network.node() as a, network.node(peers=[a.uri], settings=settings) as b:
            a.host(Greeter())
            await b.knows(Greet)
            network._transports[b.uri].send = lambda *_: "queue_full"  # type: ignore[method-assign]
            with pytest.raises(QueueFull):
                await b.hub().ask(Greet("x"), Greeting, timeout=1000)

    run(story)


def test_a_node_that_is_known_but_not_connected_cannot_be_reached() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node._tables.remote.register(KnownNode(b"ghost"), b"\1ghost", [contract_of(Greet)])
            with pytest.raises(Exception, match="unreachable"):
                await node.hub().ask(Greet("x"), Greeting, timeout=1000)

    run(story)


class Ledger(Actor):
    """Writes down how messages arrive."""

    def __init__(self) -> None:
        self.arrived: list[Message] = []

    @handles
    async def greet(self, request: Greet, context: object) -> None:
        self.arrived.append(context.message)  # type: ignore[attr-defined]


def test_each_peer_gets_its_own_copy_of_a_broadcast_with_one_hop_and_one_entry() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[a.uri]) as c:
            ledgers = [Ledger() for _ in range(4)]
            for node, ledger in zip((a, b, b, c), ledgers, strict=True):
                node.host(ledger)
            await asyncio.sleep(1)
            await a.hub().broadcast(Greet("all"), trace=True)
            await asyncio.sleep(1)
            hops = [[(m.hops, len(m.routing)) for m in ledger.arrived] for ledger in ledgers]
            assert hops == [[(0, 0)], [(1, 1)], [(1, 1)], [(1, 1)]]

    run(story)


def test_the_way_is_written_down_only_where_it_is_asked_for() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            ledger = Ledger()
            a.host(ledger)
            await b.knows(Greet)
            await b.hub().tell(Greet("plain"))
            await asyncio.sleep(1)
            await b.hub().tell(Greet("traced"), trace=True)
            await asyncio.sleep(1)
            assert [[entry.identity for entry in m.routing] for m in ledger.arrived] == [[], [b.identity]]
            assert [m.hops for m in ledger.arrived] == [1, 1]

    run(story)


def test_what_is_registered_before_the_start_is_known_after_it() -> None:
    async def story(network: Network) -> None:
        a = network.node()
        a.host(Greeter())
        hub = a.hub(new=True)
        async with a, network.node(peers=[a.uri]) as b:
            await b.knows(Greet)
            assert b._tables.remote.nodes_of(hub.identity) == (a.identity,)
            assert await hub.ask(Greet("x"), Greeting) == Greeting("hello x")

    run(story)


@pytest.mark.parametrize("said_by_another", ["bye", "routes", "hello"])
def test_a_node_speaks_for_itself_and_for_no_other(said_by_another: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            b.host(Greeter())
            await a.knows(Greet)
            incarnation = a._membership._cluster.peers[b.identity].incarnation
            forged: dict[str, Payload] = {
                "bye": Bye(b.identity, incarnation),
                "routes": Routes(b.identity, incarnation, 99),
                "hello": Hello(b.identity, incarnation + 1, "memory://elsewhere"),
            }
            a._incoming.take_frames([b"mallory", *said(forged[said_by_another])])
            assert a.dead_letters.counts["bad_control"] == 1
            assert await a.hub().ask(Greet("x"), Greeting, timeout=1) == Greeting("hello x")

    run(story)


def test_a_hub_is_announced_unless_it_is_for_this_node_only() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            shared, public, private = a.hub(), a.hub(new=True), a.hub(local_only=True)
            await asyncio.sleep(1)
            assert b._tables.remote.nodes_of(public.identity) == (a.identity,)
            assert b._tables.remote.nodes_of(private.identity) == b._tables.remote.nodes_of(shared.identity) == ()
            b.host(Counter())
            await a.knows(Count)
            for hub in (shared, public, private):
                assert await hub.ask(Count(1), Number) == Number(0)

    run(story)


def test_what_only_some_methods_of_an_actor_announce_is_announced_for_these_alone() -> None:
    class Both(Actor):
        @handles
        async def greet(self, request: Greet) -> None: ...
        @handles(local_only=True)
        async def count(self, request: Count) -> None: ...

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Both())
            await b.knows(Greet)
            assert [route.contract for route in routes_of(b._tables.remote, a.identity)] == [contract_of(Greet)]
            assert len(a._tables.local.routes()) == 2

    run(story)
