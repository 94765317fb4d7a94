"""The manifest of a lake: one version of each of its tables, and the sources that their rows came from.

A manifest is one JSON file with a number. The manifest with the highest number is the lake as it is; the others are the
lake as it was. Each table is a Delta table (`delta_log.py`), and changes by itself. A manifest says which versions of
all tables belong together.

- `basis` of a table is a hash over all that its rows depend on: sources, settings, columns, the version of the code. A
  table that has the expected basis need not be built. A table is stale if a table that it was made from has another
  basis by now.
- `parts` of a source are the files that have its rows: a file of the part `p` is called `p.parquet`, in every table
  that the ingest writes. Small sources share a part.
- `path` and `head` of a source tell whether a file is that source or only has its name (`catalog.py`).
- `position` of a source says where a segment that has grown is read on.
- The format is raised when an older hopwire could not read the lake any more. There is no migration: the captures or
  bronze.sightings have everything that is needed to build the lake anew.
- Whoever can write to a lake can write its manifest. So a table is taken only if its name is one (`check_manifest`).
  The rest of a manifest may be wrong, and harms nobody but its reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any
from uuid import uuid4

import msgspec

from hopwire.errors import LakeError

__all__ = [
    "EDGE_BYTES",
    "FORMAT",
    "RULES",
    "WRITTEN",
    "Manifest",
    "StoredFile",
    "StoredRemoval",
    "StoredSource",
    "StoredStep",
    "StoredTable",
    "check_manifest",
    "check_path",
    "hash_of",
    "hash_of_bytes",
    "part_name",
    "stale_tables",
]

FORMAT = 2
RULES = 5  # raise RULES when a table would come out otherwise than before, or lakes keep what the old code made
EDGE_BYTES = 64 * 1024  # two segments differ in their first rows or in their last rows
TABLE = re.compile(r"(bronze|silver|gold)\.[a-z0-9_]+", re.ASCII)
PATH = re.compile(r"(?:date=\w[\w-]*/)?[\w.-]+\.parquet", re.ASCII)  # an older hopwire wrote a directory for each day

WRITTEN = re.compile(r"[0-9a-f]{12}-\d{5}-[0-9a-f]{8}(\.\d+)?\.parquet", re.ASCII)  # the names that runs give


class StoredFile(msgspec.Struct, frozen=True):
    """One Parquet file of a table."""

    path: str  # from the directory of the table
    row_count: int
    size_bytes: int
    statistics: str = "{}"  # of a file that is new: least and largest values, as Delta writes them

    @property
    def part(self) -> str:
        """The name of the file without its directory and its ending."""
        return self.path.rpartition("/")[2].partition(".")[0]


class StoredStep(msgspec.Struct, frozen=True):
    """What the next step must know of a table that was made step by step."""

    name: str  # of the run; tables that belong together have the same
    open_part: str = ""  # the files with the rows of open flows, which the next step replaces
    open_rows: int = 0  # how many rows these files have


class StoredTable(msgspec.Struct, frozen=True):
    """One table: a version of its Delta log, and what is known of that version."""

    version: int
    basis: str
    schema: str  # the columns as Arrow serializes a schema, in base64
    row_count: int = 0
    size_bytes: int = 0
    file_count: int = 0
    made_from: dict[str, str] = {}  # name of a table: the basis that the table had
    step: StoredStep | None = None  # None: the table was made whole


class StoredSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of captures that was read; most values of most sources are those below, and are not written."""

    size_bytes: int
    fingerprint: str
    row_count: int = 0  # of bronze.sightings: messages, other frames, and places where sightings are missing
    skipped_rows: int = 0
    skipped: int = 0  # sightings that are missing, by the account of those rows
    is_open: bool = False
    faults: tuple[str, ...] = ()
    path: str = ""  # where the file lay
    head: str = ""  # hash over its first bytes: up to its position, if it has one
    is_bad: bool = False  # the file could not be read, or not in full: someone should look at it
    parts: tuple[str, ...] = ()  # the files that have its rows
    position: int = 0  # of a segment: behind its last batch that was read, from where it is read on; 0: not known
    version: str = ""  # of a file in a store, as the store says; a file with the same one is not opened again
    expired: int = 0  # of its rows: too old, and not in the lake any more
    forgotten: int = 0  # of its rows: removed because somebody asked for it

    @property
    def is_cut(self) -> bool:
        """Whether the lake does not have all rows that were read of the source."""
        return self.expired > 0 or self.forgotten > 0


class StoredRemoval(msgspec.Struct, frozen=True):
    """What was removed from a lake, as far as later runs must know."""

    before_ns: int = 0  # what was seen before this time, by the clocks of nodes, is not taken in
    number: int = 0  # of the manifest that last removed something: older ones are kept for `keep_seconds` at most
    erased: int = 0  # of the manifest that last forgot something: older ones are removed at once
    inherited: bytes = b""  # what flows that are gone have proved: see `lake/inheritance.py`


class Manifest(msgspec.Struct, frozen=True):
    """The whole lake."""

    format: int = FORMAT
    number: int = 0  # 0: nothing was published yet
    decoder: str = ""  # a hash of all that decides how a row comes out
    tables: dict[str, StoredTable] = {}
    sources: dict[str, StoredSource] = {}
    domains: tuple[str, ...] = ()  # names of the domains by which signatures were judged
    removal: StoredRemoval = StoredRemoval()
    rules: int = 0  # the RULES by which all tables were last judged; 0: the hopwire of that build did not write them

    def to_json(self) -> bytes:
        """Give the manifest as it is written."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def part_name(run: str, number: int) -> str:
    """Give a name for files of a run that no other run and no other attempt has."""
    return f"{run}-{number:05}-{uuid4().hex[:8]}"


def check_path(path: str) -> None:
    """Refuse a path of a Delta log that does not lead to a Parquet file within its table."""
    if not PATH.fullmatch(path) or ".." in path:
        raise LakeError(f"found {path!r:.200}, expected the path of a Parquet file within the table")


def check_manifest(manifest: Manifest) -> None:
    """Refuse a manifest that no run can have written: tables that cannot be."""
    for name, table in manifest.tables.items():
        if not TABLE.fullmatch(name):
            raise LakeError(f"found the table {name!r:.80}, expected a name such as gold.flows")
        if table.version < 0:
            raise LakeError(f"found version {table.version} of {name}, expected 0 or more")
        for source in table.made_from:
            if source not in manifest.tables:
                raise LakeError(f"found {name} made from {source!r:.80}, which is not there")


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


def hash_of_bytes(data: bytes) -> str:
    """Give a hash over bytes of a file."""
    return blake2b(data, digest_size=16).hexdigest()


def hash_of(*values: Any) -> str:
    """Give a hash that changes with any of the values."""
    return blake2b(msgspec.json.encode(values, order="sorted"), digest_size=16).hexdigest()
