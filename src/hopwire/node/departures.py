"""Nodes that are not there any more: who, since when, and why, for some time and so many.

A node that was lost is kept in mind for a day, one that said goodbye for an hour. Each kind has room of its own, so
that visitors who come and go for a moment, such as commands of a shell, push out nobody who was killed. A node that
is met again is forgotten here.
"""

from __future__ import annotations

from typing import NamedTuple

from hopwire.cluster.events import LOST

__all__ = ["MOST_LEFT", "MOST_LOST", "Departed", "Departures", "KnownDeparture", "why"]

MOST_LOST, MOST_LEFT = 200, 50
LOST_SECONDS, LEFT_SECONDS = 24 * 3600.0, 3600.0
LEFT = "left"  # the reason of those who said goodbye
SHOWN_WITNESSES = 8


class Departed(NamedTuple):
    """A node that is gone."""

    node: bytes
    name: str
    uri: str
    at: float  # by the clock of the loop
    reason: str
    witnesses: tuple[tuple[bytes, bool], ...] = ()  # who accused it, and whether by a connection that died


class KnownDeparture(NamedTuple):
    """A node that is gone, as it is told to others."""

    node: bytes
    name: str
    uri: str
    gone_seconds: float
    reason: str
    why: str  # in words
    witnesses: tuple[bytes, ...] = ()  # members that could not reach it, or did not hear it


class Departures:
    """Remembers who is gone."""

    def __init__(self) -> None:
        self._lost: dict[bytes, Departed] = {}
        self._left: dict[bytes, Departed] = {}

    def note(self, gone: Departed) -> None:
        """Remember a node that is gone; the oldest one makes room."""
        self.forget(gone.node)
        kept, most = (self._left, MOST_LEFT) if gone.reason == LEFT else (self._lost, MOST_LOST)
        kept[gone.node] = gone
        if len(kept) > most:
            del kept[next(iter(kept))]

    def forget(self, node: bytes) -> None:
        """A node is there, again or for the first time."""
        self._lost.pop(node, None)
        self._left.pop(node, None)

    def name_of(self, node: bytes) -> str:
        """What a node that is gone called itself."""
        gone = self._lost.get(node) or self._left.get(node)
        return "" if gone is None else gone.name

    def listed(self, now: float) -> list[KnownDeparture]:
        """Give those who are gone, the last one first."""
        for kept, seconds in ((self._lost, LOST_SECONDS), (self._left, LEFT_SECONDS)):
            for node in [each.node for each in kept.values() if now - each.at > seconds]:
                del kept[node]
        gone = sorted((*self._lost.values(), *self._left.values()), key=lambda each: each.at, reverse=True)
        return [_known(each, now) for each in gone]


def _known(gone: Departed, now: float) -> KnownDeparture:
    witnesses = tuple([node for node, _ in gone.witnesses[:SHOWN_WITNESSES]])
    return KnownDeparture(gone.node, gone.name, gone.uri, now - gone.at, gone.reason, why(gone), witnesses)


def why(gone: Departed) -> str:
    """Put into words what is known of an end."""
    if gone.reason != "dead":
        return LOST.get(gone.reason, gone.reason)
    if any(by_connection for _, by_connection in gone.witnesses):
        return "its connections died, and nobody reached it again"
    return "it said nothing more" if gone.witnesses else "nobody was reached any more, it neither"
