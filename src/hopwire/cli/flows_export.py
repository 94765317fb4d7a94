"""`hopwire flows export`: flows of a lake for the tools of others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hopwire.cli.collector import Collector
from hopwire.cli.exits import ExitCode, complain, fail
from hopwire.cli.flows import (
    Contract,
    Findings,
    FlowFilter,
    Outcomes,
    Service,
    Since,
    Through,
    chosen_flows,
    complain_if_stale,
    flow_called,
)
from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.terminal import say
from hopwire.errors import DeliveryError, SettingsError
from hopwire.report.export_formats import EXPORT_FORMATS
from hopwire.report.words import plural

if TYPE_CHECKING:
    from hopwire.lake.flow_exports import FlowExport

__all__ = ["export"]


def export(
    lake: LakePlace,
    flow: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="One flow, by its id or the beginning of it.", show_default=False),
    ] = None,
    form: Annotated[
        str,
        typer.Option("--to", help="; ".join(f"{name}: {form.opens_in}" for name, form in EXPORT_FORMATS.items()) + "."),
    ] = "otlp",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write into this file.", show_default=False),
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="Send OTLP to this collector.", show_default=False),
    ] = None,
    outcome: Outcomes = None,
    contract: Contract = None,
    node: Through = None,
    finding: Findings = None,
    since: Since = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only flows that began before this time.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many flows, the latest.")] = 1000,
    everything: Service = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --output or --endpoint: one JSON object that says what was written.")
    ] = False,
) -> None:
    """Write flows for other tools, or send them to a collector.

    A flow is a trace, a node is a service, and a hop is a span where it left and a span where it arrived. What is lost
    is an error; what nobody saw, and clocks that are not corrected, stand in the attributes. A recording (pcapng) has
    the captured bytes of the messages, and made-up packets around them.
    """
    from hopwire.lake.flow_exports import FlowExport

    if form not in EXPORT_FORMATS:
        raise SettingsError(f"--to: found {form!r:.40}, expected one of {', '.join(EXPORT_FORMATS)}")
    is_text = EXPORT_FORMATS[form].is_text
    if endpoint is not None and (form != "otlp" or output is not None):
        raise SettingsError("--endpoint: only --to otlp without --output is sent")
    if endpoint is None and output is None and not is_text:
        raise SettingsError(f"--to {form}: this is no text; name a file with --output")
    if as_json and endpoint is None and output is None:
        raise SettingsError("--json: says what was written; name where with --output or --endpoint")
    collector = Collector(endpoint) if endpoint is not None else None
    wanted = FlowFilter(outcome, contract, node, finding, since, until, everything)
    if flow is not None and any(wanted):
        raise SettingsError("found an id and filters, expected one of them")
    ids, total = _ids(lake, flow, wanted, limit)
    chosen = FlowExport(lake, ids)
    count = plural(len(ids), "flow")
    if collector is not None:
        _send(collector, chosen)
        _tell(collector.url, f"{count} sent", as_json, format=form, flows=len(ids), of=total)
    elif output is not None:
        _write(output, chosen.written(form))
        _tell(str(output), count, as_json, format=form, flows=len(ids), of=total)
    else:
        for part in b"".join(chosen.written(form)).decode().splitlines():
            say(part)
    if len(ids) < total:
        complain(f"the latest {len(ids)} of {plural(total, 'flow')} were taken; --limit takes more")


def _tell(place: str, words: str, as_json: bool, **facts: Any) -> None:
    say(json.dumps({"written_to": place, **facts}) if as_json else f"{place}: {words}")


def _ids(lake: Path, flow: str | None, wanted: FlowFilter, limit: int) -> tuple[list[bytes], int]:
    """Give the ids of the flows, the earliest first, and how many fit."""
    from hopwire.lake.query import node_names

    if flow is not None:
        complain_if_stale(lake)
        return [flow_called(lake, flow)], 1
    found, total = chosen_flows(lake, wanted, ["flow_id", "started_at_ns"], limit, node_names(lake))
    ids: list[Any] = found["flow_id"].to_pylist()
    return ids[::-1], total


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file, which is there as a whole or not at all; a device or a FIFO is written into."""
    if path.is_dir():
        raise SettingsError(f"--output: {path} is a directory, expected a file")
    if path.exists() and not path.is_file():  # to rename a file to /dev/null would be the end of /dev/null
        with path.open("wb") as file:
            file.writelines(parts)
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("xb") as file:  # a new file: nobody else has put one there, or a symlink
            file.writelines(parts)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _send(collector: Collector, chosen: FlowExport) -> None:
    sent = 0
    try:
        for request in chosen.requests():
            collector.send(request)
            sent += 1
    except DeliveryError as error:
        before = f"; taken before it: {plural(sent, 'request')}" if sent else "; nothing was sent"
        fail(f"--endpoint: {error.detail}{before}", ExitCode.BAD)
    if collector.rejected:
        why = f": {collector.why}" if collector.why else ""
        fail(f"--endpoint: {collector.url} refused {plural(collector.rejected, 'span')}{why}", ExitCode.BAD)
