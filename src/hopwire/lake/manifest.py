"""The manifest of a lake: which files its tables are made of, and which sources these files came from.

The manifest is one JSON file. A file that the manifest does not name is not in the lake, whatever lies in the
directories. So all tables change at once, when the manifest is replaced.

- `basis` of a table is a hash over all that its rows depend on: sources, settings, columns, the version of the code. A
  table that has the expected basis need not be built. A table is stale if a table that it was made from has another
  basis by now.
- `path` and `head` of a source tell whether a file is that source or only has its name (`catalog.py`).
- The format is raised when an older hopwire could not read the lake any more. There is no migration: the captures or
  bronze.sightings have everything that is needed to build the lake anew.
- A table may get another name (`RENAMED`). The lake of an older hopwire is read as if its table had the new name; the
  files stay below the directory of the old name until a build makes the table anew.
- Whoever can write to a lake can write its manifest. So a path is taken only if it leads to a Parquet file below the
  directory of its table (`check_path`). The rest of a manifest may be wrong, and harms nobody but its reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from hopwire.errors import LakeError

__all__ = [
    "FORMAT",
    "Manifest",
    "StoredFile",
    "StoredSource",
    "StoredTable",
    "check_manifest",
    "check_path",
    "hash_of",
    "stale_tables",
    "with_new_names",
]

FORMAT = 1
TABLE = re.compile(r"(bronze|silver|gold)\.[a-z0-9_]+", re.ASCII)
PLACE = re.compile(r"(bronze|silver|gold)/[a-z0-9_]+/", re.ASCII)
SUFFIX = ".parquet"
RENAMED = {"gold.clocks": "silver.clocks"}  # the name that a table had in older lakes: the name that it has now


class StoredFile(msgspec.Struct, frozen=True):
    """One Parquet file of a table; `source` names the source of its rows, where all rows are of one source."""

    path: str  # from the directory of the lake
    row_count: int
    size_bytes: int
    source: str = ""


class StoredTable(msgspec.Struct, frozen=True):
    """One table."""

    basis: str
    columns: dict[str, str]  # name: Arrow type in words, for people and for an older hopwire
    files: tuple[StoredFile, ...] = ()
    made_from: dict[str, str] = {}  # name of a table: the basis that the table had
    schema: str = ""  # the columns as Arrow serializes a schema, in base64; empty if an older hopwire wrote the table

    @property
    def row_count(self) -> int:
        """How many rows the table has."""
        return sum(file.row_count for file in self.files)

    @property
    def size_bytes(self) -> int:
        """How many bytes the files of the table have."""
        return sum(file.size_bytes for file in self.files)


class StoredSource(msgspec.Struct, frozen=True):
    """One file of captures that was read."""

    size_bytes: int
    fingerprint: str
    row_count: int = 0  # of bronze.sightings: messages, other frames, and places where sightings are missing
    skipped_rows: int = 0
    skipped: int = 0  # sightings that are missing, by the account of those rows
    is_open: bool = False
    faults: tuple[str, ...] = ()
    path: str = ""  # where the file lay; empty if an older hopwire has read it
    head: str = ""  # hash over its first bytes
    is_bad: bool = False  # the file could not be read, or not in full: someone should look at it


class Manifest(msgspec.Struct, frozen=True):
    """The whole lake."""

    format: int = FORMAT
    decoder: str = ""  # a hash of all that decides how a row comes out
    tables: dict[str, StoredTable] = {}
    sources: dict[str, StoredSource] = {}
    domains: tuple[str, ...] = ()  # names of the domains by which signatures were judged

    def to_json(self) -> bytes:
        """Give the manifest as it is written."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def check_path(path: str, table: str = "") -> None:
    """Refuse a path that does not lead to a Parquet file of the table; without a table, of any table of the lake."""
    names = (table, *(old for old, new in RENAMED.items() if new == table)) if table else ()
    places = tuple(f"{name.replace('.', '/')}/" for name in names)
    parts = path.split("/")
    is_inside = path.startswith(places) if table else PLACE.match(path)
    is_plain = all(part not in ("", ".", "..") for part in parts) and not set(path) & FOREIGN
    if not (is_inside and is_plain and path.endswith(SUFFIX)):
        raise LakeError(
            f"found {path!r:.200}, expected the path of a Parquet file within {next(iter(places), 'a table')}"
        )


FOREIGN = {"\0", "\\", ":"}  # a backslash and a colon are something else on Windows; no run writes them


def check_manifest(manifest: Manifest) -> None:
    """Refuse a manifest that no run can have written: paths that lead elsewhere, tables that cannot be."""
    for name, table in manifest.tables.items():
        if not TABLE.fullmatch(name):
            raise LakeError(f"found the table {name!r:.80}, expected a name such as gold.flows")
        for source in table.made_from:
            if source not in manifest.tables:
                raise LakeError(f"found {name} made from {source!r:.80}, which is not there")
        for file in table.files:
            check_path(file.path, name)


def with_new_names(manifest: Manifest) -> Manifest:
    """Give the manifest with the names that its tables have now."""
    tables = {RENAMED.get(name, name): _with_new_names(table) for name, table in manifest.tables.items()}
    return msgspec.structs.replace(manifest, tables=tables)


def _with_new_names(table: StoredTable) -> StoredTable:
    made_from = {RENAMED.get(name, name): basis for name, basis in table.made_from.items()}
    return msgspec.structs.replace(table, made_from=made_from)


def stale_tables(manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """Give the tables that are older than a table they were made from, by however many steps, with these tables."""
    found = {name: tuple(dict.fromkeys(_newer(name, manifest.tables, set()))) for name in manifest.tables}
    return {name: newer for name, newer in found.items() if newer}


def _newer(name: str, tables: dict[str, StoredTable], seen: set[str]) -> Iterator[str]:
    for source, basis in tables[name].made_from.items():
        if tables[source].basis != basis:
            yield source
        elif source not in seen:  # a table that is made from itself, over however many others, would never end
            seen.add(source)
            yield from _newer(source, tables, seen)


def hash_of(*values: Any) -> str:
    """Give a hash that changes with any of the values."""
    return blake2b(msgspec.json.encode(values, order="sorted"), digest_size=16).hexdigest()
