"""`hopwire lake build` and `tables`: captures to tables, and what they are; `check` and `sql` stand beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from hopwire.cli.exits import complain, end_if_incomplete
from hopwire.cli.lake_check import check
from hopwire.cli.lake_compact import compact
from hopwire.cli.lake_expire import expire
from hopwire.cli.lake_follow import follow, status
from hopwire.cli.lake_forget import forget
from hopwire.cli.lake_sql import sql
from hopwire.cli.place_arguments import CapturesPlace, LakePlace, place_argument
from hopwire.cli.spark_sessions import build_settings, lazy_session, need_spark
from hopwire.cli.terminal import error_screen, plain_table, say, screen
from hopwire.domains_file import domains_from_file
from hopwire.report.words import plural
from hopwire.security import OPEN

if TYPE_CHECKING:
    from hopwire.lake.build import Built
    from hopwire.lake.build import Progress as OnProgress

__all__ = ["COMMANDS", "build", "check", "compact", "expire", "follow", "forget", "sql", "status", "tables"]

SECURITY = "gold.security"


# -- build


def build(
    captures: CapturesPlace,
    lake: LakePlace,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table and what it needs; may be repeated.", show_default=False),
    ] = None,
    domains: Annotated[
        str | None,
        typer.Option("--domains", help="Judge signatures by the domains in this TOML file.", show_default=False),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", help="The Spark master: local[4], spark://host:7077, ...", show_default=False),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="For Spark on this machine, such as 4g.", show_default=False)
    ] = None,
    redecode: Annotated[bool, typer.Option("--redecode", help="Read every source again.")] = False,
    with_compaction: Annotated[
        bool, typer.Option("--compact", help="Then merge small files, as `lake compact` does.")
    ] = False,
    keep_days: Annotated[
        int, typer.Option("--keep-days", help="Then take out what is older than so many days; 0: nothing.", min=0)
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Bring a lake up to date with its captures. What is new is read, and what depends on it is built.

    To build again is harmless. Nothing is visible before everything is built. A file that is no capture, or is cut off,
    is named and counted in gold.quality, and the build goes on. The command ends with 4 if a source could not be read,
    or not in full: a file that is damaged, cut off, packed or forbidden, a symlink, or no file at all. The segment that
    a killed process has left open, and a recording of the network, may be cut off.
    """
    need_spark()
    known = domains_from_file(domains) if domains else OPEN
    from hopwire.lake.build import build as build_lake
    from hopwire.lake.settings import LakeSettings

    chosen = build_settings(captures, master, memory)
    with lazy_session("hopwire lake build", lambda: chosen) as start, _progress() as progress:
        built = build_lake(
            start,
            captures,
            lake,
            table,
            domains=known,
            settings=LakeSettings(keep_days=keep_days),
            redecode=redecode,
            progress=progress,
        )
    if with_compaction:
        from hopwire.lake.compaction import compact as compact_lake

        built = replace(built, manifest=compact_lake(lake).manifest)
    for fault in built.faults:
        complain(fault)
    if built.left_out:
        complain(built.left_out)
    _complain_of_stale(built)
    if as_json:
        say(json.dumps(_built_to_json(built)))
    else:
        _show_built(built)
        if domains and not built.read:
            _show_invalid(built)
    end_if_incomplete(built.bad)


