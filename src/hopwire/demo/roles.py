"""The nodes of the shop: who lives on them, what they wait for, and which wire formats they read.

Others write to a node in the newest format that it reads, so these few old machines are enough to have all four
formats on the wire. V3 and V4 have no place for a callback's node and key: who reads nothing newer is told, never
asked. V3 has no place for a signature either, so prices go unsigned.
"""

from __future__ import annotations

from typing import NamedTuple

from hopwire.demo.actors import Bookkeeper, Cashier, Label, Warehouse
from hopwire.demo.shop import Charge, LedgerEntry, Order, PriceChanged, Statement, Visit
from hopwire.model import Payload
from hopwire.node import Actor
from hopwire.security import Domain, Domains, Key

__all__ = ["KILLED", "ROLES", "SHOP", "Role", "domains_of"]


class Role(NamedTuple):
    """One node."""

    name: str
    formats: tuple[int, ...]
    actors: tuple[type[Actor], ...]
    needs: tuple[type[Payload], ...]  # what it says itself, so somebody has to be there for it


# fmt: off
ROLES = {role.name: role for role in (
    #     name       reads         actors         says
    Role("ledger",  (4, 3),       (Bookkeeper,), ()),
    Role("labels",  (3,),         (Label,),      ()),
    Role("billing", (6, 5, 4, 3), (Cashier,),    (LedgerEntry, Order)),  # no order; but who hears of stock is known there
    Role("stock",   (5, 4, 3),    (Warehouse,),  (Charge,)),
    Role("shop",    (6, 5, 4, 3), (),            (Order, Statement, Visit, PriceChanged)),
)}
# fmt: on
SHOP, KILLED = "shop", "billing"


def domains_of(secret: bytes) -> Domains:
    """Give the domains of the shop; the secret is all that keeps strangers out."""
    keys = [Key("demo", secret)]
    signed = ["hopwire.*", "shop.*", "billing.*", "ledger.*"]
    return Domains([Domain("shop", keys, signed), Domain("prices", (), ["prices.*"], unsigned=["*"])])
