"""Two partner networks for tests: clusters with gateways between them, on a network in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from hopwire.model import Payload, contract_of
from hopwire.node import Actor, Context, Node, Partner, handles
from hopwire.testing import Network
from tests.node.stories import until


class Place(Payload, identity="orders.place", version=1):
    number: int


class Placed(Payload, identity="orders.placed", version=1):
    number: int
    by: str = ""


class Listing(Payload, identity="orders.list", version=1):
    count: int


class Keyed(Payload, identity="orders.keyed", version=1, choose="key", key="number"):
    number: int


class Charge(Payload, identity="invoices.charge", version=1):
    number: int


class Charged(Payload, identity="invoices.charged", version=1):
    number: int


class Secret(Payload, identity="secret.read", version=1):
    number: int


class OrderDesk(Actor):
    """Takes orders."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.taken: list[int] = []
        self.hold: asyncio.Event | None = None

    def go_on(self) -> None:
        """Answer what was held."""
        assert self.hold is not None
        self.hold.set()

    @handles
    async def place(self, order: Place) -> Placed:
        if self.hold is not None:
            await self.hold.wait()
        if order.number < 0:
            raise ValueError("no such order")
        self.taken.append(order.number)
        return Placed(order.number, self.name)

    @handles
    async def keyed(self, order: Keyed) -> Placed:
        self.taken.append(order.number)
        return Placed(order.number, self.name)

    @handles
    async def listing(self, wanted: Listing) -> AsyncIterator[Placed]:
        for number in range(wanted.count):
            self.taken.append(number)
            yield Placed(number)

    @handles
    async def secret(self, wanted: Secret) -> Placed:
        return Placed(wanted.number, "secret")


class BillingDesk(Actor):
    """Charges, and passes a flow on whose answer somebody else gives."""

    @handles
    async def charge(self, charge: Charge) -> Charged:
        return Charged(charge.number)


class OrderThroughBilling(Payload, identity="orders.through", version=1):
    number: int


class Middleman(Actor):
    """Passes a question on: the answer comes from whoever takes it."""

    @handles
    async def through(self, order: OrderThroughBilling, context: Context) -> Charge:
        return Charge(order.number)


def handlers(node: Node) -> int:
    """Give how many take orders, as far as a node knows."""
    return len(node._tables.handlers_of(contract_of(Place)))


class Pair:
    """Two networks, `shop` and `acme`: an inner member of each, and the gateways between them."""

    def __init__(self) -> None:
        self.shop: list[Node] = []  # a member, then the gateways
        self.acme: list[Node] = []

    async def opened(self, name: str = "", is_held: bool = False) -> OrderDesk:
        """Let the member of `shop` take orders; the member of `acme` knows of that by each gateway."""
        desk = OrderDesk(name)
        if is_held:
            desk.hold = asyncio.Event()
        self.shop[0].host(desk)
        await until(lambda: handlers(self.acme[0]) == len(self.acme) - 1)
        return desk

    @property
    def every(self) -> list[Node]:
        return [*self.shop, *self.acme]


@asynccontextmanager
async def partners(
    network: Network,
    gateways: int = 1,
    export: Iterable[str] = ("orders.*",),
    import_: Iterable[str] = ("orders.*",),
    back: Iterable[str] = (),
    **settings: Any,
) -> AsyncIterator[Pair]:
    """Let `shop` export to `acme`, which imports; `back` is what crosses in the other direction."""
    pair = Pair()
    for name, nodes in (("shop", pair.shop), ("acme", pair.acme)):
        first = network.node(join=[], identity=name.encode(), **settings.get(name, {}))
        await first.start()
        nodes.append(first)
    for number in range(gateways):
        more = settings.get("link", {})
        partner = Partner("acme", [], export=export, import_=back, **more)
        gateway = network.node(
            join=[pair.shop[0].uri], identity=b"shop-gw%d" % number, partners=[partner], **settings.get("shop", {})
        )
        await gateway.start()
        pair.shop.append(gateway)
    doors = [gateway.border("acme").uri for gateway in pair.shop[1:]]
    for number in range(gateways):
        partner = Partner("shop", doors, export=back, import_=import_, **settings.get("far_link", more))
        gateway = network.node(
            join=[pair.acme[0].uri], identity=b"acme-gw%d" % number, partners=[partner], **settings.get("acme", {})
        )
        await gateway.start()
        pair.acme.append(gateway)
    try:
        await until(lambda: all(len(gateway.border("shop").peers) == gateways for gateway in pair.acme[1:]))
        yield pair
    finally:
        for node in pair.every:
            await node.stop()
