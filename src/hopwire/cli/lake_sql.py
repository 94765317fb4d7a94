"""`hopwire lake sql`: a question to a lake, in SQL, without Spark."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import SettingsError
from hopwire.report.words import cut, plural, text_or_hex

__all__ = ["sql"]

SHOWN_ROWS = 200
SHOWN_CHARACTERS = 60  # of a value, on the screen
SHOWN_LISTS = 20  # rows that are lists of their columns
LISTED_CHARACTERS = 200  # of a value in such a list
HEAD_LINES = 2  # that names of columns may take; a row that has more of them is a list


def sql(
    statement: Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT, in the SQL of DuckDB.")],
    lake: LakePlace,
    at: Annotated[
        int | None, typer.Option("--at", help="An older state of the lake, by its number.", show_default=False)
    ] = None,
    payloads: Annotated[
        list[str] | None,
        typer.Option(
            "--payloads",
            help="A module with payload classes: `messages` then has `body` as JSON; may be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Lines of CSV, with a head.")] = False,
) -> None:
    """Ask a lake in SQL, without Spark. Each table is there as `requests` and as `gold.requests`.

    All tables are of one state of the lake, also while a build is at work. A statement can only read, and only the
    tables of the lake.
    """
    from hopwire.lake.sql import query  # other commands do not load it
    from hopwire.lake.store import read_manifest

    if as_json and as_csv:
        raise SettingsError("--json and --csv: choose one of them")
    if os.path.isdir(statement):  # a Path would refuse a long statement: no file has such a name
        raise SettingsError(f"{statement}: is a directory, expected a SELECT; first the SELECT, then the lake")
    found = query(lake, statement, read_manifest(lake, at), _readers(payloads) if payloads else None)
    names = found.column_names
    rows = (dict(zip(names, values, strict=True)) for batch in found.to_batches() for values in _values(batch))
    if as_json:
        for row in rows:
            say(json.dumps({name: _plain(value) for name, value in row.items()}))
    elif as_csv:
        say(_csv_line(names))
        for row in rows:
            say(_csv_line([_text(value) for value in row.values()]))
    else:
        _show(names, [list(row.values()) for row, _ in zip(rows, range(SHOWN_ROWS), strict=False)], len(found))


def _readers(modules: Sequence[str]) -> Any:
    from hopwire.lake.payload_bodies import payloads_in, readers_of

    return readers_of(each for module in modules for each in payloads_in(module, os.getcwd()))


def _values(batch: Any) -> Any:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _show(names: Sequence[str], rows: Sequence[Sequence[Any]], total: int) -> None:
    """Show rows as a table, or each as a list of its columns: a table of fifty columns has a letter in each line."""
    console = screen()
    is_wide = sum(len(name) + 1 for name in names) > HEAD_LINES * console.width
    rows = rows[:SHOWN_LISTS] if is_wide else rows
    for table in [_list(names, row) for row in rows] if is_wide else [_table(names, rows)]:
        console.print(table)
    rest = f", {len(rows)} of them shown; --json and --csv give all" if total > len(rows) else ""
    console.print(f"{plural(total, 'row')}{rest}", style="dim")


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    table = plain_table()
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(cut(_text(value), SHOWN_CHARACTERS) for value in row))
    return table


def _list(names: Sequence[str], row: Sequence[Any]) -> Table:
    """Give the columns of one row below each other, without those that are empty."""
    table = plain_table()
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in zip(names, map(_text, row), strict=True):
        if value:
            table.add_row(name, cut(value, LISTED_CHARACTERS))
    table.add_row("", "")
    return table


def _plain(value: Any) -> Any:
    """A value for JSON: bytes as text or hex, times as ISO 8601."""
    if isinstance(value, bytes):
        return text_or_hex(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _text(value: Any) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain)


def _csv_line(values: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
