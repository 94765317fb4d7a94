"""The messages of a chunk as columns, the way `wire` has them, but for columns that a crossing changes.

Most columns have few values, which a single `take` looks up in a small table. Only numbers, bodies, signatures and
extensions are each message's own.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from hopwire.columnar import binary_from_rows
from hopwire.model.names import ACTOR, KINO_EXCEPTION, KINO_RECEIPT, OUTCOME, RECEIPT
from hopwire.simulate.bodies import bodies_of
from hopwire.simulate.draw import V5, V6, Columns
from hopwire.simulate.kinds import KINDS
from hopwire.simulate.plan import Plan
from hopwire.simulate.shapes import Change, Says, To, Waits
from hopwire.simulate.signatures import domains_and_signatures
from hopwire.simulate.world import FAMILIES, PARTITIONS, SimulatedWorld
from hopwire.wire.arrow import SCHEMA
from hopwire.wire.extension import MAGIC, Extension

__all__ = ["columns_of_messages", "texts_from_ids"]

CONTRACTS = len(FAMILIES[0].identities)  # a message whose `Says` is below is a contract of its family
UNKNOWN_VERSION, UNKNOWN_RAW, FIRST_RAW = 99, b"9.9", b"1.0"
SECOND_FRAME = b'{"part":2}'
SECOND_FRAME_EVERY = 8  # one event of so many has two body frames, where the format has room
DASHES = (8, 13, 18, 23)
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
ID_BYTES = 16
_ENCODER = msgspec.msgpack.Encoder()


def texts_from_ids(ids: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> pa.Array:
    """Write ids of 16 bytes as text with dashes, as correlation ids are."""
    digits = np.empty((len(ids), 36), np.uint8)
    places = [place for place in range(36) if place not in DASHES]
    digits[:, places[0::2]] = HEX[ids >> 4]
    digits[:, places[1::2]] = HEX[ids & 15]
    digits[:, DASHES] = ord("-")
    return binary_from_rows(digits)


def columns_of_messages(world: SimulatedWorld, plan: Plan, chance: np.random.Generator) -> dict[str, Any]:
    """Give the columns of all messages of a chunk, by their names in `wire`; signed."""
    told = _Told(world, plan)
    columns = told.columns(bodies_of(world, plan, chance))
    columns["domain"], columns["signature"] = domains_and_signatures(world, plan, columns, chance)
    columns["extensions"] = told.extensions(chance)
    return columns


def _lookup(values: list[Any], index: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(values, kind or pa.binary()).take(pa.array(index))


class _Told:
    """The plan of each message, as columns."""

    def __init__(self, world: SimulatedWorld, plan: Plan) -> None:
        self.world, self.plan, self.messages = world, plan, plan.messages
        flow = self.messages["flow"]
        self.flow: Columns = {name: values[flow] for name, values in plan.flows.items() if name != "id"}
        self.home = self.flow["nodes"][:, 0]
        self.count = len(flow)
        self.is_own = self.messages["says"] < CONTRACTS
        self.is_raw = self.flow["format"] < V5

    def columns(self, bodies: pa.Array) -> dict[str, Any]:
        messages = self.messages
        versions = self._versions()
        waits = messages["waits"]
        has_callback = np.isin(waits, (Waits.ANSWER, Waits.ANSWER_AND_RECEIPT, Waits.RECEIPT, Waits.ITSELF))
        has_key = (has_callback | (waits == Waits.KEY)) & ~self.is_raw
        return {
            "wire_format": pa.array(self.flow["format"], pa.int8()),
            "identity": self._identities(),
            "version": pa.array(versions, pa.int32(), mask=self.is_raw),
            "version_raw": self._raw_versions(versions),
            "partition": _lookup(list(PARTITIONS), np.where(self.is_own, self.flow["partition"], 0)),
            "body_frames": self._body_frames(bodies),
            "correlation_id": texts_from_ids(self.plan.flows["id"]).take(pa.array(messages["flow"])),
            **self._receivers(),
            "callback_points": self._callback_points(),
            "callback_key": pa.array(np.where(has_key, self.flow["key"], 0), pa.int64()),
            "callback_receiver_identity": self._node_values("hub", self.home, has_callback),
            "callback_receiver_node_identity": self._node_values("identity", self.home, has_callback & ~self.is_raw),
            "trace_options": pa.array(self.flow["is_traced"].astype(np.int64)),
            "distribution": pa.array(messages["is_broadcast"], pa.int32()),
        }

    def _identities(self) -> pa.Array:
        table = [family.identities[says] for says in range(CONTRACTS) for family in FAMILIES]
        table += [OUTCOME, KINO_EXCEPTION, KINO_RECEIPT]
        says = self.messages["says"]
        other = np.select([says == Says.EXCEPTION, says == Says.CONFIRMED], [len(table) - 2, len(table) - 1])
        other = np.where(other == 0, len(table) - 3, other)
        return _lookup(table, np.where(self.is_own, says * len(FAMILIES) + self.flow["family"], other))

    def _versions(self) -> Any:
        versions = np.where(self.is_own, self.flow["version"], 1)
        return np.where(self.messages["change"] == Change.VERSION, UNKNOWN_VERSION, versions)

    def _raw_versions(self, versions: Any) -> pa.Array:
        index = np.where(versions == UNKNOWN_VERSION, 1, 0)
        return pa.array([FIRST_RAW, UNKNOWN_RAW], pa.binary()).take(pa.array(index, mask=~self.is_raw))

    def _node_values(self, name: str, nodes: Any, is_set: Any) -> pa.Array:
        values = [getattr(node, name) for node in self.world.nodes]
        return _lookup([b"", *values], np.where(is_set, nodes + 1, 0))

    def _receivers(self) -> dict[str, pa.Array]:
        to, dst = self.messages["to"], self.messages["dst"]
        nodes = self.world.nodes
        table = [b"", *(node.hub for node in nodes), *(ACTOR + node.hub[1:] for node in nodes)]
        index = np.select([to == To.HOME, to == To.ACTOR], [self.home + 1, dst + 1 + len(nodes)], 0)
        is_home = (to == To.HOME) & ~self.is_raw
        is_named = (to == To.NODE) | (to == To.ACTOR)
        node = np.where(is_home, self.home, dst)
        return {
            "receiver_identity": _lookup(table, index),
            "receiver_node_identity": self._node_values("identity", node, is_home | is_named),
        }

    def _callback_points(self) -> pa.Array:
        flow = self.flow
        parts = (self.messages["waits"], flow["family"], flow["partition"], flow["version"], flow["is_kino"])
        code = np.zeros(self.count, np.int64)
        for part in (*parts, self.is_raw):
            code = code * 8 + part
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        return _lookup([self._points(row) for row in first.tolist()], index, SCHEMA.field("callback_points").type)

    def _points(self, row: int) -> list[dict[str, Any]]:
        flow, waits = self.flow, self.messages["waits"][row]
        is_raw, is_kino = bool(self.is_raw[row]), bool(flow["is_kino"][row])
        reply = FAMILIES[flow["family"][row]].identities[Says.REPLY]
        answer = _point(reply, int(flow["version"][row]), PARTITIONS[flow["partition"][row]], is_raw)
        receipt = _point(KINO_RECEIPT if is_kino else RECEIPT, 1, b"", is_raw)
        failure = [_point(KINO_EXCEPTION, 1, b"", is_raw)] if is_kino else []
        return {
            Waits.ANSWER: [answer, *failure],
            Waits.ANSWER_AND_RECEIPT: [answer, receipt],
            Waits.RECEIPT: [receipt, *failure],
            Waits.ITSELF: [receipt],
        }.get(waits, [])

    def _body_frames(self, bodies: pa.Array) -> pa.Array:
        is_split = (self.messages["says"] == Says.EVENT) & (self.messages["words"] % SECOND_FRAME_EVERY == 0)
        counts = 1 + (is_split & (self.flow["format"] > 3))
        bounds = np.concatenate([[0], np.cumsum(counts)])
        index = np.full(int(bounds[-1]), self.count)
        index[bounds[:-1]] = np.arange(self.count)
        frames = pa.concat_arrays([bodies, pa.array([SECOND_FRAME], pa.binary())]).take(pa.array(index))
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), frames)

    def extensions(self, chance: np.random.Generator) -> pa.Array:
        """Give the extension frames: an id for messages sent at least once, a trace context for some messages."""
        messages, flow = self.messages, self.flow
        has_id = np.array([kind.has_id for kind in KINDS])[flow["kind"]] & (messages["attempt"] >= 0)
        has_trace = flow["has_traceparent"] & ~flow["is_kino"] & (flow["format"] == V6)
        rows = np.flatnonzero(has_id | has_trace)
        ids = chance.bytes(ID_BYTES * self.count)
        frames = [self._extension(row, ids, bool(has_id[row]), bool(has_trace[row])) for row in rows.tolist()]
        counts = np.zeros(self.count, np.int64)
        counts[rows] = 1
        bounds = np.concatenate([[0], np.cumsum(counts)])
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(frames, pa.binary()))

    def _extension(self, row: int, ids: bytes, has_id: bool, has_trace: bool) -> bytes:
        messages = self.messages
        start = int(messages["words"][row]) * ID_BYTES
        own = ids[start : start + ID_BYTES]
        trace = self.plan.flows["id"][messages["flow"][row]].tobytes().hex()
        extension = Extension(
            message_id=own if has_id else b"",
            attempt=int(messages["attempt"][row]) if has_id else 0,
            sent_at_ns=int(messages["sent_at"][row]) if has_trace else 0,
            traceparent=f"00-{trace}-{own[:8].hex()}-01" if has_trace else "",
        )
        return MAGIC + _ENCODER.encode(extension)


def _point(identity: bytes, version: int, partition: bytes, is_raw: bool) -> dict[str, Any]:
    numbers = {"version": None, "version_raw": FIRST_RAW} if is_raw else {"version": version, "version_raw": None}
    return {"identity": identity, "partition": partition, **numbers}
