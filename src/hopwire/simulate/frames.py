"""The frames of the sightings of a chunk: messages as they crossed, in the format of their flow.

The frames of an arrival begin with the identity of the sender, the frames of a departure do not. Dead letters are
written in V6, whatever format the message came in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.simulate.damage import damaged
from hopwire.simulate.draw import V6
from hopwire.simulate.messages import columns_of_messages
from hopwire.simulate.plan import DEAD, IN, Plan
from hopwire.simulate.world import SimulatedWorld
from hopwire.wire.arrow import SCHEMA
from hopwire.wire.batch.encoding import encode_batch

__all__ = ["frames_of"]

NOT_READ = ("reason", "reason_frame", "reason_byte")  # columns that are null in rows of messages


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
    formats = np.where(is_dead, V6, plan.flows["format"][plan.messages["flow"][message]])
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
    return damaged(frames, plan.crossings["damage"][crossing], chance)


def _routing(world: SimulatedWorld, plan: Plan, crossing: Any) -> pa.Array:
    flat, counts = plan.ways
    bounds = np.concatenate([[0], np.cumsum(counts)])
    uris = pa.array([node.uri for node in world.nodes]).take(pa.array(flat))
    identities = pa.array([node.identity for node in world.nodes], pa.binary()).take(pa.array(flat))
    kind = SCHEMA.field("routing").type
    entries = pa.StructArray.from_arrays([uris, identities], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), entries).take(pa.array(crossing))
