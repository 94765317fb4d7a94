"""Who does what in the shop.

An order crosses three nodes and comes home by itself: the warehouse returns a `Charge`, the cashier a `Paid`, and
since a `Paid` is what the customer waits for, that is where it goes. Nobody on the way knows who asked.
"""

from __future__ import annotations

import asyncio

from hopwire.demo.shop import Charge, LedgerEntry, Order, Paid, PriceChanged, Refund, Statement, Visit
from hopwire.node import Actor, Context, handles

__all__ = ["MOST_EXPENSIVE", "Bookkeeper", "Cashier", "Label", "Warehouse"]

GIFT_SECONDS = 2.0  # twice as long as an order in a hurry lives
STATEMENT_SECONDS = 60.0
MOST_EXPENSIVE = 1000  # what a card is good for


class Warehouse(Actor):
    """Reserves what is ordered, and passes the bill on."""

    concurrency = 64

    def __init__(self) -> None:
        self.prices: dict[str, int] = {}

    @handles
    async def reserve(self, order: Order) -> Charge:
        """Reserve an item."""
        if order.is_gift:
            await asyncio.sleep(GIFT_SECONDS)
        return Charge(item=order.item, price=order.price)

    @handles
    async def change(self, news: PriceChanged) -> None:
        """Remember a price."""
        self.prices[news.item] = news.price


class Cashier(Actor):
    """Takes the money."""

    concurrency = 64

    @handles
    async def charge(self, bill: Charge, context: Context) -> Paid:
        """Charge a card, and have it written down."""
        if bill.price > MOST_EXPENSIVE:
            raise ValueError(f"the card is not good for {bill.price}")
        await context.tell(LedgerEntry(item=bill.item, price=bill.price))
        return Paid(item=bill.item, price=bill.price)

    @handles
    async def refund(self, refund: Refund, context: Context) -> None:
        """Give money back, and have it written down."""
        await context.tell(LedgerEntry(item=refund.item, price=-refund.price))

    @handles
    async def print_statement(self, statement: Statement) -> None:
        """Print for very long."""
        await asyncio.sleep(STATEMENT_SECONDS)


class Bookkeeper(Actor):
    """Writes down what is said."""

    def __init__(self) -> None:
        self.balance, self.visits = 0, 0

    @handles
    async def enter(self, entry: LedgerEntry) -> None:
        """Write a line."""
        self.balance += entry.price

    @handles
    async def count(self, visit: Visit) -> None:
        """Count a visit."""
        self.visits += 1


class Label(Actor):
    """A price tag on a shelf."""

    def __init__(self) -> None:
        self.shown: dict[str, int] = {}

    @handles
    async def show(self, news: PriceChanged) -> None:
        """Show a price."""
        self.shown[news.item] = news.price
