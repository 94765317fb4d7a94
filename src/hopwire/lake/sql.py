"""SQL over a lake, without Spark: DuckDB reads the files that one manifest names.

Each table is a view under two names: `requests` and `gold.requests`. All views are of one state of the lake.

A statement can only read. The database is in memory, and only statements that select are run: DuckDB would let others
write to the files that it may read. No other file can be opened from SQL, and no extension is loaded.

If payload classes are named, the view `messages` also has the bodies of messages as JSON (`payload_bodies.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from hopwire.errors import LakeError, SettingsError
from hopwire.lake.manifest import Manifest
from hopwire.lake.payload_bodies import BODY_COLUMNS, NEEDED, Readers, with_bodies
from hopwire.lake.store import files_of, listed_dataset, read_manifest, schema_of
from hopwire.places import Place, RemotePath

__all__ = ["check_select", "opened", "query", "scan_of", "select_from"]

MESSAGES = "silver.messages"
BODIES = "".join(f", hopwire_{name}({', '.join(NEEDED)}) AS {name}" for name in BODY_COLUMNS)
GLOB = re.compile(r"[\[*?]")  # in a path these are patterns; each fits itself within brackets


def query(
    lake: Place | str, statement: str, manifest: Manifest | None = None, payloads: Readers | None = None
) -> pa.Table:
    """Give the rows of a statement over the tables of a lake; with payloads, messages have their bodies as JSON."""
    with opened(lake, manifest, payloads) as database:
        return _rows(database.cursor(), statement)


class LakeDatabase:
    """A database of DuckDB whose views are the tables of a lake; each question has a cursor of its own."""

    def __init__(self, connection: Any, given: Mapping[str, Any]) -> None:
        self._connection, self._given = connection, given

    def cursor(self) -> Any:
        """Give a connection for one question at a time."""
        cursor = self._connection.cursor()
        for name, rows in self._given.items():
            cursor.register(name, rows)  # a name that is given is known to its connection alone
        return cursor


@contextmanager
def opened(
    lake: Place | str, manifest: Manifest | None = None, payloads: Readers | None = None
) -> Iterator[LakeDatabase]:
    """Give a database of DuckDB whose views are the tables of a lake."""
    duckdb = _duckdb()
    manifest = manifest or read_manifest(lake)
    files = {name: files_of(lake, name, manifest) for name in manifest.tables}
    given: dict[str, Any] = {}  # rows that DuckDB does not read itself, by the names it has for them
    local = [path for paths in files.values() for path in paths if isinstance(path, Path)]
    allowed = [each for path in local for each in (str(path), _pattern(path))]
    database = duckdb.connect(
        ":memory:", config={"autoinstall_known_extensions": False, "custom_user_agent": "hopwire"}
    )
    try:
        database.execute("SET TimeZone = 'UTC'")
        if payloads is not None:
            _make_functions(database, payloads)
        database.execute("SET parquet_metadata_cache = true")  # files of a lake never change
        for name, paths in files.items():
            more = BODIES if payloads is not None and name == MESSAGES else ""
            schema = schema_of(lake, name, manifest)
            if paths and isinstance(paths[0], RemotePath):
                given[f"rows of {name}"] = listed_dataset(lake, name, manifest)
                database.register(f"rows of {name}", given[f"rows of {name}"])
            _make_view(database, name, paths, schema, more)
        database.execute("SET allowed_paths = $paths", {"paths": allowed})
        database.execute("SET enable_external_access = false")
        database.execute("SET lock_configuration = true")
        yield LakeDatabase(database, given)
    finally:
        database.close()


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise SettingsError('duckdb is not installed: pip install "hopwire[sql]"') from None
    return duckdb


def _make_functions(database: Any, payloads: Readers) -> None:
    """Make the functions that read bodies; a body is read if a statement asks for it."""
    types = ["BLOB", "INTEGER", "BLOB", "BLOB[]"]
    for number, name in enumerate(BODY_COLUMNS):
        database.create_function(
            f"hopwire_{name}", _body_reader(payloads, number), types, "VARCHAR", type="arrow", null_handling="special"
        )


def _body_reader(payloads: Readers, number: int) -> Callable[..., pa.Array]:
    def read(identity: Any, version: Any, version_raw: Any, frames: Any) -> pa.Array:
        return with_bodies(pa.table([identity, version, version_raw, frames], names=list(NEEDED)), payloads)[number]

    return read


def _make_view(database: Any, name: str, files: Sequence[Place], schema: pa.Schema, more: str = "") -> None:
    """Make the views of a table; whatever its manifest says is quoted, since the door is not closed yet."""
    layer, _, table = name.partition(".")
    whole, short = f"{_name(layer)}.{_name(table)}", f"main.{_name(table)}"
    database.execute(f"CREATE SCHEMA IF NOT EXISTS {_name(layer)}")
    if files:
        database.execute(f"CREATE VIEW {whole} AS {select_from(files, schema.names, f'rows of {name}')}")
    else:
        database.register("no_rows", schema.empty_table())
        database.execute(f"CREATE TABLE {whole} AS SELECT * FROM no_rows")  # noqa: S608
        database.unregister("no_rows")
    database.execute(f"CREATE VIEW {short} AS SELECT *{more} FROM {whole}")  # noqa: S608


def select_from(files: Iterable[Place], columns: Sequence[str] = (), given: str = "") -> str:
    """Give the statement that selects the rows of files, all columns or some.

    DuckDB reads files of this machine. Files of a store are a dataset that the database knows by the name `given`.
    """
    rows = scan_of(files) or _name(given)
    return f"SELECT {', '.join(map(_name, columns)) or '*'} FROM {rows}"  # noqa: S608


def scan_of(files: Iterable[Place]) -> str:
    """Give the scan of files of this machine, which also knows the `filename` of each row; nothing if none is here."""
    local = ", ".join(_text(_pattern(path)) for path in files if isinstance(path, Path))
    return f"read_parquet([{local}], hive_partitioning = false)" if local else ""


def _pattern(path: Path) -> str:
    """The pattern that fits this file only."""
    return GLOB.sub(r"[\g<0>]", str(path))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def check_select(database: Any, statement: str) -> None:
    """Refuse what is not one statement that selects; also an EXPLAIN, since EXPLAIN ANALYZE runs what it explains."""
    kinds = [each.type for each in database.extract_statements(statement)]
    if [kind.name for kind in kinds] != ["SELECT"]:
        found = ", ".join(kind.name for kind in kinds) or "nothing"
        raise LakeError(f"SQL: found {found}, expected one SELECT; a lake can only be read")


def _rows(database: Any, statement: str) -> pa.Table:
    duckdb = _duckdb()
    try:
        check_select(database, statement)
        return database.sql(statement).to_arrow_table()
    except duckdb.Error as error:
        raise LakeError(f"SQL: {' '.join(str(error).split()) or 'no reason given':.300}") from None
