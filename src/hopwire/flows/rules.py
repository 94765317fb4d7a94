"""What judging depends on beside the sightings: how long to wait, and where to stop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hopwire.columnar import Ints
from hopwire.model.units import NS_PER_SECOND, NS_PER_TICK

__all__ = ["NEVER", "Rules", "deadlines"]

NEVER = np.iinfo(np.int64).max
LONGEST_TTL_TICKS = 10**16  # thirty years; the original writes the largest number it has for longer


@dataclass(frozen=True, slots=True)
class Rules:
    """The patience and the limits of the judge."""

    patience_ns: int = 5 * NS_PER_SECOND  # a message may take so long from node to node
    patience_without_ttl_ns: int = 60 * NS_PER_SECOND  # and so long an answer to a request without a time to live
    duplicate_window_ns: int = NS_PER_SECOND  # the same signature again: within it a duplicate, later a replay
    unwritten_ns: int = 2 * NS_PER_SECOND  # a node that is killed has seen nothing later than this after its last
    # written sighting: it beats each second, and writes what it saw within 200 ms; the rest is for a busy machine
    clock_slack_ns: int = NS_PER_SECOND // 1000  # clocks that are corrected may still be off by so much
    hop_limit: int = 16
    max_flow_rows: int = 100_000  # steps of one flow that become its tree


def deadlines(begin_ns: Ints, ttl_ticks: Ints) -> Ints:
    """Give when a time to live is over, NEVER without one."""
    return np.where(ttl_ticks > 0, begin_ns + np.minimum(ttl_ticks, LONGEST_TTL_TICKS) * NS_PER_TICK, NEVER)
