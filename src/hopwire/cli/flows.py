"""`hopwire flows ls` and `show`: what became of the flows in a lake, read from its files without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hopwire.capture.sources import list_sources
from hopwire.capture.times import ns_from_text, time_text
from hopwire.cli.exits import complain
from hopwire.cli.place_arguments import LakePlace, place_argument
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import CaptureError, LakeError, SettingsError
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
    outcome_words,
    request_line,
    took,
    witnesses_of,
)
from hopwire.report.jsonable import jsonable
from hopwire.report.words import cut, nearest, nodes_called, plural, spellings, text_or_hex

__all__ = [
    "COMMANDS",
    "FlowFilter",
    "chosen_flows",
    "complain_if_stale",
    "flow_called",
    "glyphs_of",
    "lives",
    "ls",
    "show",
]

WIDE, FAIR, NARROW = 120, 100, 70  # columns of the screen
DATE, MILLISECONDS = len("2026-01-31T"), len("2026-01-31T12:00:00.000")
SHOWN_STEPS = 200
SHORTEST_ID = 12  # characters of an id that are shown in any case
WIDTH_OF_GAPS = 16  # between columns, and for their titles
WIDTH_OF_A_LEVEL = 14  # a tree may be indented by one level for so many columns of the screen
SHOWN_IDS = 5  # of flows whose ids begin alike
STYLES = {"lost": "bold red", "expired": "red", "late": "yellow", "failed": "red", "open": "cyan", "answered": "green"}
ASCII = Glyphs("+- ", "`- ", "|  ", "   ")
CONTRACTS = "gold.contracts"
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

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object for each flow.")]
AsJsonLife = Annotated[bool, typer.Option("--json", help="One JSON object for each life.")]


def complain_if_stale(lake: Path) -> None:
    """Say that the flows are older than the tables that they were made from, or than the rules of this hopwire."""
    from hopwire.lake.manifest import RULES, stale_tables
    from hopwire.lake.store import read_manifest

    manifest = read_manifest(lake)
    if 0 < manifest.rules < RULES:
        complain(f"{lake}: its flows are judged by rules {manifest.rules}, this hopwire has {RULES}; build again")
    stale = stale_tables(manifest)
    if newer := dict.fromkeys(each for name in READ for each in stale.get(name, ())):
        complain(f"{lake}: its flows are stale, built before {', '.join(newer)}; build again without --table")


# -- ls

Outcomes = Annotated[
    list[str] | None,
    typer.Option("--outcome", help=f"Only flows with these: {', '.join(FLOW_OUTCOMES)}.", show_default=False),
]
Contract = Annotated[
    str | None, typer.Option("--contract", help="Only flows with a message of this identity.", show_default=False)
]
Through = Annotated[
    str | None,
    typer.Option("--node", help="Only flows through this node, by name or identity.", show_default=False),
]
Findings = Annotated[
    list[str] | None,
    typer.Option("--finding", help=f"Only flows with these: {', '.join(KINDS)}.", show_default=False),
]
Since = Annotated[
    str | None,
    typer.Option("--since", "--from", help="Only flows that began at this time or later, in UTC.", show_default=False),
]
Service = Annotated[bool, typer.Option("--all", help="Also flows of messages that nodes send by themselves.")]


def ls(
    lake: LakePlace,
    outcome: Outcomes = None,
    contract: Contract = None,
    node: Through = None,
    finding: Findings = None,
    since: Since = None,
    until: Annotated[
        str | None, typer.Option("--until", "--to", help="Only flows that began before this time.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many flows, the latest.")] = 20,
    everything: Service = False,
    as_json: AsJson = False,
) -> None:
    """List flows, the latest first, and what became of each. Each is shown with how long it took, where it went, and
    what is odd."""
    from hopwire.lake.query import node_names  # other commands do not load it

    names = node_names(lake)
    wanted = FlowFilter(outcome, contract, node, finding, since, until, everything)
    flows, total = chosen_flows(lake, wanted, LISTED, limit, names)
    rows = flows.to_pylist()
    if as_json:
        for row in rows:
            say(json.dumps(flow_to_json(row, names)))
        return
    console = screen()
    if rows:
        console.print(_listing(rows, names, console.width))
    console.print(Text(f"{len(rows)} of {plural(total, 'flow')}", "dim"))


class FlowFilter(NamedTuple):
    """Which flows a user wants, as the options say it."""

    outcomes: list[str] | None = None
    contract: str | None = None
    node: str | None = None
    findings: list[str] | None = None
    since: str | None = None
    until: str | None = None
    with_service: bool = False


def chosen_flows(
    lake: Path, wanted: FlowFilter, columns: Sequence[str], limit: int, names: dict[bytes, str]
) -> tuple[Any, int]:
    """Give the latest flows that a user wants, as a table of these columns, and how many there are."""
    from hopwire.lake.query import find_flows

    _check("--outcome", wanted.outcomes, FLOW_OUTCOMES)
    _check("--finding", wanted.findings, KINDS)
    complain_if_stale(lake)
    node = wanted.node
    found = find_flows(
        lake,
        columns,
        limit=limit,
        outcomes=wanted.outcomes,
        contract=wanted.contract,
        nodes=nodes_called(node, names) or spellings(node) if node else None,
        findings=wanted.findings,
        since_ns=ns_from_text(wanted.since, "--since/--from") if wanted.since else None,
        until_ns=ns_from_text(wanted.until, "--until/--to") if wanted.until else None,
        with_service=wanted.with_service or wanted.contract is not None,
    )
    if not found[1]:
        _complain_of_typos(lake, wanted, names)
    return found


def _complain_of_typos(lake: Path, wanted: FlowFilter, names: dict[bytes, str]) -> None:
    """Say which node or contract may be meant, if the lake does not know what was typed."""
    from hopwire.lake.store import read_arrow, read_manifest

    node, contract = wanted.node, wanted.contract
    if node and not nodes_called(node, names) and (near := nearest(node, {*names.values(), *map(text_or_hex, names)})):
        complain(f"no flow with the node {node!r:.80}; did you mean {near!r}?")
    if contract and CONTRACTS in read_manifest(lake).tables:
        known = set(read_arrow(lake, CONTRACTS, ["identity"])["identity"].to_pylist())
        if known.isdisjoint(spellings(contract)) and (near := nearest(contract, map(text_or_hex, known))):
            complain(f"no flow with the contract {contract!r:.80}; did you mean {near!r}?")


def _check(option: str, values: list[str] | None, known: Iterable[str]) -> None:
    for each in values or ():
        if each not in known:
            raise SettingsError(f"{option}: found {each!r:.40}, expected one of {', '.join(known)}")


def _listing(rows: list[dict[str, Any]], names: dict[bytes, str], width: int) -> Table:
    """Give a table of flows: names of contracts are whole, ids give way to them, since the beginning of an id does."""
    cells = [_cells(row, names, width) for row in rows]
    longest = max(len(word) for row in cells for word in row[5 - (width < NARROW)].plain.split())
    others = sum(max(len(row[place]) for row in cells) for place in range(1, len(cells[0]) - 1 - (width >= WIDE)))
    left = width - others - longest - WIDTH_OF_GAPS
    table = plain_table()
    is_narrow = width < NARROW
    table.add_column(
        "flow", overflow="fold" if is_narrow else "ellipsis", no_wrap=not is_narrow, style="cyan",
        max_width=None if is_narrow else max(left, SHORTEST_ID),
    )  # fmt: skip
    table.add_column("outcome", no_wrap=True)
    if width >= NARROW:
        table.add_column("began", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("hops", justify="right", no_wrap=True)
    table.add_column("message", overflow="fold", min_width=min(longest, width // 3))
    if width >= WIDE:
        ids = min(max(len(row[0]) for row in cells), max(left, SHORTEST_ID))
        table.add_column("nodes", overflow="fold", max_width=max(left - ids, SHORTEST_ID))
    for row in cells:
        table.add_row(*row)
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


LakeOrCaptures = Annotated[
    Path,
    typer.Argument(metavar="LAKE", parser=place_argument, help="The lake, or captures: a directory, a file or a URL."),
]


def show(
    lake: LakeOrCaptures,
    flow: Annotated[
        str, typer.Argument(metavar="ID", help="The id of the flow, or enough of its beginning to be unique.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one flow as a tree: every hop, and where it was lost. Hops have their nodes and latency, requests what
    became of them.

    Hops in bold are on the critical path, which leads to the last arrival. Captures are read straight, without a lake:
    then the id is a correlation id, and signatures are not judged.
    """
    shown = _flow_straight(lake, flow) if _is_captures(lake) else _flow_of_lake(lake, flow)
    names = shown.names
    if as_json:
        requests = [flow_to_json(each, names) for each in shown.requests]
        say(json.dumps({**flow_to_json(shown.flow, names), "requests": requests}))
    else:
        _show(screen(), shown)


