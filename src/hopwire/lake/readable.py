"""Columns for people: times as timestamps, identities as text, nodes by their names, and the day of a row.

The tables of `flows/` and of the decoder have nanoseconds and bytes, which are exact and quick to join. People, and
every engine that opens a table, get readable columns beside them. `DERIVED` is the whole rule: a table that has the
column on the left also has the column on the right. The columns are made where the rows are written, and are real
columns of the files: any engine reads them, and their least and largest values find files.

| kind | from | to |
|---|---|---|
| `TIME` | nanoseconds since 1970 | a timestamp in UTC, in microseconds: what is finer is cut off |
| `TEXT` | bytes | the bytes as text if they are printable UTF-8, else `0x` and hex |
| `NAME` | the identity of a node | the name of the node, or its identity as text if it has no name |
| `HEX` | bytes | hex |

A table that has identities, one in each row, also says of each whether nodes use it among themselves (`is_control`).

The column `date` is the day of the first time of a row that is there, in UTC, where a declaration says `dated_by`. Its
least and largest value in each file find the files of a day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import binary_from_bounds, one_array
from hopwire.flows.groups import is_control
from hopwire.model.columns import Column
from hopwire.model.units import NS_PER_DAY, NS_PER_US
from hopwire.report.words import node_label, text_or_hex

__all__ = ["DATE_COLUMN", "DERIVED", "TIMESTAMP", "Names", "readable_batch", "readable_columns", "times_of"]

Names: TypeAlias = Mapping[bytes, str]  # of nodes
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIME, TEXT, NAME, HEX = "time", "text", "name", "hex"
HEX_LETTERS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)  # of each byte


class _Derived(NamedTuple):
    name: str
    kind: str


# fmt: off
DERIVED = {
    # column             readable column                           kind
    "seen_at_ns":        _Derived("seen_at",                       TIME),
    "sent_at_ns":        _Derived("sent_at",                       TIME),
    "left_at_ns":        _Derived("left_at",                       TIME),
    "arrived_at_ns":     _Derived("arrived_at",                    TIME),
    "asked_at_ns":       _Derived("asked_at",                      TIME),
    "answered_at_ns":    _Derived("answered_at",                   TIME),
    "deadline_ns":       _Derived("deadline_at",                   TIME),
    "started_at_ns":     _Derived("started_at",                    TIME),
    "ended_at_ns":       _Derived("ended_at",                      TIME),
    "began_at_ns":       _Derived("began_at",                      TIME),
    "back_at_ns":        _Derived("back_at",                       TIME),
    "told_at_ns":        _Derived("told_at",                       TIME),
    "open_until_ns":     _Derived("open_until",                    TIME),
    "first_seen_at_ns":  _Derived("first_seen_at",                 TIME),
    "last_seen_at_ns":   _Derived("last_seen_at",                  TIME),
    "flow_id":           _Derived("flow",                          TEXT),
    "correlation_id":    _Derived("correlation",                   TEXT),
    "message_key":       _Derived("message",                       HEX),
    "identity":          _Derived("contract",                      TEXT),
    "answer_identity":   _Derived("answer_contract",               TEXT),
    "identities":        _Derived("contract_names",                TEXT),
    "contracts":         _Derived("contract_names",                TEXT),
    "from_node":         _Derived("from_name",                     NAME),
    "to_node":           _Derived("to_name",                       NAME),
    "home_node":         _Derived("home_name",                     NAME),
    "lost_from_node":    _Derived("lost_from_name",                NAME),
    "lost_to_node":      _Derived("lost_to_name",                  NAME),
    "reached_node":      _Derived("reached_name",                  NAME),
    "last_seen_node":    _Derived("last_seen_name",                NAME),
    "reference_node":    _Derived("reference_name",                NAME),
    "back_as_node":      _Derived("back_as_name",                  NAME),
    "via_node":          _Derived("via_name",                      NAME),
    "route_node":        _Derived("route_name",                    NAME),
    "sender":            _Derived("sender_name",                   NAME),
    "nodes":             _Derived("node_names",                    NAME),
    "receivers":         _Derived("receiver_names",                NAME),
}
DATE_COLUMN = Column("date", pa.date32(), "the day, in UTC: finds the files of a day")
CONTROL = Column("is_control", pa.bool_(), "whether nodes say it among themselves: greetings, signs of life, routes")
# fmt: on
MEANINGS = {TIME: "as a timestamp in UTC", TEXT: "as text, or as hex", NAME: "by its name", HEX: "as hex"}


@cache
def readable_columns(columns: tuple[Column, ...], dated_by: tuple[str, ...] = ()) -> tuple[Column, ...]:
    """Give the columns as they are stored: the day first, and each readable column in front of the one it repeats."""
    stored = [DATE_COLUMN] if dated_by else []
    for column in columns:
        if made := _derived(column):
            stored.append(Column(made.name, _type_of(column, made.kind), f"`{column.name}` {MEANINGS[made.kind]}"))
        stored.append(column)
        if column.name == "identity" and all(each.name != CONTROL.name for each in columns):
            stored.append(CONTROL)
    return tuple(stored)


def _derived(column: Column) -> _Derived | None:
    made = DERIVED.get(column.name)
    if made is None or (made.kind != TIME and not _has_bytes(column.type)):
        return None  # such as the senders of gold.contracts, which are names already
    return made


def _has_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind.value_type if pa.types.is_list(kind) else kind))


def _type_of(column: Column, kind: str) -> pa.DataType:
    if kind == TIME:
        return TIMESTAMP
    return pa.list_(pa.string()) if pa.types.is_list(column.type) else pa.string()


def readable_batch(batch: pa.RecordBatch, schema: pa.Schema, dated_by: Sequence[str], names: Names) -> pa.RecordBatch:
    """Give rows as they are stored: with their readable columns, in the order of the schema."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    made = {DERIVED[name].name: name for name in batch.schema.names if name in DERIVED}
    columns = []
    for field in schema:
        if field.name in found:
            columns.append(found[field.name])
        elif field.name == DATE_COLUMN.name:
            columns.append(_days(times_of(batch, dated_by)))
        elif field.name == CONTROL.name:
            columns.append(pc.fill_null(is_control(found["identity"]), False))
        else:
            source = made[field.name]
            columns.append(_readable(found[source], DERIVED[source].kind, names))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _readable(column: pa.Array, kind: str, names: Names) -> pa.Array:
    if kind == TIME:
        return _timestamps(column)
    words: dict[str, Callable[[bytes], str]] = {
        TEXT: text_or_hex,
        NAME: lambda node: node_label(node, names.get(node, "")) if node else "",
        HEX: bytes.hex,
    }
    if kind == TEXT and not pa.types.is_list(column.type) and _is_plain(column):
        return column.cast(pa.string())
    if kind == HEX and pa.types.is_binary(column.type) and not column.null_count:
        return _hex(column)
    if pa.types.is_list(column.type):
        flat = _worded(column.values, words[kind])
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, flat, mask=mask)
    return _worded(column, words[kind])


