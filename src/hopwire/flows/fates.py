"""What is known of a hop: its fate, whether its arrival came before, whether its trace is right.

What is missing is judged by the coverage of the node that should have seen it (`FATES` in `hops.py`). An arrival too
many is a duplicate, or replayed: signed, and not soon after the first or from another peer; or at another node, though
it is for one and has come no further: a router on the way would have counted its hop.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints
from hopwire.flows.arrays import Groups, codes, filled_forward, pack
from hopwire.flows.hops import FATES
from hopwire.flows.pairs import Pairs, Seen
from hopwire.flows.rules import Rules

__all__ = ["FATE", "fates_of", "is_route_wrong", "repeats_of"]

FATE = {name: number for number, name in enumerate(FATES)}
TRACE_ROUTING = 1


def fates_of(seen: Seen, pairs: Pairs, rules: Rules) -> Ints:
    """Give the fate of each hop: a number of FATES."""
    fate = np.full(len(pairs.left), FATE["arrived"])
    left_only, came_only = np.flatnonzero(pairs.came < 0), np.flatnonzero(pairs.left < 0)
    fate[left_only] = _fate_of_departures(seen, pairs.left[left_only], rules)
    fate[came_only] = _fate_of_arrivals(seen, pairs.came[came_only], pairs.has_departures[came_only], rules)
    fate[seen.is_dead[pairs.left] & (pairs.left >= 0)] = FATE["dead"]
    return fate


def _fate_of_departures(seen: Seen, rows: Ints, rules: Rules) -> Ints:
    cover, target, at = seen.coverage, seen.target[rows], seen.at[rows]
    is_blind = ~cover.captures[target] | (at < cover.begin[target])
    is_blind |= cover.skips_within(target, at - rules.patience_ns, at + rules.patience_ns)
    is_at_end = at >= cover.end[target] - rules.patience_ns
    is_unwritten = cover.broke_off_within(target, at - rules.unwritten_ns, at + rules.patience_ns)
    return np.select(
        [is_blind, is_at_end, is_unwritten],
        [FATE[name] for name in ("unwitnessed", "in_flight", "unwitnessed")],
        FATE["lost"],
    )


def _fate_of_arrivals(seen: Seen, rows: Ints, has_departures: Bools, rules: Rules) -> Ints:
    cover, source, at = seen.coverage, seen.source[rows], seen.at[rows]
    is_blind = ~cover.captures[source]
    is_blind |= cover.skips_within(source, at - rules.patience_ns, at + rules.patience_ns)
    left = np.where(has_departures, at, at - rules.patience_ns)  # one that was never seen to leave may have left before
    is_outside = (left < cover.begin[source]) | ~cover.lives_at(source, at)
    is_outside |= cover.ended_within(source, at - rules.patience_ns, at)
    is_unsent = is_blind | (is_outside & ~(has_departures & seen.has_id[rows]))  # equal ones may be others
    return np.where(is_unsent, FATE["unsent"], np.where(has_departures, FATE["duplicate"], FATE["foreign"]))


def repeats_of(sightings: pa.Table, seen: Seen, pairs: Pairs, fate: Ints, rules: Rules) -> Ints:
    """Tell for each hop whether its arrival came before: a number of REPEATS."""
    repeat = np.zeros(len(pairs.left), dtype=np.int64)
    over = np.flatnonzero(pairs.left < 0)
    if not len(over):
        return repeat
    (signature,), values = codes(sightings["signature"])
    is_signed = bools(pc.greater(pc.binary_length(values), 0))[signature]
    came = pairs.came[over]
    earlier = _arrivals_before(seen, seen.target)[came]
    is_again = earlier >= 0
    is_soon = (seen.at[came] - seen.at[earlier] <= rules.duplicate_window_ns) & (
        seen.source[came] == seen.source[earlier]
    )
    is_same = is_signed[came] & (signature[came] == signature[earlier])
    is_sure = (fate[over] == FATE["duplicate"]) | seen.has_id[came] | is_same | is_soon
    repeat[over] = np.where(is_again & is_sure, np.where(is_same & ~is_soon, 2, 1), 0)
    is_unicast = ints(sightings["distribution"])[came] == 0
    elsewhere = _arrivals_before(seen, signature)[came]
    hops = ints(sightings["hops"])
    is_copied = (elsewhere >= 0) & is_signed[came] & is_unicast & (hops[came] <= hops[elsewhere])
    repeat[over[~is_again & is_copied]] = 2
    return repeat


def _arrivals_before(seen: Seen, number: Ints) -> Ints:
    """Give for each arrival the last one before it of the same message, attempt and number, -1 where there is none."""
    rows = np.flatnonzero(seen.is_in)
    groups = Groups(pack(seen.key[rows], seen.attempt[rows], number[rows]), seen.at[rows], seen.sequence[rows])
    before = np.full(len(seen.key), -1)
    before[rows] = np.append(rows, -1)[filled_forward(groups, np.ones(len(rows), dtype=np.bool_))]
    return before


def is_route_wrong(sightings: pa.Table, rows: Ints, seen: Seen) -> Bools:
    """Tell where a traced unicast message names another router last than the node it left, or too few of them."""
    (router, source), values = codes(sightings["route_node"], seen.nodes.take(pa.array(seen.source)))
    is_named = bools(pc.greater(pc.binary_length(values), 0))[router]
    is_traced = (ints(sightings["trace_options"]) & TRACE_ROUTING) > 0
    is_traced &= (ints(sightings["distribution"]) == 0) & ~seen.is_dead
    count = ints(sightings["route_count"])
    is_wrong: Bools = is_traced & ((is_named & (router != source)) | (count < ints(sightings["hops"])))
    return is_wrong[rows]
