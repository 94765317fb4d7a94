"""From a batch of a capture to rows of three tables: what is a message, what is none, and everything as it was.

Each row of a capture goes one way: into `silver.messages`, into `silver.quarantine`, or it is one of those that say how
many sightings are missing. All of them are in `bronze.sightings`.

It is all here that depends on one row alone: the decoder, the verdict on the signature, the key of the message, what
hopwire's extension frame says and what an outcome says. What depends on others (hops, replays, flows) comes later.

The trap: raise DECODER whenever a row would come out otherwise than before, or lakes keep what the old code made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture import SCHEMA as CAPTURE
from hopwire.capture import Direction
from hopwire.errors import WireError
from hopwire.flows.keys import message_keys
from hopwire.model.names import KINO_EXCEPTION, KINO_RECEIPT, OUTCOME
from hopwire.model.outcome import Outcome
from hopwire.security import Domains
from hopwire.security.batch_verdicts import verify_batch
from hopwire.wire import SCHEMA as WIRE
from hopwire.wire import decode_batch
from hopwire.wire.extension import MAGIC, Extension, read_extension

__all__ = ["DECODER", "MESSAGES", "QUARANTINE", "SIGHTINGS", "Split", "split_batch"]

DECODER = 1

REASONS = ("reason", "reason_frame", "reason_byte")
KINO_OUTCOMES = {KINO_EXCEPTION: ("failed", "exception"), KINO_RECEIPT: ("received", "")}
RENAMED = {"reason": "dead_reason", "note": "dead_note"}  # of a sighting, where the message has reasons of its own

_SEEN = [pa.field(RENAMED.get(each.name, each.name), each.type) for each in CAPTURE if each.name != "skipped"]
_SEEN = [pa.field("segment", pa.string()), *(each for each in _SEEN if each.name != "frames")]
_SIZES = [pa.field("frame_count", pa.int32()), pa.field("size_bytes", pa.int64())]
_EXTENSION = [
    pa.field("message_id", pa.binary()),
    pa.field("attempt", pa.int64()),
    pa.field("sent_at_ns", pa.int64()),
    pa.field("traceparent", pa.string()),
]
_JUDGED = [
    pa.field("message_key", pa.binary()),
    pa.field("verdict", pa.string()),
    pa.field("outcome_kind", pa.string()),
    pa.field("outcome_reason", pa.string()),
    pa.field("findings", pa.list_(pa.string())),
]

SIGHTINGS: pa.Schema = pa.schema([pa.field("segment", pa.string()), *CAPTURE])
MESSAGES: pa.Schema = pa.schema(
    [*_SEEN, *_SIZES, *(each for each in WIRE if each.name not in REASONS), *_EXTENSION, *_JUDGED]
)
QUARANTINE: pa.Schema = pa.schema(
    [*_SEEN, *_SIZES, *(WIRE.field(name) for name in REASONS), CAPTURE.field("frames"), pa.field("decoder", pa.int32())]
)


class Split(NamedTuple):
    """The rows of one batch of a capture, as rows of tables, and how many stand for sightings that are missing."""

    sightings: pa.RecordBatch
    messages: pa.RecordBatch
    quarantine: pa.RecordBatch
    skipped_rows: int
    skipped: int


def split_batch(batch: pa.RecordBatch, segment: str, domains: Domains) -> Split:
    """Decode a batch of a capture and judge its messages."""
    named = pa.repeat(pa.scalar(segment), len(batch))
    sightings = pa.RecordBatch.from_arrays([named, *(batch.column(name) for name in CAPTURE.names)], schema=SIGHTINGS)
    is_skipped = pc.equal(sightings.column("direction"), Direction.SKIPPED)
    seen = _where(sightings, pc.invert(is_skipped))
    decoded = decode_batch(seen.column("frames"))
    is_message = decoded.column("reason").is_null()
    is_none = pc.invert(is_message)
    return Split(
        sightings,
        _messages(_where(seen, is_message), _where(decoded, is_message), domains),
        _quarantine(_where(seen, is_none), _where(decoded, is_none)),
        len(sightings) - len(seen),
        pc.sum(batch.column("skipped")).as_py() or 0,
    )


def _where(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    return batch if mask.true_count == len(batch) else batch.filter(mask)


def _messages(seen: pa.RecordBatch, decoded: pa.RecordBatch, domains: Domains) -> pa.RecordBatch:
    extensions, is_bad_extension = _extensions(decoded.column("extensions"))
    columns = _seen_columns(seen) | dict(zip(WIRE.names, decoded.columns, strict=True)) | extensions
    named = decoded.append_column("message_id", extensions["message_id"])
    outcomes, is_bad_outcome = _outcomes(decoded)
    columns["message_key"] = message_keys(named).cast(pa.binary())
    columns["verdict"] = verify_batch(decoded, domains, seen.column("seen_at_ns"))
    columns["findings"] = _findings({"bad_extension": is_bad_extension, "bad_outcome": is_bad_outcome}, len(seen))
    columns |= outcomes
    return pa.RecordBatch.from_arrays([columns[name] for name in MESSAGES.names], schema=MESSAGES)


def _quarantine(seen: pa.RecordBatch, decoded: pa.RecordBatch) -> pa.RecordBatch:
    columns = _seen_columns(seen) | {name: decoded.column(name) for name in REASONS}
    columns["frames"] = seen.column("frames")
    columns["decoder"] = pa.repeat(pa.scalar(DECODER, pa.int32()), len(seen))
    return pa.RecordBatch.from_arrays([columns[name] for name in QUARANTINE.names], schema=QUARANTINE)


def _seen_columns(seen: pa.RecordBatch) -> dict[str, pa.Array]:
    columns = {RENAMED.get(name, name): seen.column(name) for name in seen.schema.names if name != "frames"}
    frames = seen.column("frames")
    bounds = frames.offsets.to_numpy(zero_copy_only=False)
    sizes = pc.binary_length(frames.values).to_numpy(zero_copy_only=False)
    sums = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    columns["frame_count"] = pa.array(np.diff(bounds), pa.int32())
    columns["size_bytes"] = pa.array(sums[bounds[1:]] - sums[bounds[:-1]])
    return columns


# -- what stands within a message


def _extensions(lists: pa.Array) -> tuple[dict[str, pa.Array], list[int]]:
    """What hopwire's extension frames say, and the rows whose frame cannot be read."""
    found: dict[int, Extension] = {}
    bad: list[int] = []
    for row, frame in _flat(lists):
        if row not in found and frame.startswith(MAGIC):
            try:
                found[row] = read_extension(frame)
            except WireError:
                bad.append(row)
                found[row] = Extension()
    fields = {each.name: each.type for each in _EXTENSION}
    if not found:
        return {name: pa.repeat(pa.scalar(EMPTY[kind], kind), len(lists)) for name, kind in fields.items()}, bad
    rows = np.fromiter(found, dtype=np.int64, count=len(found))
    return {
        name: _spread(rows, [getattr(each, name) for each in found.values()], kind, len(lists))
        for name, kind in fields.items()
    }, bad


EMPTY: dict[pa.DataType, Any] = {pa.binary(): b"", pa.string(): "", pa.int64(): 0}


def _spread(rows: Any, values: list[Any], kind: pa.DataType, size: int) -> pa.Array:
    """A column with the values at their rows, and what is empty elsewhere."""
    places = np.full(size, len(values))
    places[rows] = np.arange(len(values))
    return pa.array([*values, EMPTY[kind]], kind).take(pa.array(places))


def _flat(lists: pa.Array) -> Iterable[tuple[int, bytes]]:
    counts = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    rows = np.repeat(np.arange(len(lists)), counts)
    return zip(rows.tolist(), lists.flatten().to_pylist(), strict=True) if len(rows) else ()


_READ_OUTCOME: Callable[[bytes], Outcome] = msgspec.msgpack.Decoder(Outcome).decode


def _outcomes(decoded: pa.RecordBatch) -> tuple[dict[str, pa.Array], list[int]]:
    """What became of a message, where the row is about that, and the rows whose body cannot be read."""
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
