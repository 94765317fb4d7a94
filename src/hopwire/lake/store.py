"""A lake on disk: a directory of Parquet files and the manifest that names them.

    LAKE/<layer>/<table>/*.parquet      the rows
    LAKE/_hopwire/manifest.json         which of these files count
    LAKE/_hopwire/written.json          which files the last run may have put there, or replaced
    LAKE/_hopwire/lock                  held by the run that writes
    LAKE/_hopwire/staging/<run>/        the files that the run has written so far

A run writes into its staging and publishes at its end. First the files are moved into place, where no reader looks at
them yet. Then the manifest is replaced. Whatever moment a run dies at, readers see the old lake or the new lake.

The next run begins with removing: files that a dead run left behind, and files that the last run replaced. A reader
that began before a run can go on until the run after it. Two runs at once are refused.

Nothing here knows Spark: a lake can be read without Spark (`read_arrow`).

The trap: the files in a lake are not trusted. Every path that they name goes through `inside` before the path is read,
written or removed. The directories of a lake are its own: none of them is a symlink.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hopwire.disk import (
    NO_FOLLOW,
    NO_WAIT,
    OWNER_ONLY,
    is_regular,
    local_path,
    make_directory,
    not_regular,
    read_regular,
    replace_file,
    sync_path,
)
from hopwire.errors import LakeError
from hopwire.lake.manifest import (
    FORMAT,
    Manifest,
    StoredFile,
    StoredSource,
    StoredTable,
    check_manifest,
    check_path,
    with_new_names,
)
from hopwire.lake.tables import all_tables
from hopwire.model.units import MEBIBYTE
from hopwire.report.words import cut

try:
    import fcntl
except ImportError:  # on Windows nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["LakeRun", "files_of", "inside", "read_arrow", "read_manifest", "schema_of", "writing"]

OWN = "_hopwire"
MANIFEST, LOCK, STAGING, WRITTEN = "manifest.json", "lock", "staging", "written.json"
UNREADABLE = (OSError, ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError)  # Arrow raises these for damage
REASON_LENGTH = 300
MAX_MANIFEST_BYTES = 1024 * MEBIBYTE  # a manifest has some hundred bytes for each file of the lake


class _Format(msgspec.Struct):
    format: int


# -- reading


def read_manifest(lake: Path | str) -> Manifest:
    """Read the manifest of a lake; a LakeError says why there is none."""
    try:
        return _manifest(local_path(lake), lake)
    except (FileNotFoundError, NotADirectoryError):
        raise LakeError(f"{lake}: is not a lake; build one: hopwire lake build CAPTURES {lake}") from None


def _manifest(place: Path, lake: Path | str) -> Manifest:
    own = place / OWN
    _refuse_symlink(own)
    text = read_regular(own / MANIFEST, MAX_MANIFEST_BYTES)
    try:
        found = msgspec.json.decode(text, type=_Format).format
        if found == FORMAT:
            manifest = msgspec.json.decode(text, type=Manifest)
            check_manifest(manifest)
            return with_new_names(manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise LakeError(f"{lake}: its manifest is damaged; remove the lake and build it anew") from None
    except LakeError as error:
        raise LakeError(f"{own / MANIFEST}: {error}; remove the lake and build it anew") from None
    remedy = "build it anew in another directory, or use the hopwire that wrote it"
    raise LakeError(f"{lake}: has format {found}, this hopwire reads {FORMAT}; {remedy}")


def files_of(lake: Path | str, name: str, manifest: Manifest | None = None) -> list[Path]:
    """Give the files that a table is made of."""
    manifest = manifest or read_manifest(lake)
    if name not in manifest.tables:
        known = ", ".join(sorted(manifest.tables)) or "no tables"
        remedy = f"hopwire lake build CAPTURES {shlex.quote(str(lake))} --table {name}"
        raise LakeError(f"{lake}: has no table {name}, it has {known}; build it: {remedy}")
    place = local_path(lake)
    return [inside(place, file.path) for file in manifest.tables[name].files]


def inside(lake: Path, path: str, said_by: str = MANIFEST) -> Path:
    """Give the file that a path of a manifest leads to, or refuse a path that leads out of the lake.

    This is the gate: every file that is read, written or removed by such a path comes from here.
    """
    try:
        check_path(path)
    except LakeError as error:
        raise LakeError(f"{lake / OWN / said_by}: {error}; nothing was done; build the lake anew") from None
    found = lake / path
    for parent in found.parents[: path.count("/")]:  # the lake itself may be a symlink: the user has named it
        _refuse_symlink(parent)
    return found


def _refuse_symlink(path: Path) -> None:
    if path.is_symlink():
        raise LakeError(f"{path}: is a symlink, expected a directory of the lake itself; nothing was done")


def schema_of(lake: Path | str, name: str, manifest: Manifest) -> pa.Schema:
    """Give the columns of a table.

    An older hopwire wrote the types of columns as text alone. Such a table has the types of its declaration, or the
    table is refused.
    """
    stored = manifest.tables[name]
    try:
        if stored.schema:
            schema = pa.ipc.read_schema(pa.py_buffer(b64decode(stored.schema)))
        else:
            schema = all_tables()[name].schema
        if _columns(schema) == stored.columns:
            return schema
    except (ValueError, OSError, KeyError, ImportError, pa.ArrowException):
        pass
    remedy = "build the lake anew, or use the hopwire that wrote it"
    raise LakeError(f"{lake}: {name}: the types of its columns cannot be read; {remedy}")


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {column.name: str(column.type) for column in schema}


def read_arrow(
    lake: Path | str, name: str, columns: Sequence[str] | None = None, where: ds.Expression | None = None
) -> pa.Table:
    """Read a table, or some of its columns and rows, without Spark; a LakeError names the file that is damaged."""
    manifest = read_manifest(lake)
    files = files_of(lake, name, manifest)
    schema = schema_of(lake, name, manifest)
    if not files:
        return schema.empty_table().select(schema.names if columns is None else list(columns))

    def read(some: list[Path]) -> pa.Table:
        data = ds.dataset([str(file) for file in some], schema=schema, format="parquet")
        return data.to_table(columns=list(columns) if columns is not None else None, filter=where)

    try:
        for path, stored in zip(files, manifest.tables[name].files, strict=True):
            _check_size(path, stored)
        return read(files)
    except UNREADABLE as error:
        damaged, reason = _first_unreadable(manifest.tables[name].files, lake, read) or (name, error)
    remedy = "build the lake anew, or restore the file"
    raise LakeError(f"{lake}: {damaged} cannot be read ({in_short(reason)}); {remedy}")


def _check_size(path: Path, stored: StoredFile) -> None:
    """Refuse a file that was cut off or replaced; Arrow would give nulls for columns that another file lacks."""
    look = path.lstat()
    if said := not_regular(look.st_mode):
        raise ValueError(f"it {said}")
    if (found := look.st_size) != stored.size_bytes:
        raise ValueError(f"it has {found:,} bytes, expected {stored.size_bytes:,}")


def _first_unreadable(
    files: Iterable[StoredFile], lake: Path | str, read: Callable[[list[Path]], pa.Table]
) -> tuple[str, Exception] | None:
    for stored in files:
        try:
            _check_size(path := inside(local_path(lake), stored.path), stored)
            read([path])
        except UNREADABLE as error:
            return stored.path, error
    return None


def in_short(error: Exception) -> str:
    """Give the reason why a file cannot be read, without the details that Arrow adds."""
    if isinstance(error, FileNotFoundError):
        return "it is not there"
    return cut((str(error).splitlines() or [type(error).__name__])[0], REASON_LENGTH)


# -- writing


@dataclass(slots=True)
class LakeRun:
    """One run that writes: the lake as it was, and the tables that the run has written so far."""

    lake: Path
    name: str
    before: Manifest
    file_mode: int = OWNER_ONLY
    tables: dict[str, StoredTable] = field(default_factory=dict)  # new and replaced tables

    @property
    def staging(self) -> Path:
        """Where the run may write."""
        return self.lake / OWN / STAGING / self.name

    def place(self, table: str) -> Path:
        """Make and give the directory where the files of a table are written."""
        path = self.staging.joinpath(*table.split("."))
        make_directory(path, self.file_mode)
        return path

    def add(
        self, table: str, basis: str, schema: pa.Schema, files: Sequence[StoredFile], made_from: Iterable[str] = ()
    ) -> None:
        """Put a table into the lake that is to be; its new files lie in `place`, and old files may be kept."""
        serialized = b64encode(schema.serialize()).decode()
        self.tables[table] = StoredTable(basis, _columns(schema), tuple(files), self.bases(made_from), serialized)

    def bases(self, tables: Iterable[str]) -> dict[str, str]:
        """Give the bases of tables as they are at this moment."""
        return {name: (self.tables.get(name) or self.before.tables[name]).basis for name in tables}

    def written(self, table: str, source: str = "", names: Sequence[str] | None = None) -> list[StoredFile]:
        """Give the Parquet files in the place of a table for the manifest: all files, or the named files."""
        place = self.place(table)
        paths = [place / name for name in names] if names is not None else sorted(place.rglob("*.parquet"))
        return [_stored(path, path.relative_to(self.staging), source) for path in paths]

    def is_whole(self, table: str) -> bool:
        """Tell whether the lake has the files of a table as they were written."""
        return all(self.has(file) for file in self.before.tables[table].files)

    def has(self, file: StoredFile) -> bool:
        """Tell whether the lake has a file as it was written."""
        try:
            path = inside(self.lake, file.path)
            return is_regular(path) and path.stat().st_size == file.size_bytes
        except OSError:
            return False

    def files(self, table: str) -> list[Path]:
        """Give where the files of a table lie at this moment: in the staging of the run, or in the lake as it was."""
        stored = self.tables.get(table) or self.before.tables[table]
        return [self._found(file) for file in stored.files]

    def _found(self, file: StoredFile) -> Path:
        staged = self.staging / file.path
        return staged if staged.exists() else inside(self.lake, file.path)

    def publish(self, sources: Mapping[str, StoredSource], decoder: str, domains: Iterable[str] = ()) -> Manifest:
        """Publish all tables of the run at once: from here on readers see them."""
        after = Manifest(FORMAT, decoder, {**self.before.tables, **self.tables}, dict(sources), tuple(domains))
        check_manifest(after)
        own, written = self.lake / OWN, sorted(_paths(self.before) | _paths(after))
        replace_file(own / WRITTEN, msgspec.json.encode(written), self.file_mode)
        for table in self.tables.values():
            for file in table.files:
                _move(self.staging / file.path, inside(self.lake, file.path), self.file_mode)
        replace_file(own / MANIFEST, after.to_json(), self.file_mode)
        return after


def _stored(path: Path, relative: Path, source: str) -> StoredFile:
    return StoredFile(relative.as_posix(), pq.read_metadata(path).num_rows, path.stat().st_size, source)


def _move(staged: Path, final: Path, file_mode: int) -> None:
    if not staged.exists():
        return  # a file of the lake as it was, which the table keeps
    make_directory(final.parent, file_mode)
    staged.chmod(file_mode)  # a file that Spark wrote has the mode of the umask
    sync_path(staged)
    os.replace(staged, final)
    sync_path(final.parent)


@contextmanager
def writing(lake: Path | str, file_mode: int = OWNER_ONLY) -> Iterator[LakeRun]:
    """Begin a run that writes, alone; a lake that is not there yet is made."""
    place = local_path(lake)
    own = _own_directory(place, lake, file_mode)
    with _locked(own / LOCK, Path(lake)):
        manifest = _manifest(place, lake) if os.path.lexists(own / MANIFEST) else Manifest()
        _refuse_symlink(own / STAGING)
        old = _replaced(place, manifest)
        shutil.rmtree(own / STAGING, ignore_errors=True)
        for path in old:
            path.unlink(missing_ok=True)
        run = LakeRun(place, uuid.uuid4().hex[:12], manifest, file_mode)
        make_directory(run.staging, file_mode)
        try:
            yield run
        finally:
            shutil.rmtree(own / STAGING, ignore_errors=True)


@contextmanager
def _locked(path: Path, lake: Path) -> Iterator[None]:
    """Hold the lock of a lake; a LakeError names the process that holds it already.

    The system takes the lock back when its holder ends, however the holder ends. The file stays, and its text says who
    holds the lock.
    """
    with _opened_lock(path) as file:
        try:
            if fcntl:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read(200).strip() or "another process"
            raise LakeError(f"{lake}: is being built by {holder}; wait for it, or end it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _opened_lock(path: Path) -> TextIO:
    """Open the file of the lock, or make it; a symlink, or anything else that is no file, is refused."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_FOLLOW | NO_WAIT, OWNER_ONLY)
    if said := not_regular(os.fstat(handle).st_mode):
        os.close(handle)
        raise LakeError(f"{path}: {said}; remove it")
    return os.fdopen(handle, "a+", encoding="utf-8", errors="replace")


