"""One snapshot of a lake for the page: SQL by DuckDB (`lake/sql.py`), with a limit of time for each question.

The files of the snapshot are listed once. So a page that is open keeps its rows while builds go on, and all tables of a
page belong together. Each question has a cursor of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from hopwire.errors import LakeError
from hopwire.lake.sql import check_select, opened, select_from
from hopwire.lake.store import file_ranges, read_manifest
from hopwire.places import Place, RemotePath, named_place

__all__ = ["MAX_SECONDS", "LakeViews"]

MAX_SECONDS = 5.0  # a question that takes longer is ended
MAX_KNOWN = 64  # answers that are kept; each is at most some thousand numbers

T = TypeVar("T")


class LakeViews:
    """The tables of one snapshot: of the newest version of a lake, or of another one by its number."""

    def __init__(self, lake: Place | str, number: int | None = None) -> None:
        self.lake = named_place(lake)
        self.manifest = read_manifest(lake, number)
        self._known: dict[tuple[Any, ...], Any] = {}
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
        if key not in self._known:
            self._known[key] = make()
            while len(self._known) > MAX_KNOWN:
                self._known.pop(next(iter(self._known)), None)
        found: T = self._known[key]
        return found

    def near(self, table: str, **wanted: tuple[int, int]) -> str:
        """Give what to select from to find rows between some values: the files that may have them, or the table."""
        ranges = self.remembered(("files", table), lambda: file_ranges(self.lake, table, self.manifest))
        may = [
            path
            for path, known in ranges.items()
            if all(name not in known or _overlap(known[name], between) for name, between in wanted.items())
        ]
        is_local = bool(may) and not any(isinstance(path, RemotePath) for path in may)  # a dataset chooses by itself
        return f"({select_from(may)})" if is_local else table

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


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
