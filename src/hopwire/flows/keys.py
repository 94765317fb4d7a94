"""The key of a message: the same wherever the message is seen, and different for every other message.

A message of hopwire names itself: its key is the hash of the message id. Every other message is known by a fingerprint,
a hash over the parts that no router changes. The fingerprint leaves out hops, routing, time to live, callback points,
domain, signature, socket identity, extensions and trace options: routers write these parts anew, drop them, or read
them in another order.

The hash takes the sizes of all parts first, then the parts. So no byte can move from one part to the next unseen.

A node that writes a capture needs the key of one message (`message_key`); a test holds that both ways agree.

The trap: two messages that say the same to the same receiver in the same flow have the same fingerprint. A beat that is
sent at 10 s and 11 s has one key. Matching counts such messages, and does not tell them apart.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import binary_from_bounds, binary_from_rows, bools, one_array
from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.wire.extension import extension_of

__all__ = ["KEY_BYTES", "KEY_TYPE", "message_key", "message_keys"]

KEY_BYTES = 16
KEY_TYPE = pa.binary()  # Spark has no binary of fixed size
BLOBS = (
    "identity",
    "version_raw",
    "partition",
    "correlation_id",
    "callback_receiver_identity",
    "callback_receiver_node_identity",
    "receiver_identity",
    "receiver_node_identity",
)
NUMBERS = ("callback_key", "version", "distribution")
HEAD = np.dtype([("callback_key", "<i8"), *((name, "<i4") for name in (*NUMBERS[1:], "body_frames", *BLOBS))])
SEPARATOR = pa.scalar(b"", pa.large_binary())
RAW_VERSION = -1  # beside a version in bytes; a number on the wire is never negative
TOGETHER = 512  # blobs that become bytes of Python at a time: these stay near the processor until they are hashed
_ID_HASH = blake2b(digest_size=KEY_BYTES, person=b"message id")
_FINGERPRINT = blake2b(digest_size=KEY_BYTES, person=b"fingerprint")


def message_keys(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """Give the key of each message, null where the row is no message; the column `message_id` may be missing."""
    columns = {name: one_array(batch[name]) for name in (*BLOBS, *NUMBERS, "body_frames")}
    is_message = bools(pc.is_valid(columns["identity"]))
    has_id = np.zeros(len(batch), dtype=np.bool_)
    keys = np.zeros((len(batch), KEY_BYTES), dtype=np.uint8)
    if "message_id" in batch.schema.names:
        ids = one_array(batch["message_id"])
        has_id = bools(pc.fill_null(pc.greater(pc.binary_length(ids), 0), False)) & is_message
        keys[has_id] = _hashes(_ID_HASH, ids.filter(pa.array(has_id)))
    has_none = is_message & ~has_id
    if has_none.any():
        mask = None if has_none.all() else pa.array(has_none)
        rows = {name: array if mask is None else array.filter(mask) for name, array in columns.items()}
        keys[has_none] = _hashes(_FINGERPRINT, _joined(rows))
    valid = None if is_message.all() else pa.py_buffer(np.packbits(is_message, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(batch), [valid, pa.py_buffer(keys)]).cast(KEY_TYPE)


def message_key(message: Message) -> bytes:
    """Give the key of one message of V5 or V6, which is what nodes write; V3 and V4 have fewer parts."""
    try:
        message_id = extension_of(message).message_id
    except WireError:
        message_id = b""
    digest = (_ID_HASH if message_id else _FINGERPRINT).copy()
    digest.update(message_id or _fingerprinted(message))
    return digest.digest()


def _fingerprinted(message: Message) -> bytes:
    blobs = [getattr(message, name, b"") for name in BLOBS]  # a version that is a number has no raw bytes
    frames = message.body_frames
    numbers = message.callback_key, message.version, int(message.distribution), len(frames)
    head = struct.pack(f"<q{len(HEAD.names or ()) - 1}i", *numbers, *map(len, blobs))
    return b"".join((head, *(struct.pack("<i", len(frame)) for frame in frames), *blobs, *frames))


def _hashes(empty: Any, blobs: pa.Array) -> np.ndarray[Any, Any]:
    digests: list[bytes] = []
    fresh, keep = empty.copy, digests.append
    for start in range(0, len(blobs), TOGETHER):
        for blob in blobs.slice(start, TOGETHER).to_pylist():
            digest = fresh()
            digest.update(blob)
            keep(digest.digest())
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, KEY_BYTES)


def _joined(rows: dict[str, pa.Array]) -> pa.Array:
    """Give everything that is hashed of each row as one blob: sizes and numbers, then the bytes that these measure."""
    blobs = [pc.fill_null(rows[name], b"") for name in BLOBS]
    frames = rows["body_frames"]
    numbers = [pc.fill_null(rows[name], RAW_VERSION) for name in NUMBERS]
    measures = [*numbers, pc.list_value_length(frames), *map(pc.binary_length, blobs)]
    head = np.empty(len(frames), dtype=HEAD)
    for name, measure in zip(HEAD.names or (), measures, strict=True):
        head[name] = measure.to_numpy(zero_copy_only=False)
    parts = [binary_from_rows(head), _frame_sizes(frames), *blobs, pc.binary_join(frames, b"")]
    return pc.binary_join_element_wise(*[part.cast(pa.large_binary()) for part in parts], SEPARATOR)


def _frame_sizes(frames: pa.Array) -> pa.Array:
    """Give the sizes of the frames of each row, as bytes."""
    sizes = pc.binary_length(frames.values).to_numpy(zero_copy_only=False).astype("<i4")
    return binary_from_bounds(frames.offsets.to_numpy(zero_copy_only=False).astype(np.int64) * sizes.itemsize, sizes)