def _own_directory(place: Path, lake: Path | str, file_mode: int) -> Path:
    own = place / OWN
    if place.exists() and not place.is_dir():
        raise LakeError(f"{lake}: is a file; name a directory for the lake")
    _refuse_symlink(own)
    if place.is_dir() and not own.is_dir() and any(place.iterdir()):
        raise LakeError(f"{lake}: has other files in it and is not a lake; name an empty or a new directory")
    try:
        make_directory(own, file_mode)
    except OSError as error:
        raise LakeError(f"{lake}: cannot be written ({error.strerror}); choose another directory") from None
    if not os.access(own, os.W_OK | os.X_OK):
        raise LakeError(f"{lake}: cannot be written (Permission denied); choose another directory")
    return own


def _replaced(lake: Path, manifest: Manifest) -> list[Path]:
    """Give files that a run has written and the manifest does not name: they were replaced, or their run died.

    Files that no run has written stay, whoever put them there. If one path leads out of the lake, no file is given.
    """
    listed = lake / OWN / WRITTEN
    if not os.path.lexists(listed):
        return []
    try:
        paths = msgspec.json.decode(read_regular(listed, MAX_MANIFEST_BYTES), type=list[str])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise LakeError(f"{listed}: is damaged; remove it") from None
    named = _paths(manifest)
    old = [inside(lake, path, WRITTEN) for path in paths if path not in named]
    return [path for path in old if is_regular(path)]


def _paths(manifest: Manifest) -> set[str]:
    return {file.path for table in manifest.tables.values() for file in table.files}
