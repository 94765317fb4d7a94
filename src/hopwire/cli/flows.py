"""`hopwire flows ls` and `show`: what became of the flows in a lake, read from its files without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hopwire.capture.times import ns_from_text, time_text
from hopwire.cli.exits import complain
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import LakeError, SettingsError
from hopwire.flows.findings import KINDS
from hopwire.flows.schemas import FLOW_OUTCOMES
from hopwire.report.flow_tree import (
    FlowLine,
    Glyphs,
    Remark,
    finding_line,
    flow_to_json,
    lines_of_flow,
    name_of,
    request_line,
    took,
)
from hopwire.report.words import cut, nodes_called, plural, spellings, text_or_hex

__all__ = ["COMMANDS", "glyphs_of", "ls", "show"]

WIDE, FAIR, NARROW = 120, 100, 70  # columns of the screen
DATE, MILLISECONDS = len("2026-01-31T"), len("2026-01-31T12:00:00.000")
SHOWN_STEPS = 200
WIDTH_OF_A_LEVEL = 14  # a tree may be indented by one level for so many columns of the screen
SHOWN_IDS = 5  # of flows whose ids begin alike
STYLES = {"lost": "bold red", "expired": "red", "late": "yellow", "failed": "red", "open": "cyan", "answered": "green"}
ASCII = Glyphs("+- ", "`- ", "|  ", "   ")
READ = ("gold.flows", "gold.requests", "silver.clocks")  # the tables that both commands read
LISTED = (
    "flow_id",
    "identity",
    "outcome",
    "started_at_ns",
    "duration_us",
    "depth",
    "hop_count",
    "message_count",
    "size_bytes",
    "lost_count",
    "dead_count",
    "request_count",
    "answered_count",
    "nodes",
    "contracts",
    "findings",
    "is_oversized",
)

Lake = Annotated[Path, typer.Argument(metavar="LAKE", help="The directory of the lake.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object for each flow.")]


def _complain_if_stale(lake: Path) -> None:
    """Say that the flows are older than the tables that they were made from."""
    from hopwire.lake.manifest import stale_tables
    from hopwire.lake.store import read_manifest

    stale = stale_tables(read_manifest(lake))
    if newer := dict.fromkeys(each for name in READ for each in stale.get(name, ())):
        complain(f"{lake}: its flows are stale, built before {', '.join(newer)}; build again without --table")


# -- ls


def ls(
    lake: Lake,
    outcome: Annotated[
        list[str] | None,
        typer.Option("--outcome", help=f"Only flows with these: {', '.join(FLOW_OUTCOMES)}.", show_default=False),
    ] = None,
    contract: Annotated[
        str | None, typer.Option("--contract", help="Only flows with a message of this identity.", show_default=False)
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", help="Only flows through this node, by name or identity.", show_default=False),
    ] = None,
    finding: Annotated[
        list[str] | None,
        typer.Option("--finding", help=f"Only flows with these: {', '.join(KINDS)}.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", help="Only flows that began at this time or later, in UTC.", show_default=False),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="Only flows that began before this time.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many flows, the latest.")] = 20,
    everything: Annotated[
        bool, typer.Option("--all", help="Also flows of messages that nodes send by themselves.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List flows, the latest first: what became of each, how long it took, where it went, what is odd."""
    from hopwire.lake.query import find_flows, node_names  # other commands do not load it

    _check("--outcome", outcome, FLOW_OUTCOMES)
    _check("--finding", finding, KINDS)
    _complain_if_stale(lake)
    names = node_names(lake)
    flows, total = find_flows(
        lake,
        LISTED,
        limit=limit,
        outcomes=outcome,
        contract=contract,
        nodes=nodes_called(node, names) or spellings(node) if node else None,
        findings=finding,
        since_ns=ns_from_text(since, "--from") if since else None,
        until_ns=ns_from_text(until, "--to") if until else None,
        with_service=everything or contract is not None,
    )
    rows = flows.to_pylist()
    if as_json:
        for row in rows:
            say(json.dumps(flow_to_json(row, names)))
        return
    console = screen()
    if rows:
        console.print(_listing(rows, names, console.width))
    console.print(Text(f"{len(rows)} of {plural(total, 'flow')}", "dim"))


def _check(option: str, values: list[str] | None, known: Iterable[str]) -> None:
    for each in values or ():
        if each not in known:
            raise SettingsError(f"{option}: found {each!r:.40}, expected one of {', '.join(known)}")


def _listing(rows: list[dict[str, Any]], names: dict[bytes, str], width: int) -> Table:
    table = plain_table()
    table.add_column("flow", overflow="fold" if width < NARROW else "ellipsis", no_wrap=width >= NARROW, style="cyan")
    table.add_column("outcome", no_wrap=True)
    if width >= NARROW:
        table.add_column("began", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("hops", justify="right", no_wrap=True)
    table.add_column("message", overflow="fold")
    if width >= WIDE:
        table.add_column("nodes", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row, names, width))
    return table


