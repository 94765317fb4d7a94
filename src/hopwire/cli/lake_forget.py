"""`hopwire lake forget`: a source, the traffic of a node or a flow leaves a lake for good."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hopwire.cli.lake_compact import WAIT_SECONDS
from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.spark_sessions import build_settings, lazy_session, need_spark
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import SettingsError
from hopwire.report.words import plural

__all__ = ["forget"]


def forget(
    lake: LakePlace,
    source: Annotated[
        str, typer.Option("--source", help="The name of a source, as in bronze.sources.", show_default=False)
    ] = "",
    node: Annotated[str, typer.Option("--node", help="The name or the identity of a node.", show_default=False)] = "",
    flow: Annotated[str, typer.Option("--flow", help="A correlation id, all of it.", show_default=False)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Take a source, a node or a flow out of a lake and off the disk. It leaves all old states too, at once.

    Flows leave as a whole: those of the source, or those that the node took part in. They are not taken in again from
    captures that still have them. Captures themselves are left alone. This cannot be undone. Spark is started only if
    more has to be judged anew than one process can.
    """
    need_spark()  # the package: tables are described with it; Java is another matter
    from hopwire.lake.forgetting import forget as forget_in

    if sum(map(bool, (source, node, flow))) != 1:
        raise SettingsError("name one of them: --source, --node or --flow")
    with lazy_session("hopwire lake forget", lambda: build_settings(None)) as start:
        done = forget_in(lake, source=source, node=node, flow=flow, spark=start, wait_seconds=WAIT_SECONDS)
    if as_json:
        counts = {"rows": dict(sorted(done.rows.items())), "sources": dict(sorted(done.of_sources.items()))}
        say(json.dumps({"lake": str(lake), "version": done.manifest.number, "flows": done.flow_count, **counts}))
        return
    console = screen()
    table = plain_table()
    table.add_column("table")
    table.add_column("rows that left", justify="right", no_wrap=True)
    for name in sorted(done.rows):
        table.add_row(name, f"{done.rows[name]:,}")
    console.print(table)
    console.print(f"\n{plural(done.flow_count, 'flow')} forgotten; captures, copies and backups are left to you")
