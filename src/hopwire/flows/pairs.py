"""Which departure belongs to which arrival.

Per message, attempt and pair of nodes the n-th departure belongs to the n-th arrival, each in the order of its own
node. A departure to a node whose name was not yet known takes the arrivals of that message that are left over. No clock
of one node is compared with that of another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.flows.arrays import Bools, Groups, Ints, bools, codes, equal_text, ints, pack
from hopwire.flows.coverage import Coverage, NodeCoverage

__all__ = ["Pairs", "Seen", "paired", "read_seen"]


class Seen(NamedTuple):
    """The sightings as numbers."""

    key: Ints
    attempt: Ints
    source: Ints  # the node it left
    target: Ints  # the node it went to
    at: Ints  # corrected
    sequence: Ints
    is_in: Bools
    is_dead: Bools
    is_target_known: Bools
    nodes: pa.Array
    coverage: NodeCoverage


class Pairs(NamedTuple):
    """Hops as two sightings each, -1 where there is none."""

    left: Ints
    came: Ints
    crossing: Ints
    has_departures: Bools


def read_seen(sightings: pa.Table, coverage: Coverage) -> Seen:
    """Give sightings as numbers, with corrected times."""
    is_in, is_dead = equal_text(sightings["direction"], "in"), equal_text(sightings["direction"], "dead")
    (key,), _ = codes(sightings["message_key"])
    (node, peer), nodes = codes(sightings["node"], sightings["peer"])
    known = coverage.of(nodes)
    target = np.where(is_in, node, peer)
    return Seen(
        key,
        ints(sightings["attempt"]),
        np.where(is_in, peer, node),
        target,
        ints(sightings["seen_at_ns"]) - known.offset[node],
        ints(sightings["sequence"]),
        is_in,
        is_dead,
        bools(pc.greater(pc.binary_length(nodes), 0))[target],
        nodes,
        known,
    )


def paired(seen: Seen) -> Pairs:
    """Give every sighting in one hop: with its partner, or alone."""
    rows = np.flatnonzero(~seen.is_dead)
    group = pack(seen.key[rows], seen.attempt[rows], seen.source[rows], seen.target[rows])
    return _with_dead(seen, _with_unnamed(seen, _matched(seen, rows, group)))


def _matched(seen: Seen, rows: Ints, group: Ints) -> Pairs:
    """Match the n-th departure of each group with its n-th arrival."""
    side = 2 * group + seen.is_in[rows]
    sides = Groups(side, seen.at[rows], seen.sequence[rows])
    order, size = sides.order, len(rows)
    in_order = side[order]
    start = np.repeat(sides.starts, sides.sizes)
    end = start + np.repeat(sides.sizes, sides.sizes)
    rank = np.arange(size) - start
    is_in = seen.is_in[rows][order]
    partner = np.minimum(end + rank, size - 1)
    is_matched = ~is_in & (end + rank < size) & (in_order[partner] == in_order + 1)
    has_departures = is_in & (start > 0) & (in_order[start - 1] == in_order - 1)
    is_taken = np.zeros(size, dtype=np.bool_)
    is_taken[partner[is_matched]] = True
    places = np.flatnonzero(~is_taken)
    own = rows[order]
    left = np.where(is_in[places], -1, own[places])
    came = np.where(is_in[places], own[places], np.where(is_matched[places], own[partner[places]], -1))
    return Pairs(left, came, rank[places], ~is_in[places] | has_departures[places])


def _with_unnamed(seen: Seen, pairs: Pairs) -> Pairs:
    """Match departures to a node that had no name yet with the arrivals that are left over."""
    is_unnamed = (pairs.came < 0) & ~seen.is_target_known[pairs.left]
    is_over = (pairs.left < 0) & ~pairs.has_departures
    if not is_unnamed.any() or not is_over.any():
        return pairs
    again = is_unnamed | is_over
    rows = np.where(is_unnamed, pairs.left, pairs.came)[again]
    more = _matched(seen, rows, pack(seen.key[rows], seen.attempt[rows], seen.source[rows]))
    left, came, crossing, has_departures = pairs
    return _joined(Pairs(left[~again], came[~again], crossing[~again], has_departures[~again]), more)


def _with_dead(seen: Seen, pairs: Pairs) -> Pairs:
    rows = np.flatnonzero(seen.is_dead)
    nothing = np.full(len(rows), -1)
    return _joined(pairs, Pairs(rows, nothing, np.zeros_like(rows), np.ones(len(rows), dtype=np.bool_)))


def _joined(one: Pairs, other: Pairs) -> Pairs:
    return Pairs(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))
