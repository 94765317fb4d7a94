"""What judging depends on beside the sightings: how long to wait, and where to stop.

| rule | default | example |
|---|---|---|
| `patience_ns` | 5 s | A leaves at 10.0 s, B was looking until 16.0 s and saw nothing: lost. Until 14.0 s: in flight |
| `patience_without_ttl_ns` | 60 s | asked at 10.0 s without a time to live: lost for want of an answer after 70.0 s |
| `duplicate_window_ns` | 1 s | the same signature from A at 10.0 s and 10.9 s: duplicate; at 11.1 s: replayed |
| `unwritten_ns` | 2 s | B was killed, its last written sighting is at 10.0 s: B may have seen what left until 12.0 s |
| `giving_up_ns` | 0.5 s | a reply arrives at A at 10.0 s, A was killed and last wrote at 10.6 s: A did not give it up |
| `giving_up_soon_ns` | 50 ms | as before, and A last wrote at 10.1 s: A hardly gave it up |
| `silence_ns` | 10 min | A leaves at 10 s for B, B was last seen at 9 s: in flight, whatever B says after 615 s |
| `clock_slack_ns` | 1 ms | left at 10.0000 s, arrived at 9.9995 s by corrected clocks: possible |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopwire.columnar import Ints
from hopwire.flows.groups import NEVER
from hopwire.model.units import NS_PER_MS, NS_PER_SECOND, NS_PER_TICK

__all__ = ["Rules", "deadlines", "patience_over"]

LONGEST_TTL_TICKS = 10**16  # thirty years; the original writes the largest number it has for longer


@dataclass(frozen=True, slots=True)
class Rules:
    """The patience and the limits of the judge."""

    patience_ns: int = 5 * NS_PER_SECOND  # a message takes at most this long from node to node
    patience_without_ttl_ns: int = 60 * NS_PER_SECOND  # an answer takes at most this long, without a time to live
    duplicate_window_ns: int = NS_PER_SECOND  # the same signature again: within the window a duplicate, later a replay
    unwritten_ns: int = 2 * NS_PER_SECOND  # a killed node saw nothing later than this after its last written sighting:
    # a node beats each second and writes each sighting within 200 ms; the rest is for a busy machine
    giving_up_ns: int = NS_PER_SECOND // 2  # a node gives up a reply, if at all, within this after the arrival: it
    # takes tenths of a millisecond, and 0.13 s at most on a machine with ten times as much to do as it can
    giving_up_soon_ns: int = 50 * NS_PER_MS  # and nearly always within this: 99 of 100, on such a machine
    silence_ns: int = 600 * NS_PER_SECOND  # after a longer silence a node begins anew: what was before stays as it is
    clock_slack_ns: int = NS_PER_MS  # corrected clocks may still be off by this much
    hop_limit: int = 16
    max_flow_rows: int = 100_000  # steps of one flow that become its tree


def deadlines(begin_ns: Ints, ttl_ticks: Ints) -> Ints:
    """Give when a time to live is over; NEVER where there is no time to live."""
    return np.where(ttl_ticks > 0, begin_ns + np.minimum(ttl_ticks, LONGEST_TTL_TICKS) * NS_PER_TICK, NEVER)


def patience_over(asked_ns: Ints, deadline_ns: Ints, rules: Rules) -> Ints:
    """Give when the patience with a question is over: who was looking then, and saw no answer, knows that none came."""
    without_ttl = asked_ns + rules.patience_without_ttl_ns
    return np.where(
        deadline_ns == NEVER, without_ttl, np.minimum(deadline_ns, NEVER - rules.patience_ns) + rules.patience_ns
    )
