"""What a lake says of itself: which files its tables are made of, and which sources they came from.

The manifest is one JSON file. What it does not name is not in the lake, whatever lies in the directories: so tables
change all at once, by the replacement of this file.

- `basis` of a table is a hash over all that its rows depend on: sources, settings, columns, the version of the code. A
  table whose basis is the one that is expected need not be built. One that was made from tables that have another
  basis by now is stale.
- `path` and `head` of a source tell whether a file is that source or only has its name (`catalog.py`).
- The format is raised when an older hopwire could not read the lake any more. There is no migration: the captures or
  bronze.sightings have everything that is needed to build it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

__all__ = ["FORMAT", "Manifest", "StoredFile", "StoredSource", "StoredTable", "hash_of", "stale_tables"]

FORMAT = 1


class StoredFile(msgspec.Struct, frozen=True):
    """One Parquet file of a table; `source` is the one it was read from, if it was one."""

    path: str  # from the directory of the lake
    row_count: int
    size_bytes: int
    source: str = ""


class StoredTable(msgspec.Struct, frozen=True):
    """One table."""

    basis: str
    columns: dict[str, str]  # name: Arrow type
    files: tuple[StoredFile, ...] = ()
    made_from: dict[str, str] = {}  # name: basis that it had

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """How large its files are."""
        return sum(file.size_bytes for file in self.files)


class StoredSource(msgspec.Struct, frozen=True):
    """One file of captures that was read."""

    size_bytes: int
    fingerprint: str
    row_count: int = 0  # as read: messages, what is none, and the places where sightings are missing
    skipped_rows: int = 0
    skipped: int = 0  # sightings that are missing, by the account of those rows
    is_open: bool = False
    faults: tuple[str, ...] = ()
    path: str = ""  # where it lay; empty if an older hopwire has read it
    head: str = ""  # hash over its first bytes


class Manifest(msgspec.Struct, frozen=True):
    """The whole lake."""

    format: int = FORMAT
    decoder: str = ""  # a hash of what decides how a row comes out
    tables: dict[str, StoredTable] = {}
    sources: dict[str, StoredSource] = {}
    domains: tuple[str, ...] = ()  # names of those by which signatures were judged

    def to_json(self) -> bytes:
        """Give it as it is written."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def stale_tables(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Give the tables that are older than what they were made from, by however many steps, and what that is."""
    found = {name: tuple(dict.fromkeys(_newer(name, manifest.tables))) for name in manifest.tables}
    return {name: newer for name, newer in found.items() if newer}


def _newer(name: str, tables: dict[str, StoredTable]) -> Iterator[str]:
    for source, basis in tables[name].made_from.items():
        if tables[source].basis != basis:
            yield source
        else:
            yield from _newer(source, tables)


def hash_of(*values: Any) -> str:
    """Give a hash that changes with any of the values."""
    return blake2b(msgspec.json.encode(values, order="sorted"), digest_size=16).hexdigest()
