"""A lake on disk: a Delta table for each table, and manifests that name the versions that belong together.

    LAKE/<layer>/<table>/*.parquet                      the rows
    LAKE/<layer>/<table>/_delta_log/                    which of these files each version of the table has
    LAKE/_hopwire/manifests/<number>.json               which version of each table counts, and the sources
    LAKE/_hopwire/lock                                  held by the run that writes
    LAKE/_hopwire/work/<run>/                           notes of the run, such as how far it is

A run writes files where no version names them yet. At its end the run commits each table that has changed, and then
puts down the next manifest, if no other run was quicker: that is the moment at which the lake changes. Whatever moment
a run dies at, readers of a manifest see the old lake or the new lake. Example: a run dies behind the commit of
gold.flows. Whoever reads gold.flows alone sees its new rows; the next run undoes that commit before it begins.

Old manifests stay, and so do the files they name: a reader that began before a run can go on (`retention.py`).

Nothing here knows Spark: a lake can be read without Spark (`read_arrow`).

The trap: the files in a lake are not trusted. Every path of a log is checked before the path is read, written or
removed (`delta_log.py`). The directories of a lake are its own: none of them is a symlink.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from hopwire.disk import OWNER_ONLY, NotRegular, is_regular, make_directory, not_regular, open_or_create
from hopwire.errors import LakeBusy, LakeError
from hopwire.lake.at_once import at_once, threads_for
from hopwire.lake.delta_log import DeltaLog, refuse_symlink, uri_refusal
from hopwire.lake.manifest import (
    FORMAT,
    Manifest,
    StoredFile,
    StoredRemoval,
    StoredSource,
    StoredStep,
    StoredTable,
    check_manifest,
)
from hopwire.lake.unreadable import UNREADABLE, in_short
from hopwire.model.units import MEBIBYTE, NS_PER_SECOND
from hopwire.places import (
    FoundFile,
    Place,
    RemotePath,
    arrow_filesystem,
    arrow_name,
    is_empty,
    list_below,
    list_files,
    list_names,
    look_at,
    make_place,
    open_file,
    place_of,
    put,
    put_new,
    read_file,
    remove_below,
    remove_files,
    size_below,
)

try:
    import fcntl
except ImportError:  # on Windows nothing keeps two runs apart but the fence of each commit
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "LakeRun",
    "dataset_of",
    "file_ranges",
    "files_of",
    "hold",
    "is_held",
    "listed_dataset",
    "log_of",
    "manifest_numbers",
    "manifest_path",
    "own_directory",
    "read_arrow",
    "read_manifest",
    "read_whole",
    "schema_of",
    "writing",
]

OWN = "_hopwire"
MANIFESTS, LOCK, WORK = "manifests", "lock", "work"
FIRST_EDITION = "manifest.json"  # a lake that has this file was written before tables were Delta tables
NUMBERED = re.compile(r"(\d{20})\.json", re.ASCII)
DEAD_NS = 24 * 3600 * NS_PER_SECOND  # notes of a run on a store that are older belong to a run that died
LOOK_SECONDS, TRY_SECONDS = 0.1, 0.005
MAX_KEPT, MAX_KEPT_BYTES = 4, 16 * MEBIBYTE  # manifests that a process keeps, and the size of the largest of them
MAX_MANIFEST_BYTES = 1024 * MEBIBYTE  # a manifest has some hundred bytes for each source of the lake


class _Format(msgspec.Struct):
    format: int


_READ_FORMAT = msgspec.json.Decoder(_Format).decode  # both are made before threads read (0208)
_READ_MANIFEST = msgspec.json.Decoder(Manifest).decode
_kept: dict[str, tuple[FoundFile, Manifest]] = {}  # manifests of this machine, each with its file as it was seen


# -- reading


def read_manifest(lake: Place | str, number: int | None = None) -> Manifest:
    """Read the manifest of a lake, or an older manifest by its number; a LakeError says why there is none."""
    place = place_of(lake)
    numbers = manifest_numbers(place)
    if not numbers:
        _refuse_first_edition(place, lake)
        if any(each.name.endswith(".arrows") for each in list_files(place)):
            raise LakeError(f"{lake}: has captures and is not a lake; build one: hopwire lake build {lake} LAKE")
        if isinstance(place, Path) and place.is_file():
            raise LakeError(f"{lake}: is a file and is not a lake; name a directory")
        raise LakeError(f"{lake}: is not a lake; build one: hopwire lake build CAPTURES {lake}")
    if number is None:
        return _manifest(place, lake, numbers[-1])
    if number not in numbers:
        known = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]} alone"
        raise LakeError(f"{lake}: has no version {number}, it has {known}")
    return _manifest(place, lake, number)


def manifest_numbers(place: Place) -> list[int]:
    """Give the numbers of the manifests that a lake has, in order."""
    directory = place / OWN / MANIFESTS
    refuse_symlink(place / OWN)
    refuse_symlink(directory)
    found = map(NUMBERED.fullmatch, list_names(directory))
    return sorted(int(each[1]) for each in found if each)


def manifest_path(place: Place, number: int) -> Place:
    """Give where the manifest of a number lies."""
    return place / OWN / MANIFESTS / f"{number:020}.json"


def _refuse_first_edition(place: Place, lake: Place | str) -> None:
    if look_at(place / OWN / FIRST_EDITION):
        named = shlex.quote(str(lake))
        gone = f"if captures are gone, {named}/bronze/sightings has them"
        raise LakeError(
            f"{lake}: is a lake of an older hopwire, whose tables are no Delta tables; "
            f"build a new one: hopwire lake build CAPTURES {named}-2; {gone}"
        )


def _manifest(place: Place, lake: Place | str, number: int) -> Manifest:
    path = manifest_path(place, number)
    seen = look_at(path) if isinstance(path, Path) else None
    if (kept := _kept.get(str(path))) is not None and kept[0] == seen:
        return kept[1]
    text = read_file(path, MAX_MANIFEST_BYTES)
    try:
        found = _READ_FORMAT(text).format
        if found == FORMAT:
            manifest = _READ_MANIFEST(text)
            check_manifest(manifest)
            if manifest.number != number:
                raise LakeError(f"found the number {manifest.number}, expected {number}")
            _keep(path, seen, manifest)
            return manifest
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise LakeError(f"{lake}: its manifest {path.name} is damaged; remove the lake and build it anew") from None
    except LakeError as error:
        raise LakeError(f"{path}: {error}; remove the lake and build it anew") from None
    remedy = "build it anew in another directory, or use the hopwire that wrote it"
    raise LakeError(f"{lake}: has format {found}, this hopwire reads {FORMAT}; {remedy}")


def _keep(path: Place, seen: FoundFile | None, manifest: Manifest) -> None:
    """Keep a manifest, whose file looked so, for whoever reads it next in this process; few and none that is large."""
    if seen is not None and seen.size_bytes <= MAX_KEPT_BYTES:
        _kept[str(path)] = seen, manifest
    while len(_kept) > MAX_KEPT:
        _kept.pop(next(iter(_kept)), None)


def log_of(place: Place, name: str, *, is_writer: bool = False) -> DeltaLog:
    """Give the Delta log of a table; a writer takes up the log where the writer before in this process left it."""
    layer, _, table = name.partition(".")
    refuse_symlink(place / layer)
    return DeltaLog(place / layer / table, name, is_writer=is_writer)


def files_of(lake: Place | str, name: str, manifest: Manifest | None = None) -> list[Place]:
    """Give the files that a table is made of; a LakeError names a file that is not as it was written."""
    log, files = _files(lake, name, manifest or read_manifest(lake))
    sizes = _listed(log.place)
    for file in files:
        try:
            _check_file(log.place, file, sizes)
        except UNREADABLE as error:
            raise _damaged(lake, name, file.path, error) from None
    return [log.place / file.path for file in files]


def file_ranges(lake: Place | str, name: str, manifest: Manifest) -> dict[Place, dict[str, tuple[int, int]]]:
    """Give the files of a table, each with the least and the largest value of its columns of whole numbers."""
    log = log_of(place_of(lake), name)
    rows = log.statistics(manifest.tables[name].version)
    columns = [each[4:] for each in rows.column_names if each.startswith("min.") and pa.types.is_int64(rows[each].type)]
    known = zip(
        rows["path"].to_pylist(),
        *(zip(rows[f"min.{each}"].to_pylist(), rows[f"max.{each}"].to_pylist(), strict=True) for each in columns),
        strict=True,
    )
    return {
        log.place / path: {each: pair for each, pair in zip(columns, pairs, strict=True) if None not in pair}
        for path, *pairs in known
    }


def _files(
    lake: Place | str, name: str, manifest: Manifest, log: DeltaLog | None = None
) -> tuple[DeltaLog, list[StoredFile]]:
    if name not in manifest.tables:
        known = ", ".join(sorted(manifest.tables)) or "no tables"
        remedy = f"hopwire lake build CAPTURES {shlex.quote(str(lake))} --table {name}"
        raise LakeError(f"{lake}: has no table {name}, it has {known}; build it: {remedy}")
    log = log or log_of(place_of(lake), name)
    return log, log.files(manifest.tables[name].version)


def schema_of(lake: Place | str, name: str, manifest: Manifest) -> pa.Schema:
    """Give the columns of a table."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(b64decode(manifest.tables[name].schema)))
    except (ValueError, OSError, pa.ArrowException):
        remedy = "build the lake anew, or use the hopwire that wrote it"
        raise LakeError(f"{lake}: {name}: the types of its columns cannot be read; {remedy}") from None


