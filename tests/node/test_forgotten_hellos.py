"""Members whose hello was refused, doubted or forgotten say another one: nobody stays half connected."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace

from hopwire.cluster.gossip import Rumours
from hopwire.errors import HopwireError
from hopwire.node import Address, Node
from hopwire.security import OPEN, Domain, Domains, Key
from tests.node.stories import Greet, Greeter, Greeting
from tests.node.virtual_sockets import run_on_sockets

DOMAINS = Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])])


async def members(stack: AsyncExitStack, count: int, domains: Domains = DOMAINS) -> list[Node]:
    """Members that sign, each with a greeter of its own."""
    nodes: list[Node] = []
    for number in range(count):
        doors = [nodes[0].uri] if nodes else []
        node = Node("tcp://127.0.0.1:0", join=doors, identity=b"n%d" % number, domains=domains)
        nodes.append(await stack.enter_async_context(node))
        node.host(Greeter(), partition=node.identity)
    return nodes


async def greet(asker: Node, other: Node) -> str:
    answer = await asker.hub().ask(
        Greet("Ada"), Greeting, to=Address(other.identity), partition=other.identity, timeout=3
    )
    return answer.text


async def reach(asker: Node, other: Node) -> str:
    """Ask until there is an answer."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await greet(asker, other)
            except HopwireError:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("is_dialled", [False, True])
def test_a_member_whose_hello_was_forgotten_is_heard_again(is_dialled: bool) -> None:
    """The other one has taken it for dead, or for another process: its connection is open, and counts no more."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            a, b = await members(stack, 2)
            assert await reach(a, b) == "hello Ada"
            forgetful, other = (b, a) if is_dialled else (a, b)  # b has opened the connection
            forgetful._membership._trust.callers.forget(other.identity)
            assert await reach(other, forgetful) == "hello Ada"
            assert await reach(forgetful, other) == "hello Ada"

    run_on_sockets(story)


def test_a_connection_that_is_doubted_and_never_asked_is_opened_anew() -> None:
    """More doubts about one name than are asked in a second: the question that would have proved it is never said."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            b, a = await members(stack, 2)
            await reach(a, b)
            callers = b._membership._trust.callers
            (sure,) = callers.of(a.identity)
            callers.forget(a.identity)
            callers.hear(sure, a.identity, is_sure=False)
            async with asyncio.timeout(10):
                while not callers.of(a.identity):
                    await asyncio.sleep(0.1)
            assert await reach(a, b) == "hello Ada"

    run_on_sockets(story)


def test_connections_that_are_not_sure_end_with_their_member() -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            b, a = await members(stack, 2)
            await reach(a, b)
            callers = b._membership._trust.callers
            (sure,) = callers.of(a.identity)
            callers.forget(a.identity)
            callers.hear(sure, a.identity, is_sure=False)
            b._membership.dismiss(a.identity, "dead")
            assert not any(each.startswith(a.identity) for each in b._transport._names)  # type: ignore[attr-defined]
            assert await reach(a, b) == "hello Ada"

    run_on_sockets(story)


def test_a_restart_that_others_told_of_makes_nobody_accuse_the_new_process() -> None:
    """The link to the process before ends with it: that says nothing of the process that is there now."""

    async def story() -> None:
        async with AsyncExitStack() as stack:
            a, b, c = await members(stack, 3, OPEN)
            await reach(a, b)
            await reach(c, b)
            joining = a._membership.joining
            assert joining is not None
            known = joining.members.find(b.identity)
            assert known is not None
            restarted = replace(known, incarnation=known.incarnation + 1)
            joining.take(Rumours(c.identity, c._incarnation, (restarted,)))
            assert joining.members.find(b.identity) == restarted
            assert b.identity not in joining.members.suspects

    run_on_sockets(story)