class _ShownFlow(NamedTuple):
    """A flow with its requests, the names of nodes, and when the capture of each node ends."""

    flow: dict[str, Any]
    requests: list[dict[str, Any]]
    names: dict[bytes, str]
    ends_ns: dict[bytes, int]


def _flow_of_lake(lake: Path, flow: str) -> _ShownFlow:
    from hopwire.lake.query import capture_ends, node_names, read_flow

    flow_id = flow_called(lake, flow)
    complain_if_stale(lake)
    return _ShownFlow(*read_flow(lake, flow_id), node_names(lake), capture_ends(lake))


def _flow_straight(captures: Path, flow: str) -> _ShownFlow:
    from hopwire.flows.rules import Rules
    from hopwire.lake.query import ids_like
    from hopwire.lake.straight import read_straight

    read = read_straight(captures, on_fault=lambda fault: complain(str(fault)))
    ids = ids_like(read.flow_ids, read.flow_ids_of_users, flow, SHOWN_IDS + 1)
    flow_id = _only(ids, captures, flow, "hopwire capture cat")
    return _ShownFlow(*read.flow(flow_id, Rules()), read.names, read.ends_ns)


def _is_captures(path: Path) -> bool:
    """Tell whether a path has captures and is no lake."""
    from hopwire.lake.store import read_manifest

    try:
        read_manifest(path)
    except LakeError:
        try:
            return bool(list_sources(path))
        except (CaptureError, FileNotFoundError):
            return False
    return False


