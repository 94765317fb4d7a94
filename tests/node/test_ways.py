"""Every way to reach a node: names, both families, both sides at once, an address behind NAT. One link, no outage."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

import pytest

from hopwire.node import Node
from tests.node.loopback import ANSWER_SECONDS, NOWHERE, cuttable, streams_of, told, until
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number
from tests.ports import free_port

ASKED = 100


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


async def talk(a: Node, b: Node) -> None:
    """Let both nodes ask each other, many times while links settle; every question is answered."""
    a.host(Greeter())
    b.host(Counter())
    await b.knows(Greet)
    await a.knows(Count)
    for number in range(ASKED):
        assert await b.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS) == Greeting(f"hello {number}")
        assert await a.hub().ask(Count(1), Number, timeout=ANSWER_SECONDS) == Number(0)
        await asyncio.sleep(0.001)
    assert a.peers == (b.identity,)
    assert b.peers == (a.identity,)
    assert not a.dead_letters.counts
    assert not b.dead_letters.counts


def links_of(node: Node) -> int:
    return sum(link.connection is not None for link in streams_of(node)._links.values())


# fmt: off
WAYS: list[tuple[str, Callable[[int], Sequence[str]]]] = [
    # a listens on    b dials
    ("127.0.0.1",     lambda port: [f"tcp://127.0.0.1:{port}"]),
    ("127.0.0.1",     lambda port: [f"tcp://localhost:{port}"]),
    ("localhost",     lambda port: [f"tcp://localhost:{port}"]),
    ("localhost",     lambda port: [f"tcp://127.0.0.1:{port}", f"tcp://localhost:{port}"]),
    ("127.0.0.1",     lambda port: [f"tcp://localhost:{port}", f"tcp://127.0.0.1:{port}"]),
    ("127.0.0.1",     lambda port: [f"tcp://127.0.0.1:{port}"] * 3),
]
WAYS_OF_IPV6: list[tuple[str, Callable[[int], Sequence[str]]]] = [
    ("[::1]",         lambda port: [f"tcp://[::1]:{port}"]),
    ("[::1]",         lambda port: [f"tcp://localhost:{port}"]),  # the name has an address of IPv4 too, where nobody is
    ("[::1]",         lambda port: [f"tcp://[::1]:{port}", f"tcp://[0:0:0:0:0:0:0:1]:{port}"]),
]
# fmt: on


@pytest.mark.parametrize(("listen", "dial"), [*WAYS, *(pytest.param(*way, marks=needs_ipv6) for way in WAYS_OF_IPV6)])
def test_a_node_is_reached_by_any_of_its_names(listen: str, dial: Callable[[int], Sequence[str]]) -> None:
    if listen == "[::1]" and "localhost" in dial(1)[0] and not _is_both("localhost"):
        pytest.skip("localhost has no address of IPv6 here")

    async def story() -> None:
        async with Node(f"tcp://{listen}:0") as a:
            port = int(a.uri.rpartition(":")[2])
            async with Node(peers=dial(port)) as b:
                await talk(a, b)
                assert links_of(a) == 1

    told(story)


def _is_both(name: str) -> bool:
    found = {family for family, *_ in socket.getaddrinfo(name, 1, type=socket.SOCK_STREAM)}
    return socket.AF_INET6 in found


@needs_ipv6
def test_nodes_of_two_families_talk_over_the_connection_that_one_of_them_opened() -> None:
    async def story() -> None:
        async with Node("tcp://[::1]:0") as a, Node("tcp://127.0.0.1:0", peers=[a.uri]) as b:
            await talk(a, b)
            assert (links_of(a), links_of(b)) == (1, 1)

    told(story)


@pytest.mark.slow
@pytest.mark.parametrize("names", [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("localhost", "localhost")])
def test_two_nodes_that_dial_each_other_at_once_answer_every_question(names: tuple[str, str]) -> None:
    async def story() -> None:
        for _ in range(2):
            ports = free_port(), free_port()
            to_a, to_b = (f"tcp://{name}:{port}" for name, port in zip(names, ports, strict=True))
            a = Node(f"tcp://127.0.0.1:{ports[0]}", peers=[to_b])
            b = Node(f"tcp://127.0.0.1:{ports[1]}", peers=[to_a])
            await asyncio.gather(a.start(), b.start())
            try:
                await talk(a, b)
                while (links_of(a), links_of(b)) != (1, 1):  # what is left over is closed after 2 s
                    await asyncio.sleep(0.01)
            finally:
                await asyncio.gather(a.stop(), b.stop())

    told(story)


def test_a_node_behind_nat_is_reached_by_what_it_advertises() -> None:
    async def story() -> None:
        port = free_port()
        inside = Node(f"tcp://127.0.0.1:{port}", advertise="tcp://127.0.0.1:0")
        async with inside as a, cuttable(a.uri) as (outside, _), Node(peers=[outside]) as b:
            await talk(a, b)

    told(story)


def test_two_nodes_that_nobody_can_dial_talk_through_whom_they_dialled_and_each_has_one_link() -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri], advertise=NOWHERE) as hidden:
            await talk(a, hidden)
            assert (links_of(a), links_of(hidden)) == (1, 1)

    told(story)


@pytest.mark.slow
def test_a_node_that_moves_is_followed() -> None:
    async def story() -> None:
        async with Node() as a:
            async with Node(peers=[a.uri], identity=b"mover") as b:
                await until(lambda: a.peers)
                first = b.uri
            async with Node(peers=[a.uri], identity=b"mover") as b:
                b.host(Counter())
                await a.knows(Count)
                assert await a.hub().ask(Count(1), Number, timeout=ANSWER_SECONDS) == Number(0)
                assert a._outgoing.address(b"mover") == b.uri != first

    told(story)
