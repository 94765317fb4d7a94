"""`hopwire demo`: a small network of processes has a bad day; then the lake tells what happened, and the hubs agree.

The seed decides the traffic. Times depend on the machine and differ from run to run.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hopwire.cli.exits import ExitCode
from hopwire.cli.flows import glyphs_of
from hopwire.cli.terminal import error_screen, plain_table, say, screen
from hopwire.cli.ui import serve_page
from hopwire.disk import local_path, make_directory, replace_file
from hopwire.errors import SettingsError
from hopwire.report.flow_tree import lines_of_flow, request_line, took, witnesses_of
from hopwire.report.words import plural

if TYPE_CHECKING:
    from hopwire.demo.agreement import Disagreement
    from hopwire.demo.day_summary import DaySummary, LinkTraffic, TroubleMet

__all__ = ["demo", "report_day", "show_day"]

LAKE, REPORT = "lake", "report.txt"
EXAMPLE = "order-001"  # the flow that is shown as a tree
SHOWN_DIFFERENCES = 5
LABEL_WIDTH = 14
COUNTS_WIDTH = 66  # beside a label, in a line of 80 characters


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Keep captures and lake in this new directory.", show_default=False),
    ] = None,
    orders: Annotated[int, typer.Option("--orders", min=1, help="How many orders go well.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same traffic.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    with_page: Annotated[bool, typer.Option("--ui", help="Then show the lake in a browser, until Ctrl+C.")] = False,
) -> None:
    """Run a network in which everything goes wrong, explained. The nodes are processes, and the lake shows what became
    of each message.

    Five nodes find each other through a rendezvous and talk over ZeroMQ in all four wire formats, while messages are
    dropped, doubled and forged, a node is killed, and a link is cut for a while. Spark makes tables of their captures.
    Then the tables are compared with what the nodes saw. All this takes about a minute. What is shown fits one screen;
    with --keep the file report.txt has more. The command ends with 1 if nodes and tables do not agree. Without Spark
    only the network runs.
    """
    # not with the command line: a user's own contracts may have the names of those of the demonstration
    from hopwire.demo.day_summary import summarise, summary_to_json
    from hopwire.demo.pipeline import build_lake, what_is_missing
    from hopwire.demo.supervisor import live

    began = monotonic()
    with _directory(keep) as directory, _steps() as on_step:
        day = asyncio.run(live(directory, seed, orders, on_step))
        missing = what_is_missing()
        lake = None if missing else directory / LAKE
        if lake:
            build_lake(day, lake, on_step)
        on_step("")
        summary = summarise(day, lake)
        if keep and lake:
            _write_report(keep / REPORT, summary, lake)
        if as_json:
            say(json.dumps({**summary_to_json(summary), "missing": missing}))
        else:
            show_day(screen(), summary, lake, keep, monotonic() - began)
            if missing:
                say(f"\nThe lake was not built: {missing}")
        if with_page and lake:
            say("")
            serve_page(lake, captures=directory / "captures")
    if not summary.is_fine:
        raise typer.Exit(ExitCode.BAD)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Give a directory that is removed afterwards, or the directory to keep."""
    if keep is None:
        with TemporaryDirectory(prefix="hopwire-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise SettingsError(f"--keep: found {str(keep)!r} with something in it, expected a new directory")
    make_directory(local_path(keep))
    yield keep


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """Give a function that shows the current step, if stderr is a terminal."""
    console = error_screen()
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    with console.status("") as status:
        yield lambda step: status.update(step) if step else status.stop()


# -- the screen


def show_day(console: Console, summary: DaySummary, lake: Path | None, keep: Path | None, seconds: float) -> None:
    """Show a day on one screen, and where to look further."""
    build = ", then Spark made tables of it" if lake else ""
    times = f"{summary.seconds:.0f} s{build}: {seconds:.0f} s in all"
    console.print(Text(f"Six processes talked for {times}.\n", "bold"))
    console.print(_troubles(summary))
    console.print()
    _show_agreed(console, summary)
    if lake:
        _show_page(console, keep, lake)


def report_day(console: Console, summary: DaySummary, lake: Path) -> None:
    """Show what else there is to say of a day, beside what fits one screen."""
    given_up = ", ".join(f"{node} by {plural(count, 'other')}" for node, count in summary.given_up.items()) or "nobody"
    _show_count(console, "cluster", f"{plural(summary.members, 'member')} by one rendezvous; given up: {given_up}")
    console.print()
    console.print(_links(summary.links))
    console.print()
    _show_counts(console, summary)
    console.print()
    _show_flow(console, lake)
    console.print(Text("\nLook further:", "bold"))
    for command in ("flows ls {} --outcome lost", "flows show {} insisted-001", "flows lives {}"):
        console.print(Text(f"  {_program()} {command.format(shlex.quote(str(lake)))}", "cyan"), soft_wrap=True)


def _write_report(path: Path, summary: DaySummary, lake: Path) -> None:
    text = StringIO()
    report_day(screen(text), summary, lake)
    replace_file(path, "\n".join(line.rstrip() for line in text.getvalue().splitlines()).encode() + b"\n")


def _links(links: list[LinkTraffic]) -> Table:
    table = plain_table()
    table.add_column("what was sent", style="cyan", no_wrap=True)
    table.add_column("in", no_wrap=True)
    for name in ("messages", "lost", "p50", "p95", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for link in links:
        lost = Text(f"{link.lost:,}" if link.lost else "", "red")
        latencies = (_short(each) for each in (link.p50_us, link.p95_us, link.p99_us))
        way = f"{link.from_node} -> {link.to_node}"
        table.add_row(way, f"V{link.wire_format}", f"{link.sent:,}", lost, *latencies)
    return table


def _troubles(summary: DaySummary) -> Table:
    table = plain_table()
    table.add_column("went wrong", no_wrap=True)
    table.add_column("what happened to it", style="dim")
    table.add_column("the hub saw")
    if summary.has_lake:
        table.add_column("the lake shows")
    for met in summary.troubles:
        shown = [_shown(met)] if summary.has_lake else []
        name = Text.assemble((f"{met.times} ", "dim"), (met.name, "cyan"))
        table.add_row(name, met.what, _words(met.seen, met.times), *shown)
    return table


def _words(counts: Mapping[str, int], times: int) -> str:
    """Words with their counts; a word without a count holds for all."""
    return ", ".join(word if count == times else f"{word} {count}" for word, count in counts.items())


def _shown(met: TroubleMet) -> Text:
    words = _words(met.shown, met.times)
    return Text(words, "green") if met.is_as_expected else Text(f"{words}: NOT ALL OF THEM", "bold red")


def _show_agreed(console: Console, summary: DaySummary) -> None:
    """Show what the hubs saw, and whether the lake says the same."""
    asked = sum(summary.endings.values())
    _show_count(console, "hubs", _counted(summary.endings, f"{plural(asked, 'question')}: "))
    if not summary.has_lake:
        return
    if not summary.differences:
        verdict = "agrees on each: "
        _show_count(
            console, "lake", Text.assemble((verdict, "bold green"), _counted(summary.outcomes, verdict)[len(verdict) :])
        )
        return
    _show_count(console, "lake", _counted(summary.outcomes))
    _show_differences(console, summary.differences)


def _show_counts(console: Console, summary: DaySummary) -> None:
    """Show what else the lake has counted."""
    questions = plural(sum(summary.losses.values()), "question")
    _show_count(console, "why lost", _counted(summary.losses, f"{questions}: "))
    _show_count(console, "dead letters", _counted(summary.dead_letters))
    _show_count(console, "signatures", _counted(summary.verdicts))
    _show_count(console, "quarantine", _counted(summary.quarantine))
    counts = summary.balance
    sums = f"{counts['rows_in']:,} rows = {counts['message_count']:,} messages"
    sums += f" + {counts['quarantine_count']:,} quarantined + {counts['skipped_rows']:,} skipped: "
    verdict = ("adds up", "bold green") if summary.is_balanced else ("DOES NOT ADD UP", "bold red")
    _show_count(console, "balance", Text.assemble(sums, verdict))


def _counted(counts: Mapping[str, int], begin: str = "") -> str:
    """Counts with their words; those that do not fit into a line are counted together."""
    words = [f"{count:,} {word}" for word, count in counts.items()]
    for shown in range(len(words), 0, -1):
        rest = sum([*counts.values()][shown:])
        line = begin + ", ".join([*words[:shown], *([plural(rest, "other")] if rest else [])])
        if len(line) <= COUNTS_WIDTH:
            return line
    return f"{begin}{sum(counts.values()):,} in all" if counts else f"{begin}none"


def _show_count(console: Console, label: str, text: str | Text) -> None:
    console.print(Text.assemble((f"{label:<{LABEL_WIDTH}}", "cyan"), text))


def _show_differences(console: Console, differences: list[Disagreement]) -> None:
    _show_count(console, "", Text(f"HUBS AND LAKE DO NOT AGREE on {len(differences)}:", "bold red"))
    for each in differences[:SHOWN_DIFFERENCES]:
        _show_count(console, "", Text(f"{each.flow}: the hub saw {each.hub}, the lake shows {each.lake}", "red"))


def _show_flow(console: Console, lake: Path) -> None:
    """Show the first order as a tree."""
    from hopwire.lake.query import node_names, read_flow

    names = node_names(lake)
    flow, requests = read_flow(lake, EXAMPLE.encode())
    headline = "; ".join(request_line(each, names, witnesses_of(flow)).text for each in requests)
    console.print(Text.assemble((f"{EXAMPLE}  ", "bold cyan"), (headline, "bold")))
    table = Table.grid(padding=(0, 2))
    for line in lines_of_flow(flow, names, glyphs=glyphs_of(console)):
        table.add_row("", _short(line.at_us), line.indent + line.contract, line.way, line.took, line.remark.text)
    console.print(table)


def _short(duration_us: int | None) -> str:
    """A duration, rounded to three digits."""
    return took(None if duration_us is None else int(float(f"{duration_us:.3g}")))


def _show_page(console: Console, keep: Path | None, lake: Path) -> None:
    if keep is None:
        console.print(Text("hopwire demo --keep DIR keeps all of it and tells more, --ui shows it; or:", "bold"))
    else:
        console.print(Text(f"Everything is in {keep}, and more about it in {keep / REPORT}:", "bold"), soft_wrap=True)
    place = f"DIR/{lake.name}" if keep is None else shlex.quote(str(lake))
    page = "    in a browser: http://127.0.0.1:8710/"
    console.print(Text.assemble((f"  {_program()} ui {place}", "cyan"), (page, "dim")), soft_wrap=True)


def _program() -> str:
    """How the user starts hopwire: by its name where a shell finds it, else by the path that was used."""
    used = sys.argv[0]
    if not used.endswith("hopwire") or shutil.which("hopwire"):
        return "hopwire"
    return shlex.quote(used)
