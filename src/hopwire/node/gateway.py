"""A gateway to a partner network: two nodes in one process, and a crossing for each direction between them.

One node is a member of its own cluster. The other, the border node, is a peer of the border nodes of the partner. They
share nothing but the two crossings. Whenever routes change on either side the crossings look what may be offered now:
at once, or as long after the last look that looking takes a twentieth of the time at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.model.names import ACTOR, PARTNER, stand_in_name
from hopwire.node.border_crossing import BorderCrossing, Shore
from hopwire.node.partner import Partner
from hopwire.node.spawn import words_of
from hopwire.node.timing import Timing

__all__ = ["Gateway", "PartnerStatus"]

MOST_GATEWAYS = 8  # of a partner, each with all routes that it may announce: what is more is refused
SHARE = 20  # looking takes one part in so many of the time


class PartnerStatus(NamedTuple):
    """How a gateway does with one partner network."""

    name: str
    node: bytes  # what the partner knows this gateway by
    uri: str  # where the partner reaches it
    peers: tuple[bytes, ...]  # gateways of the partner that can be talked to
    imports: tuple[str, ...]  # contracts of the partner that are offered here
    exports: tuple[str, ...]  # contracts that are offered to the partner
    asked: int  # messages that have crossed to the partner
    taken: int  # messages of the partner that have crossed
    open_questions: int
    refused_routes: int  # announcements of the partner that are not on the list
    left_out: int  # contracts beyond the limit


class Gateway:
    """Joins a node with a partner network."""

    def __init__(
        self,
        partner: Partner,
        inside: Shore,
        outside: Shore,
        timing: Timing,
        new_name: Callable[[], bytes],
        ask_anew: Callable[[], None],
        known_routes: Callable[[], int],
        own_room: tuple[int, int],
    ) -> None:
        self.partner, self._timing, self._ask_anew = partner, timing, ask_anew
        self._known_routes = known_routes  # of the partner, all of its gateways together
        export, import_ = partner.lists()
        home, room = PARTNER + partner.name.encode(), (partner.messages, partner.size_bytes)
        self.exports = BorderCrossing(
            outside, inside, partner, export, home, lambda: ACTOR + new_name(), room, is_inward=True
        )
        self.imports = BorderCrossing(
            inside,
            outside,
            partner,
            import_,
            home,
            lambda: stand_in_name(partner.name, new_name()),
            own_room,
            is_inward=False,
        )
        self._looking: asyncio.Handle | None = None
        self._look_at = 0.0
        self._refused_routes = 0

    def admits(self, route: AnnouncedRoute) -> bool:
        """Tell whether a route that the partner announces is kept at all; hubs are none of our business."""
        _, identity, _, _ = route
        if identity and self.imports.allows(identity) and self._known_routes() < MOST_GATEWAYS * self.partner.routes:
            return True
        self._refused_routes += bool(identity)
        return False

    def look_soon(self) -> None:
        """Look what may be offered, since routes have changed on one of the sides."""
        if self._looking is None and self._timing.thread:
            loop, wait = self._timing.loop, self._look_at - self._timing.clock()
            self._looking = loop.call_later(wait, self._look) if wait > 0 else loop.call_soon(self._look)

    def _look(self) -> None:
        began = time.perf_counter()
        self._looking = None
        self.exports.look()
        self.imports.look()
        self._look_at = self._timing.clock() + SHARE * (time.perf_counter() - began)

    def allow(self, export: Iterable[str] | None, import_: Iterable[str] | None) -> None:
        """Change what may cross, at once; a list that is not given stays. A SettingsError changes nothing."""
        exported = None if export is None else self.partner.list_of("export", export)
        imported = None if import_ is None else self.partner.list_of("import", import_)
        if exported is not None:
            self.exports.use(exported)
        if imported is not None:
            self.imports.use(imported)
            self._ask_anew()

    def lose_inside(self, node: bytes, reason: str) -> None:
        """A member of the cluster is gone."""
        self.exports.lose_far(node, reason)
        self.imports.lose_near(node)
        self.look_soon()

    def lose_outside(self, node: bytes, reason: str) -> None:
        """A gateway of the partner is gone: what only it could reach is withdrawn at once."""
        self.imports.lose_far(node, reason)
        self.exports.lose_near(node)
        self.imports.look()

    def drain(self) -> None:
        """Offer nothing any more, on either side."""
        self.exports.drain()
        self.imports.drain()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for the other side."""
        return self.exports.is_idle and self.imports.is_idle

    def stop(self) -> None:
        """End everything that waits."""
        if self._looking is not None:
            self._looking.cancel()
        self.exports.stop()
        self.imports.stop()

    def status(self, node: bytes, uri: str, peers: tuple[bytes, ...]) -> PartnerStatus:
        """Say how the gateway does; node, address and peers are those of the border node."""
        return PartnerStatus(
            self.partner.name,
            node,
            uri,
            peers,
            tuple(sorted(map(words_of, self.imports.contracts))),
            tuple(sorted(map(words_of, self.exports.contracts))),
            self.imports.tally["messages"],
            self.exports.tally["messages"],
            self.imports.open_questions + self.exports.open_questions,
            self._refused_routes,
            self.imports.left_out + self.exports.left_out,
        )
