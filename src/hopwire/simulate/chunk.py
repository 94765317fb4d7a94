"""One chunk as the nodes capture it, with the truth beside it.

Sequence numbers go on from chunk to chunk. A chunk is given the next number of each node (`bases`), and `next_bases`
gives the numbers for the chunk behind it. Example: the node `node-1` begins a chunk with 100 and sees 40 messages; the
next chunk begins with 140. A node that crashes begins a new incarnation, at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.model.sighting import Direction
from hopwire.model.sighting_batch import SCHEMA
from hopwire.simulate.frames import frames_of
from hopwire.simulate.kinds import KINDS
from hopwire.simulate.plan import DEAD, SKIPPED, TOLD, Plan, plan_chunk
from hopwire.simulate.truth import truth_of
from hopwire.simulate.world import CHUNKS, SKIPPING, SimulatedWorld, generator

__all__ = ["Chunk", "SimulatedCapture", "counts_of_chunk", "next_bases", "simulate_chunk"]

DIRECTIONS = list(Direction)
SKIP_REASON = "too_slow"
LATER = CHUNKS + 2  # chance for the contents of messages; `plan.py` uses another for the events


@dataclass(frozen=True, slots=True)
class SimulatedCapture:
    """The sightings of one node in one incarnation: the columns of a capture."""

    node: int
    sightings: pa.RecordBatch
    is_cut_off: bool = False  # by a crash


@dataclass(frozen=True, slots=True)
class Chunk:
    """The captures of all nodes in one minute, and the truth of that minute."""

    number: int
    captures: tuple[SimulatedCapture, ...]
    truth: dict[str, pa.Table]

    @property
    def row_count(self) -> int:
        """How many sightings all captures have."""
        return sum(capture.sightings.num_rows for capture in self.captures)


def counts_of_chunk(world: SimulatedWorld, chunk: int) -> list[tuple[int, bool]]:
    """Give for each node how many numbers its last incarnation in this chunk uses, and whether that began here."""
    return _counts(world, plan_chunk(world, chunk))


def _counts(world: SimulatedWorld, plan: Plan) -> list[tuple[int, bool]]:
    node, is_restarted = plan.sightings["node"], plan.sightings["is_restarted"]
    counts = []
    for number in range(world.settings.nodes):
        is_here = node == number
        has_crashed = world.crashed[plan.chunk] == number
        counts.append((int((is_here & (is_restarted == has_crashed)).sum()), has_crashed))
    return counts


def next_bases(bases: list[int], counts: list[tuple[int, bool]]) -> list[int]:
    """Give the next number of each node after a chunk."""
    return [count if is_new else base + count for base, (count, is_new) in zip(bases, counts, strict=True)]


def simulate_chunk(world: SimulatedWorld, chunk: int, bases: list[int]) -> tuple[Chunk, list[int]]:
    """Make a chunk whose nodes begin with these numbers; also give the numbers that follow."""
    plan = plan_chunk(world, chunk)
    chance = generator(world.settings, LATER, chunk)
    numbers = _numbers(world, plan, bases)
    kept = _kept(plan)
    frames, reasons = frames_of(world, plan, kept, chance)
    batch = _batch(world, plan, kept, numbers, frames)
    captures = tuple(_captures(world, plan, kept, batch))
    truth = truth_of(world, plan, kept, numbers, reasons)
    return Chunk(chunk, captures, truth), next_bases(bases, _counts(world, plan))


def _numbers(world: SimulatedWorld, plan: Plan, bases: list[int]) -> tuple[Any, Any]:
    """The incarnation and the sequence number of each sighting."""
    sightings = plan.sightings
    node, is_restarted = sightings["node"], sightings["is_restarted"]
    lives = np.array([world.incarnation(number, plan.chunk) for number in range(world.settings.nodes)])
    incarnation = lives[node] + is_restarted
    part = node * 2 + is_restarted
    starts = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(part)]]))
    rank = np.arange(len(part)) - np.repeat(starts, sizes)
    return incarnation, rank + np.where(is_restarted, 0, np.array(bases)[node])


def _kept(plan: Plan) -> Any:
    """The sightings that are in the capture: the first of the skipped sightings stands for all of them."""
    is_skipped = plan.sightings["is_skipped"]
    first = np.flatnonzero(is_skipped)[:1]
    is_kept = ~is_skipped
    is_kept[first] = True
    return np.flatnonzero(is_kept)


def _batch(world: SimulatedWorld, plan: Plan, kept: Any, numbers: tuple[Any, Any], frames: pa.Array) -> pa.RecordBatch:
    sightings = {name: values[kept] for name, values in plan.sightings.items()}
    node, crossing = sightings["node"], sightings["crossing"]
    is_skipped = sightings["is_skipped"]
    offsets = np.array([each.offset_ns for each in world.nodes])
    direction = np.where(is_skipped, SKIPPED, sightings["direction"])
    has_peer = ~np.isin(direction, (DEAD, TOLD)) & ~is_skipped
    names, identities = ([getattr(each, name) for each in world.nodes] for name in ("name", "identity"))
    reasons, notes = _reasons(plan, crossing, sightings)
    at = np.where(is_skipped, world.begin_ns(plan.chunk) + SKIPPING[0], sightings["at"])
    columns = {
        "node": pa.array(identities, pa.binary()).take(pa.array(node)),
        "node_name": pa.array(names).take(pa.array(node)),
        "incarnation": pa.array(numbers[0][kept]),
        "sequence": pa.array(numbers[1][kept]),
        "seen_at_ns": pa.array(at + offsets[node]),
        "direction": pa.array(DIRECTIONS).take(pa.array(direction)),
        "peer": pa.array([b"", *identities], pa.binary()).take(pa.array(np.where(has_peer, sightings["peer"] + 1, 0))),
        "frames": _without(frames, is_skipped),
        "reason": reasons,
        "note": notes,
        "skipped": pa.array(np.where(is_skipped, plan.sightings["is_skipped"].sum(), 0)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _without(frames: pa.Array, is_skipped: Any) -> pa.Array:
    if not is_skipped.any():
        return frames
    return pa.concat_arrays([frames, pa.array([[]], frames.type)]).take(
        pa.array(np.where(is_skipped, len(frames), np.arange(len(frames))))
    )


def _reasons(plan: Plan, crossing: Any, sightings: dict[str, Any]) -> tuple[pa.Array, pa.Array]:
    """Why dead letters went no further, and what askers were told."""
    reasons, notes = [""] * len(crossing), [""] * len(crossing)
    kinds, steps = plan.flows["kind"][plan.crossings["flow"][crossing]], plan.crossings["step"][crossing]
    for row in np.flatnonzero(np.isin(sightings["direction"], (DEAD, TOLD))).tolist():
        step = KINDS[kinds[row]].steps[steps[row]]
        reasons[row], notes[row] = step.reason, step.note
    for row in np.flatnonzero(sightings["is_skipped"]).tolist():
        reasons[row] = SKIP_REASON
    return pa.array(reasons, pa.string()), pa.array(notes, pa.string())


def _captures(world: SimulatedWorld, plan: Plan, kept: Any, batch: pa.RecordBatch) -> Any:
    node, is_restarted = plan.sightings["node"][kept], plan.sightings["is_restarted"][kept]
    part = node * 2 + is_restarted
    starts = np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]]))
    ends = np.concatenate([starts[1:], [len(part)]])
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        is_crashed = int(node[start]) == world.crashed[plan.chunk]
        yield SimulatedCapture(
            int(node[start]), batch.slice(start, end - start), is_crashed and not is_restarted[start]
        )
