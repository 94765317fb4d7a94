"""How wrong the clocks of the nodes are against one another, and what to do about it.

A message that crosses from A to B takes, by the two clocks, its travel time plus the error between them; from B to A
the travel time minus that error. The quickest crossing each way is hardly more than the travel time, so half the
difference of the two is the error, and half their sum bounds how wrong that is.

- Only crossings count that cannot be mistaken: messages with one departure and one arrival.
- Where nothing arrives before it left, in either direction, the clocks may be right, and are left alone: a correction
  by less than its own error would make quick crossings negative.
- Pairs with both directions are joined to a tree, the surest first. Each tree has its reference, the node with most
  pairs, and all its other clocks are corrected to that one.
- A node without such a pair is not corrected, and its row says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.flows.arrays import Groups, codes, equal_text, ints, pack
from hopwire.flows.columns import Column

__all__ = ["CLOCKS", "Clock", "Crossing", "clocks_from_crossings", "quickest_crossings"]

STRETCH = pa.struct([("first_ns", pa.int64()), ("last_ns", pa.int64())])
# fmt: off
CLOCKS = (
    Column("node",             pa.binary(), "identity of a node that captures"),
    Column("node_name",        pa.string(), "what people call it"),
    Column("first_seen_at_ns", pa.int64(),  "its first sighting, by its own clock"),
    Column("last_seen_at_ns",  pa.int64(),  "its last sighting, by its own clock"),
    Column("sighting_count",   pa.int64(),  "how many sightings it wrote down"),
    Column("skipped",          pa.int64(),  "how many it could not write down"),
    Column("lives",            pa.list_(STRETCH), "first and last sighting of each incarnation, by its own clock"),
    Column("skips",            pa.list_(STRETCH), "from when to when sightings are missing, by its own clock"),
    Column("reference_node",   pa.binary(), "the node whose clock its times are corrected to"),
    Column("offset_ns",        pa.int64(),  "how far its clock is ahead of that one; its time less this is corrected"),
    Column("is_corrected",     pa.bool_(),  "whether traffic in both directions tells; if not, the offset is 0"),
    Column("via_node",         pa.binary(), "the node that it was compared with"),
    Column("error_ns",         pa.int64(),  "how wrong the offset may be at most; null if not corrected"),
    Column("crossing_count",   pa.int64(),  "crossings that were compared, both directions"),
)
# fmt: on


class Crossing(NamedTuple):
    """The quickest crossing from one node to another, by their own clocks."""

    from_node: bytes
    to_node: bytes
    quickest_ns: int
    messages: int = 1


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of one clock."""

    node: bytes
    reference_node: bytes
    offset_ns: int = 0
    is_corrected: bool = False
    via_node: bytes = b""
    error_ns: int | None = None
    crossing_count: int = 0


class _Pair(NamedTuple):
    error_ns: int
    a: bytes
    b: bytes
    ahead_ns: int  # how far the clock of b is ahead of that of a
    messages: int


def quickest_crossings(sightings: pa.Table) -> list[Crossing]:
    """Give the quickest crossing for each pair of nodes, of sightings such as `link` takes."""
    rows = sightings.filter(pa.array(~equal_text(sightings["direction"], "dead")))
    (key,), _ = codes(rows["message_key"])
    (node, peer), nodes = codes(rows["node"], rows["peer"])
    is_in, at = equal_text(rows["direction"], "in"), ints(rows["seen_at_ns"])
    source, target = np.where(is_in, peer, node), np.where(is_in, node, peer)
    groups = Groups(pack(key, ints(rows["attempt"]), source, target), is_in.astype(np.int64))
    is_single = (groups.sizes == 2) & (groups.total(is_in) == 1)
    out = groups.first[is_single]
    came = groups.order[groups.starts[is_single] + 1]
    pairs = Groups(pack(source[out], target[out]))
    quickest = pairs.least(at[came] - at[out], np.ones(len(out), dtype=np.bool_))
    names = nodes.to_pylist()
    found = zip(source[out][pairs.first], target[out][pairs.first], quickest, pairs.sizes, strict=True)
    return [Crossing(names[a], names[b], int(least), int(count)) for a, b, least, count in found]


def clocks_from_crossings(nodes: Iterable[bytes], crossings: Iterable[Crossing]) -> list[Clock]:
    """Give the clock of every node, from the quickest crossing of each pair in each direction."""
    known = sorted(set(nodes))
    pairs = _pairs({(each.from_node, each.to_node): each for each in crossings}, set(known))
    tree = _tree(known, pairs)
    clocks: dict[bytes, Clock] = {}
    for start in sorted(known, key=lambda node: (-len(tree[node]), node)):
        if start not in clocks:
            _correct(start, tree, clocks)
    return [clocks[node] for node in known]


def _pairs(crossings: Mapping[tuple[bytes, bytes], Crossing], nodes: set[bytes]) -> list[_Pair]:
    """The pairs that have both directions, the surest first."""
    pairs = []
    for (a, b), there in crossings.items():
        back = crossings.get((b, a))
        if back is not None and a < b and a in nodes and b in nodes:
            ahead, error = (there.quickest_ns - back.quickest_ns) // 2, (there.quickest_ns + back.quickest_ns) // 2
            is_plausible = there.quickest_ns >= 0 and back.quickest_ns >= 0
            pairs.append(_Pair(abs(error), a, b, 0 if is_plausible else ahead, there.messages + back.messages))
    return sorted(pairs)


def _tree(nodes: list[bytes], pairs: list[_Pair]) -> dict[bytes, list[_Pair]]:
    """Join nodes by pairs, without circles; gives the pairs of each node."""
    root = {node: node for node in nodes}
    tree: dict[bytes, list[_Pair]] = {node: [] for node in nodes}

    def find(node: bytes) -> bytes:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for pair in pairs:
        if find(pair.a) != find(pair.b):
            root[find(pair.a)] = find(pair.b)
            tree[pair.a].append(pair)
            tree[pair.b].append(pair)
    return tree


def _correct(start: bytes, tree: dict[bytes, list[_Pair]], clocks: dict[bytes, Clock]) -> None:
    """Correct all clocks that hang together with the reference."""
    clocks[start] = Clock(start, start, is_corrected=bool(tree[start]), error_ns=0 if tree[start] else None)
    waiting = [start]
    while waiting:
        node = waiting.pop()
        known = clocks[node]
        for pair in tree[node]:
            other, ahead = (pair.b, pair.ahead_ns) if pair.a == node else (pair.a, -pair.ahead_ns)
            if other not in clocks:
                offset, error = known.offset_ns + ahead, (known.error_ns or 0) + pair.error_ns
                clocks[other] = Clock(other, start, offset, True, node, error, pair.messages)
                waiting.append(other)
