"""Questions that a node answers about itself: how it does, whom it knows, who handles what.

    node.host(StatusActor(node), local_only=True)
    status = await hub.ask(StatusWanted(), Status, to=Address(node))

`StatusActor` is an ordinary actor, and its contracts are ordinary contracts that begin with `hopwire.`. So where
messages are signed, only holders of the key of that domain may ask. The actor is asked by the name of its node, and is
announced to nobody. Nodes that are run host it, unless `status = false`. Any other node hosts it if its program says
so.

Answers are bounded: lists come in pages, and dead letters are counted by reasons, of which there are few. A node
answers one question at a time.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple

import msgspec

from hopwire.errors import HopwireError
from hopwire.model import Payload
from hopwire.node.actors import Actor, handles
from hopwire.node.departures import KnownDeparture
from hopwire.node.gateway import PartnerStatus
from hopwire.node.node import Node
from hopwire.node.overview import KnownContract, KnownMember

__all__ = [
    "ContractPage",
    "ContractPageWanted",
    "DepartedList",
    "DepartedWanted",
    "KnownPartner",
    "MemberPage",
    "MemberPageWanted",
    "PartnerList",
    "PartnersWanted",
    "Status",
    "StatusActor",
    "StatusWanted",
    "own_versions",
]

MOST_REASONS = 100
MOST_PARTNERS, SHOWN_NAMES = 20, 50
MOST_ENTRIES = 2**31  # more than a node can know


class StatusWanted(Payload, identity="hopwire.status.wanted", version=1):
    """How does the node do?"""


class Status(Payload, identity="hopwire.status", version=1):
    """How a node does."""

    node: bytes
    name: str
    uri: str
    now_ns: int  # by its own clock
    counts: dict[str, int]  # fields of `Statistics`
    dead_letters: dict[str, int]
    members: int
    contracts: int
    versions: dict[str, str] = msgspec.field(default_factory=dict)  # of hopwire and of Python


class MemberPageWanted(Payload, identity="hopwire.status.members.wanted", version=1):
    """Whom does the node know?"""

    offset: int = 0


class MemberPage(Payload, identity="hopwire.status.members", version=1):
    """A page of those whom a node knows."""

    total: int
    members: tuple[KnownMember, ...]


class DepartedWanted(Payload, identity="hopwire.status.departed.wanted", version=1):
    """Who is not there any more?"""


class DepartedList(Payload, identity="hopwire.status.departed", version=1):
    """Nodes that are gone, the last one first: lost ones of a day, and those of an hour that said goodbye."""

    departed: tuple[KnownDeparture, ...]


class ContractPageWanted(Payload, identity="hopwire.status.contracts.wanted", version=1):
    """Who handles what, as far as the node knows?"""

    offset: int = 0


class ContractPage(Payload, identity="hopwire.status.contracts", version=1):
    """A page of the contracts that a node can route."""

    total: int
    contracts: tuple[KnownContract, ...]


class KnownPartner(NamedTuple):
    """A partner network, as its gateway sees it; of long lists the beginning, and how many there are."""

    name: str
    node: bytes
    uri: str
    peers: tuple[bytes, ...]
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    counts: dict[str, int]


class PartnersWanted(Payload, identity="hopwire.status.partners.wanted", version=1):
    """To which partner networks is the node a gateway?"""


class PartnerList(Payload, identity="hopwire.status.partners", version=1):
    """The partner networks of a gateway."""

    partners: tuple[KnownPartner, ...]


class StatusActor(Actor):
    """Answers questions about its node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @handles
    async def status(self, request: StatusWanted) -> Status:
        """Say how the node does."""
        node, overview = self._node, self._node.overview()
        statistics = node.statistics()
        names = (name for name in statistics.__dataclass_fields__ if name != "dead_letters")
        counts: dict[str, Any] = {name: getattr(statistics, name) for name in names}
        dead = dict(sorted(statistics.dead_letters.items())[:MOST_REASONS])
        members, contracts = overview.totals()
        return Status(
            node.identity, node.name, node.uri, time.time_ns(), counts, dead, members, contracts, dict(own_versions())
        )

    @handles
    async def members(self, request: MemberPageWanted) -> MemberPage:
        """Say whom the node knows."""
        total, page = self._node.overview().members(_offset(request.offset))
        return MemberPage(total, tuple(page))

    @handles
    async def departed(self, request: DepartedWanted) -> DepartedList:
        """Say who is not there any more, since when, and why."""
        return DepartedList(tuple(self._node.overview().departed()))

    @handles
    async def contracts(self, request: ContractPageWanted) -> ContractPage:
        """Say who handles what."""
        total, page = self._node.overview().contracts(_offset(request.offset))
        return ContractPage(total, tuple(page))

    @handles
    async def partners(self, request: PartnersWanted) -> PartnerList:
        """Say to which partner networks the node is a gateway."""
        return PartnerList(tuple(map(_known_partner, self._node.partners()[:MOST_PARTNERS])))


def _known_partner(status: PartnerStatus) -> KnownPartner:
    names = ("asked", "taken", "open_questions", "refused_routes", "left_out")
    counts = {name: getattr(status, name) for name in names}
    counts |= {"imports": len(status.imports), "exports": len(status.exports), "peers": len(status.peers)}
    some = (status.peers[:SHOWN_NAMES], status.imports[:SHOWN_NAMES], status.exports[:SHOWN_NAMES])
    return KnownPartner(status.name, status.node, status.uri, *some, counts)


@cache
def own_versions() -> Mapping[str, str]:
    """Give the versions of hopwire and of Python that run here; hopwire has none where it is not installed."""
    try:
        own = metadata.version("hopwire")
    except metadata.PackageNotFoundError:
        own = ""
    return {"hopwire": own, "python": platform.python_version()}


def _offset(offset: int) -> int:
    if not 0 <= offset < MOST_ENTRIES:
        raise HopwireError(f"a page begins at 0 or later, found {offset}")
    return offset