def flow_called(lake: Path, flow: str) -> bytes:
    """Give the id of the flow that a user means."""
    from hopwire.lake.query import flow_ids_like

    return _only(flow_ids_like(lake, flow, SHOWN_IDS + 1), lake, flow, "hopwire flows ls")


def _only(ids: Sequence[bytes], lake: Path, flow: str, remedy: str) -> bytes:
    if not ids:
        raise LakeError(f"{lake}: has no flow {flow!r:.80}; {remedy} {lake}")
    if len(ids) > 1:
        some = ", ".join(text_or_hex(each) for each in ids[:SHOWN_IDS])
        raise LakeError(f"{lake}: several flows begin with {flow!r:.80}: {some}{', ...' * (len(ids) > SHOWN_IDS)}")
    return ids[0]


def _show(console: Console, shown: _ShownFlow) -> None:
    flow, names = shown.flow, shown.names
    witnesses = witnesses_of(flow, shown.ends_ns)
    console.print(_headline(flow), soft_wrap=True)
    console.print(Text(f"{time_text(flow['started_at_ns'])}  {_counts(flow)}", "dim"), soft_wrap=True)
    console.print()
    levels = console.width // WIDTH_OF_A_LEVEL
    lines = list(lines_of_flow(flow, names, SHOWN_STEPS, glyphs_of(console), levels, witnesses))
    console.print(_steps(lines, console.width))
    left_out = flow["hop_count"] - len(lines)
    if left_out > 0:
        console.print(Text(f"... {plural(left_out, 'more step')}; --json has {len(flow['steps']):,} of them", "dim"))
    _show_remarks(console, "requests", [request_line(each, names, witnesses) for each in shown.requests[:SHOWN_STEPS]])
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
            Text(outcome_words(flow), STYLES.get(flow["outcome"], "bold")),
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


# -- lives


def lives(lake: LakeOrCaptures, as_json: AsJsonLife = False) -> None:
    """List when nodes began, ended and came back. Whether a node was stopped or died is shown too."""
    from hopwire.flows.lives import lives_from_clocks
    from hopwire.lake.store import read_arrow

    if _is_captures(lake):
        from hopwire.lake.straight import read_straight

        clocks = read_straight(lake, on_fault=lambda fault: complain(str(fault))).clocks
    else:
        clocks = read_arrow(lake, "silver.clocks")
    rows = lives_from_clocks(clocks).to_pylist()
    if as_json:
        for row in rows:
            say(json.dumps(jsonable(row, text_or_hex)))
        return
    table = plain_table()
    for name in ("node", "from", "to", "ending", "came back"):
        table.add_column(name, overflow="fold")
    for row in rows:
        times = (_second(row[name]) for name in ("began_at_ns", "ended_at_ns"))
        style = "bold red" if row["ending"] == "died" else ""
        label = name_of(row["node"], {row["node"]: row["node_name"]})
        table.add_row(label, *times, Text(row["ending"], style), _back(row))
    screen().print(table)


def _second(time_ns: int) -> str:
    return time_text(time_ns)[:MILLISECONDS].replace("T", " ")


def _back(row: dict[str, Any]) -> str:
    if row["back_at_ns"] is None:
        return ""
    another = "" if row["back_as_node"] == row["node"] else f" as {text_or_hex(row['back_as_node'])}"
    return f"{_second(row['back_at_ns'])}, after {took(row['away_us'])}{another}"


COMMANDS = (ls, show, lives)
