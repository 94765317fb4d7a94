"""Messages as columns: the Arrow schema that follows from the format tables, and the way between messages and batches.

A column has the name of its field and the widest type that any format has for it. The one field on which the formats
disagree in kind, the version, has two columns: `version` (V5, V6: a number) and `version_raw` (V3, V4: bytes); exactly
one of the two is set. A row that is no message has nulls in all columns but `reason`, `reason_frame`, `reason_byte`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.wire.formats import FORMATS
from hopwire.wire.schema import ENTRY_TYPES, Entry, Field, Packed, Run, Type, WireFormat

__all__ = ["RAW_SUFFIX", "SCHEMA", "batch_from_messages", "column_name", "messages_from_batch"]

RAW_SUFFIX = "_raw"
ARROW_TYPES = {
    Type.RAW: pa.binary(),
    Type.TEXT: pa.string(),
    Type.U16: pa.int32(),  # Spark has no unsigned numbers
    Type.I32: pa.int32(),
    Type.I64: pa.int64(),
}
FRAME_LISTS = ("body_frames", "extensions")
REASON_FIELDS = (
    pa.field("reason", pa.string()),
    pa.field("reason_frame", pa.int32()),
    pa.field("reason_byte", pa.int32()),
)


def _columns(name: str, rows: Iterable[Field | Entry]) -> list[pa.Field]:
    """The columns for one name, in the widest type of all formats; raw bytes beside numbers have a column apart."""
    types = {row.type for row in rows if row.name == name}
    numbers = [ARROW_TYPES[kind] for kind in types if kind.is_number]
    columns = [pa.field(name, max(numbers, key=lambda kind: kind.bit_width))] if numbers else []
    if Type.TEXT in types:
        columns.append(pa.field(name, ARROW_TYPES[Type.TEXT]))
    if Type.RAW in types:
        columns.append(pa.field(name + RAW_SUFFIX if numbers else name, ARROW_TYPES[Type.RAW]))
    return columns


def _schema() -> pa.Schema:
    fields = [row for fmt in FORMATS for row in fmt.fields]
    blocks = [row for fmt in FORMATS for row in fmt.rows if isinstance(row, Run | Packed)]
    columns = [pa.field("wire_format", pa.int8())]
    for name in Message.__struct_fields__:
        if name in FRAME_LISTS:
            columns.append(pa.field(name, pa.list_(pa.binary())))
        elif name in ENTRY_TYPES:
            entries = [entry for block in blocks if block.name == name for entry in block.entry]
            parts = [c for part in ENTRY_TYPES[name].__struct_fields__ for c in _columns(part, entries)]
            columns.append(pa.field(name, pa.list_(pa.struct(parts))))
        else:
            columns += _columns(name, fields)
    return pa.schema([*columns, *REASON_FIELDS])


SCHEMA: pa.Schema = _schema()
HAS_RAW_COLUMN = {name.removesuffix(RAW_SUFFIX) for name in SCHEMA.names if name.endswith(RAW_SUFFIX)}


def column_name(value: Field | Entry) -> str:
    """Give the column of a value in the table of a format: a raw version has a column of its own."""
    return value.name + RAW_SUFFIX if value.type is Type.RAW and value.name in HAS_RAW_COLUMN else value.name


def _version_columns(version: Any) -> dict[str, Any]:
    is_raw = isinstance(version, bytes)
    return {"version": None if is_raw else version, "version" + RAW_SUFFIX: version if is_raw else None}


def _row(fmt: WireFormat, message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(message, name) for name in Message.__struct_fields__}
    row.update(_version_columns(message.version), wire_format=fmt.number)
    row["routing"] = [{"uri": entry.uri, "identity": entry.identity} for entry in message.routing]
    row["callback_points"] = [
        {"identity": point.identity, **_version_columns(point.version), "partition": point.partition}
        for point in message.callback_points
    ]
    return row


def batch_from_messages(messages: Sequence[Message | WireError], formats: Sequence[WireFormat]) -> pa.RecordBatch:
    """Give messages, each with its format, as a batch; an error becomes a row with the reason."""
    rows = [
        {"reason": message.reason, "reason_frame": message.frame, "reason_byte": message.byte}
        if isinstance(message, WireError)
        else _row(fmt, message)
        for message, fmt in zip(messages, formats, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def messages_from_batch(batch: pa.RecordBatch) -> list[Message | None]:
    """Give the rows of a batch as messages; None where the row is no message."""
    names = [name for name in Message.__struct_fields__ if name not in (*ENTRY_TYPES, *FRAME_LISTS, "version")]
    return [None if row["reason"] is not None else _message(row, names) for row in batch.to_pylist()]


def _version(row: dict[str, Any]) -> Any:
    return row["version"] if row["version"] is not None else row["version" + RAW_SUFFIX]


def _message(row: dict[str, Any], names: list[str]) -> Message:
    plain: dict[str, Any] = {name: row[name] for name in names} | {name: tuple(row[name]) for name in FRAME_LISTS}
    return Message(
        version=_version(row),
        routing=tuple(RoutingEntry(**entry) for entry in row["routing"]),
        callback_points=tuple(
            CallbackPoint(p["identity"], _version(p), p["partition"]) for p in row["callback_points"]
        ),
        **plain,
    )
