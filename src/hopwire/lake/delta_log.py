"""The Delta log of one table: which files a version has, and how the next version is written.

delta-rs reads and writes the log, without Spark. Every commit of hopwire names itself: the transaction `hopwire` has
the number of the version that the commit made. So three questions have an answer:

| question | answer |
|---|---|
| did hopwire write the newest version? | the number of the transaction is the number of the version |
| may two writers go on from one version? | no: the second commit of the transaction fails |
| what did a commit of a dead run change? | whatever differs from the version that the manifest names |

The trap: delta-rs checks little. It follows symlinks, takes any path for a file, and keeps the old columns if rows with
other columns are appended. So the directory of the log is looked at first, every path goes through `check_path`, and
other columns replace all files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hopwire.disk import directory_mode, is_regular, sync_path
from hopwire.errors import HopwireError, LakeBusy, LakeError, SettingsError
from hopwire.lake.manifest import StoredFile, check_path
from hopwire.model.units import MEBIBYTE
from hopwire.places import FoundFile, Place, RemotePath, delta_options, list_files, look_at, place_error, remove_files
from hopwire.report.words import cut

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["DATE", "LOG", "DeltaLog", "refuse_symlink", "uri_refusal"]

APP = "hopwire"  # the transaction that fences writers
LOG = "_delta_log"
DATE = "date"  # the day of a row: its least and largest value in each file find the files of a day
MAX_LOG_BYTES = 1024 * MEBIBYTE
REASON_LENGTH = 200
MAX_KEPT = 100  # tables: those of some lakes
NUMBERED = re.compile(r"(\d{20})\.(?:json|crc|checkpoint\b.*parquet)$", re.ASCII)  # the files of a version
UNFIT = re.compile(r"%[0-9A-Fa-f]{2}|\\")  # delta-rs decodes a path twice, and takes a backslash for a slash
CONFIGURATION = {
    "delta.enableExpiredLogCleanup": "false",  # a manifest may name a version of any age
    "delta.checkpointInterval": "10",  # a step opens all tables: a commit to replay costs 0.4 ms, a checkpoint 20 ms
    # a checkpoint names files that were removed for so long, at 1 us each for whoever opens the table; a follower
    # removes some every two seconds
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}

# tables that this process has opened to write, each with the file of its version: to read what came since costs half of
# what opening costs
_kept: dict[str, tuple[FoundFile, DeltaTable]] = {}


def uri_refusal(path: Place) -> str:
    """Say why delta-rs would lose its way at a path; empty if it would not."""
    found = UNFIT.search(str(path))
    return f"a Delta table cannot lie at a path with {found[0]!r} in it" if found else ""


def refuse_symlink(path: Place) -> None:
    """Refuse a symlink where a directory of the lake itself belongs; stores have none."""
    if isinstance(path, Path) and path.is_symlink():
        raise LakeError(f"{path}: is a symlink, expected a directory of the lake itself; nothing was done")


class DeltaLog:
    """The log of the table in a directory, which need not be there yet."""

    def __init__(self, place: Place, name: str, *, is_writer: bool = False) -> None:
        self.place, self.name = place, name
        self._is_kept = is_writer
        self._opened: dict[int | None, DeltaTable] = {}
        self._last: DeltaTable | None = None  # as it was before it was written
        self._statistics: dict[int, pa.Table] = {}  # by version
        self._listed: list[FoundFile] | None = None
        self._listed_before: list[FoundFile] = []  # the log was written

    # -- reading

    @property
    def exists(self) -> bool:
        """Whether the table has a log."""
        refuse_symlink(self.place)
        log = self.place / LOG
        refuse_symlink(log)
        return any(each.name.endswith(".json") for each in self._log_files())

    @property
    def head(self) -> int:
        """The number of the newest version; -1 if there is none."""
        return int(self._table(None).version()) if self.exists else -1

    @property
    def is_ours(self) -> bool:
        """Whether hopwire wrote the newest version."""
        table = self._table(None)
        return bool(table.transaction_version(APP) == table.version())

    def files(self, version: int | None = None) -> list[StoredFile]:
        """Give the files of a version, or of the newest version."""
        if version is None and not self.exists:
            return []
        rows = self.statistics(version).select(["path", "num_records", "size_bytes"]).to_pylist()
        found = [StoredFile(row["path"], row["num_records"] or 0, row["size_bytes"]) for row in rows]
        for file in found:
            try:
                check_path(file.path)
            except LakeError as error:
                raise LakeError(f"{self.place / LOG}: {error}; nothing was done; build the lake anew") from None
        return sorted(found, key=lambda file: file.path)

    def statistics(self, version: int | None = None) -> pa.Table:
        """Give a row for each file of a version: path, size, rows, and the least and the largest value of columns."""
        table = self._table(version)
        number = int(table.version())
        if number not in self._statistics:
            try:
                self._statistics[number] = pa.table(table.get_add_actions(flatten=True))
            except Exception as error:
                raise self._unreadable(version, error) from None
        return self._statistics[number]

    def _table(self, version: int | None) -> DeltaTable:
        if version in self._opened:
            return self._opened[version]
        newest = self._opened.get(None)
        if newest is not None and newest.version() == version:
            return newest
        self._check()
        if version is None and (kept := self._taken()) is not None:
            self._opened[None] = kept
            return kept
        opened = _delta()
        try:
            self._opened[version] = opened.DeltaTable(
                str(self.place), version=version, storage_options=delta_options(self.place)
            )
        except Exception as error:  # delta-rs raises many kinds, some of which are no Exception of a common tree
            raise self._unreadable(version, error) from None
        return self._opened[version]

    def _taken(self) -> DeltaTable | None:
        """Take the table as this process left it, and read what was committed since; nobody else can take it then."""
        found, table = _kept.pop(str(self.place), (None, None)) if self._is_kept else (None, None)
        if table is None or found not in self._log_files():
            return None  # nobody left it, or the log is another one
        try:
            table.update_incremental()
        except Exception:  # as above: the log is read anew, and who reads it says what is wrong with it
            return None
        return table

    def keep(self) -> None:
        """Leave the table as it was opened to the next writer of this process."""
        table = self._opened.get(None, self._last)
        self._opened.clear()
        self._last = None
        found = self._file_of(int(table.version())) if self._is_kept and table is not None else None
        if table is not None and found is not None:
            _kept[str(self.place)] = found, table
        while len(_kept) > MAX_KEPT:
            _kept.pop(next(iter(_kept)))

    def _file_of(self, version: int) -> FoundFile | None:
        """The file of a version; a store is not asked for what it has told."""
        name = f"{version:020}.json"
        if not isinstance(self.place, RemotePath):
            return look_at(self.place / LOG / name)
        return next((each for each in self._listed or self._listed_before if each.name == name), None)

    def _unreadable(self, version: int | None, error: Exception) -> HopwireError:
        if said := self._place_error(error, "read it"):
            return said
        what = f"version {version} of its Delta log" if version is not None else "its Delta log"
        reason = cut(" ".join(str(error).split()), REASON_LENGTH)
        remedy = f"restore {self.place / LOG}, or build the lake anew"
        return LakeError(f"{self.name}: {what} cannot be read ({reason}); {remedy}")

    def _place_error(self, error: Exception, doing: str) -> HopwireError | None:
        """What the store of the lake refuses, if that is the reason of an error of delta-rs."""
        if not isinstance(self.place, RemotePath):
            return None
        said = place_error(self.place, error, doing)
        return said if said.reason != "refused" else None

    def _log_files(self) -> list[FoundFile]:
        """The files of the log; a store is asked once, until this writer changes the log: a commit is fenced."""
        if not isinstance(self.place, RemotePath):
            return list_files(self.place / LOG)
        if self._listed is None:
            self._listed = list_files(self.place / LOG)
        return self._listed

    def _check(self) -> None:
        """Refuse a log of which delta-rs would read something else than files, or more than memory holds."""
        log = self.place / LOG
        refuse_symlink(self.place)
        refuse_symlink(log)
        size = 0
        found = self._log_files()
        for each in found:
            if each.said:
                raise LakeError(f"{self.name}: {LOG}/{each.name} {each.said}; remove it")
            size += each.size_bytes
        if not found:
            raise LakeError(f"{self.name}: its Delta log is not there; build the lake anew")
        if size > MAX_LOG_BYTES:
            raise LakeError(f"{self.name}: its Delta log has {size:,} bytes, expected at most {MAX_LOG_BYTES:,}")

    # -- writing

    def commit(
        self,
        files: Sequence[StoredFile],
        schema: pa.Schema,
        file_mode: int,
        note: dict[str, str],
        *,
        has_same_rows: bool = False,
    ) -> int:
        """Make the version that has exactly these files, if the newest version has others; give its number.

        A version that has the same rows as the version before says so: whoever follows the table reads none of it.
        """
        if not self.exists:
            return self._create(0, files, schema, file_mode, note)
        table, before = self._table(None), {file.path: file for file in self.files()}
        if table.metadata().partition_columns:
            return self._replace_days(files, before, schema, file_mode, note)
        wanted = {file.path for file in files}
        is_other = table.schema() != _delta_schema(schema)
        add = [_added(file, not has_same_rows) for file in files if file.path not in before or is_other]
        remove = [_removed(file, not has_same_rows) for path, file in before.items() if path not in wanted]
        if not add and not remove and not is_other:
            return int(table.version())
        version = int(table.version()) + 1
        try:
            table.create_write_transaction(
                add if is_other else [*add, *remove],
                mode="overwrite" if is_other else "append",  # to overwrite is to remove all files there are
                schema=schema,
                commit_properties=_properties(version, note),
            )
        except _delta_errors() as error:
            raise self._refused(version, error) from None
        return self._committed(version, file_mode)

    def restore(self, version: int, file_mode: int, note: dict[str, str]) -> None:
        """Make a version that has the files of an older one."""
        table = self._table(None)
        new = int(table.version()) + 1
        try:
            table.restore(version, ignore_missing_files=True, commit_properties=_properties(new, note))
        except _delta_errors() as error:
            raise self._refused(new, error) from None
        self._committed(new, file_mode)

    def write_checkpoint(self, version: int) -> None:
        """Write down all files of a version in one file, so that no older version is needed to read it."""
        try:
            self._table(version).create_checkpoint()
        except _delta_errors() as error:
            raise self._refused(version, error) from None
        self._opened.clear()

    def forget_before(self, version: int) -> int:
        """Remove the files of the log that are not needed for a version and later ones; give how many there were."""
        log = self.place / LOG
        refuse_symlink(log)
        files = [each for each in list_files(log) if not each.said]
        numbered = [(found, each.name) for each in files if (found := NUMBERED.match(each.name))]
        checkpoints = {int(found[1]) for found, name in numbered if ".checkpoint" in name}
        first = max((each for each in checkpoints if each <= version), default=0)
        old = [name for found, name in numbered if int(found[1]) < first]
        remove_files(*(log / name for name in old))
        return len(old)

    def _replace_days(
        self,
        files: Sequence[StoredFile],
        before: Container[str],
        schema: pa.Schema,
        file_mode: int,
        note: dict[str, str],
    ) -> int:
        """Replace all files of a table that an older hopwire has partitioned by day."""
        if any(file.path in before for file in files):
            said = "its files are partitioned by day, as an older hopwire wrote them"
            raise LakeError(f"{self.name}: {said}; first build the lake: hopwire lake build CAPTURES LAKE")
        return self._create(self.head + 1, files, schema, file_mode, note)

    def _create(
        self, version: int, files: Sequence[StoredFile], schema: pa.Schema, file_mode: int, note: dict[str, str]
    ) -> int:
        """Make a table, which has its first version; a later version replaces all of a table that is there."""
        from deltalake.transaction import create_table_with_add_actions

        try:
            create_table_with_add_actions(
                str(self.place),
                _delta_schema(schema),
                [_added(file, is_change=True) for file in files],
                mode="overwrite" if version else "error",
                name=self.name,
                configuration=CONFIGURATION,
                commit_properties=_properties(version, note),
                storage_options=delta_options(self.place),
            )
        except _delta_errors() as error:
            raise self._refused(version, error) from None
        return self._committed(version, file_mode)

    def _refused(self, version: int, error: Exception) -> HopwireError:
        if refused := self._place_error(error, "write it"):
            return refused
        reason = cut(" ".join(str(error).split()), REASON_LENGTH)
        said = f"version {version} of its Delta log cannot be written ({reason})"
        kind = LakeBusy if _was_overtaken(error, version) else LakeError
        return kind(f"{self.name}: {said}; is another build at work? build again")

    def _committed(self, version: int, file_mode: int) -> int:
        """Make sure of a commit: the disk has it, nobody else wrote it, and others may read it as files of the lake."""
        self._last = self._opened.get(None)
        self._opened.clear()
        self._listed_before, self._listed = self._listed or [], None
        if isinstance(self.place, RemotePath):
            return version  # a store that answers has it
        log = self.place / LOG
        log.chmod(directory_mode(file_mode))
        for file in (log / f"{version:020}.json", *log.glob("*.parquet"), log / "_last_checkpoint"):
            if is_regular(file):
                file.chmod(file_mode)
        sync_path(log / f"{version:020}.json")
        sync_path(log)
        return version


def _delta() -> Any:
    try:
        import deltalake
    except ImportError:
        raise SettingsError('deltalake is not installed: pip install "hopwire[spark]"') from None
    return deltalake


def _delta_errors() -> tuple[type[Exception], ...]:
    from deltalake.exceptions import DeltaError

    return (DeltaError, OSError, ValueError)


def _was_overtaken(error: Exception, version: int) -> bool:
    """Tell whether somebody else was quicker: to write that version, or to make the table, which is the first one."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    return isinstance(error, CommitFailedError if version else DeltaError)


def _delta_schema(schema: pa.Schema) -> Any:
    return _delta().Schema.from_arrow(schema)


def _properties(version: int, note: dict[str, str]) -> Any:
    """The fence: a commit for this version and no other, which fails if somebody else was quicker."""
    delta = _delta()
    return delta.CommitProperties(
        custom_metadata=note, max_commit_retries=0, app_transactions=[delta.Transaction(APP, version)]
    )


def _added(file: StoredFile, is_change: bool) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size_bytes, {}, _now_ms(), is_change, file.statistics)


def _removed(file: StoredFile, is_change: bool) -> Any:
    from deltalake.transaction import RemoveAction

    return RemoveAction(file.path, is_change, _now_ms(), file.size_bytes, {})


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
