"""One snapshot of a lake for the page: SQL by DuckDB (`lake/sql.py`), with a limit of time for each question.

The files of the snapshot are listed once. So a page that is open keeps its rows while builds go on, and all tables of a
page belong together. Each question has a cursor of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from hopwire.errors import LakeError
from hopwire.lake.sql import check_select, opened, scan_of
from hopwire.lake.store import file_ranges, read_manifest
from hopwire.places import Place, RemotePath, named_place

__all__ = ["MAX_SECONDS", "LakeViews"]

MAX_SECONDS = 5.0  # a question that takes longer is ended
MAX_KNOWN = 64  # answers that are kept; each is at most some thousand numbers
MAX_HOLDERS = 1_000  # values of which it is known which files have them

T = TypeVar("T")


class LakeViews:
    """The tables of one snapshot: of the newest version of a lake, or of another one by its number."""

    def __init__(self, lake: Place | str, number: int | None = None) -> None:
        self.lake = named_place(lake)
        self.manifest = read_manifest(lake, number)
        self._known: dict[tuple[Any, ...], Any] = {}
        self._holders: dict[tuple[str, str, Any], list[str]] = {}
        self._open = ExitStack()
        self._database = self._open.enter_context(opened(lake, self.manifest))

    @property
    def tables(self) -> list[str]:
        """The names of the tables that the snapshot has."""
        return sorted(self.manifest.tables)

    def rows(self, sql: str, given: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        """Give the rows of a question, each as a dictionary."""
        with self._cursor() as cursor:
            answer = cursor.execute(sql, given)
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def remembered(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Give what a question had for an answer the last time: a snapshot does not change. Nobody may change it."""
        found: T = _kept(self._known, key, make, MAX_KNOWN)
        return found

    def near(self, table: str, **wanted: tuple[int, int]) -> str:
        """Give what to select from to find rows between some values: the files that may have them, or the table."""
        return self._where_may_be(table, wanted, all)

    def near_any(self, table: str, **wanted: tuple[int, int]) -> str:
        """Give what to select from to find rows of which one of some columns is between its values."""
        return self._where_may_be(table, wanted, any)

    def _where_may_be(
        self, table: str, wanted: Mapping[str, tuple[int, int]], rule: Callable[[Iterable[bool]], bool]
    ) -> str:
        return self._scan(table, [
            path
            for path, known in self._ranges(table).items()
            if rule(name not in known or _overlap(known[name], between) for name, between in wanted.items())
        ])  # fmt: skip

    def whole(self, table: str) -> str:
        """Give what to select all rows of a table from; its rows know their `filename` unless it is the table."""
        return self._scan(table, self._ranges(table))

    def of_files(self, table: str, names: Iterable[str]) -> str:
        """Give what to select from to find rows of files that `whole` has named, or the table."""
        wanted = set(names)
        return self._scan(table, [path for path in self._ranges(table) if str(path) in wanted])

    def holding(self, table: str, column: str, value: Any) -> str:
        """Give what to select from to find the rows with one value: the files that have it, or the table.

        To find the files, one column is read, and of that what the Bloom filters of the files let through. The rows of
        the files may then be wide.
        """
        if (scan := self.whole(table)) == table:
            return table
        question = f"select distinct filename from {scan} where {column} = ?"
        holders = _kept(
            self._holders,
            (table, column, value),
            lambda: [row["filename"] for row in self.rows(question, [value])],
            MAX_HOLDERS,
        )
        return self.of_files(table, holders)

    def _ranges(self, table: str) -> Mapping[Place, Mapping[str, tuple[int, int]]]:
        return self.remembered(("files", table), lambda: file_ranges(self.lake, table, self.manifest))

    def _scan(self, table: str, files: Iterable[Place]) -> str:
        """Give the scan of files; a dataset of a store chooses its files by itself, and stays a table."""
        found = list(files)
        return table if any(isinstance(path, RemotePath) for path in found) else scan_of(found) or table

    def row(self, sql: str, given: Sequence[Any] | Mapping[str, Any] = ()) -> dict[str, Any]:
        """Give the first row of a question, or nothing if there is none."""
        return next(iter(self.rows(sql, given)), {})

    def some(self, sql: str, limit: int) -> tuple[list[str], list[tuple[Any, ...]], bool]:
        """Give the columns and at most so many rows of SQL that somebody typed, and whether there are more."""
        with self._cursor() as cursor:
            check_select(cursor, sql)
            answer = cursor.execute(sql)
            names = [column[0] for column in answer.description or ()]
            found = answer.fetchmany(limit + 1)
            return names, found[:limit], len(found) > limit

    def table(self, sql: str, limit: int, given: Sequence[Any] = ()) -> pa.Table:
        """Give at most so many rows of a statement that selects, as an Arrow table."""
        with self._cursor() as cursor:
            check_select(cursor, sql)
            try:
                limited = f"select * from ({sql.rstrip().rstrip(';')}) limit {limit}"
                return cursor.sql(limited, params=list(given)).to_arrow_table()
            except duckdb.InterruptException:
                raise
            except duckdb.Error as error:
                raise LakeError(f"SQL: {' '.join(str(error).split()):.300}") from None

    def close(self) -> None:
        """End the database."""
        self._open.close()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = self._database.cursor()
        timer = threading.Timer(MAX_SECONDS, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield cursor
        except duckdb.InterruptException:
            raise LakeError(f"the question took longer than {MAX_SECONDS:g} s, and was ended") from None
        finally:
            timer.cancel()
            cursor.close()


def _kept(known: dict[Any, T], key: Hashable, make: Callable[[], T], most: int) -> T:
    """Give what is known, or make it; the oldest is forgotten when there is too much."""
    if key not in known:
        known[key] = make()
        while len(known) > most:
            known.pop(next(iter(known)), None)
    return known[key]


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
