"""`hopwire lake check`: a lake against the truth of a simulated network, fault by fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hopwire.capture.times import time_text
from hopwire.cli.exits import ExitCode
from hopwire.cli.place_arguments import LakePlace
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.report.jsonable import jsonable
from hopwire.report.words import text_or_hex
from hopwire.simulate.faults import FAULTS

if TYPE_CHECKING:
    from hopwire.simulate.check import Checked, TruthDifference

__all__ = ["check"]

SHOWN_DIFFERENCES = 10
COUNTS = ("expected", "found", "missed", "false")


def check(
    lake: LakePlace,
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="The directory `truth` of a simulated network.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Compare a lake with the truth of a simulated network. Verdicts, quarantine, requests, flows, findings and clocks
    are compared.

    A fact that only the truth has is missed, a fact that only the lake has is false. The command ends with 1 if a fact
    is missed or false. What has left the lake on purpose is counted and not compared. Spark is not started.
    """
    from hopwire.lake.simulation import check_lake  # other commands do not load it
    from hopwire.lake.store import read_manifest

    checked = check_lake(lake, truth)
    before_ns = read_manifest(lake).removal.before_ns
    if as_json:
        say(json.dumps({**_checked_to_json(checked), "known_since_ns": before_ns}))
    else:
        _show(checked, before_ns)
    if not checked.is_same:
        raise typer.Exit(ExitCode.BAD)


def _faults(checked: Checked) -> list[str]:
    known = {tally.fault for tally in checked.tallies}
    return [fault for fault in ("", *FAULTS) if fault in known]


def _show(checked: Checked, before_ns: int) -> None:
    console = screen()
    table = plain_table()
    table.add_column("fault", style="cyan", no_wrap=True)
    for name in ("flows", *COUNTS):
        table.add_column(name if name != "expected" else "facts", justify="right", no_wrap=True)
    for fault in _faults(checked):
        total = checked.total(fault)
        flows = checked.flows.get(fault, 0)
        counts = [f"{getattr(total, name):,}" for name in COUNTS]
        is_bad = bool(total.missed or total.false)
        table.add_row(fault or "(none)", f"{flows:,}" if flows else "", *counts, style="red" if is_bad else "")
    console.print(table)
    for difference in checked.differences[:SHOWN_DIFFERENCES]:
        console.print(Text(_in_words(difference), "red"))
    if checked.left_out:
        console.print(Text(f"\nnot compared, the lake has no table for it: {', '.join(checked.left_out)}", "yellow"))
    if checked.gone:
        console.print(f"\n{_gone_in_words(checked.gone, before_ns)}")
    facts = sum(tally.expected for tally in checked.tallies)
    missed, false = (sum(getattr(tally, name) for tally in checked.tallies) for name in ("missed", "false"))
    if checked.is_same:
        console.print(Text.assemble(f"\n{facts:,} facts compared: ", ("all are as they should be", "bold green")))
    else:
        console.print(
            Text.assemble(f"\n{facts:,} facts compared: ", (f"{missed:,} missed, {false:,} false", "bold red"))
        )


def _gone_in_words(count: int, before_ns: int) -> str:
    why = f"the lake knows from {time_text(before_ns)[:10]} on" if before_ns else "they were forgotten"
    return f"{count:,} facts are not compared, since they have left the lake: {why}"


def _in_words(difference: TruthDifference) -> str:
    key = ", ".join(_shown(value) for value in difference.key.values() if value not in (b"", None))
    fault = difference.fault or "no fault"
    return f"{difference.aspect} ({fault}) {key}: true is {difference.truth}, the lake has {difference.lake}"


def _shown(value: Any) -> str:
    return text_or_hex(value) if isinstance(value, bytes) else str(value)


def _checked_to_json(checked: Checked) -> dict[str, Any]:
    return {
        "is_same": checked.is_same,
        "flows": checked.flows,
        "faults": {
            fault or "none": {name: getattr(checked.total(fault), name) for name in COUNTS}
            for fault in _faults(checked)
        },
        "aspects": jsonable(checked.tallies),
        "differences": [_difference_to_json(each) for each in checked.differences],
        "left_out": checked.left_out,
        "gone": checked.gone,
    }


def _difference_to_json(difference: TruthDifference) -> dict[str, Any]:
    key = {name: _shown(value) for name, value in difference.key.items()}
    return {**jsonable(difference), "key": key}