def _cells(row: dict[str, Any], names: dict[bytes, str], width: int) -> list[Text]:
    kinds = dict.fromkeys(finding["kind"] for finding in row["findings"])
    title = Text(text_or_hex(row["identity"]))
    if kinds:
        title.append(f" {', '.join(kinds)}", "yellow")
    if row["is_oversized"]:
        title.append(" oversized", "yellow")
    time = time_text(row["started_at_ns"])[:MILLISECONDS].replace("T", " ")
    began = [Text(time if width >= WIDE else time[DATE:])] if width >= NARROW else []
    nodes = [Text(cut(", ".join(name_of(node, names) for node in row["nodes"]), 60))] if width >= WIDE else []
    return [
        Text(text_or_hex(row["flow_id"])),
        Text(row["outcome"], STYLES.get(row["outcome"], "")),
        *began,
        Text(took(row["duration_us"])),
        Text(f"{row['hop_count']:,}"),
        title,
        *nodes,
    ]


# -- show


def show(
    lake: Lake,
    flow: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the flow, or enough of its beginning to be unique.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one flow as a tree: every hop with its nodes and latency, what became of its requests, where it was lost.

    Hops in bold are on the critical path, which leads to the last arrival.
    """
    from hopwire.lake.query import flow_ids_like, node_names, read_flow

    ids = flow_ids_like(lake, flow, SHOWN_IDS + 1)
    if not ids:
        raise LakeError(f"{lake}: has no flow {flow!r:.80}; hopwire flows ls {lake}")
    if len(ids) > 1:
        some = ", ".join(text_or_hex(each) for each in ids[:SHOWN_IDS])
        raise LakeError(f"{lake}: several flows begin with {flow!r:.80}: {some}{', ...' * (len(ids) > SHOWN_IDS)}")
    _complain_if_stale(lake)
    names = node_names(lake)
    found, requests = read_flow(lake, ids[0])
    if as_json:
        say(json.dumps({**flow_to_json(found, names), "requests": [flow_to_json(each, names) for each in requests]}))
    else:
        _show(screen(), found, requests, names)


def _show(console: Console, flow: dict[str, Any], requests: list[dict[str, Any]], names: dict[bytes, str]) -> None:
    console.print(_headline(flow), soft_wrap=True)
    console.print(Text(f"{time_text(flow['started_at_ns'])}  {_counts(flow)}", "dim"), soft_wrap=True)
    console.print()
    lines = list(lines_of_flow(flow, names, SHOWN_STEPS, glyphs_of(console), console.width // WIDTH_OF_A_LEVEL))
    console.print(_steps(lines, console.width))
    left_out = flow["hop_count"] - len(lines)
    if left_out > 0:
        console.print(Text(f"... {plural(left_out, 'more step')}; --json has {len(flow['steps']):,} of them", "dim"))
    _show_remarks(console, "requests", [request_line(each, names) for each in requests[:SHOWN_STEPS]])
    _show_remarks(
        console, "findings", [Remark(finding_line(each, names), True) for each in flow["findings"][:SHOWN_STEPS]]
    )


def glyphs_of(console: Console) -> Glyphs:
    """Give the pieces of a tree that the screen can show."""
    return ASCII if console.options.ascii_only else Glyphs()


def _headline(flow: dict[str, Any]) -> Text:
    return Text("  ").join(
        [
            Text(text_or_hex(flow["flow_id"]), "bold cyan"),
            Text(text_or_hex(flow["identity"]), "bold"),
            Text(flow["outcome"], STYLES.get(flow["outcome"], "bold")),
            Text(took(flow["duration_us"])),
        ]
    )


def _counts(flow: dict[str, Any]) -> str:
    critical = f", critical path {took(flow['critical_path_us'])}" if flow["critical_path_us"] is not None else ""
    oversized = ", oversized" if flow["is_oversized"] else ""
    counts = (
        plural(flow["hop_count"], "hop"),
        plural(flow["message_count"], "message"),
        plural(len(flow["nodes"]), "node"),
        f"depth {flow['depth']}",
    )
    return ", ".join(counts) + critical + oversized


def _steps(lines: list[FlowLine], width: int) -> Table:
    table = plain_table()
    if width >= NARROW:
        table.add_column("at", justify="right", no_wrap=True, style="dim")
    table.add_column("message", overflow="fold")
    table.add_column("way", overflow="fold", no_wrap=width >= FAIR)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for line in lines:
        at = [Text(took(line.at_us))] if width >= NARROW else []
        message = Text.assemble((line.indent, "dim"), (line.contract, "bold" if line.is_critical else ""))
        remark = Text(line.remark.text, "bold red" if line.remark.is_bad else "dim")
        style = "red" if line.remark.text.startswith("LOST") else ""
        table.add_row(*at, message, Text(line.way), Text(line.took), remark, style=style)
    return table


def _show_remarks(console: Console, title: str, remarks: list[Remark]) -> None:
    if remarks:
        console.print(Text(f"\n{title}", "dim"))
    for remark in remarks:
        style = "bold red" if "LOST" in remark.text else "yellow" if remark.is_bad else ""
        console.print(Padding(Text(remark.text, style), (0, 0, 0, 2), expand=False))


COMMANDS = (ls, show)
