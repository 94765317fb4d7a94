"""`hopwire reasons`: the reason codes of bad messages, each with its meaning."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hopwire.cli.terminal import plain_table, say, screen
from hopwire.model.reasons import DECODE_REASONS, ENCODE_REASONS, WIRE_REASONS

__all__ = ["reasons"]


def reasons(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: code and meaning.")] = False,
) -> None:
    """List the reason codes of bad messages, and what they mean."""
    if as_json:
        say(json.dumps(WIRE_REASONS, indent=2))
        return
    table = plain_table()
    table.add_column("reason", no_wrap=True, style="cyan")
    table.add_column("found when", no_wrap=True)
    table.add_column("meaning")
    for code, meaning in WIRE_REASONS.items():
        places = [word for word, codes in (("reading", DECODE_REASONS), ("writing", ENCODE_REASONS)) if code in codes]
        table.add_row(code, ", ".join(places), meaning)
    screen().print(table)
