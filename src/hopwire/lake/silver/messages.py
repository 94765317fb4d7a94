"""`silver.messages`: every sighting that is a message.

This module makes all columns that depend on one row alone: the verdict on the signature, the key of the message, the
fields of hopwire's extension frame, kind and reason of an outcome. Hops, replays and flows depend on other rows, and
come later.

The trap: raise DECODER whenever a row would come out otherwise than before, or lakes keep what the old code made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import one_array
from hopwire.errors import WireError
from hopwire.flows.hops import SIGHTING_COLUMNS
from hopwire.flows.keys import message_keys
from hopwire.lake.bronze.sightings import SIGHTINGS_TABLE, frame_bytes
from hopwire.lake.tables import Column, Table, declare
from hopwire.model.columns import schema_from_columns
from hopwire.model.names import KINO_EXCEPTION, KINO_RECEIPT, OUTCOME
from hopwire.model.outcome import Outcome
from hopwire.security import Domains
from hopwire.security.batch_verdicts import verify_batch
from hopwire.wire import SCHEMA as WIRE
from hopwire.wire.extension import MAGIC, Extension, read_extension

__all__ = [
    "DECODER",
    "MESSAGES_TABLE",
    "OF_SIGHTINGS",
    "REASONS",
    "ROUTE",
    "SEEN",
    "rows_of_messages",
    "seen_rows",
    "with_route",
]

DECODER = 1

REASONS = {
    name: WIRE.field(name).type for name in ("reason", "reason_frame", "reason_byte")
}  # only rows that are no message have them
KINO_OUTCOMES = {KINO_EXCEPTION: ("failed", "exception"), KINO_RECEIPT: ("received", "")}

# -- the table

NOT_SEEN = ("frames", "skipped")  # columns of a sighting that a message does not repeat
# fmt: off
CHANGED = {  # columns of a sighting that say something else beside a message, which has reasons of its own
    "direction": Column("direction",   pa.string(), "in, out, local, dead or told"),
    "reason":    Column("dead_reason", pa.string(), "why a dead letter went no further, or what an asker was told"),
    "note":      Column("dead_note",   pa.string(), "the same in words; or the key of what it becomes at a border"),
}
REPEATED = {
    each.name: CHANGED.get(each.name, each) for each in SIGHTINGS_TABLE.columns if each.name not in NOT_SEEN
}
SEEN = (
    *REPEATED.values(),
    Column("frame_count", pa.int32(), "frames on the wire"),
    Column("size_bytes",  pa.int64(), "of all frames"),
)
SEEN_SCHEMA = schema_from_columns(SEEN)
MEANINGS = {
    "wire_format":                     "number of the wire format: 3, 4, 5 or 6",
    "identity":                        "the message contract's identity",
    "version":                         "its version in V5 and V6",
    "version_raw":                     "its version in V3 and V4",
    "partition":                       "its partition",
    "body_frames":                     "the body",
    "correlation_id":                  "the flow that the message belongs to",
    "receiver_identity":               "the hub or actor that the message is for; empty for any receiver",
    "receiver_node_identity":          "the node of the receiver",
    "callback_points":                 "the contracts of an answer",
    "callback_key":                    "which request of the callback receiver; 0 where there is none",
    "callback_receiver_identity":      "the hub that waits for an answer",
    "callback_receiver_node_identity": "the node of the hub that waits for an answer",
    "routing":                         "the routers that a traced message passed",
    "hops":                            "how often the message was sent from node to node",
    "trace_options":                   "what routers are to write down",
    "distribution":                    "0 unicast, 1 broadcast",
    "ttl_ticks":                       "time to live in 100 ns; 0 is for ever",
    "domain":                          "the security domain that the message claims",
    "signature":                       "the signature as it came",
    "socket_identity":                 "the identity that a ROUTER socket put in front",
    "extensions":                      "frames beyond the format, hopwire's and others'",
}
EXTENSION = (
    Column("message_id",  pa.binary(), "from hopwire's extension frame: the same for every attempt; else empty"),
    Column("attempt",     pa.int64(),  "from that frame: number of the attempt to deliver the message, from 0"),
    Column("sent_at_ns",  pa.int64(),  "from that frame: when the message was first sent, by its sender; else 0"),
    Column("traceparent", pa.string(), "from that frame: W3C trace context; else empty"),
)
JUDGED = (
    Column("message_key",    pa.binary(), "16 bytes, the same wherever the message is seen: see `flows/keys.py`"),
    Column("verdict",        pa.string(), "on the signature: valid, invalid, unsigned, no_key, not_in_domain"),
    Column("outcome_kind",   pa.string(), "of outcomes: received, failed, undelivered, ended; else empty"),
    Column("outcome_reason", pa.string(), "of outcomes: the reason; else empty"),
    Column("findings",       pa.list_(pa.string()),
                                          "what is odd about this message alone: bad_extension, bad_outcome"),
)
# fmt: on

MESSAGES_TABLE = declare(
    Table(
        "silver.messages",
        key=("segment", "node", "incarnation", "sequence"),
        reads=("bronze.sightings",),
        columns=(
            *SEEN,
            *(Column(each.name, each.type, MEANINGS[each.name]) for each in WIRE if each.name not in REASONS),
            *EXTENSION,
            *JUDGED,
        ),
        meaning="One sighting decoded: every field of the wire formats, sizes, the verdict on its signature, its key.",
        dated_by=("seen_at_ns",),
    )
)

# fmt: off
ROUTE = (
    Column("route_count", pa.int32(),  "routers in its trace"),
    Column("route_node",  pa.binary(), "the last router of its trace; else empty"),
)
# fmt: on
OF_SIGHTINGS = tuple(name for name in SIGHTING_COLUMNS if name not in {each.name for each in ROUTE})


def with_route(messages: pa.Table) -> pa.Table:
    """Give the columns of messages that flows are judged by, with the last router of each."""
    routing = one_array(messages["routing"])
    bounds = routing.offsets.to_numpy()
    last = pa.array(bounds[1:] - 1, mask=bounds[1:] == bounds[:-1])
    router = pc.fill_null(routing.values.field("identity").take(last), b"")
    made = dict(zip((each.name for each in ROUTE), (pa.array(np.diff(bounds), pa.int32()), router), strict=True))
    return pa.table({name: made[name] if name in made else messages[name] for name in SIGHTING_COLUMNS})


# -- its rows


def rows_of_messages(seen: pa.RecordBatch, decoded: pa.RecordBatch, domains: Domains) -> pa.RecordBatch:
    """Give the rows of sightings that are messages, with a verdict on each signature; `seen` has the columns SEEN."""
    extensions, is_bad_extension = _extensions(decoded.column("extensions"))
    columns = _by_name(seen) | _by_name(decoded) | extensions
    named = decoded.append_column("message_id", extensions["message_id"])
    outcomes, is_bad_outcome = _outcomes(decoded)
    columns["message_key"] = message_keys(named).cast(pa.binary())
    columns["verdict"] = verify_batch(decoded, domains, seen.column("seen_at_ns"))
    columns["findings"] = _findings({"bad_extension": is_bad_extension, "bad_outcome": is_bad_outcome}, len(seen))
    columns |= outcomes
    schema = MESSAGES_TABLE.schema
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def seen_rows(sightings: pa.RecordBatch) -> pa.RecordBatch:
    """Give the columns `SEEN` of rows of bronze.sightings: all but the frames, which are most of the bytes."""
    frames = sightings.column("frames")
    columns = [sightings.column(name) for name in REPEATED]
    columns += [frames.value_lengths(), pa.array(frame_bytes(frames))]
    return pa.RecordBatch.from_arrays(columns, schema=SEEN_SCHEMA)


def _by_name(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


# -- what stands within a message


def _extensions(lists: pa.Array) -> tuple[dict[str, pa.Array], list[int]]:
    """The fields of hopwire's extension frames, and the rows whose extension frame cannot be read."""
    found: dict[int, Extension] = {}
    bad: list[int] = []
    for row, frame in _flat(lists):
        if row not in found and frame.startswith(MAGIC):
            try:
                found[row] = read_extension(frame)
            except WireError:
                bad.append(row)
                found[row] = Extension()
    fields = {column.name: column.type for column in EXTENSION}
    if not found:
        return {name: pa.repeat(pa.scalar(EMPTY[kind], kind), len(lists)) for name, kind in fields.items()}, bad
    rows = np.fromiter(found, dtype=np.int64, count=len(found))
    return {
        name: _spread(rows, [getattr(each, name) for each in found.values()], kind, len(lists))
        for name, kind in fields.items()
    }, bad


