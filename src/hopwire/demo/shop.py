"""What is said in the shop."""

from __future__ import annotations

from hopwire.model import Payload

__all__ = ["Charge", "LedgerEntry", "Order", "Paid", "PriceChanged", "Refund", "Return", "Statement", "Visit"]


class Order(Payload, identity="shop.order", version=1):
    """A customer wants something; the answer is a `Paid`, from whoever gets to say it."""

    item: str
    price: int
    is_gift: bool = False  # wrapping takes its time


class Charge(Payload, identity="billing.charge", version=1):
    """The item is reserved; somebody has to pay for it."""

    item: str
    price: int


class Paid(Payload, identity="shop.paid", version=1):
    """It is paid for: this goes home to the customer."""

    item: str
    price: int


class Statement(Payload, identity="billing.statement", version=1):
    """A customer wants to see everything of a year, which takes long."""

    year: int


class Refund(Payload, identity="billing.refund", version=1):
    """Money back; this must arrive."""

    item: str
    price: int


class Return(Payload, identity="shop.return", version=1):
    """A customer brings something back. Nobody in this shop handles that."""

    item: str


class LedgerEntry(Payload, identity="ledger.entry", version=1):
    """One line in the books."""

    item: str
    price: int


class Visit(Payload, identity="ledger.visit", version=1):
    """A customer looks at something: said often, and no harm if it gets lost."""

    item: str


class PriceChanged(Payload, identity="prices.changed", version=1):
    """Everybody who shows a price should know."""

    item: str
    price: int
