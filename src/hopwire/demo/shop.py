"""The shop: what is said in it, who does what, and on which node.

An order crosses three nodes and comes home by itself. The warehouse returns a `Charge`, the cashier returns a `Paid`,
and the `Paid` goes to the customer, because the customer asked for a `Paid`. Nobody on the way knows who asked.

A sender writes to a node in the newest format that the node reads. So a few old machines are enough to have all four
formats on the wire. V3 and V4 have no place for the node and the key of a callback: a node that reads nothing newer is
told and never asked. V3 has no place for a signature either, so prices go unsigned.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hopwire.model import Payload
from hopwire.node import Actor, Context, handles
from hopwire.security import Domain, Domains, Key

__all__ = [
    "CUT_OFF",
    "KILLED",
    "MOST_EXPENSIVE",
    "RENDEZVOUS",
    "ROLES",
    "SHOP",
    "Bookkeeper",
    "Cashier",
    "Charge",
    "Label",
    "LedgerEntry",
    "Order",
    "Paid",
    "PriceChanged",
    "Refund",
    "Return",
    "Role",
    "Statement",
    "Visit",
    "Warehouse",
    "domains_of",
]

GIFT_SECONDS = 2.0  # twice as long as an order in the trouble `slow` lives
STATEMENT_SECONDS = 60.0
MOST_EXPENSIVE = 1000  # the limit of every card


# -- what is said


class Order(Payload, identity="shop.order", version=1):
    """A customer wants an item; the answer is a `Paid`."""

    item: str
    price: int
    is_gift: bool = False  # wrapping takes its time


class Charge(Payload, identity="billing.charge", version=1):
    """An item is reserved and has to be paid for."""

    item: str
    price: int


class Paid(Payload, identity="shop.paid", version=1):
    """An item is paid for; goes home to the customer."""

    item: str
    price: int


class Statement(Payload, identity="billing.statement", version=1):
    """A customer wants to see all payments of a year, which takes long."""

    year: int


class Refund(Payload, identity="billing.refund", version=1):
    """A customer gets money back; this message must arrive."""

    item: str
    price: int


class Return(Payload, identity="shop.return", version=1):
    """A customer brings an item back; no actor of this shop handles returns."""

    item: str


class LedgerEntry(Payload, identity="ledger.entry", version=1):
    """One line in the books."""

    item: str
    price: int


class Visit(Payload, identity="ledger.visit", version=1):
    """A customer looks at an item: said often, and no harm if the message gets lost."""

    item: str


class PriceChanged(Payload, identity="prices.changed", version=1):
    """An item has a new price; everybody who shows prices should know."""

    item: str
    price: int


# -- who does what


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
        """Charge a card, and have the payment written down."""
        if bill.price > MOST_EXPENSIVE:
            raise ValueError(f"the card is not good for {bill.price}")
        await context.tell(LedgerEntry(item=bill.item, price=bill.price))
        return Paid(item=bill.item, price=bill.price)

    @handles
    async def refund(self, refund: Refund, context: Context) -> None:
        """Give money back, and have the refund written down."""
        await context.tell(LedgerEntry(item=refund.item, price=-refund.price))

    @handles
    async def print_statement(self, statement: Statement) -> None:
        """Print for a minute."""
        await asyncio.sleep(STATEMENT_SECONDS)


class Bookkeeper(Actor):
    """Adds up what is paid, and counts visits."""

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


# -- on which node


class Role(NamedTuple):
    """One node of the shop."""

    name: str
    formats: tuple[int, ...]  # that the node reads
    actors: tuple[type[Actor], ...]
    needs: tuple[type[Payload], ...]  # the node begins when others handle these payloads


# fmt: off
ROLES = {role.name: role for role in (
    #     name          reads         actors         waits for
    Role("rendezvous", (6, 5, 4, 3), (),            ()),  # all others find each other through it
    Role("ledger",     (4, 3),       (Bookkeeper,), ()),
    Role("labels",     (3,),         (Label,),      ()),
    Role("billing",    (6, 5, 4, 3), (Cashier,),    (LedgerEntry, Order)),  # a handler of orders: so it knows stock
    Role("stock",      (5, 4, 3),    (Warehouse,),  (Charge,)),
    Role("shop",       (6, 5, 4, 3), (),            (Order, Statement, Visit, PriceChanged)),
)}
# fmt: on
RENDEZVOUS, SHOP, KILLED, CUT_OFF = "rendezvous", "shop", "billing", "stock"


def domains_of(secret: bytes) -> Domains:
    """Give the domains of the shop; whoever has not the secret is a stranger."""
    keys = [Key("demo", secret)]
    signed = ["hopwire.*", "shop.*", "billing.*", "ledger.*"]
    return Domains([Domain("shop", keys, signed), Domain("prices", (), ["prices.*"], unsigned=["*"])])
