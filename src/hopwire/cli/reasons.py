"""`hopwire reasons`: every reason code, with who sees it and what to do."""

from __future__ import annotations

import json
from itertools import groupby
from operator import attrgetter
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import SettingsError
from hopwire.model.reasons import REASONS, Reason
from hopwire.report.words import nearest

__all__ = ["reasons"]


def reasons(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Say all about this reason.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each reason.")] = False,
) -> None:
    """List every reason that hopwire gives, and what it means. With a code, also who sees it and what to do."""
    chosen = [reason for reason in REASONS if code in (None, reason.code)]
    if not chosen:
        raise SettingsError(_no_reason(str(code)))
    if as_json:
        for reason in chosen:
            say(json.dumps(reason._asdict()))
    elif code is None:
        _list(chosen)
    else:
        _explain(chosen)


def _no_reason(code: str) -> str:
    from hopwire.flows.findings import KINDS  # other commands do not load it
    from hopwire.flows.schemas import FATES, FLOW_OUTCOMES

    meaning = {**FATES, **KINDS, **FLOW_OUTCOMES}.get(code)
    if meaning is not None:
        return f"{code} is no reason but a word of the lake: {meaning}; all of them: docs/tables.md"
    near = nearest(code, [reason.code for reason in REASONS])
    hint = f"; did you mean {near!r}?" if near else ", expected one of those that hopwire reasons lists"
    return f"found the reason {code!r:.40}{hint}"


def _list(chosen: list[Reason]) -> None:
    table = plain_table()
    table.add_column("reason", no_wrap=True, style="cyan")
    table.add_column("meaning")
    for found, alike in groupby(chosen, attrgetter("found")):
        table.add_row(Text(found, "bold not cyan"), "")
        for reason in alike:
            table.add_row(f"  {reason.code}", reason.meaning)
    screen().print(table)


def _explain(chosen: list[Reason]) -> None:
    console = screen()
    for reason in chosen:
        console.print(Text.assemble((reason.code, "bold cyan"), f", {reason.found}: {reason.meaning}"))
        for title, text in (("seen by", reason.seen_by), ("what to do", reason.remedy)):
            console.print(Padding(Text(f"{title}: {text}"), (0, 0, 0, 2)))
