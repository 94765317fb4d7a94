"""The bodies of messages: orders in JSON with noise, outcomes as hopwire writes them, exceptions as the original does.

Every order has a number of its own, so no two messages are equal by chance.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Ints, binary_from_bounds
from hopwire.model.units import MEBIBYTE
from hopwire.simulate.draw import Columns
from hopwire.simulate.plan import Plan
from hopwire.simulate.shapes import Change, Says
from hopwire.simulate.world import SimulatedWorld

__all__ = ["bodies_of"]

NOISE_BYTES = (40, 400)
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-", np.uint8)
NUMBERS_PER_CHUNK = 1 << 32
PADDING = 512  # the original writes its whole buffer
OUTCOMES = {
    Says.FAILED: {"kind": "failed", "reason": "ValueError", "detail": "Ledger.book: no such account"},
    Says.EXPIRED: {"kind": "undelivered", "reason": "expired", "detail": "before Ledger could handle it"},
    Says.NO_ROUTE: {"kind": "undelivered", "reason": "no_route", "detail": ""},
}


def bodies_of(world: SimulatedWorld, plan: Plan, chance: np.random.Generator) -> pa.Array:
    """Give the body of each message of a chunk."""
    messages = plan.messages
    count = len(messages["flow"])
    orders = _orders(plan.chunk, count, chance)
    fixed = [_outcome(Says.RECEIVED, node.identity) for node in world.nodes]
    places = {says: count + len(fixed) + number for number, says in enumerate(OUTCOMES)}
    fixed += [_outcome(says, b"") for says in OUTCOMES]
    places[Says.EXCEPTION] = count + len(fixed)
    places[Says.CONFIRMED] = places[Says.EXCEPTION] + 1
    fixed += [_exception(), b""]
    index = messages["words"].copy()
    says = messages["says"]
    index[says == Says.RECEIVED] = count + messages["src"][says == Says.RECEIVED]
    for kind, place in places.items():
        index[says == kind] = place
    bodies = pa.concat_arrays([orders, pa.array(fixed, pa.binary())]).take(pa.array(index))
    return _with_changes(world, messages, bodies, chance)


def _orders(chunk: int, count: int, chance: np.random.Generator) -> pa.Array:
    sizes: Ints = chance.integers(*NOISE_BYTES, count)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    noise = LETTERS[np.frombuffer(chance.bytes(int(bounds[-1])), np.uint8) & 63]
    notes = binary_from_bounds(bounds, noise)
    numbers = pa.array(chunk * NUMBERS_PER_CHUNK + np.arange(count)).cast(pa.string()).cast(pa.binary())
    head, middle, tail = (pa.scalar(text, pa.binary()) for text in (b'{"order":', b',"note":"', b'"}'))
    return pc.binary_join_element_wise(head, numbers, middle, notes, tail, b"")


def _outcome(says: Says, node: bytes) -> bytes:
    value = OUTCOMES.get(says) or {"kind": "received", "reason": "", "detail": node.hex()}
    return msgspec.msgpack.encode(value)


def _exception() -> bytes:
    """A BSON document of two texts, and zeros behind the document, as the original's serializer leaves them."""
    texts = {"Message": "no such account", "ExceptionType": "System.ArgumentException"}
    parts = [
        b"\2" + name.encode() + b"\0" + struct.pack("<i", len(text) + 1) + text.encode() + b"\0"
        for name, text in texts.items()
    ]
    inner = b"".join(parts) + b"\0"
    return (struct.pack("<i", len(inner) + 4) + inner).ljust(PADDING, b"\0")


def _with_changes(world: SimulatedWorld, messages: Columns, bodies: pa.Array, chance: np.random.Generator) -> pa.Array:
    changed = np.flatnonzero(np.isin(messages["change"], (Change.BODY, Change.GIANT)))
    if not len(changed):
        return bodies
    values = []
    for row in changed.tolist():
        if messages["change"][row] == Change.GIANT:
            size = int(world.settings.rate("giant_body") * MEBIBYTE)
            values.append(LETTERS[np.frombuffer(chance.bytes(size), np.uint8) & 63].tobytes())
        else:
            values.append(bodies[row].as_py().replace(b'"order":', b'"Order":', 1))
    index = np.arange(len(bodies))
    index[changed] = len(bodies) + np.arange(len(changed))
    return pa.concat_arrays([bodies, pa.array(values, pa.binary())]).take(pa.array(index))
