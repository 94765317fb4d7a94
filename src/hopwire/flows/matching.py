"""Which departure belongs to which arrival.

Per message, attempt and pair of nodes the n-th departure belongs to the n-th arrival, each in the order of its own
node, and no clock of one node is compared with that of another. A departure to a node whose name was not yet known
takes the arrivals of that message that are left over.

Messages without an id may be equal in everything (`keys.py`): a beat that is sent every second. If some are lost, or
come twice, or were not seen, the n-th is not the n-th. So where the numbers differ, or the order makes a message arrive
before it left or after more than patience, the times decide: as many as possible belong together, none for longer than
patience, and then each arrival to the latest departure that leaves one for the others.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.coverage import Coverage, NodeCoverage
from hopwire.flows.groups import Groups, codes, equal_text, pack
from hopwire.flows.rules import Rules

__all__ = ["Matches", "SightingColumns", "match", "read_sightings"]


class SightingColumns(NamedTuple):
    """The sightings as numbers."""

    key: Ints
    attempt: Ints
    source: Ints  # the node it left
    target: Ints  # the node it went to
    at: Ints  # corrected
    incarnation: Ints
    sequence: Ints
    is_in: Bools
    is_dead: Bools
    is_target_known: Bools
    has_id: Bools
    nodes: pa.Array
    coverage: NodeCoverage


class Matches(NamedTuple):
    """Hops as two sightings each, -1 where there is none."""

    left: Ints
    came: Ints
    crossing: Ints
    has_departures: Bools

    def where(self, mask: Bools) -> Matches:
        """Give some of them."""
        return Matches(self.left[mask], self.came[mask], self.crossing[mask], self.has_departures[mask])


def read_sightings(sightings: pa.Table, coverage: Coverage) -> SightingColumns:
    """Give sightings as numbers, with corrected times."""
    is_in, is_dead = equal_text(sightings["direction"], "in"), equal_text(sightings["direction"], "dead")
    (key,), _ = codes(sightings["message_key"])
    (node, peer), nodes = codes(sightings["node"], sightings["peer"])
    known = coverage.of(nodes)
    target = np.where(is_in, node, peer)
    return SightingColumns(
        key,
        ints(sightings["attempt"]),
        np.where(is_in, peer, node),
        target,
        known.corrected(node, ints(sightings["incarnation"]), ints(sightings["seen_at_ns"])),
        ints(sightings["incarnation"]),
        ints(sightings["sequence"]),
        is_in,
        is_dead,
        bools(pc.greater(pc.binary_length(nodes), 0))[target],
        bools(pc.greater(pc.binary_length(one_array(sightings["message_id"])), 0)),
        nodes,
        known,
    )


def match(seen: SightingColumns, rules: Rules) -> Matches:
    """Give every sighting in one hop: with its partner, or alone."""
    rows = np.flatnonzero(~seen.is_dead)
    group = pack(seen.key[rows], seen.attempt[rows], seen.source[rows], seen.target[rows])
    return _with_dead(seen, _with_unnamed(seen, _matched(seen, rows, group, rules), rules))


class _Sides(NamedTuple):
    """Sightings in an order in which the departures of a group come first, then its arrivals, each by time."""

    rows: Ints
    at: Ints
    is_in: Bools
    start: Ints  # where the side of each begins
    end: Ints  # and where it ends
    has_other: Bools  # whether the group has arrivals too, of a departure, or departures, of an arrival


def _sides(seen: SightingColumns, rows: Ints, group: Ints) -> _Sides:
    side = 2 * group + seen.is_in[rows]
    groups = Groups(side, seen.at[rows], seen.incarnation[rows], seen.sequence[rows])
    order = groups.order
    start = np.repeat(groups.starts, groups.sizes)
    end = start + np.repeat(groups.sizes, groups.sizes)
    side, is_in = side[order], seen.is_in[rows][order]
    neighbour = np.where(is_in, start - 1, np.minimum(end, len(rows) - 1))
    has_other = (side[neighbour] == side + np.where(is_in, -1, 1)) & (neighbour >= 0)
    return _Sides(rows[order], seen.at[rows][order], is_in, start, end, has_other)


def _matched(seen: SightingColumns, rows: Ints, group: Ints, rules: Rules) -> Matches:
    """Match the n-th departure of each group with its n-th arrival, or by time where that cannot be."""
    if not len(rows):
        return Matches(rows, rows, rows, np.zeros(0, dtype=np.bool_))
    sides = _sides(seen, rows, group)
    size = len(rows)
    rank = np.arange(size) - sides.start
    last = np.minimum(sides.end, size - 1)  # of the departures; there the arrivals begin
    partner = np.where(~sides.is_in & sides.has_other & (sides.end + rank < sides.end[last]), sides.end + rank, -1)
    for begin, end, until in _doubtful(seen, sides, partner, rules):
        partner[begin:end] = _by_time(sides.at[begin:end], sides.at[end:until], rules)
        partner[begin:end] += np.where(partner[begin:end] < 0, 0, end)
    is_taken = np.zeros(size, dtype=np.bool_)
    is_taken[partner[partner >= 0]] = True
    places = np.flatnonzero(~is_taken)
    is_in, own = sides.is_in[places], sides.rows[places]
    left = np.where(is_in, -1, own)
    came = np.where(is_in, own, np.where(partner[places] < 0, -1, sides.rows[partner[places]]))
    return Matches(left, came, rank[places], ~is_in | sides.has_other[places])


def _doubtful(seen: SightingColumns, sides: _Sides, partner: Ints, rules: Rules) -> list[tuple[int, int, int]]:
    """Where the order is doubtful: begin and end of the departures of a group, and the end of its arrivals.

    Of one departure there is nothing to choose, and clocks that are not known against each other tell nothing.
    """
    clock = seen.coverage.clock
    source, target = seen.source[sides.rows], seen.target[sides.rows]
    count = sides.end - sides.start
    came_count = np.where(sides.has_other, count[np.minimum(sides.end, len(partner) - 1)], 0)
    is_several = (count > 1) | ((came_count > 1) & ~seen.has_id[sides.rows])
    is_several &= ~sides.is_in & sides.has_other & (clock[source] == clock[target])
    begins = np.flatnonzero(is_several & (np.arange(len(partner)) == sides.start))
    ends = sides.end[begins]
    untils = sides.end[np.minimum(ends, len(partner) - 1)]
    took = np.where(partner < 0, 0, sides.at[partner] - sides.at)
    is_odd = (took < -rules.clock_slack_ns) | (took > rules.patience_ns)
    odd = np.append(0, np.cumsum(is_odd))
    is_doubtful = (ends - begins != untils - ends) | (odd[ends] > odd[begins])
    return list(
        zip(begins[is_doubtful].tolist(), ends[is_doubtful].tolist(), untils[is_doubtful].tolist(), strict=True)
    )


def _by_time(left_at: Ints, came_at: Ints, rules: Rules) -> Ints:
    """Give the number of the arrival that belongs to each departure, -1 where none does."""
    left, came = left_at.tolist(), came_at.tolist()
    taken: list[int] = []  # the departure of each arrival: first the earliest, which leaves most for the others
    first = 0
    for at in came:
        while first < len(left) and left[first] < at - rules.patience_ns:
            first += 1
        is_there = first < len(left) and left[first] <= at + rules.clock_slack_ns
        taken.append(first if is_there else -1)
        first += is_there
    found = np.full(len(left), -1)
    limit = len(left)
    for number in reversed(range(len(came))):
        if taken[number] >= 0:  # and now the latest, behind which there is one for each that follows
            limit = min(bisect_right(left, came[number] + rules.clock_slack_ns), limit) - 1
            found[limit] = number
    return found


def _with_unnamed(seen: SightingColumns, pairs: Matches, rules: Rules) -> Matches:
    """Match departures to a node that had no name yet with the arrivals that are left over."""
    is_unnamed = (pairs.came < 0) & ~seen.is_target_known[pairs.left]
    is_over = (pairs.left < 0) & ~pairs.has_departures
    if not is_unnamed.any() or not is_over.any():
        return pairs
    again = is_unnamed | is_over
    rows = np.where(is_unnamed, pairs.left, pairs.came)[again]
    more = _matched(seen, rows, pack(seen.key[rows], seen.attempt[rows], seen.source[rows]), rules)
    return _joined(pairs.where(~again), more)


def _with_dead(seen: SightingColumns, pairs: Matches) -> Matches:
    rows = np.flatnonzero(seen.is_dead)
    nothing = np.full(len(rows), -1)
    return _joined(pairs, Matches(rows, nothing, np.zeros_like(rows), np.ones(len(rows), dtype=np.bool_)))


def _joined(one: Matches, other: Matches) -> Matches:
    return Matches(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))