def read_arrow(
    lake: Place | str,
    name: str,
    columns: Sequence[str] | None = None,
    where: ds.Expression | None = None,
    manifest: Manifest | None = None,
    among: Container[Place] | None = None,
    log: DeltaLog | None = None,
) -> pa.Table:
    """Read a table, or some of its columns and rows, without Spark; a LakeError names the file that is damaged.

    With `among` only some of its files are read. Whoever has opened the log of the table gives the log.
    """
    manifest = manifest or read_manifest(lake)
    log, files = _files(lake, name, manifest, log)
    if among is not None:
        files = [file for file in files if log.place / file.path in among]
    schema = schema_of(lake, name, manifest)
    if not files:
        return schema.empty_table().select(schema.names if columns is None else list(columns))

    sizes = _listed(log.place)

    def read(some: Sequence[StoredFile]) -> pa.Table:
        for file in some:
            _check_file(log.place, file, sizes)
        data = dataset_of(log.place, some, schema)
        return data.to_table(columns=list(columns) if columns is not None else None, filter=where)

    try:
        return read(files)
    except UNREADABLE as error:
        damaged, reason = _first_unreadable(files, read) or ("a file", error)
    raise _damaged(lake, name, damaged, reason)


def _damaged(lake: Place | str, name: str, path: str, reason: Exception) -> LakeError:
    remedy = "build the lake anew, or restore the file"
    return LakeError(f"{lake}: {name}: {path} cannot be read ({in_short(reason)}); {remedy}")