def _hex(column: pa.Array) -> pa.Array:
    """Hex of bytes that are all different, as the keys of messages are: two letters for each byte."""
    offsets, data = column.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1].astype(np.int64)
    letters = HEX_LETTERS[np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]]
    return binary_from_bounds((bounds - bounds[0]) * 2, letters).cast(pa.string())


def _is_plain(column: pa.Array) -> bool:
    """Whether all bytes are letters, digits and signs of ASCII: then the bytes are the text, as nearly always."""
    offsets, data = column.buffers()[1:]
    if not len(column) or data is None:
        return True
    bounds = np.frombuffer(offsets, np.int32)
    letters = np.frombuffer(data, np.uint8)[bounds[column.offset] : bounds[column.offset + len(column)]]
    return bool(((letters > ord(" ")) & (letters <= ord("~"))).all())


def _worded(column: pa.Array, word: Callable[[bytes], str]) -> pa.Array:
    """A column of bytes in words: each value that is there is put into words once."""
    coded = pc.dictionary_encode(one_array(column))
    words = pa.array([word(each) for each in coded.dictionary.to_pylist()], pa.string())
    return words.take(coded.indices)


def _timestamps(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column
    whole = np.floor_divide(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), NS_PER_US)
    return pa.array(whole, mask=_nulls(column)).cast(pa.timestamp("us")).cast(TIMESTAMP)


def times_of(batch: pa.RecordBatch, dated_by: Sequence[str]) -> pa.Array:
    """Give the first time of each row that is there, in nanoseconds since 1970."""
    times = [batch.column(name) for name in dated_by]
    return pc.coalesce(*(pc.multiply(each.cast(pa.int64()), 1_000) if _is_us(each) else each for each in times))


def _days(column: pa.Array) -> pa.Array:
    """The days of times in nanoseconds."""
    days = np.floor_divide(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), NS_PER_DAY)
    return pa.array(days.astype(np.int32), mask=_nulls(column)).cast(pa.date32())


def _is_us(column: pa.Array) -> bool:
    return bool(pa.types.is_timestamp(column.type))


def _nulls(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