EMPTY: dict[pa.DataType, Any] = {pa.binary(): b"", pa.string(): "", pa.int64(): 0}


def _spread(rows: Any, values: list[Any], kind: pa.DataType, size: int) -> pa.Array:
    """A column with the values at their rows, and empty values elsewhere."""
    places = np.full(size, len(values))
    places[rows] = np.arange(len(values))
    return pa.array([*values, EMPTY[kind]], kind).take(pa.array(places))


def _flat(lists: pa.Array) -> Iterable[tuple[int, bytes]]:
    counts = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    rows = np.repeat(np.arange(len(lists)), counts)
    return zip(rows.tolist(), lists.flatten().to_pylist(), strict=True) if len(rows) else ()


_READ_OUTCOME: Callable[[bytes], Outcome] = msgspec.msgpack.Decoder(Outcome).decode


def _outcomes(decoded: pa.RecordBatch) -> tuple[dict[str, pa.Array], list[int]]:
    """Kind and reason of outcomes, empty in other rows, and the rows of outcomes whose body cannot be read."""
    identities = decoded.column("identity")
    is_outcome = pc.is_in(identities, pa.array([OUTCOME, *KINO_OUTCOMES], pa.binary()))
    rows = np.flatnonzero(is_outcome.to_numpy(zero_copy_only=False))
    bad, kinds, reasons = [], [], []
    few = decoded.select(["identity", "body_frames"]).take(pa.array(rows))
    for row, identity, frames in zip(rows.tolist(), *(column.to_pylist() for column in few.columns), strict=True):
        kind, reason = KINO_OUTCOMES.get(identity) or _outcome(frames)
        kinds.append(kind)
        reasons.append(reason)
        if not kind:
            bad.append(row)
    words = {"outcome_kind": kinds, "outcome_reason": reasons}
    return {name: _spread(rows, values, pa.string(), len(decoded)) for name, values in words.items()}, bad


def _outcome(frames: list[bytes]) -> tuple[str, str]:
    try:
        outcome = _READ_OUTCOME(b"".join(frames))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return "", ""
    return outcome.kind, outcome.reason


def _findings(rows_by_kind: dict[str, list[int]], size: int) -> pa.Array:
    if not any(rows_by_kind.values()):
        return pa.ListArray.from_arrays(pa.array(np.zeros(size + 1, dtype=np.int32)), pa.array([], pa.string()))
    found: list[list[str]] = [[] for _ in range(size)]
    for kind, rows in rows_by_kind.items():
        for row in rows:
            found[row].append(kind)
    return pa.array(found, pa.list_(pa.string()))
