"""`bronze.forgotten`: what must not be taken in again, by hashes: no row says what or who it was.

A flow, a node or a source that was forgotten (`lake/forgetting.py`) may still be in captures. A run that reads such
captures knows it by these rows.

| kind | hash of | not taken in |
|---|---|---|
| `flow` | its correlation id | its messages, whenever they were seen |
| `message` | the key of a message without a correlation id | equal messages, between the two times |
| `node` | its identity | what the node saw, until the second time |

A source that was forgotten stays among the sources under a name that is a hash, see `forgotten_name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints, ints
from hopwire.lake.tables import Column, Table, declare
from hopwire.model.names import NO_CORRELATION

__all__ = ["FORGOTTEN", "FORGOTTEN_TABLE", "ForgottenNotes", "forgotten_name", "notes_of_messages", "notes_of_node"]

PERSON = b"forgotten"
FORGOTTEN = "forgotten-"  # so begin the names of sources that were forgotten
ANY_TIME = 2**62
FLOW, MESSAGE, NODE = "flow", "message", "node"

# fmt: off
FORGOTTEN_TABLE = declare(
    Table(
        "bronze.forgotten",
        key=("kind", "hash"),
        reads=(),
        columns=(
            Column("kind",             pa.string(), "flow, message or node"),
            Column("hash",             pa.int64(),  "a hash of what is not taken in again"),
            Column("first_seen_at_ns", pa.int64(),  "from when on, by the clocks of nodes"),
            Column("last_seen_at_ns",  pa.int64(),  "until when"),
        ),
        meaning="One flow or node that was forgotten and is not taken in again, as a hash.",
    )
)
# fmt: on


def _hash(kind: str, name: bytes) -> int:
    return int.from_bytes(blake2b(kind.encode() + b":" + name, digest_size=8, person=PERSON).digest(), signed=True)


def forgotten_name(segment: str) -> str:
    """Give the name that a source has after it was forgotten."""
    return f"{FORGOTTEN}{blake2b(segment.encode(), digest_size=8, person=PERSON).hexdigest()}"


def notes_of_messages(messages: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """Give rows for the flows of messages that were forgotten."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for table in messages:
        for (kind, name), at in zip(_names(table), ints(table["seen_at_ns"]).tolist(), strict=True):
            key = kind, _hash(kind, name)
            first, last = found.get(key, (at, at))
            found[key] = (-ANY_TIME, ANY_TIME) if kind == FLOW else (min(first, at), max(last, at))
    return [_row(kind, number, *times) for (kind, number), times in found.items()]


def notes_of_node(node: bytes, until_ns: int) -> list[dict[str, Any]]:
    """Give the row of a node that was forgotten."""
    return [_row(NODE, _hash(NODE, node), -ANY_TIME, until_ns)]


def _row(kind: str, number: int, first: int, last: int) -> dict[str, Any]:
    return {"kind": kind, "hash": number, "first_seen_at_ns": first, "last_seen_at_ns": last}


def _names(messages: Any) -> Iterator[tuple[str, bytes]]:
    flows, keys = messages["correlation_id"].to_pylist(), messages["message_key"].to_pylist()
    for flow, key in zip(flows, keys, strict=True):
        yield (MESSAGE, key) if flow in NO_CORRELATION else (FLOW, flow)


class ForgottenNotes(msgspec.Struct, frozen=True):
    """What is not taken in again, as workers get it."""

    times: dict[int, tuple[int, int]] = {}

    @classmethod
    def from_rows(cls, rows: pa.Table) -> ForgottenNotes:
        """Give the notes that rows are."""
        columns = (rows[name].to_pylist() for name in ("hash", "first_seen_at_ns", "last_seen_at_ns"))
        return cls({number: (first, last) for number, first, last in zip(*columns, strict=True)})

    def of_nodes(self, batch: pa.RecordBatch) -> Bools:
        """Tell which rows of a capture are of nodes that were forgotten, or about them."""
        at = ints(batch.column("seen_at_ns"))
        found = np.zeros(len(batch), dtype=np.bool_)
        for name in ("node", "peer") if self.times else ():
            for node in set(batch.column(name).to_pylist()):
                if times := self.times.get(_hash(NODE, node)):
                    is_it = np.fromiter((each == node for each in batch.column(name).to_pylist()), np.bool_, len(batch))
                    found |= is_it & (at <= times[1])
        return found

    def of_messages(self, messages: pa.RecordBatch) -> Bools:
        """Tell which messages are of flows that were forgotten."""
        if not self.times:
            return np.zeros(len(messages), dtype=np.bool_)
        at: Ints = ints(messages.column("seen_at_ns"))
        rows = {name: messages.column(name) for name in ("correlation_id", "message_key")}
        return np.fromiter(
            (self._has(_hash(kind, name), when) for (kind, name), when in zip(_names(rows), at.tolist(), strict=True)),
            np.bool_,
            len(messages),
        )

    def _has(self, number: int, at: int) -> bool:
        times = self.times.get(number)
        return times is not None and times[0] <= at <= times[1]
