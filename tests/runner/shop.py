"""Actors that the tests of the runner load by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hopwire.model import Payload
from hopwire.node import Actor, handles


class Order(Payload, identity="till.order", version=1):
    what: str


class Sold(Payload, identity="till.sold", version=2):
    what: str
    count: int = 1


class Block(Payload, identity="till.block", version=1):
    seconds: float


class Shop(Actor):
    """Sells at once, unless told to wait for its till."""

    concurrency = 4
    till: asyncio.Event | None = None

    def __init__(self) -> None:
        self.taken = asyncio.Event()
        self.orders: list[str] = []

    @handles
    async def sell(self, order: Order) -> Sold:
        self.orders.append(order.what)
        self.taken.set()
        if self.till is not None:
            await self.till.wait()
        return Sold(order.what)


class Stock(Actor):
    """Blocks a thread."""

    @handles
    def block(self, request: Block) -> None:
        print("blocking", flush=True)
        time.sleep(request.seconds)


class Fragile(Shop):
    supervision = "escalate"

    async def on_start(self) -> None:
        raise RuntimeError("no till")


SHOP = Shop()
BOTH = [Shop, Stock]
NUMBER = 5
left: list[str] = []


def make() -> Shop:
    return Shop()


async def make_both() -> tuple[Shop, Stock]:
    return Shop(), Stock()


@asynccontextmanager
async def opened() -> AsyncIterator[list[Shop]]:
    try:
        yield [Shop()]
    finally:
        left.append("opened")


@asynccontextmanager
async def never_opened() -> AsyncIterator[Shop]:
    print("entering", flush=True)
    await asyncio.Event().wait()
    yield Shop()


def broken() -> Shop:
    raise ValueError("no\nmoney")


def nothing() -> None:
    pass


def endless() -> object:
    return endless
