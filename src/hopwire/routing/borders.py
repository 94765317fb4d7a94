"""What may be offered to a partner network, whom a message from there may go to, and what a border changes in it.

A gateway has two tables: that of its cluster, and that of the link to the partner. On each side an actor without code
stands in for the actors of the other side.

| table | who is asked for a message that has crossed | who is not |
|---|---|---|
| of the cluster | actors here and elsewhere that handle the contract themselves | stand-ins, also those of other gateways; local-only actors |
| of the link | nodes of the partner | the gateway's own stand-ins |

A contract is offered across the border if somebody is left who may be asked. So an imported route is never exported:
not to a third network, and not back to where the route came from. A stand-in of the cluster says in its name that it is
one (`model/names.py`), so every member can tell.

The trap: a member may know less than another, and send a message that has crossed to a stand-in after all. So such a
message says where it came from (`Extension.partner`), and no stand-in lets the message cross again.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from hopwire.model import Contract, Message
from hopwire.model.choice import Choice
from hopwire.model.names import partner_of
from hopwire.routing.route_tables import Tables
from hopwire.wire.extension import extension_of, with_extension

__all__ = ["NO_HOME", "Bar", "WayHome", "bar_inside", "bar_outside", "chosen", "crossed", "offers"]

Bar: TypeAlias = Callable[[Tables, Contract], Collection[bytes] | None]  # those not to be asked; None if nobody is left


class WayHome(NamedTuple):
    """Where the answer to a question goes: a receiver on a node, and the key that it knows the question by."""

    receiver: bytes
    node: bytes
    key: int


NO_HOME = WayHome(b"", b"", 0)


def bar_inside(tables: Tables, contract: Contract) -> Collection[bytes] | None:
    """Give the actors here and the nodes elsewhere that only stand in for others; None if there is nobody else."""
    sides = tables.candidates.get(contract)
    if sides is None:
        return None
    here = [route for route in tables.local.handlers_of(contract) if route.is_local_only or partner_of(route.receiver)]
    imported = tables.remote.imported.get(contract, {})
    barred = {route.receiver for route in here}
    barred.update(node for node, names in imported.items() if sides.remote.weight(node) <= len(names))
    return barred if len(barred) < len(sides) else None


def bar_outside(tables: Tables, contract: Contract) -> Collection[bytes] | None:
    """Give the actors here, all of which stand in for members; None if no node of the partner handles the contract."""
    sides = tables.candidates.get(contract)
    return {*sides.local} if sides is not None and sides.remote else None


def offers(tables: Tables, allows: Callable[[bytes], bool], bar: Bar) -> Iterator[Contract]:
    """Give the contracts that may be offered across a border."""
    for key in tables.candidates:
        if allows(key[0]) and bar(tables, contract := Contract(*key)) is not None:
            yield contract


class _StandIns:
    """Contains the names of all stand-ins."""

    def __contains__(self, receiver: object) -> bool:
        return isinstance(receiver, bytes) and bool(partner_of(receiver))


STAND_INS = _StandIns()


def chosen(tables: Tables, contract: Contract, choice: Choice, bar: Bar) -> bytes:
    """Give the actor that has a key on the far side of a border; nothing if nobody has."""
    if bar is bar_inside:
        return tables.choose(contract, choice, STAND_INS)
    return tables.choose(contract, choice, bar(tables, contract) or ())


def crossed(
    message: Message, partner: str, home: WayHome = NO_HOME, receiver: bytes = b"", ttl_ticks: int = 0
) -> Message:
    """Give a message as it goes on behind a border; `partner` is where it came from, empty on the way out.

    The way so far stays inside: on the way out it begins anew, at the gateway, and hops are counted anew.
    Frames of others do not cross.
    """
    extension = replace(extension_of(message), partner=partner)
    return with_extension(
        message.replace(extensions=()),
        extension,
        receiver_identity=receiver,
        receiver_node_identity=b"",
        callback_receiver_identity=home.receiver,
        callback_receiver_node_identity=home.node,
        callback_key=home.key,
        callback_points=message.callback_points if home.key else (),
        routing=message.routing if partner else (),
        hops=message.hops if partner else 0,
        ttl_ticks=ttl_ticks,
        socket_identity=b"",
        domain="",
        signature=b"",
    )
