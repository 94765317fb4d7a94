"""What happens in one chunk, as columns: flows, the messages they say, the crossings of the messages, the sightings.

Flows of one kind stand together, so a step of a kind is a stretch of rows, made at once. Nothing is encoded here: the
plan of a chunk is cheap, and enough to count its sightings.

| column of | refers to |
|---|---|
| `flows` | kind, nodes (`draw.py`) |
| `messages` | flow; `base`: the message that this one is a changed copy of |
| `crossings` | flow, message |
| `sightings` | crossing |
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from hopwire.columnar import Ints
from hopwire.model.units import NS_PER_TICK
from hopwire.simulate.draw import Columns, draw_flows, draw_times
from hopwire.simulate.kinds import KINDS
from hopwire.simulate.mix import FlowShare, shares_of
from hopwire.simulate.shapes import Change, Kind, Mode, Says, SeenAt, Step, Window, way_of
from hopwire.simulate.world import CHUNKS, SimulatedWorld, generator

__all__ = ["DEAD", "IN", "LOCAL", "OUT", "SKIPPED", "TOLD", "Plan", "plan_chunk"]

NOWHERE = -1  # the peer of a message that began at its node
IN, OUT, DEAD, LOCAL, TOLD, SKIPPED = range(6)  # as in Direction


@dataclass(frozen=True, slots=True)
class Plan:
    """One chunk."""

    chunk: int
    flows: Columns
    messages: Columns
    crossings: Columns
    ways: tuple[Ints, Ints]  # routers of all crossings one after another, and how many each has
    sightings: Columns  # in the order of nodes and their clocks


def plan_chunk(world: SimulatedWorld, chunk: int) -> Plan:
    """Decide all that happens in a chunk; the plan is the same each time."""
    chance = generator(world.settings, CHUNKS, chunk)
    shares = shares_of(world, chunk)
    flows = draw_flows(world, chunk, shares, chance)
    messages, crossings, ways = _crossings(world, shares, flows, chance)
    sightings = _sightings(world, chunk, flows, crossings)
    return Plan(chunk, flows, messages, crossings, ways, sightings)


# -- messages and crossings


def _crossings(
    world: SimulatedWorld, shares: tuple[FlowShare, ...], flows: Columns, chance: np.random.Generator
) -> tuple[Columns, Columns, tuple[Ints, Ints]]:
    table = _PlannedCrossings(world, flows, chance)
    start = 0
    for share in shares:
        if share.flows:
            table.add_kind(KINDS[share.kind], np.arange(start, start + share.flows))
        start += share.flows
    return table.columns()


class _PlannedCrossings:
    """Grows by the steps of one kind at a time."""

    def __init__(self, world: SimulatedWorld, flows: Columns, chance: np.random.Generator) -> None:
        self.flows, self.chance = flows, chance
        self.offsets = np.array([node.offset_ns for node in world.nodes])
        self.messages: dict[str, list[Any]] = defaultdict(list)
        self.crossings: dict[str, list[Any]] = defaultdict(list)
        self.ways: list[Ints] = []
        self.message_count = 0

    def add_kind(self, kind: Kind, rows: Ints) -> None:
        arrivals: list[Ints] = []
        said: list[Ints] = []  # the message of each step
        for number, step in enumerate(kind.steps):
            begin = arrivals[step.cause] if step.cause >= 0 else self.flows["begin"][rows]
            left = begin + draw_times(step.wait, len(rows), self.chance)
            came = left + draw_times(step.travel, len(rows), self.chance)
            said.append(self._message(kind, step, rows, left, said))
            arrivals.append(came)
            self._add_crossing(kind, number, rows, left, came, said[number])

    def _message(self, kind: Kind, step: Step, rows: Ints, left: Ints, said: list[Ints]) -> Ints:
        is_changed = step.mode is Mode.COPY and step.change in (Change.SIGNATURE, Change.BODY)
        if step.mode is not Mode.NEW and not is_changed:
            return said[step.of]
        numbers = np.arange(self.message_count, self.message_count + len(rows))
        self.message_count += len(rows)
        origin = kind.steps[step.of] if is_changed else step
        src = self.flows["nodes"][rows, origin.src]
        values: dict[str, Any] = {
            "flow": rows,
            "says": origin.says,
            "waits": origin.waits,
            "to": origin.to,
            "src": src,
            "dst": self.flows["nodes"][rows, origin.dst],
            "change": step.change,
            "base": said[step.of] if is_changed else -1,
            "words": said[step.of] if step.of >= 0 else numbers,
            "attempt": origin.attempt,
            "is_broadcast": origin.is_broadcast,
            "ttl": self._ttl(origin, rows, left),
            "sent_at": left + self.offsets[src],
        }
        _append(self.messages, values, len(rows))
        return numbers

    def _ttl(self, step: Step, rows: Ints, left: Ints) -> Ints:
        """In ticks: hopwire passes on the time that is left, the original says the whole time once."""
        full, is_kino = self.flows["ttl"][rows], self.flows["is_kino"][rows]
        rest = np.maximum(NS_PER_TICK, full - (left - self.flows["begin"][rows]))
        if step.says > Says.EVENT:
            rest = np.zeros_like(rest)
        said_once = full if step.says is Says.REQUEST else np.zeros_like(full)
        ticks: Ints = np.where(is_kino, said_once, np.where(full > 0, rest, 0)) // NS_PER_TICK
        return ticks

    def _add_crossing(self, kind: Kind, number: int, rows: Ints, left: Ints, came: Ints, said: Ints) -> None:
        step = kind.steps[number]
        nodes = self.flows["nodes"][rows]
        way, hops = way_of(kind.steps, number)
        names_way = self.flows["is_kino"][rows] | self.flows["is_traced"][rows]
        origin = step if step.mode is not Mode.COPY else kind.steps[step.of]
        ttl = self._ttl(origin if origin.mode is Mode.NEW else kind.steps[origin.of], rows, left)
        is_on = step.mode is Mode.ON
        values: dict[str, Any] = {
            "flow": rows,
            "message": said,
            "left": left,
            "came": came,
            "src": nodes[:, step.src],
            "dst": nodes[:, step.dst],
            "came_from": nodes[:, kind.steps[step.cause].src] if step.cause >= 0 else NOWHERE,
            "hops": hops,
            "ttl": ttl if is_on else -1,
            "seen": step.seen,
            "damage": step.change if step.change >= Change.TRUNCATED else Change.NONE,
            "step": number,
            "way_count": np.where(names_way, len(way), 0),
        }
        _append(self.crossings, values, len(rows))
        self.ways.append(nodes[names_way][:, list(way)].reshape(-1))

    def columns(self) -> tuple[Columns, Columns, tuple[Ints, Ints]]:
        messages = {name: np.concatenate(parts) for name, parts in self.messages.items()}
        crossings = {name: np.concatenate(parts) for name, parts in self.crossings.items()}
        own = crossings["ttl"] < 0
        crossings["ttl"][own] = messages["ttl"][crossings["message"][own]]
        return messages, crossings, (np.concatenate(self.ways), crossings.pop("way_count"))


def _append(table: dict[str, list[Any]], values: dict[str, Any], count: int) -> None:
    for name, value in values.items():
        table[name].append(value if isinstance(value, np.ndarray) else np.full(count, int(value), np.int64))


# -- sightings


def _sightings(world: SimulatedWorld, chunk: int, flows: Columns, crossings: Columns) -> Columns:
    seen, numbers = crossings["seen"], np.arange(len(crossings["seen"]))
    parts = []
    for direction, node, peer, time, kinds in (
        (OUT, "src", "dst", "left", (SeenAt.BOTH, SeenAt.LEFT)),
        (IN, "dst", "src", "came", (SeenAt.BOTH, SeenAt.CAME)),
        (DEAD, "src", "came_from", "left", (SeenAt.DEAD,)),
        (LOCAL, "src", "src", "left", (SeenAt.LOCAL,)),
        (TOLD, "src", "came_from", "left", (SeenAt.TOLD,)),
    ):
        rows = numbers[np.isin(seen, kinds)]
        parts.append(
            {
                "crossing": rows,
                "node": crossings[node][rows],
                "peer": crossings[peer][rows],
                "at": crossings[time][rows],
                "direction": np.full(len(rows), direction),
            }
        )
    columns: Columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    window = np.array([kind.window for kind in KINDS])[flows["kind"][crossings["flow"][columns["crossing"]]]]
    is_unwritten = np.isin(window, (Window.UNWRITTEN, Window.DYING)) & (columns["node"] == world.crashed[chunk])
    columns = {name: values[~is_unwritten] for name, values in columns.items()}
    window = window[~is_unwritten]
    order = np.lexsort((columns["crossing"], columns["direction"], columns["at"], columns["node"]))
    columns = {name: values[order] for name, values in columns.items()}
    is_skipping = window[order] == Window.SKIP
    columns["is_skipped"] = is_skipping & (columns["node"] == world.skipping[chunk])
    crashed = columns["node"] == world.crashed[chunk]
    columns["is_restarted"] = crashed & (columns["at"] > world.crash_ns(chunk))
    return columns
