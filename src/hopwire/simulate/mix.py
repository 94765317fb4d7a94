"""How many flows of each kind a chunk has: counted out, not drawn, so that every fault is there.

The rate of a fault is shared among its kinds by their weights. The rest is shared among the ordinary kinds by theirs.
"""

from __future__ import annotations

from typing import NamedTuple

from hopwire.simulate.faults import FAULTS
from hopwire.simulate.kinds import FAULTY, KINDS, ORDINARY
from hopwire.simulate.shapes import UNSEEN_BY, Kind, SeenAt, Window
from hopwire.simulate.world import SimulatedWorld

__all__ = ["FlowShare", "shares_of"]

WINDOW_SHARE, WINDOW_LEAST = 0.002, 3  # flows that meet a node which crashes or skips


class FlowShare(NamedTuple):
    """How many flows of one kind a chunk has."""

    kind: int  # in KINDS
    flows: int
    formats: tuple[int, ...]


def shares_of(world: SimulatedWorld, chunk: int) -> tuple[FlowShare, ...]:
    """Give the kinds of flows of a chunk."""
    is_closing = chunk == world.settings.closing
    total = _flow_count(world)
    shares = []
    for number, kind in enumerate(KINDS):
        formats = _formats(world, kind)
        count = _count(world, chunk, kind, total) if formats else 0
        is_of_end = kind.window in (Window.END, Window.CLOSE)
        if count and is_of_end == is_closing:
            shares.append(FlowShare(number, count, formats))
    return tuple(shares)


def _formats(world: SimulatedWorld, kind: Kind) -> tuple[int, ...]:
    return tuple(number for number in world.settings.formats if number in kind.formats)


def _flow_count(world: SimulatedWorld) -> int:
    """How many flows give the sightings of one chunk, apart from the giant flow."""
    settings = world.settings
    wanted = settings.messages / settings.chunk_count * (1 - settings.rate("giant_flow"))
    likes = _ordinary(world)
    faulty = sum(_rate(world, kind) for kind in FAULTY)
    rows = sum(_rate(world, kind) * _rows(kind) for kind in FAULTY)
    rows += (1 - faulty) * sum(share * _rows(kind) for kind, share in likes.items())
    return max(1, round(wanted / rows))


def _ordinary(world: SimulatedWorld) -> dict[Kind, float]:
    usable = [kind for kind in ORDINARY if _formats(world, kind)]
    total = sum(kind.weight for kind in usable)
    return {kind: kind.weight / total for kind in usable}


def _rate(world: SimulatedWorld, kind: Kind) -> float:
    """The share of a faulty kind among all flows."""
    if kind.fault not in FAULTS or FAULTS[kind.fault].of != "flows" or not _formats(world, kind):
        return 0.0
    if kind.window is Window.END:
        return 0.0
    likes = sum(other.weight for other in FAULTY if other.fault == kind.fault and _formats(world, other))
    return world.settings.rate(kind.fault) * kind.weight / likes


def _rows(kind: Kind) -> int:
    return sum(2 if step.seen is SeenAt.BOTH else 1 for step in kind.steps)


def _count(world: SimulatedWorld, chunk: int, kind: Kind, total: int) -> int:
    rate = world.settings.rate(kind.fault)
    if not kind.fault:
        faulty = sum(_rate(world, each) for each in FAULTY)
        return round(total * (1 - faulty) * _ordinary(world).get(kind, 0.0))
    if kind.window is Window.CLOSE:
        return world.settings.nodes
    if kind.window is Window.OPEN:
        return world.settings.nodes if chunk == 0 else 0
    if kind.window in (Window.BEFORE, Window.AFTER):
        return int(world.crashed[chunk] >= 0)
    if kind.window is Window.AGAIN:
        return int(world.skipping[chunk] >= 0)
    if not rate:
        return 0
    if kind.window in (Window.CRASH, *UNSEEN_BY):
        node = (world.skipping if kind.window is Window.SKIP else world.crashed)[chunk]
        return max(WINDOW_LEAST, round(total * WINDOW_SHARE)) if node >= 0 else 0
    if kind.fault == "giant_flow":
        return max(1, round(world.settings.messages / world.settings.chunk_count * rate / _rows(kind)))
    if kind.fault == "giant_body":
        return int(chunk == 0)
    if kind.window is Window.END:
        return max(1, round(total * rate))
    return max(1, round(total * _rate(world, kind)))