def dataset_of(place: Place, files: Sequence[StoredFile], schema: pa.Schema) -> ds.Dataset:
    """Give some files of a table, which lie in its place, as a dataset of Arrow."""
    names = [arrow_name(place / file.path) for file in files]
    sizes = {name: file.size_bytes for name, file in zip(names, files, strict=True)}
    return ds.dataset(names, schema=schema, format="parquet", filesystem=arrow_filesystem(place, sizes))


def listed_dataset(lake: Place | str, name: str, manifest: Manifest) -> ds.Dataset:
    """Give a table as a dataset of Arrow that opens only files which may have the rows that are asked for."""
    log, files = _files(lake, name, manifest)
    schema = schema_of(lake, name, manifest)
    sizes = {arrow_name(log.place / file.path): file.size_bytes for file in files}
    system = arrow_filesystem(log.place, sizes) or fs.LocalFileSystem()
    known = log.statistics(manifest.tables[name].version)
    truths = dict(zip(known["path"].to_pylist(), _truths(known, schema), strict=True))
    parquet = ds.ParquetFileFormat()
    fragments = [parquet.make_fragment(arrow_name(log.place / file.path), system, truths[file.path]) for file in files]
    return ds.FileSystemDataset(fragments, schema, parquet, system)


def _truths(statistics: pa.Table, schema: pa.Schema) -> Iterator[ds.Expression]:
    """What is true of all rows of each file, by the least and the largest values that the Delta log has."""
    names = [name for name in schema.names if {f"min.{name}", f"max.{name}"} <= set(statistics.column_names)]
    for row in statistics.to_pylist():
        truth = ds.scalar(True)
        for name in names:
            low, high, kind = row[f"min.{name}"], row[f"max.{name}"], schema.field(name).type
            if low is not None and high is not None and row.get(f"null_count.{name}") == 0:
                least, most = pa.scalar(low).cast(kind), pa.scalar(high).cast(kind)
                truth = truth & (ds.field(name) >= least) & (ds.field(name) <= most)
        yield truth


