"""What a type checker makes of the API: `make check` reads this file, nothing here runs but the test below."""

from __future__ import annotations

from typing import assert_type

from hopwire import sync
from hopwire.node import Address, BlockingContext, Context, Hub, Node, Receipt, Statistics
from hopwire.node.news import NodeEvent
from hopwire.node.spawn import Way
from tests.node.stories import Count, Greet, Greeter, Greeting, Number


async def asks(hub: Hub, node: Node) -> None:
    assert_type(await hub.ask(Greet("x"), Greeting), Greeting)
    assert_type(await hub.ask(Count(1), (Number, Greeting)), Number | Greeting)
    assert_type(await hub.send(Greet("x")), Receipt)
    assert_type(node.host(Greeter()), Address)


def asks_and_waits(hub: sync.Hub, node: sync.Node) -> None:
    assert_type(hub.ask(Greet("x"), Greeting), Greeting)
    assert_type(hub.trace(Greet("x")), Way)
    assert_type(node.statistics(), Statistics)
    assert_type(node.drain(), bool)
    assert_type(next(node.events()), NodeEvent)
    sync.Node(peers=3)  # type: ignore[arg-type]
    assert_type(hub.ask(Count(1), (Number, Greeting)), Number | Greeting)
    for part in hub.stream(Count(1), Number):
        assert_type(part, Number)


async def hears(node: Node) -> None:
    async for event in node.events():
        assert_type(event, NodeEvent)


async def streams(hub: Hub, context: Context, blocking: BlockingContext) -> None:
    async for part in hub.stream(Count(1), Number):
        assert_type(part, Number)
    async for either in context.stream(Count(1), (Number, Greeting)):
        assert_type(either, Number | Greeting)
    for each in blocking.stream(Count(1), Number):
        assert_type(each, Number)
    assert_type(await context.ask(Count(1), Number), Number)
    assert_type(blocking.ask(Count(1), Number), Number)


def test_this_file_is_for_the_type_checker() -> None:
    assert callable(asks)
    assert callable(asks_and_waits)
    assert callable(hears)
    assert callable(streams)
