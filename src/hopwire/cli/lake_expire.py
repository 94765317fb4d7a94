"""`hopwire lake expire`: what is older than a day leaves a lake."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hopwire.cli.lake_compact import WAIT_SECONDS
from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.spark_sessions import need_spark
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import SettingsError
from hopwire.report.words import plural

if TYPE_CHECKING:
    from hopwire.lake.expiry import Expiration

__all__ = ["expire"]


def expire(
    lake: LakePlace,
    before: Annotated[str, typer.Option("--before", help="The first day that stays, such as 2026-01-01, in UTC.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would leave.")] = False,
    now: Annotated[
        bool,
        typer.Option("--now", help="Remove files and old states at once, also if somebody reads them."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Take everything before a day out of a lake. Spark is not started.

    A flow leaves as a whole when nothing of it is of that day or later. Captures of before that day are not taken in
    again, and are counted. Who reads an older state of the lake can read on for an hour; then the files go with the
    next build, or at once with --now.
    """
    need_spark()  # the package: tables are described with it; Java is another matter
    from hopwire.lake.expiry import expire as expire_lake

    done = expire_lake(lake, _day(before), is_dry=dry_run, is_now=now, wait_seconds=WAIT_SECONDS)
    if as_json:
        say(json.dumps(_to_json(lake, done, before, dry_run=dry_run)))
        return
    console = screen()
    if not done.rows:
        console.print(f"nothing is older than {before}")
        return
    table = plain_table()
    table.add_column("table")
    table.add_column("rows that would leave" if dry_run else "rows that left", justify="right", no_wrap=True)
    for name in sorted(done.rows):
        table.add_row(name, f"{done.rows[name]:,}")
    console.print(table)
    count = plural(sum(done.of_sources.values()), "sighting")
    knows = "would know" if dry_run else "knows"
    console.print(f"\n{count} of {plural(len(done.of_sources), 'source')}; the lake {knows} from {before} on")


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"--before: found {text!r:.40}, expected a day such as 2026-01-01") from None
    today = datetime.now(UTC).date()
    if day > today:
        raise SettingsError(f"--before: {day} is not yet; the first day that stays is today ({today}) at the latest")
    return day


def _to_json(lake: Path, done: Expiration, before: str, *, dry_run: bool) -> dict[str, object]:
    return {
        "lake": str(lake),
        "version": done.manifest.number,
        "before": before,
        "is_dry_run": dry_run,
        "rows": dict(sorted(done.rows.items())),
        "sources": dict(sorted(done.of_sources.items())),
    }
