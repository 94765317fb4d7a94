"""The frames of the sightings of a chunk: messages as they crossed, in the format of their flow.

The frames of an arrival begin with the identity of the sender, the frames of a departure do not. What only one node
sees, such as dead letters, is written in V6, whatever format the message came in.

Some frames are damaged on the way: cut short, or changed such that nobody can read them. Not every damage makes a
message unreadable. So `decode` reads each damaged message, and another damage is tried until `decode` refuses the
message. The truth notes the reason that `decode` gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.errors import WireError
from hopwire.simulate.draw import V6
from hopwire.simulate.messages import columns_of_messages
from hopwire.simulate.plan import DEAD, IN, OUT, Plan
from hopwire.simulate.shapes import Change
from hopwire.simulate.world import SimulatedWorld
from hopwire.wire import decode
from hopwire.wire.arrow import SCHEMA
from hopwire.wire.batch.encoding import encode_batch

__all__ = ["frames_of"]

NOT_READ = ("reason", "reason_frame", "reason_byte")  # columns that are null in rows of messages
ATTEMPTS = 50  # never reached: a message without its last frame is unreadable in every format


def frames_of(
    world: SimulatedWorld, plan: Plan, kept: Any, chance: np.random.Generator
) -> tuple[pa.Array, dict[int, str]]:
    """Give the frames of each sighting that is kept, and why damaged frames cannot be read."""
    sightings = {name: values[kept] for name, values in plan.sightings.items()}
    crossing = sightings["crossing"]
    message = plan.crossings["message"][crossing]
    columns = pa.table(columns_of_messages(world, plan, chance)).take(pa.array(message))
    values = {name: columns.column(name).combine_chunks() for name in columns.column_names}
    is_dead = sightings["direction"] == DEAD
    is_lone = ~np.isin(sightings["direction"], (IN, OUT))
    formats = np.where(is_lone, V6, plan.flows["format"][plan.messages["flow"][message]])
    peers = pa.array([b"", *(node.identity for node in world.nodes)], pa.binary())
    knows_peer = (sightings["direction"] == IN) | is_dead
    values |= {
        "wire_format": pa.array(formats, pa.int8()),
        "socket_identity": peers.take(pa.array(np.where(knows_peer, sightings["peer"] + 1, 0))),
        "hops": pa.array(plan.crossings["hops"][crossing], pa.int32()),
        "ttl_ticks": pa.array(plan.crossings["ttl"][crossing], pa.int64()),
        "routing": _routing(world, plan, crossing),
    }
    for name in NOT_READ:
        values[name] = pa.nulls(len(kept), SCHEMA.field(name).type)
    arrays = [values[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names]
    frames = encode_batch(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return _damaged(frames, plan.crossings["damage"][crossing], chance)


def _routing(world: SimulatedWorld, plan: Plan, crossing: Any) -> pa.Array:
    flat, counts = plan.ways
    bounds = np.concatenate([[0], np.cumsum(counts)])
    uris = pa.array([node.uri for node in world.nodes]).take(pa.array(flat))
    identities = pa.array([node.identity for node in world.nodes], pa.binary()).take(pa.array(flat))
    kind = SCHEMA.field("routing").type
    entries = pa.StructArray.from_arrays([uris, identities], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), entries).take(pa.array(crossing))


# -- damage


def _damaged(frames: pa.Array, damage: Any, chance: np.random.Generator) -> tuple[pa.Array, dict[int, str]]:
    """The frames with some rows damaged, and the reason why each damaged row cannot be read."""
    rows = np.flatnonzero(damage).tolist()
    if not rows:
        return frames, {}
    broken, reasons = [], {}
    for row in rows:
        cut = damage[row] == Change.TRUNCATED
        changed, reasons[row] = _broken(frames[row].as_py(), _truncated if cut else _mutated, chance)
        broken.append(changed)
    index = np.arange(len(frames))
    index[rows] = len(frames) + np.arange(len(rows))
    return pa.concat_arrays([frames, pa.array(broken, frames.type)]).take(pa.array(index)), reasons


def _broken(frames: list[bytes], damage: Any, chance: np.random.Generator) -> tuple[list[bytes], str]:
    for _ in range(ATTEMPTS):
        changed = damage(list(frames), chance)
        try:
            decode(changed)
        except WireError as error:
            return changed, error.reason
    return frames[:1], "too_few_frames"


def _truncated(frames: list[bytes], chance: np.random.Generator) -> list[bytes]:
    """A message without its last frames, or without the end of its last frame."""
    if chance.random() < 0.5 and len(frames[-1]) > 1:
        return [*frames[:-1], frames[-1][: int(chance.integers(0, len(frames[-1])))]]
    return frames[: int(chance.integers(1, len(frames)))]


def _mutated(frames: list[bytes], chance: np.random.Generator) -> list[bytes]:
    """A message with one frame too many, with bytes too many in one frame, or with one changed byte."""
    place = len(frames) - 1 - int(chance.integers(0, min(len(frames) - 1, 14)))
    kind = int(chance.integers(0, 3))
    if kind == 0:
        frames.insert(place, bytes(chance.bytes(int(chance.integers(0, 9)))))
    elif kind == 1:
        frames[place] = bytes(chance.bytes(int(chance.integers(1, 5)))) + frames[place]
    elif frames[place]:
        at = int(chance.integers(0, len(frames[place])))
        frames[place] = frames[place][:at] + b"\xff" + frames[place][at + 1 :]
    return frames
