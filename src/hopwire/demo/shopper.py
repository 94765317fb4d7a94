"""The customers: they cause the traffic, and remember what became of every question.

Each public method is one act of the day. An act ends when all its questions have ended, unless its docstring says
otherwise.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

from hopwire.demo.shop import MOST_EXPENSIVE, Order, Paid, PriceChanged, Refund, Return, Statement, Visit
from hopwire.demo.trouble import TROUBLES, flow_id
from hopwire.errors import HopwireError
from hopwire.model import Payload
from hopwire.node import Hub

__all__ = ["Shopper"]

ITEMS = ("lamp", "chair", "table", "kettle", "clock", "vase", "rug", "mirror")
ORDER_SECONDS = 15.0  # much longer than an order takes, so that a slow machine changes nothing
AT_ONCE = 5  # orders
VISITS_PER_ORDER = 3
ORDERS_PER_PRICE = 4
ANSWERS = ("answered", "HandlerFailed")  # endings by a message that came back
BREATH_SECONDS = 0.05  # between two groups of orders, at most


class Shopper:
    """All customers of the shop, who share one hub."""

    def __init__(self, hub: Hub, chance: random.Random, patience_seconds: float) -> None:
        self._hub, self._chance, self._patience = hub, chance, patience_seconds
        self._loop = asyncio.get_running_loop()
        self._orders = 0
        self._judged_at = 0.0  # from then on the lake calls no unanswered question open
        self._waiting: list[asyncio.Task[None]] = []
        self.endings: dict[str, str] = {}  # correlation id: "answered", or the class of the error

    async def trade(self, orders: int) -> None:
        """Order so many items, look around, change prices."""
        for start in range(0, orders, AT_ONCE):
            count = min(AT_ONCE, orders - start)
            await asyncio.gather(*(self._order() for _ in range(count)))
            for _ in range(count * VISITS_PER_ORDER):
                await self._hub.tell(Visit(item=self._item()))
            for _ in range(start // ORDERS_PER_PRICE, (start + count) // ORDERS_PER_PRICE):
                await self._hub.broadcast(PriceChanged(item=self._item(), price=self._price()))
            await asyncio.sleep(BREATH_SECONDS * self._chance.random())

    async def suffer(self, orders: int) -> None:
        """Run into every trouble that happens while all nodes live, among so many orders that go well."""
        acts = [self._ask_for("refused", Order(item=self._item(), price=MOST_EXPENSIVE + 1))]
        acts += [self._ask_for("slow", Order(item=self._item(), price=self._price(), is_gift=True))]
        acts += [self._ask_for("unheard", Return(item=self._item()))]
        acts += [self._ask_for(name, self._some_order()) for name in ("dropped", "altered", "doubled")]
        await asyncio.gather(self.trade(orders), *acts)

    async def strand(self) -> None:
        """Ask for statements, which take very long; the act ends when billing works on them."""
        self._waiting.append(asyncio.ensure_future(self._ask_for("stranded", Statement(year=2026))))
        await asyncio.sleep(0)  # the questions leave first, so the receipt below says that they have arrived too
        flow = flow_id("arrived", 1)
        receipt = self._hub.send(Statement(year=2025), timeout=ORDER_SECONDS, correlation_id=flow)
        await self._until(receipt, flow)

    async def miss(self) -> None:
        """Order while billing is down; refunds are sent again and again, also after the act has ended."""
        self._insist("insisted", partial(self._hub.send, Refund(item=self._item(), price=self._price())))
        await self._ask_for("missed", self._some_order())

    async def sever(self) -> None:
        """Order while the link to stock is cut; some orders are sent again and again, also after the act has ended."""
        self._insist("healed", partial(self._hub.ask, self._some_order(), Paid))
        await self._ask_for("severed", self._some_order())

    async def recover(self) -> None:
        """Wait for the end of what `strand`, `miss` and `sever` have begun."""
        await asyncio.gather(*self._waiting)

    async def rest(self) -> dict[str, str]:
        """Stay until the lake calls no unanswered question open any more; give what became of each question."""
        await asyncio.sleep(max(0.0, self._judged_at - self._loop.time()))
        return self.endings

    # -- one question

    def _insist(self, name: str, say: Callable[..., Awaitable[object]]) -> None:
        trouble = TROUBLES[name]
        for number in range(1, trouble.times + 1):
            flow = flow_id(name, number)
            promise = say(timeout=trouble.lives, at_least_once=True, correlation_id=flow)
            self._waiting.append(asyncio.ensure_future(self._until(promise, flow)))

    async def _ask_for(self, name: str, payload: Payload) -> None:
        trouble = TROUBLES[name]
        await asyncio.gather(
            *(self._ask(payload, flow_id(name, number + 1), trouble.lives) for number in range(trouble.times))
        )

    async def _order(self) -> None:
        self._orders += 1
        await self._ask(self._some_order(), flow_id("order", self._orders), ORDER_SECONDS)

    async def _ask(self, payload: Payload, flow: bytes, lives: float) -> None:
        judged_at = self._loop.time() + lives + self._patience
        await self._until(self._hub.ask(payload, Paid, timeout=lives, correlation_id=flow), flow)
        if self.endings[flow.decode()] not in ANSWERS:
            self._judged_at = max(self._judged_at, judged_at)

    async def _until(self, promise: Awaitable[object], flow: bytes) -> None:
        ending = "answered"
        try:
            await promise
        except HopwireError as error:
            ending = type(error).__name__
        self.endings[flow.decode()] = ending

    def _some_order(self) -> Order:
        return Order(item=self._item(), price=self._price())

    def _item(self) -> str:
        return self._chance.choice(ITEMS)

    def _price(self) -> int:
        return self._chance.randrange(1, MOST_EXPENSIVE)