class _TimeLeftColumn(ProgressColumn):
    """How long a step will still take, while there is something to tell it by."""

    def render(self, task: Task) -> Text:
        seconds = None if task.finished else task.time_remaining
        return Text("" if seconds is None else f"about {seconds:.0f} s left")


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Give a function that shows progress as bars, if stderr is a terminal."""
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TimeElapsedColumn(), _TimeLeftColumn())
    with Progress(*columns, console=error_screen(), disable=not sys.stderr.isatty()) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total if total > 1 else None)
            bars.update(tasks[what], completed=done, total=total if total > 1 or done else None)

        yield show


def _complain_of_stale(built: Built) -> None:
    from hopwire.lake.manifest import stale_tables

    if stale := stale_tables(built.manifest):
        newer = dict.fromkeys(each for those in stale.values() for each in those)
        complain(f"{', '.join(stale)}: stale, built before {', '.join(newer)}; build again without --table")


def _built_to_json(built: Built) -> dict[str, Any]:
    stored = built.manifest.tables.items()
    return {
        "lake": str(built.lake),
        "sources_read": built.read,
        "tables_built": built.tables,
        "tables": {name: {"row_count": each.row_count, "size_bytes": each.size_bytes} for name, each in stored},
        "faults": built.faults,
        "bad": built.bad,
        "too_old": built.too_old,
    }


def _show_built(built: Built) -> None:
    console = screen()
    console.print(_stored_table(built))
    read = f"{plural(len(built.read), 'source')} read" if built.read else "nothing new to read"
    if partly := len({*built.read} & {*built.bad}):
        read += f" ({partly} not, or not in full)"
    console.print(f"\n{read}, {plural(len(built.tables), 'table')} built")


def _show_invalid(built: Built) -> None:
    """Say that signatures are invalid, and what helps if a secret was corrected.

    A build does not notice a new secret under an old key id: messages that were judged before keep their verdict.
    """
    from hopwire.lake.store import read_arrow

    if SECURITY not in built.manifest.tables:
        return
    findings = read_arrow(built.lake, SECURITY, ["finding", "message_count"]).to_pylist()
    if count := sum(row["message_count"] for row in findings if row["finding"] == "invalid"):
        found = plural(count, "message has an invalid signature", "messages have an invalid signature")
        screen().print(f"{found}; if a secret was corrected, build with --redecode", soft_wrap=True)


def _stored_table(built: Built) -> Any:
    shown = plain_table()
    shown.add_column("table")
    for name in ("rows", "bytes"):
        shown.add_column(name, justify="right", no_wrap=True)
    for name, stored in sorted(built.manifest.tables.items(), key=_by_layer):
        shown.add_row(name, f"{stored.row_count:,}", f"{stored.size_bytes:,}")
    return shown


def _by_layer(item: tuple[str, Any]) -> tuple[int, str]:
    from hopwire.lake.tables import LAYERS

    return LAYERS.index(item[0].partition(".")[0]), item[0]


# -- tables


def tables(
    lake: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LAKE]", parser=place_argument, help="Also count the rows of this lake.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each table.")] = False,
) -> None:
    """Describe the tables of a lake: what one row is, and the key. With --json its columns too. Spark is not run."""
    need_spark()
    from hopwire.lake.manifest import Manifest, stale_tables
    from hopwire.lake.store import read_manifest
    from hopwire.lake.tables import all_tables

    manifest = read_manifest(lake) if lake else Manifest()
    stored, stale = manifest.tables, stale_tables(manifest)
    declared = sorted(all_tables().items(), key=_by_layer)
    if as_json:
        for name, table in declared:
            say(json.dumps(_table_to_json(table, stored.get(name), stale.get(name, ()))))
        return
    shown = plain_table()
    shown.add_column("table", no_wrap=True)
    if lake:
        shown.add_column("rows", justify="right", no_wrap=True)
    shown.add_column("key")
    shown.add_column("one row is")
    for name, table in declared:
        count = [f"{stored[name].row_count:,}" if name in stored else "-"] if lake else []
        meaning = Text(table.meaning)
        if name in stale:
            meaning.append(f"\nstale: built before {', '.join(stale[name])}", "yellow")
        shown.add_row(name, *count, ", ".join(table.key), meaning)
    screen().print(shown)


def _table_to_json(table: Any, stored: Any, newer: Sequence[str]) -> dict[str, Any]:
    counts = {"row_count": stored.row_count, "size_bytes": stored.size_bytes, "built_before": newer} if stored else {}
    return {
        "name": table.name,
        "meaning": table.meaning,
        "key": table.key,
        "reads": table.reads,
        "columns": [
            {"name": each.name, "type": str(each.type), "meaning": each.meaning} for each in table.stored_columns
        ],
        **counts,
    }


COMMANDS = (build, follow, status, tables, sql, check, compact, expire, forget)
