"""The column of a table: its name, its type, and what it says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

__all__ = ["Column", "schema_from_columns"]


class Column(NamedTuple):
    """One column of a table, with the sentence that documents it."""

    name: str
    type: pa.DataType
    meaning: str


def schema_from_columns(columns: Iterable[Column]) -> pa.Schema:
    """Give the Arrow schema of these columns."""
    return pa.schema([pa.field(column.name, column.type) for column in columns])
