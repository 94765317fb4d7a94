"""`hopwire lake compact`: many small files of a lake become few."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.terminal import plain_table, say, screen

__all__ = ["compact"]

WAIT_SECONDS = 60.0  # for a build, or for a step of a follower


def compact(
    lake: LakePlace,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Merge small files of a lake; no row changes. Old states of the lake stay readable. Spark is not started.

    Small files are merged if their days are over, or if there are more than 32 of the last day.
    """
    from hopwire.lake.compaction import compact as compact_lake

    done = compact_lake(lake, wait_seconds=WAIT_SECONDS)
    if as_json:
        tables = {name: {"files_before": done.before[name], "files": done.after[name]} for name in done.before}
        say(json.dumps({"lake": str(lake), "version": done.manifest.number, "tables": tables}))
        return
    console = screen()
    if not done.before:
        console.print("nothing to compact")
        return
    table = plain_table()
    table.add_column("table")
    for name in ("files before", "files"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in sorted(done.before):
        table.add_row(name, f"{done.before[name]:,}", f"{done.after[name]:,}")
    console.print(table)
