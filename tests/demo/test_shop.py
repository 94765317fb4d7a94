"""The story of the shop, in one process: an order comes home over three nodes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from hopwire.demo.shop import (
    MOST_EXPENSIVE,
    ROLES,
    Bookkeeper,
    Cashier,
    Charge,
    Label,
    Order,
    Paid,
    PriceChanged,
    Warehouse,
    domains_of,
)
from hopwire.errors import HandlerFailed
from hopwire.node import Node, NodeSettings

pytestmark = pytest.mark.slow


def test_an_order_comes_home_and_all_that_have_to_know_are_told() -> None:
    bookkeeper, label, warehouse = Bookkeeper(), Label(), Warehouse()
    actors = {"ledger": bookkeeper, "labels": label, "billing": Cashier(), "stock": warehouse}

    async def story() -> None:
        async with AsyncExitStack() as stack:
            nodes: dict[str, Node] = {}
            for name, role in ROLES.items():
                node = Node(
                    peers=[node.uri for node in nodes.values()],
                    domains=domains_of(b"the secret of the shop"),
                    settings=NodeSettings(formats=role.formats),
                )
                nodes[name] = await stack.enter_async_context(node)
                if name in actors:
                    node.host(actors[name])
            for name, role in ROLES.items():
                for payload in role.needs:
                    await nodes[name].knows(payload)
            await nodes["stock"].knows(Charge)
            hub = nodes["shop"].hub()
            assert await hub.ask(Order(item="lamp", price=3), Paid) == Paid(item="lamp", price=3)
            with pytest.raises(HandlerFailed, match="not good for"):
                await hub.ask(Order(item="lamp", price=MOST_EXPENSIVE + 1), Paid)
            await hub.broadcast(PriceChanged(item="lamp", price=4))
            async with asyncio.timeout(10):
                while (label.shown, warehouse.prices, bookkeeper.balance) != ({"lamp": 4}, {"lamp": 4}, 3):
                    await asyncio.sleep(0.005)

    asyncio.run(story())
