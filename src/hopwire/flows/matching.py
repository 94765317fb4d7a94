"""Which departure belongs to which arrival.

The sightings of one message, in one attempt, from one node to another, are a group. The rules for a group, in order:

1. *By order.* The n-th departure belongs to the n-th arrival, each in the order of its own node. No clock is compared
   with the clock of another node. A leaves at 10.000 s and 10.200 s, B sees 10.001 s and 10.203 s: the first arrival
   belongs to 10.000 s, the second to 10.200 s.
2. *By time, where the order cannot be right.* Messages without an id may be equal in everything (`keys.py`), such as a
   beat that is sent every second. If one of them is lost, the order would shift all that follow. So the corrected times
   decide a group
   - where the numbers of departures and arrivals differ: A leaves at 10.000 s and 10.200 s, B sees 10.201 s. The
     arrival belongs to 10.200 s, and the message of 10.000 s is lost;
   - where the order makes a message arrive before it left (by more than `clock_slack_ns`), or later than patience: A
     leaves at 10.000 s and 20.000 s, B sees 20.001 s and 20.300 s. By order the first message would be under way for
     more than 10 s. By time, 20.001 s belongs to 20.000 s: one message is lost, and 20.300 s is an arrival too many.
3. *As many as possible belong together.* No pair takes longer than patience. Among these choices, each arrival belongs
   to the latest departure that leaves a departure for every other arrival. A leaves at 10.000 s, 10.200 s and 10.300 s,
   B sees 10.250 s and 10.251 s: 10.251 s belongs to 10.200 s, 10.250 s to 10.000 s, and 10.300 s has no arrival.

Times decide nothing where the two clocks are not known against each other, or where there is nothing to choose: one
departure, and one arrival or a message with an id.

Equal messages that name neither themselves nor a flow, such as beats, could go on for ever. They are cut into minutes
by corrected time, and each minute is matched by itself (`minutes_of`). An arrival belongs to the minute of its
departure: A leaves at 59.999 s, B sees the message at 60.001 s, and both belong to the first minute. What belongs
together across the end of a minute is decided by the sightings of the patience before it and after it. An arrival too
many belongs to the minute of the last departure before it: if B sees the message again at 60.002 s, this is a duplicate
of the first minute, and no message of a stranger in the second.

A departure to a node that had not said its name belongs to an arrival that nobody else has. A leaves at 10.000 s for
a node without a name, B sees the message from A at 10.002 s, and no other departure of A names B: this is one hop.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints, ints
from hopwire.flows.coverage import Coverage, NodeCoverage
from hopwire.flows.groups import Groups, codes, equal_text, filled_forward, has_bytes, pack
from hopwire.flows.rules import Rules
from hopwire.model.units import NS_PER_MINUTE

__all__ = ["Matches", "SightingColumns", "match", "minutes_of", "read_sightings"]


class SightingColumns(NamedTuple):
    """Sightings as arrays, a row for each sighting."""

    key: Ints
    attempt: Ints
    source: Ints  # the node that the message left
    target: Ints  # the node that the message went to
    at: Ints  # corrected
    incarnation: Ints
    sequence: Ints
    is_in: Bools
    is_dead: Bools
    is_local: Bools
    is_told: Bools
    is_target_known: Bools
    has_id: Bools
    nodes: pa.Array
    coverage: NodeCoverage

    @property
    def is_lone(self) -> Bools:
        """Whether a sighting can have no partner at another node."""
        return self.is_dead | self.is_local | self.is_told


class Matches(NamedTuple):
    """Hops as two sightings each, -1 where a sighting is missing."""

    left: Ints
    came: Ints
    crossing: Ints
    has_departures: Bools  # whether the group of the hop has any departure

    def where(self, mask: Bools) -> Matches:
        """Give the hops that the mask marks."""
        return Matches(self.left[mask], self.came[mask], self.crossing[mask], self.has_departures[mask])


def read_sightings(sightings: pa.Table, coverage: Coverage) -> SightingColumns:
    """Give sightings as arrays, with corrected times."""
    is_in, is_dead, is_local, is_told = (
        equal_text(sightings["direction"], each) for each in ("in", "dead", "local", "told")
    )
    (key,), _ = codes(sightings["message_key"])
    (node, peer), nodes = codes(sightings["node"], sightings["peer"])
    known = coverage.of(nodes)
    target = np.where(is_in, node, peer)
    incarnation = ints(sightings["incarnation"])
    return SightingColumns(
        key,
        ints(sightings["attempt"]),
        np.where(is_in, peer, node),
        target,
        known.corrected(node, incarnation, ints(sightings["seen_at_ns"])),
        incarnation,
        ints(sightings["sequence"]),
        is_in,
        is_dead,
        is_local,
        is_told,
        has_bytes(nodes)[target],
        has_bytes(sightings["message_id"]),
        nodes,
        known,
    )


def match(seen: SightingColumns, rules: Rules) -> Matches:
    """Give every sighting in one hop: with its partner, or alone."""
    rows = np.flatnonzero(~seen.is_lone)
    group = pack(seen.key[rows], seen.attempt[rows], seen.source[rows], seen.target[rows])
    return _with_lone(seen, _with_unnamed(seen, _matched(seen, rows, group, rules), rules))


def minutes_of(seen: SightingColumns, where: Bools, rules: Rules) -> Ints:
    """Give the minute that each marked sighting belongs to, from 1970 on; 0 where the mask marks nothing."""
    minute = np.where(where, seen.at // NS_PER_MINUTE, 0)
    edge = (seen.at + NS_PER_MINUTE // 2) // NS_PER_MINUTE  # the end of a minute that is nearest
    near = np.abs(seen.at - edge * NS_PER_MINUTE) <= rules.patience_ns
    rows = np.flatnonzero(where & near & ~seen.is_lone)
    way = pack(seen.key[rows], seen.attempt[rows], seen.source[rows], seen.target[rows], edge[rows])
    matches = _matched(seen, rows, way, rules)
    both = (matches.left >= 0) & (matches.came >= 0)
    left, came = matches.left[both], matches.came[both]
    took = seen.at[came] - seen.at[left]
    is_pair = (took >= -rules.clock_slack_ns) & (took <= rules.patience_ns)
    minute[came[is_pair]] = minute[left[is_pair]]
    over, last = _departures_before(seen, rows, way, matches, rules)
    minute[over] = minute[last]
    return minute


def _departures_before(
    seen: SightingColumns, rows: Ints, way: Ints, matches: Matches, rules: Rules
) -> tuple[Ints, Ints]:
    """Give the arrivals without a departure, and for each the last departure that went the same way before it.

    An arrival is left out if this departure was more than the patience before it, or if there is none.
    """
    is_in, at = seen.is_in[rows], seen.at[rows]
    before = filled_forward(Groups(way, at + rules.clock_slack_ns * is_in, is_in.astype(np.int64)), ~is_in)
    is_over = np.isin(rows, matches.came[matches.left < 0]) & is_in & (before >= 0)
    is_over &= at - at[before] <= rules.patience_ns
    return rows[is_over], rows[before[is_over]]


class _Sides(NamedTuple):
    """Sightings by group: first the departures of a group, then its arrivals, each by time."""

    rows: Ints
    at: Ints
    is_in: Bools
    start: Ints  # where the side of each sighting begins: the departures of its group, or the arrivals
    end: Ints  # where this side ends
    has_other: Bools  # whether the group also has the other side


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
    """Match the n-th departure of each group with its n-th arrival, or by time where the order cannot be right."""
    if not len(rows):
        return Matches(rows, rows, rows, np.zeros(0, dtype=np.bool_))
    sides = _sides(seen, rows, group)
    size = len(rows)
    rank = np.arange(size) - sides.start
    last = np.minimum(sides.end, size - 1)  # the arrivals of a group begin where its departures end
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
    """Give the groups that time decides: begin and end of the departures, and the end of the arrivals."""
    source, target = seen.source[sides.rows], seen.target[sides.rows]
    count = sides.end - sides.start
    came_count = np.where(sides.has_other, count[np.minimum(sides.end, len(partner) - 1)], 0)
    is_several = (count > 1) | ((came_count > 1) & ~seen.has_id[sides.rows])
    is_several &= ~sides.is_in & sides.has_other & seen.coverage.has_one_clock(source, target, sides.at[sides.start])
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
    """Give the number of the arrival that belongs to each departure, -1 where none does.

    The first pass gives each arrival the earliest departure, which leaves most for the others: the arrivals that get a
    departure are as many as can be. The second pass, from the last of these arrivals to the first, gives each of them
    the latest departure in front of the departure of the next.
    """
    left, came = left_at.tolist(), came_at.tolist()
    has_departure = []
    first = 0
    for at in came:
        while first < len(left) and left[first] < at - rules.patience_ns:
            first += 1
        has_departure.append(first < len(left) and left[first] <= at + rules.clock_slack_ns)
        first += has_departure[-1]
    found = np.full(len(left), -1)
    limit = len(left)
    for number in reversed(range(len(came))):
        if has_departure[number]:
            limit = min(bisect_right(left, came[number] + rules.clock_slack_ns), limit) - 1
            found[limit] = number
    return found


def _with_unnamed(seen: SightingColumns, matches: Matches, rules: Rules) -> Matches:
    """Match departures to a node that had no name yet with the arrivals that are left over."""
    is_unnamed = (matches.came < 0) & ~seen.is_target_known[matches.left]
    is_over = (matches.left < 0) & ~matches.has_departures
    if not is_unnamed.any() or not is_over.any():
        return matches
    again = is_unnamed | is_over
    rows = np.where(is_unnamed, matches.left, matches.came)[again]
    more = _matched(seen, rows, pack(seen.key[rows], seen.attempt[rows], seen.source[rows]), rules)
    return _joined(matches.where(~again), more)


def _with_lone(seen: SightingColumns, matches: Matches) -> Matches:
    """Add the sightings that have no partner: dead letters, what askers were told, and what stays within a node."""
    rows = np.flatnonzero(seen.is_lone)
    nothing = np.full(len(rows), -1)
    return _joined(matches, Matches(rows, nothing, np.zeros_like(rows), np.ones(len(rows), dtype=np.bool_)))


def _joined(one: Matches, other: Matches) -> Matches:
    return Matches(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))
