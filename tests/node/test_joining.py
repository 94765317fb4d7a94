"""Nodes that know one door find everybody, on a network in memory: talk, deaths, partitions, routes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest

from hopwire.cluster.events import Released
from hopwire.cluster.gossip import MemberRecord, Rumours
from hopwire.cluster.member_events import Tempo
from hopwire.errors import Expired, NoRoute, SettingsError, Timeout, Unreachable
from hopwire.model import Message, contract_of
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Address, Node, NodeSettings
from hopwire.node.envelope import Envelope
from hopwire.node.joining import Joining
from hopwire.node.streams import Streams
from hopwire.node.zmtp_socket import ZmtpSocket
from hopwire.security import OPEN, Domain, Domains, Key
from hopwire.testing import Network, run
from tests.node.loopback import ANSWER_SECONDS, told
from tests.node.stories import Greet, Greeter, Greeting, until
from tests.node.test_ways import needs_ipv6
from tests.node.virtual_sockets import run_on_sockets
from tests.ports import free_port

SIGNED = Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])])
QUICK = NodeSettings(tempo=Tempo(50_000_000))  # a twentieth of all times


async def cluster(network: Network, size: int, **settings: Any) -> list[Node]:
    """A door, and others that know only the door."""
    nodes = [network.node(join=[], **settings)]
    await nodes[0].start()
    for _ in range(size - 1):
        node = network.node(join=[nodes[0].uri], **settings)
        await node.start()
        nodes.append(node)
    await until(lambda: all(len(node.peers) == size - 1 for node in nodes))
    return nodes


async def stop(*nodes: Node) -> None:
    for node in nodes:
        await node.stop()


def test_nodes_that_know_one_door_find_everybody_and_ask_each_other() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 6)
        nodes[3].host(Greeter())
        for node in nodes:
            await node.knows(Greet)
            assert (await node.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await stop(*nodes)

    run(story)


def test_members_are_known_by_the_names_that_they_gave_themselves() -> None:
    async def story(network: Network) -> None:
        door = network.node(join=[], name="door")
        await door.start()
        others = [network.node(join=[door.uri], name=f"worker {number}") for number in range(12)]
        for node in others:
            await node.start()
        nodes = [door, *others]
        await until(lambda: all(len(node.peers) == 12 for node in nodes))
        names = {node.identity: node.name for node in nodes}
        for node in nodes:
            _, members = node.overview().members(0)
            assert {each.node: each.name for each in members} | {node.identity: node.name} == names
        await stop(*nodes)

    run(story)


def test_an_answer_waits_a_moment_for_word_of_an_asker_that_has_just_joined() -> None:
    async def story(network: Network) -> None:
        door = network.node(join=[])
        await door.start()
        asker = network.node(join=[door.uri], identity=b"late")
        answer = Message(b"greeting", 1, receiver_identity=b"\0hub", receiver_node_identity=b"late", body_frames=(b"",))
        door._router.route(Envelope(answer))
        await asker.start()
        await until(lambda: bool(asker.dead_letters.counts))  # it has arrived, and nobody waits for it
        assert not door.dead_letters.counts
        await asker.stop()
        await until(lambda: not door.peers)
        door._router.route(Envelope(answer))
        assert not door.dead_letters.counts
        await until(lambda: door.dead_letters.counts["unknown_node"] == 1)
        await stop(door)

    run(story)


def test_members_that_sign_find_each_other() -> None:
    domains = Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])])

    async def story(network: Network) -> None:
        nodes = await cluster(network, 5, domains=domains)
        nodes[3].host(Greeter())
        for node in nodes:
            assert (await node.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
            assert not node.dead_letters.counts
        await stop(*nodes)

    run(story)


def test_everything_goes_on_without_the_door() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 6)
        nodes[3].host(Greeter())
        await nodes[5].knows(Greet)
        network.crash(nodes[0])
        await until(lambda: all(len(node.peers) == 4 for node in nodes[1:]))
        assert (await nodes[5].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        late = network.node(join=[nodes[2].uri])
        await late.start()
        assert (await late.hub().ask(Greet("Bob"), Greeting, timeout=5)).text == "hello Bob"
        await until(lambda: len(late.peers) == 5)
        await stop(*nodes[1:], late)

    run(story)


def test_one_that_is_left_of_eight_knows_within_seconds_that_the_others_are_dead() -> None:
    async def story(network: Network) -> None:
        left, *others = await cluster(network, 8)
        others[4].host(Greeter())
        await left.knows(Greet)
        left.host(Greeter())
        for node in others:
            network.kill(node)
        await until(lambda: not left.peers, 3)
        for _ in range(4):
            assert (await left.hub().ask(Greet("Ada"), Greeting, timeout=1)).text == "hello Ada"
        back = network.node(join=[left.uri])
        await back.start()
        await until(lambda: left.peers == (back.identity,), 10)
        await stop(left, back)

    run(story)


def test_one_that_hears_nobody_for_half_a_minute_takes_all_for_lost_and_finds_them_again() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 8)
        left, *others = nodes
        for node in others:
            network.cut(left, node)
        await asyncio.sleep(20)
        assert len(left.peers) == 7, "one accuser needs longer"
        await until(lambda: not left.peers, 15)
        network.heal()
        await until(lambda: all(len(node.peers) == 7 for node in nodes), 60)
        await stop(*nodes)

    run(story)


@pytest.mark.slow
def test_links_are_few_and_open_when_a_message_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.node.joining.IDLE_SECONDS", 8.0)

    async def story(network: Network) -> None:
        nodes = await cluster(network, 26)
        await asyncio.sleep(20)  # links to the door that nobody needs are closed by now
        assert max(len(node._membership._cluster.peers) for node in nodes) < 25
        far = next(node for node in nodes[1:] if node.identity not in nodes[0]._membership._cluster.peers)
        far.host(Greeter())
        await nodes[0].knows(Greet)
        assert (await nodes[0].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        assert far.identity in nodes[0]._membership._cluster.peers
        await until(lambda: far.identity not in nodes[0]._membership._cluster.peers, 300)
        assert (await nodes[0].hub().ask(Greet("Bob"), Greeting, timeout=5)).text == "hello Bob"
        await stop(*nodes)

    run(story)


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 22])
def test_who_alone_does_not_reach_a_member_is_told(size: int) -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, size)
        far = nodes[2]
        far.host(Greeter())
        await nodes[0].knows(Greet)
        await nodes[0].hub().ask(Greet("Ada"), Greeting, timeout=5)
        network.cut(nodes[0], far)
        with pytest.raises(Unreachable):
            await nodes[0].hub().ask(Greet("Ada"), Greeting, timeout=60)
        assert all(len(node.peers) == size - 1 for node in nodes)
        await stop(*nodes)

    run(story)


@pytest.mark.slow
def test_halves_that_were_cut_join_again_and_share_their_routes() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 8)
        left, right = nodes[:4], nodes[4:]
        for one in left:
            for other in right:
                network.cut(one, other)
        await until(lambda: all(len(node.peers) == 3 for node in nodes), 120)
        right[1].host(Greeter())
        await asyncio.sleep(60)
        network.heal()
        await until(lambda: all(len(node.peers) == 7 for node in nodes), 120)
        await left[2].knows(Greet)
        assert (await left[2].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await stop(*nodes)

    run(story)


def test_node_that_leaves_is_gone_at_once_with_its_routes() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 6)
        nodes[2].host(Greeter())
        await nodes[4].knows(Greet)
        await nodes[2].stop()
        await until(lambda: all(len(node.peers) == 4 for node in nodes if node is not nodes[2]), 2)
        with pytest.raises(NoRoute):
            await nodes[4].hub().ask(Greet("Ada"), Greeting, timeout=5)
        await stop(*nodes)

    run(story)


@pytest.mark.parametrize("way", ["unhost", "drain"])
def test_routes_that_are_taken_back_are_gone_everywhere(way: str) -> None:
    async def story(network: Network) -> None:
        nodes, greeter = await cluster(network, 6), Greeter()
        nodes[2].host(greeter)
        others = [node for node in nodes if node is not nodes[2]]
        for node in others:
            await node.knows(Greet)
        await (nodes[2].unhost(greeter) if way == "unhost" else nodes[2].drain())
        await until(lambda: not any(node._tables.handlers_of(contract_of(Greet)) for node in others), 2)
        with pytest.raises(NoRoute):
            await nodes[4].hub().ask(Greet("Ada"), Greeting, timeout=5)
        await stop(*nodes)

    run(story)


def test_process_that_restarts_takes_its_place_at_another_address() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 5)
        again = network.node(join=[nodes[0].uri], identity=nodes[3].identity)
        network.crash(nodes[3])
        await asyncio.sleep(0.01)
        again._incarnation += NS_PER_SECOND
        await again.start()
        again.host(Greeter())
        await nodes[1].knows(Greet, timeout=60)
        assert (await nodes[1].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await until(lambda: all(len(node.peers) == 4 for node in (*nodes[:3], nodes[4], again)))
        await stop(*nodes[:3], nodes[4], again)

    run(story)


@pytest.mark.parametrize("is_signed", [False, True])
def test_process_that_restarts_with_its_clock_set_back_is_taken(
    is_signed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    domains = Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])])
    settings = {"domains": domains} if is_signed else {}

    async def story(network: Network) -> None:
        nodes = await cluster(network, 4, **settings)
        first = network.node(join=[nodes[0].uri], identity=b"x", **settings)
        await first.start()
        await until(lambda: all(b"x" in node.peers for node in nodes))
        network.kill(first)
        await until(lambda: not any(b"x" in node.peers for node in nodes))
        an_hour_ago = time.time_ns() - 3600 * NS_PER_SECOND
        with monkeypatch.context() as patched:
            patched.setattr("hopwire.node.node.time.time_ns", lambda: an_hour_ago)
            second = network.node(join=[nodes[0].uri], identity=b"x", **settings)
        second.host(Greeter())
        await second.start()
        await until(lambda: all(b"x" in node.peers for node in nodes), 5)
        for node in nodes:
            assert (await node.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        nodes[3].host(Greeter())
        await second.knows(Greet)
        assert (await second.hub().ask(Greet("Bob"), Greeting, timeout=5)).text == "hello Bob"
        await stop(*nodes, second)

    run(story)


def test_node_that_finds_no_door_goes_on_alone_and_joins_when_one_opens() -> None:
    async def story(network: Network) -> None:
        door = network.node(join=[])
        early = network.node(join=[f"memory://{1}"])
        await early.start()
        early.host(Greeter())
        assert (await early.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await asyncio.sleep(30)
        await door.start()
        await until(lambda: len(door.peers) == len(early.peers) == 1, 30)
        await stop(door, early)

    run(story)


def test_what_nobody_handles_has_no_route_after_the_neighbours_were_asked() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 4)
        with pytest.raises(NoRoute):
            await nodes[1].hub().ask(Greet("Ada"), Greeting, timeout=60)
        await nodes[1].hub().tell(Greet("Ada"), ttl=60)
        assert nodes[1].dead_letters.counts["no_route"] == 2
        await stop(*nodes)

    run(story)


def test_message_without_a_route_finds_one_that_a_neighbour_knows() -> None:
    """The asker has missed all news of the route, and would hear of it with the next ping at the earliest."""

    async def story(network: Network) -> None:
        door, shop = await cluster(network, 2)
        shop.host(Greeter())
        await door.knows(Greet)
        late = network.node(join=[door.uri])
        await late.start()
        await until(lambda: len(late.peers) == 2)
        assert late._membership.joining is not None
        late._membership.joining.members.routes.forget(shop.identity)
        late._membership.hold(shop.identity, (), (), True)
        assert not late._tables.handlers_of(contract_of(Greet))
        before = asyncio.get_running_loop().time()
        assert (await late.hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        assert asyncio.get_running_loop().time() - before < 0.25
        late._membership.joining.members.routes.forget(shop.identity)
        late._membership.hold(shop.identity, (), (), True)
        with pytest.raises((NoRoute, Expired, Timeout)):
            await late.hub().ask(Greet("Bob"), Greeting, timeout=0.001)  # never beyond its own time
        await stop(door, shop, late)

    run(story)


def test_peers_and_members_live_side_by_side() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 3)
        plain = network.node(peers=[nodes[1].uri])
        await plain.start()
        nodes[1].host(Greeter())
        assert (await _asked(plain, "Ada")).text == "hello Ada"
        assert len(plain.peers) == 1
        await stop(*nodes, plain)

    run(story)


async def _asked(node: Node, name: str) -> Greeting:
    await node.knows(Greet)
    return await node.hub().ask(Greet(name), Greeting, timeout=5)


@pytest.mark.parametrize("join", ["tcp://a:1", ["nowhere"], ["dns://name"], [7]])
def test_doors_that_are_none_are_refused(join: Any) -> None:
    with pytest.raises(SettingsError):
        Node(join=join)


def test_name_that_is_looked_up_is_a_door() -> None:
    async def story() -> None:
        async with Node(join=[]) as door:
            name = f"dns://localhost:{door.uri.rpartition(':')[2]}"
            async with Node(join=[name, "dns://nowhere.invalid:1"]) as node:
                node.host(Greeter())
                await door.knows(Greet)
                assert (await door.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS)).text == "hello Ada"

    told(story)


def test_name_of_a_door_is_looked_up_at_each_attempt() -> None:
    """The name leads nowhere, then to somebody who is gone, and then to a door."""

    async def story() -> None:
        async with Node(join=[]) as door:
            port = int(door.uri.rpartition(":")[2])
            asked, answers = list[str](), iter([None, "127.0.0.9"])

            async def look_up(host: str, _: int, **kinds: Any) -> list[Any]:
                found = next(answers, "127.0.0.1") if host == "doors.internal" else host
                asked.append(host)
                if found is None:
                    raise OSError("no such name")
                return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (found, port))]

            loop = cast("Any", asyncio.get_running_loop())
            loop.getaddrinfo = look_up
            async with Node(join=[f"dns://doors.internal:{port}"], settings=QUICK) as node:
                await until(lambda: node.identity in door.peers)
                assert asked.count("doors.internal") >= 3
            del loop.getaddrinfo

    asyncio.run(story())


def test_members_that_are_doors_of_each_other_under_another_name_than_they_tell_find_each_other() -> None:
    """Both dial at once, so each hears the other over two connections, and at neither is the address that it tells."""

    async def story() -> None:
        ports = [free_port() for _ in range(3)]
        doors = [f"tcp://localhost:{port}" for port in ports]
        nodes = [
            Node(f"tcp://127.0.0.1:{port}", join=[each for each in doors if str(port) not in each]) for port in ports
        ]
        await asyncio.gather(*(node.start() for node in nodes))
        await until(lambda: all(len(node._membership.joining.living()) == 2 for node in nodes), 3)  # type: ignore[union-attr]
        nodes[0].host(Greeter())
        await nodes[1].knows(Greet)
        assert (await nodes[1].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await stop(*nodes)

    run_on_sockets(story)


@needs_ipv6
def test_members_find_each_other_where_there_is_only_ipv6() -> None:
    async def story() -> None:
        async with Node("tcp://[::1]:0", join=[]) as door:
            port = door.uri.rpartition(":")[2]
            async with (
                Node("tcp://[::1]:0", join=[f"dns://ip6-localhost:{port}", door.uri]) as one,
                Node("tcp://[::1]:0", join=[door.uri]) as two,
            ):
                one.host(Greeter())
                await two.knows(Greet)
                assert (await two.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS)).text == "hello Ada"
                await until(lambda: len(one.peers) == len(two.peers) == 2)

    told(story)


def test_another_node_at_the_address_of_one_that_was_killed_is_not_taken_for_it() -> None:
    domains = Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])])

    async def story(network: Network) -> None:
        nodes = await cluster(network, 4, domains=domains)
        first = network.node(join=[nodes[0].uri], identity=b"first", domains=domains)
        await first.start()
        first.host(Greeter())
        await until(lambda: all(node._tables.handlers_of(contract_of(Greet)) for node in nodes))
        network.kill(first)
        network._count = int(first.uri.rpartition("/")[2]) - 1
        second = network.node(join=[nodes[0].uri], identity=b"second", domains=domains)
        second.host(other := Greeter("second"))
        await second.start()
        assert second.uri == first.uri
        with pytest.raises((NoRoute, Unreachable)):
            await nodes[1].hub().ask(Greet("Ada"), Greeting, to=Address(b"first"), timeout=5)
        await until(lambda: all({*node.peers} >= {b"second"} and b"first" not in node.peers for node in nodes), 5)
        assert other.greeted == []
        assert (await nodes[1].hub().ask(Greet("Bob"), Greeting, timeout=5)).text == "second Bob"
        await stop(*nodes, second)

    run(story)


def test_who_speaks_for_another_member_is_not_heeded() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 3)
        forged = Rumours(nodes[2].identity, 1, (MemberRecord(b"ghost", 1, 1, "memory://9"),))
        nodes[1]._membership.tell(nodes[0].identity, forged)
        await asyncio.sleep(1)
        assert nodes[0].dead_letters.counts["bad_control"] == 1
        assert b"ghost" not in nodes[0].peers
        await stop(*nodes)

    run(story)


def test_words_of_members_say_nothing_to_a_node_without_a_cluster() -> None:
    async def story(network: Network) -> None:
        async with network.node() as plain, network.node(peers=[plain.uri]) as other:
            await until(lambda: bool(plain.peers))
            other._membership.tell(plain.identity, Rumours(other.identity, 1, (MemberRecord(b"ghost", 1, 1, ""),)))
            await asyncio.sleep(1)
            assert plain.peers == (other.identity,)

    run(story)


@pytest.mark.slow
def test_record_with_an_address_that_is_none_does_no_harm() -> None:
    async def story(network: Network) -> None:
        nodes = await cluster(network, 3)
        incarnation = nodes[1]._incarnation
        bad = tuple(MemberRecord(b"ghost-%d" % number, incarnation, 1, "\0" * number) for number in range(20))
        nodes[1]._membership.tell(nodes[0].identity, Rumours(nodes[1].identity, incarnation, bad))
        nodes[2].host(Greeter())
        assert (await nodes[0].hub().ask(Greet("Ada"), Greeting, timeout=5)).text == "hello Ada"
        await until(lambda: all(len(node.peers) == 2 for node in nodes), 200)
        await stop(*nodes)

    run(story)


@asynccontextmanager
async def linked(domains: Domains) -> AsyncIterator[tuple[Node, Node]]:
    """Two members with real sockets that have a link which carries trains in both directions; the second opened it."""
    async with Node(join=[], domains=domains) as door, Node(join=[door.uri], domains=domains) as guest:
        for node in (door, guest):
            node.host(Greeter())
        for node, other in ((door, guest), (guest, door)):
            await node.knows(Greet)
            await until(partial(is_linked, node, other))
            assert await asks(node, other) == ["hello Ada"] * 3
        yield door, guest


def is_linked(node: Node, other: Node) -> bool:
    return other.identity in node._membership._cluster.peers


def connections(node: Node) -> list[ZmtpSocket]:
    """Give the connections that others have opened to a node."""
    assert isinstance(node._transport, Streams)
    return list(node._transport._inbound)


async def asks(node: Node, other: Node) -> list[str]:
    """Ask three questions in one turn of the loop: the first one leaves by itself, the others in a train."""
    address = Address(other.identity)
    questions = [node.hub().ask(Greet("Ada"), Greeting, timeout=5, to=address) for _ in range(3)]
    return [answer.text for answer in await asyncio.gather(*questions)]


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.5, 1.99, 2.5])
@pytest.mark.parametrize("is_door", [True, False], ids=["door", "guest"])
@pytest.mark.parametrize("domains", [OPEN, SIGNED], ids=["open", "signed"])
def test_what_crosses_the_goodbye_of_a_link_is_answered(domains: Domains, is_door: bool, seconds: float) -> None:
    async def story() -> None:
        async with linked(domains) as (door, guest):
            here, there = (door, guest) if is_door else (guest, door)
            here._membership._step(Released(there.identity))
            await asyncio.sleep(seconds)
            answers = await asyncio.gather(asks(there, here), asks(here, there))
            assert [*answers[0], *answers[1]] == ["hello Ada"] * 6
            await asyncio.sleep(3)
            assert [*await asks(there, here), *await asks(here, there)] == ["hello Ada"] * 6
            assert "not_met" not in here.dead_letters.counts | there.dead_letters.counts

    run_on_sockets(story)


@pytest.mark.parametrize("is_door", [True, False], ids=["door", "guest"])
def test_link_that_nobody_uses_after_a_goodbye_ends_and_is_not_opened_again(
    monkeypatch: pytest.MonkeyPatch, is_door: bool
) -> None:
    async def story() -> None:
        async with linked(SIGNED) as (door, guest):
            monkeypatch.setattr(Joining, "closed", lambda *_, **__: None)  # neighbours would meet again
            here, there = (door, guest) if is_door else (guest, door)
            here._membership._step(Released(there.identity))
            await asyncio.sleep(1.5)
            assert len(connections(door)) == 1, "what is on its way arrives"
            await asyncio.sleep(5)
            assert [*connections(door), *connections(guest)] == []
            assert [*await asks(there, here), *await asks(here, there)] == ["hello Ada"] * 6

    run_on_sockets(story)


def test_link_stays_that_is_used_after_a_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with linked(SIGNED) as (door, guest):
            monkeypatch.setattr(Joining, "closed", lambda *_, **__: None)  # neighbours would meet again
            door._membership._step(Released(guest.identity))
            (connection,) = connections(door)
            for _ in range(10):
                assert await asks(guest, door) == ["hello Ada"] * 3
                await asyncio.sleep(0.5)
            assert connections(door) == [connection]
            assert is_linked(door, guest)
            assert is_linked(guest, door)

    run_on_sockets(story)