def read_whole(place: Place, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one file of a table, or some of its columns."""
    with open_file(place) as file:
        return pq.ParquetFile(file).read(columns=None if columns is None else list(columns))


def _listed(place: Place) -> dict[str, int] | None:
    """The sizes of all files of a table in a store, by one question; on this machine each file is looked at."""
    return {each.name: each.size_bytes for each in list_below(place)} if isinstance(place, RemotePath) else None


def _check_file(place: Place, file: StoredFile, sizes: Mapping[str, int] | None) -> None:
    """Refuse a file that was cut off or replaced; Arrow would give nulls for columns that another file lacks."""
    if isinstance(place, RemotePath):
        if (listed := (sizes or {}).get(file.path)) != file.size_bytes:
            raise (
                FileNotFoundError
                if listed is None
                else ValueError(f"it has {listed:,} bytes, expected {file.size_bytes:,}")
            )
        return
    path = place / file.path
    if path.parent != place:
        refuse_symlink(path.parent)
    look = path.lstat()
    if said := not_regular(look.st_mode):
        raise ValueError(f"it {said}")
    if (found := look.st_size) != file.size_bytes:
        raise ValueError(f"it has {found:,} bytes, expected {file.size_bytes:,}")


def _first_unreadable(
    files: Iterable[StoredFile], read: Callable[[Sequence[StoredFile]], pa.Table]
) -> tuple[str, Exception] | None:
    for file in files:
        try:
            read([file])
        except UNREADABLE as error:
            return file.path, error
    return None


# -- writing


@dataclass(slots=True)
class _TableChange:
    """A table of the lake that is to be."""

    stored: StoredTable
    schema: pa.Schema
    files: list[StoredFile]
    has_same_rows: bool = False  # only the files are others


@dataclass(slots=True)
class LakeRun:
    """One run that writes: the lake as it was, and the tables that the run has changed so far."""

    lake: Place
    name: str
    before: Manifest
    file_mode: int = OWNER_ONLY
    tables: dict[str, _TableChange] = field(default_factory=dict)
    _known: dict[str, list[StoredFile]] = field(default_factory=dict)  # the files of tables as they were
    _logs: dict[str, DeltaLog] = field(default_factory=dict)
    _statistics: dict[str, pa.Table] = field(default_factory=dict)
    _placed: set[str] = field(default_factory=set)  # tables that the run may have written files of
    _adopted: set[str] = field(default_factory=set)  # the names of parts that were written before the run
    _sizes: dict[str, dict[str, int]] = field(default_factory=dict)  # of the files of a table in a store

    @property
    def work(self) -> Place:
        """Where the run may write notes; the directory goes with the run."""
        return self.lake / OWN / WORK / self.name

    def place(self, table: str) -> Place:
        """Make and give the directory of a table; the run may write new files into it."""
        path = log_of(self.lake, table).place
        refuse_symlink(path)
        make_place(path, self.file_mode)
        self._placed.add(table)
        return path

    def adopt(self, part: str) -> None:
        """Take files of a part, which were written before the run, for those of the run."""
        self._adopted.add(part)

    def discard(self) -> None:
        """Remove the files that the run has written and that no version names: a disk that is full gets room again.

        In a store such files wait until they are old: no lock tells whether another run has undone what this one did.
        """
        if isinstance(self.lake, RemotePath):
            return
        begin = (self.name, *self._adopted)
        for table in {*self._placed, *self.tables}:
            log = log_of(self.lake, table)
            named = {file.path for file in log.files()}
            own = [each.name for each in list_below(log.place) if each.name.rpartition("/")[2].startswith(begin)]
            remove_files(*(log.place / path for path in own if path.endswith(".parquet") and path not in named))

    def put(
        self,
        table: str,
        basis: str,
        schema: pa.Schema,
        add: Sequence[StoredFile],
        *,
        keep: Callable[[StoredFile], bool] = lambda file: False,
        made_from: Iterable[str] = (),
        step: StoredStep | None = None,
    ) -> None:
        """Change a table: add files, which lie in its place, and of the files it has keep some."""
        files = [*filter(keep, self.files(table)), *add]
        stored = StoredTable(
            version=-1,  # as long as the version is not committed
            basis=basis,
            schema=b64encode(schema.serialize()).decode(),
            row_count=sum(file.row_count for file in files),
            size_bytes=sum(file.size_bytes for file in files),
            file_count=len(files),
            made_from=self.bases(made_from),
            step=step,
        )
        self.tables[table] = _TableChange(stored, schema, files)

    def swap(self, table: str, old: Collection[StoredFile], new: Sequence[StoredFile]) -> None:
        """Put files in place of others of a table that have the same rows; nothing else of the table changes."""
        gone = {file.path for file in old}
        files = [*(file for file in self.files(table) if file.path not in gone), *new]
        if (found := sum(file.row_count for file in files)) != (expected := self._stored(table).row_count):
            raise LakeError(f"{table}: found {found:,} rows in its new files, expected {expected:,}; nothing was done")
        self.replace(table, files)
        self.tables[table].has_same_rows = True

    def replace(self, table: str, files: Sequence[StoredFile], step: StoredStep | None = None) -> None:
        """Put files in place of all files of a table; the table counts as made from what it was made from."""
        stored = msgspec.structs.replace(
            self._stored(table),
            version=-1,
            row_count=sum(file.row_count for file in files),
            size_bytes=sum(file.size_bytes for file in files),
            file_count=len(files),
            step=step or self._stored(table).step,
        )
        self.tables[table] = _TableChange(stored, self.schema(table), list(files))

    def bases(self, tables: Iterable[str]) -> dict[str, str]:
        """Give the bases of tables as they are at this moment."""
        return {name: self._stored(name).basis for name in tables}

    def _stored(self, table: str) -> StoredTable:
        return self.tables[table].stored if table in self.tables else self.before.tables[table]

    def schema(self, table: str) -> pa.Schema:
        """Give the columns of a table as they are at this moment."""
        return self.tables[table].schema if table in self.tables else schema_of(self.lake, table, self.before)

    def log(self, table: str) -> DeltaLog:
        """Give the Delta log of a table, which is opened once."""
        if table not in self._logs:
            self._logs[table] = log_of(self.lake, table, is_writer=True)
        return self._logs[table]

    def keep_logs(self) -> None:
        """Leave all logs, as they are opened, to the next run of this process."""
        for log in self._logs.values():
            log.keep()

    def files(self, table: str) -> list[StoredFile]:
        """Give the files of a table at this moment; a table that is not there has none."""
        return self.tables[table].files if table in self.tables else self.files_before(table)

    def files_before(self, table: str) -> list[StoredFile]:
        """Give the files that a table had when the run began."""
        if table not in self._known:
            known = self.before.tables.get(table)
            self._known[table] = self.log(table).files(known.version) if known else []
        return self._known[table]

    def ranges_before(self, table: str, column: str) -> dict[str, tuple[int, int]]:
        """Give the least and the largest value of a column in the files that a table had, where these are known.

        A timestamp is a number of microseconds, and a day is a number of days since 1970.
        """
        known = self.before.tables.get(table)
        if known is None:
            return {}
        if table not in self._statistics:
            self._statistics[table] = self.log(table).statistics(known.version)
        rows = self._statistics[table]
        names = ["path", f"min.{column}", f"max.{column}"]
        if not set(names) <= set(rows.column_names):
            return {}
        paths, *bounds = (rows[name] for name in names)
        kind = pa.int32() if pa.types.is_date(bounds[0].type) else pa.int64()
        pairs = zip(*(bound.cast(kind).to_pylist() for bound in bounds), strict=True)
        found = zip(paths.to_pylist(), pairs, strict=True)
        return {path: (low, high) for path, (low, high) in found if low is not None and high is not None}

    def paths(self, table: str) -> list[Place]:
        """Give where the files of a table lie at this moment."""
        place = self.log(table).place
        return [place / file.path for file in self.files(table)]

    def rows(self, table: str) -> pa.Table:
        """Read a small table as it is at this moment, whole."""
        schema = self.schema(table)
        found = (read_whole(path).select(schema.names).cast(schema) for path in self.paths(table))
        return pa.concat_tables([schema.empty_table(), *found])

    def has(self, table: str, file: StoredFile) -> bool:
        """Tell whether the lake has a file as it was written."""
        place = self.log(table).place
        if isinstance(place, RemotePath):
            if file.path not in self._sizes.get(table, {}):
                self._sizes[table] = _listed(place) or {}
            return self._sizes[table].get(file.path) == file.size_bytes
        return size_below(place, file.path) == file.size_bytes

    def refuse_days(self) -> None:
        """Refuse a lake that an older hopwire has partitioned by day, before anything is done."""
        for table in self.before.tables:
            if any("/" in file.path for file in self.files_before(table)):
                said = f"{table} is partitioned by day, as an older hopwire wrote it; the next build writes it anew"
                named = shlex.quote(str(self.lake))
                raise LakeError(f"{self.lake}: {said}: hopwire lake build CAPTURES {named}; nothing was done")

    def is_whole(self, table: str) -> bool:
        """Tell whether the lake has the files of a table as they were written."""
        return all(self.has(table, file) for file in self.files(table))

    def publish(
        self,
        sources: Mapping[str, StoredSource],
        decoder: str,
        domains: Iterable[str] = (),
        removal: StoredRemoval | None = None,
        rules: int | None = None,
    ) -> Manifest:
        """Publish all changes of the run: commit each table, then put down the manifest that names them all.

        A run that judges nothing gives no rules.
        """
        number = self.before.number + 1
        note = {"hopwire.run": self.name, "hopwire.manifest": str(number)}
        tables = dict(self.before.tables)

        def commit(name: str) -> StoredTable:
            change, log = self.tables[name], self.log(name)
            version = log.commit(change.files, change.schema, self.file_mode, note, has_same_rows=change.has_same_rows)
            return msgspec.structs.replace(change.stored, version=version)

        names = list(self.tables)
        tables |= zip(names, at_once(commit, names, threads_for(self.lake)), strict=True)
        removal = self.before.removal if removal is None else removal
        rules = self.before.rules if rules is None else rules
        after = Manifest(FORMAT, number, decoder, tables, dict(sources), tuple(domains), removal, rules)
        check_manifest(after)
        path = manifest_path(self.lake, number)
        make_place(path.parent, self.file_mode)
        if not put_new(path, after.to_json(), self.file_mode):
            raise LakeBusy(f"{self.lake}: another build was quicker; nothing was published; build again")
        if isinstance(path, Path):
            _keep(path, look_at(path), after)
        return after


@contextmanager
def writing(lake: Place | str, file_mode: int = OWNER_ONLY, wait_seconds: float = 0.0) -> Iterator[LakeRun]:
    """Begin a run that writes, alone; a lake that is not there yet is made. Other runs are waited for so long."""
    place = place_of(lake)
    if said := uri_refusal(place):
        raise LakeError(f"{lake}: {said}; name another directory")
    with _taken(place, lake, file_mode, wait_seconds):
        numbers = manifest_numbers(place)
        if not numbers:
            _refuse_first_edition(place, lake)
        manifest = _manifest(place, lake, numbers[-1]) if numbers else Manifest()
        run = LakeRun(place, uuid.uuid4().hex[:12], manifest, file_mode)
        _undo_dead_runs(run)
        make_place(run.work, file_mode)
        try:
            yield run
            run.keep_logs()
        except Exception:
            with suppress(OSError, LakeError):
                run.discard()
            raise
        finally:
            remove_below(run.work)


@contextmanager
def _taken(place: Place, lake: Place | str, file_mode: int, wait_seconds: float) -> Iterator[None]:
    """Meanwhile have a lake alone, as far as its place knows of locks.

    No lock keeps two runs on a store apart: the second run fails at a commit or at the manifest, and says so.
    """
    if isinstance(place, RemotePath):
        _open_remote(place)
        yield
        return
    own = own_directory(place, lake, file_mode)
    with hold(own / LOCK, f"{lake}: is being built by {{}}; wait for it, or end it", wait_seconds):
        refuse_symlink(own / WORK)
        remove_below(own / WORK)  # of runs that died
        try:
            yield
        finally:
            remove_below(own / WORK)


def _open_remote(place: RemotePath) -> None:
    """Refuse a place that has other things in it, or that cannot be written to, before anything is done."""
    if is_empty(place / OWN) and not is_empty(place):
        raise LakeError(f"{place}: has other files in it and is not a lake; name an empty or a new place")
    limit_ns = time.time_ns() - DEAD_NS
    old = [each.name for each in list_below(place / OWN / WORK) if each.modified_ns < limit_ns]
    remove_files(*(place / OWN / WORK / name for name in old))
    put(place / OWN / LOCK, f"process {os.getpid()} on {socket.gethostname()} wrote last\n".encode())


def _undo_dead_runs(run: LakeRun) -> None:
    """Bring each table back to the version that the manifest names, if a run died behind a commit.

    A table that somebody else has changed is refused, unless the change was undone already.
    """
    note = {"hopwire.run": run.name, "hopwire.undo": "true"}
    logs = {name: run.log(name) for name in run.before.tables}
    heads = at_once(lambda log: log.head, list(logs.values()), threads_for(run.lake))
    for (name, stored), head in zip(run.before.tables.items(), heads, strict=True):
        log = logs[name]
        if head == stored.version:
            continue
        if {file.path for file in log.files()} == {file.path for file in log.files(stored.version)}:
            continue
        if not log.is_ours:
            said = f"somebody else has written version {log.head} of its Delta log, hopwire wrote {stored.version}"
            raise LakeError(f"{name}: {said}; undo it: DeltaTable({str(log.place)!r}).restore({stored.version})")
        log.restore(stored.version, run.file_mode, note)


@contextmanager
def hold(path: Path, refusal: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold a lock of a lake; a LakeBusy names the process that holds it already, where the refusal has `{}`.

    The system takes the lock back when its holder ends, however the holder ends. The file stays, and its text says who
    holds the lock.
    """
    with _opened_lock(path) as file:
        until = time.monotonic() + max(wait_seconds, LOOK_SECONDS)  # whoever only looks holds a lock for a moment, too
        while not _is_taken(file):
            if time.monotonic() > until:
                file.seek(0)
                holder = file.read(200).strip() or "another process"
                raise LakeBusy(refusal.format(holder))
            time.sleep(TRY_SECONDS)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _is_taken(file: TextIO) -> bool:
    try:
        if fcntl:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_held(path: Path) -> bool:
    """Tell whether a process of this machine holds a lock of a lake."""
    if not fcntl or not is_regular(path):
        return False
    with _opened_lock(path) as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _opened_lock(path: Path) -> TextIO:
    """Open the file of the lock, or make it; a symlink, or anything else that is no file, is refused."""
    try:
        handle = open_or_create(path, os.O_RDWR | os.O_APPEND)
    except NotRegular as error:
        raise LakeError(f"{path}: {error.strerror}; remove it") from None
    return os.fdopen(handle, "a+", encoding="utf-8", errors="replace")


def own_directory(place: Path, lake: Place | str, file_mode: int) -> Path:
    """Give the directory of a lake in which it keeps its manifests, and make it; a place that is no lake is refused."""
    own = place / OWN
    if place.exists() and not place.is_dir():
        raise LakeError(f"{lake}: is a file; name a directory for the lake")
    if place.is_symlink() and not place.exists():
        raise LakeError(f"{lake}: is a symlink that leads nowhere; name another directory")
    refuse_symlink(own)
    if place.is_dir() and not own.is_dir() and any(place.iterdir()):
        raise LakeError(f"{lake}: has other files in it and is not a lake; name an empty or a new directory")
    try:
        make_directory(own, file_mode)
    except OSError as error:
        raise LakeError(f"{lake}: cannot be written ({error.strerror}); choose another directory") from None
    if not os.access(own, os.W_OK | os.X_OK):
        raise LakeError(f"{lake}: cannot be written (Permission denied); choose another directory")
    return own
