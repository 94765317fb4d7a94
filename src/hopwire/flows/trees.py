"""Hops to trees: what caused each hop, how deep it lies, and which chain leads to the end of the flow.

- The parent of a hop is the arrival at its node, before it left, of the same message; else the last arrival there in
  the same flow. Both are times of one clock.
- Where leaving was not seen, arriving stands for it, and the other way round, so that a node without a capture does not
  tear the tree.
- The critical path is the chain that leads to the last arrival. What came again, or from somebody else, does not count.

Depths are found by jumping: each round every hop looks twice as far up, so a chain of a million takes twenty rounds.

The trap: wrong matching or a clock that was set back could make a circle. The hops of a circle lose the parents that
are not before them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints, ints
from hopwire.flows.groups import NO_TIME, Groups, codes, equal_text, filled_forward, pack

__all__ = ["CauseTree", "Steps", "grow", "read_steps"]


class Steps(NamedTuple):
    """Hops of flows as numbers."""

    flow: Ints
    key: Ints
    source: Ints
    target: Ints
    left: Ints  # or arrived, where leaving was not seen
    came: Ints  # or left, where nobody could see it arrive
    left_sequence: Ints
    came_sequence: Ints
    is_dead: Bools
    is_again: Bools  # a duplicate, a replay, or foreign
    nodes: pa.Array
    flows: pa.Array


class CauseTree(NamedTuple):
    """What caused each hop."""

    parent: Ints  # the number of another hop, -1 for a root
    depth: Ints  # from 0
    is_critical: Bools  # whether it leads to the last arrival


def read_steps(hops: pa.Table) -> Steps:
    """Give hops as numbers."""
    (flow,), flows = codes(hops["flow_id"])
    (key,), _ = codes(hops["message_key"])
    (source, target), nodes = codes(hops["from_node"], hops["to_node"])
    left, came = ints(hops["left_at_ns"], NO_TIME), ints(hops["arrived_at_ns"], NO_TIME)
    left_sequence, came_sequence = ints(hops["left_sequence"]), ints(hops["arrived_sequence"])
    is_unseen = equal_text(hops["fate"], "unwitnessed")
    is_unsent = left == NO_TIME
    return Steps(
        flow,
        key,
        source,
        target,
        np.where(is_unsent, came, left),
        np.where(is_unseen, left, came),
        np.where(is_unsent, came_sequence, left_sequence),
        np.where(is_unseen, left_sequence, came_sequence),
        equal_text(hops["fate"], "dead"),
        equal_text(hops["fate"], "foreign") | equal_text(hops["fate"], "duplicate") | ~equal_text(hops["repeat"], ""),
        nodes,
        flows,
    )


def grow(steps: Steps) -> CauseTree:
    """Give the trees of all flows among the hops."""
    parent = _parents(steps)
    rank = np.empty(len(parent), dtype=np.int64)
    rank[np.lexsort((steps.left_sequence, steps.left))] = np.arange(len(parent))
    root, depth, _ = _climb(parent)
    in_circle = parent[root] >= 0
    if in_circle.any():
        parent = np.where(in_circle & (rank[parent] >= rank), -1, parent)
        _, depth, _ = _climb(parent)
    return CauseTree(parent, depth, _critical(steps, parent))


def _parents(steps: Steps) -> Ints:
    size = len(steps.flow)
    here = np.flatnonzero(steps.came != NO_TIME)
    flow, key = np.append(steps.flow, steps.flow[here]), np.append(steps.key, steps.key[here])
    node = np.append(steps.source, steps.target[here])
    at = np.append(steps.left, steps.came[here])
    sequence = np.append(steps.left_sequence, steps.came_sequence[here])
    is_arrival = np.arange(len(flow)) >= size
    place = pack(flow, node)
    of_same = filled_forward(Groups(pack(place, key), at, sequence), is_arrival)[:size]
    of_any = filled_forward(Groups(place, at, sequence), is_arrival)[:size]
    event = np.where(of_same >= 0, of_same, of_any)
    parent = np.where(event >= 0, np.append(here, -1)[np.maximum(event - size, -1)], -1)
    return np.where(parent == np.arange(size), -1, parent)


def _climb(parent: Ints) -> tuple[Ints, Ints, list[Ints]]:
    """Give for each hop the highest above it, how far that is, and the jumps of 1, 2, 4 ... steps."""
    jump = np.where(parent < 0, np.arange(len(parent)), parent)
    depth = (parent >= 0).astype(np.int64)
    jumps = [jump]
    for _ in range(len(parent).bit_length() + 1):
        twice = jump[jump]
        if (twice == jump).all():
            break
        depth = depth + depth[jump]
        jump = twice
        jumps.append(jump)
    return jump, depth, jumps


def _critical(steps: Steps, parent: Ints) -> Bools:
    flows = Groups(steps.flow)
    is_arrival = (steps.came != NO_TIME) & ~steps.is_again & ~steps.is_dead
    last_at = flows.most(steps.came, is_arrival)
    last = flows.first_where(is_arrival & (steps.came == last_at[flows.of]))
    is_critical = np.zeros(len(parent), dtype=np.bool_)
    is_critical[last[last >= 0]] = True
    _, _, jumps = _climb(parent)
    for jump in reversed(jumps):
        is_critical[jump[is_critical]] = True
    return is_critical
