"""What a node knows of others, in pages: members with their health, contracts with their handlers.

A page begins at an offset, has at most `PAGE_ENTRIES` entries, and ends earlier where its names have more than
`PAGE_BYTES`. Pages are made from the tables as they are at that moment: what comes or goes between two pages may be
seen twice, or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from hopwire.model import Contract
from hopwire.model.names import partner_of
from hopwire.node.credit import Credits
from hopwire.node.departures import KnownDeparture
from hopwire.routing import Tables

__all__ = ["KnownContract", "KnownMember", "Overview"]

PAGE_ENTRIES, PAGE_BYTES = 500, 256 * 1024
SHOWN_NODES = 16  # of a contract; the others are counted

T = TypeVar("T")


class KnownMember(NamedTuple):
    """Another node, as this node sees it."""

    node: bytes
    uri: str
    incarnation: int
    silent_seconds: float
    routes: int
    lines: int  # of credit that are in use
    full_lines: int  # where the next message has to wait
    waiting: int  # those who wait for credit
    name: str = ""  # what the node calls itself; nobody proves it


class KnownContract(NamedTuple):
    """A contract that somebody handles."""

    identity: bytes
    version: int | bytes
    partition: bytes
    actors_here: int
    nodes: tuple[bytes, ...]  # some of those elsewhere
    node_count: int
    partners: tuple[str, ...] = ()  # networks that it is imported from


class Overview:
    """Reads the tables of a node; it is used at once and not kept."""

    def __init__(
        self,
        tables: Tables,
        credits: Credits,
        health_of: Callable[[bytes], tuple[float, int]],
        name_of: Callable[[bytes], str],
        departed: Iterable[KnownDeparture] = (),
    ) -> None:
        self._tables, self._credits, self._health_of, self._name_of = tables, credits, health_of, name_of
        self._departed = departed

    def totals(self) -> tuple[int, int]:
        """Give how many members and how many contracts there are."""
        return len(self._tables.remote.nodes()), len(self._tables.candidates)

    def members(self, offset: int) -> tuple[int, list[KnownMember]]:
        """Give how many members there are, and a page of them."""
        nodes = self._tables.remote.nodes()
        lines: dict[bytes, list[int]] = {each.identity: [0, 0, 0] for each in nodes}
        for (node, _), line in self._credits.lines.items():
            counts = lines.get(node)
            if counts is not None:
                counts[0] += 1
                counts[1] += not line.has_room
                counts[2] += len(line.waiters)
        made = (
            self._member(each.identity, next(iter(each.uris), ""), each.incarnation, lines) for each in nodes[offset:]
        )
        return len(nodes), _page(made, lambda member: len(member.node) + len(member.uri))

    def _member(self, node: bytes, uri: str, incarnation: int, lines: dict[bytes, list[int]]) -> KnownMember:
        used, full, waiting = lines[node]
        return KnownMember(node, uri, incarnation, *self._health_of(node), used, full, waiting, self._name_of(node))

    def departed(self) -> list[KnownDeparture]:
        """Give the nodes that are not there any more, the last one first, as many as fit a page."""
        return _page(self._departed, lambda gone: len(gone.node) + len(gone.uri) + len(gone.name))

    def contracts(self, offset: int) -> tuple[int, list[KnownContract]]:
        """Give how many contracts are handled somewhere, and a page of them."""
        candidates = self._tables.candidates
        return len(candidates), _page(self._contracts(offset), lambda each: len(each.identity) + len(each.partition))

    def _contracts(self, offset: int) -> Iterator[KnownContract]:
        for (identity, version, partition), sides in islice(self._tables.candidates.items(), offset, None):
            nodes = tuple(islice(sides.remote, SHOWN_NODES))
            partners = self._partners(Contract(identity, version, partition), sides.local)
            yield KnownContract(identity, version, partition, len(sides.local), nodes, len(sides.remote), partners)

    def _partners(self, contract: Contract, here: Iterable[bytes]) -> tuple[str, ...]:
        """Give the partner networks that a contract is imported from."""
        elsewhere = self._tables.remote.imported.get(contract, {}).values()
        found = {partner_of(receiver) for receivers in (here, *elsewhere) for receiver in receivers}
        return tuple(sorted(found - {""})[:SHOWN_NODES])


def _page(entries: Iterable[T], size_bytes: Callable[[T], int]) -> list[T]:
    page, left_bytes = [], PAGE_BYTES
    for entry in islice(entries, PAGE_ENTRIES):
        page.append(entry)
        left_bytes -= size_bytes(entry)
        if left_bytes <= 0:
            break
    return page
