"""Arrow types as text and back: the manifest names the columns of its tables in words."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hopwire.errors import LakeError

__all__ = ["schema_from_text", "type_from_text"]


def schema_from_text(columns: Mapping[str, str]) -> pa.Schema:
    """Give the schema that the columns make."""
    return pa.schema([pa.field(name, type_from_text(text)) for name, text in columns.items()])


def type_from_text(text: str) -> pa.DataType:
    """Give the Arrow type of a text such as `list<item: struct<kind: string, node: binary>>`."""
    if text.startswith("list<") and text.endswith(">"):
        name, _, rest = text[5:-1].partition(": ")
        return pa.list_(pa.field(name, type_from_text(rest)))
    if text.startswith("struct<") and text.endswith(">"):
        fields = (part.partition(": ") for part in _parts(text[7:-1]))
        return pa.struct([pa.field(name, type_from_text(rest)) for name, _, rest in fields])
    if text.startswith("timestamp["):
        unit, _, zone = text[10:-1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise LakeError(f"the manifest has a column of type {text!r:.80}, which this hopwire does not know") from None


def _parts(text: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "<[") - (letter in ">]")
        if letter == "," and not depth:
            parts.append(text[begin:place])
            begin = place + 2
    return [*parts, text[begin:]]
