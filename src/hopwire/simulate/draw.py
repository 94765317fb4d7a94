"""The flows of a chunk as columns, drawn at once: format, contracts, nodes, when they begin, how long they may take.

Chance decides everything about a flow that its kind leaves open. What the kind asks for is set afterwards.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hopwire.columnar import Ints
from hopwire.model.units import NS_PER_MS, NS_PER_SECOND, NS_PER_TICK
from hopwire.simulate.kinds import KINDS
from hopwire.simulate.mix import FlowShare
from hopwire.simulate.shapes import ORDINARY_TTL, Kind, Millis, Window
from hopwire.simulate.world import CHUNKS, FAMILIES, PARTITIONS, SimulatedWorld, generator

__all__ = ["V5", "V6", "Columns", "draw_flows", "draw_times"]


Columns: TypeAlias = dict[str, Any]  # name: numpy array

ROLES = 4  # nodes of one flow
KEYS_PER_CHUNK = 1 << 24
LONGEST_TAIL_MS = 150.0
V5, V6 = 5, 6
KINO_SHARE, TRACED_SHARE, WITHOUT_TTL_SHARE, TRACEPARENT_SHARE = 0.5, 0.5, 0.3, 0.3
HOPWIRE, KINO = "hopwire", "kino"
# seconds of the minute in which flows begin
WINDOWS = {
    Window.MAIN: (6.0, 20.5),
    Window.OPEN: (0.0, 0.4),
    Window.BEFORE: (32.0, 32.3),
    Window.UNWRITTEN: (32.5, 33.0),
    Window.DYING: (32.5, 33.0),
    Window.CRASH: (35.0, 36.5),
    Window.AFTER: (38.0, 38.5),
    Window.SKIP: (44.5, 46.0),
    Window.AGAIN: (50.0, 50.5),
    Window.END: (1.0, 1.5),
    Window.CLOSE: (2.0, 2.5),
}
WORDS = (Window.BEFORE, Window.DYING, Window.AFTER, Window.AGAIN)  # in these windows the node of the fault speaks
SIGNED_FAMILIES = sum(bool(family.domain) for family in FAMILIES)  # they stand first


def draw_flows(
    world: SimulatedWorld, chunk: int, shares: tuple[FlowShare, ...], chance: np.random.Generator
) -> Columns:
    """Draw the flows of a chunk; flows of one kind stand together."""
    count = sum(share.flows for share in shares)
    keys = chance.random((count, world.settings.nodes))
    flows: Columns = {
        "kind": np.repeat([share.kind for share in shares], [share.flows for share in shares]),
        "format": np.zeros(count, np.int64),
        "family": chance.integers(0, len(FAMILIES), count),
        "partition": chance.integers(0, len(PARTITIONS), count),
        "begin": np.full(count, world.begin_ns(chunk), np.int64),
        "ttl": np.zeros(count, np.int64),
        "key": chunk * KEYS_PER_CHUNK + np.arange(1, count + 1),
        "is_kino": chance.random(count) < KINO_SHARE,
        "is_traced": chance.random(count) < TRACED_SHARE,
        "has_traceparent": chance.random(count) < TRACEPARENT_SHARE,
        "id": np.frombuffer(chance.bytes(16 * count), np.uint8).reshape(count, 16).copy(),
    }
    start = 0
    order = np.empty((count, ROLES), np.int64)
    for share in shares:
        rows = slice(start, start + share.flows)
        _fill(world, chunk, share, flows, rows, chance)
        order[rows] = _nodes(world, chunk, KINDS[share.kind], keys[rows])
        start += share.flows
    flows["nodes"] = order
    has_versions = np.array([family.has_versions for family in FAMILIES])[flows["family"]] & (flows["format"] >= V5)
    flows["version"] = np.where(has_versions, 1 + flows["partition"] % 2, 1)
    return flows


def _fill(
    world: SimulatedWorld, chunk: int, share: FlowShare, flows: Columns, rows: slice, chance: np.random.Generator
) -> None:
    """Set the columns that depend on the kind."""
    kind, count = KINDS[share.kind], share.flows
    formats = np.array(share.formats)
    flows["format"][rows] = formats[chance.integers(0, len(formats), count)]
    is_old = flows["format"][rows] < V5
    flavour = {HOPWIRE: np.zeros(count, bool), KINO: np.ones(count, bool)}
    flows["is_kino"][rows] = flavour.get(kind.flavour, flows["is_kino"][rows] | is_old)
    if kind.signed is not None:
        flows["family"][rows] = flows["family"][rows] % SIGNED_FAMILIES if kind.signed else SIGNED_FAMILIES
    if kind.is_traced is not None:
        flows["is_traced"][rows] = kind.is_traced
    low, high = WINDOWS[kind.window]
    flows["begin"][rows] += ((low + (high - low) * chance.random(count)) * NS_PER_SECOND).astype(np.int64)
    if kind.outcomes:
        may_lack = kind.ttl == ORDINARY_TTL
        lacks = flows["is_kino"][rows] & (chance.random(count) < WITHOUT_TTL_SHARE) & may_lack
        flows["ttl"][rows] = np.where(lacks, 0, draw_times(kind.ttl, count, chance) // NS_PER_TICK * NS_PER_TICK)
    if kind.fault == "giant_flow":
        flows["id"][rows] = np.frombuffer(generator(world.settings, CHUNKS + 1).bytes(16), np.uint8)


def _nodes(world: SimulatedWorld, chunk: int, kind: Kind, keys: npt.NDArray[np.float64]) -> Ints:
    """Choose different nodes for each flow; a node that a fault concerns has number 1, or number 0 if it speaks."""
    special = world.dark if kind.fault == "missing_capture" else _met(world, chunk, kind.window)
    if kind.window in (Window.OPEN, Window.CLOSE):
        return (np.arange(len(keys))[:, None] + np.arange(ROLES)) % world.settings.nodes
    if 0 <= special < world.settings.nodes:
        keys = keys.copy()
        keys[:, special] = 2.0
    order = np.argsort(keys, axis=1)[:, :ROLES]
    if special >= 0:
        column = np.full(len(order), special)
        first = order[:, :3]
        order = np.column_stack([column, first] if kind.window in WORDS else [first[:, 0], column, first[:, 1:]])
    return order


def _met(world: SimulatedWorld, chunk: int, window: Window) -> int:
    """The node that a fault of this window concerns; -1 is none."""
    if window in (Window.BEFORE, Window.UNWRITTEN, Window.DYING, Window.CRASH, Window.AFTER):
        return world.crashed[chunk]
    return world.skipping[chunk] if window in (Window.SKIP, Window.AGAIN) else -1


def draw_times(span: Millis, count: int, chance: np.random.Generator) -> Ints:
    """Draw so many times, in nanoseconds."""
    if span.has_tail:
        milliseconds = span.low + np.minimum(chance.exponential(span.high, count), LONGEST_TAIL_MS)
    else:
        milliseconds = span.low + (span.high - span.low) * chance.random(count)
    times: Ints = (milliseconds * NS_PER_MS).astype(np.int64)
    return times
