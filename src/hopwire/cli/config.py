"""`hopwire config`: what a node would be run with, and where each value comes from."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hopwire.cli.node import (
    Advertise,
    Capture,
    Config,
    DomainsFile,
    Drain,
    Grace,
    Http,
    Identity,
    Insecure,
    Join,
    Listen,
    LogFormat,
    LogLevel,
    Name,
    Peers,
    Places,
    Set,
    given_settings,
)
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.runner.settings import OPTIONS, PREFIX

__all__ = ["COMMANDS", "show"]

WIDE = 110  # columns of the screen from which on there is room for what settings mean


def show(
    actors: Places = None,
    config: Config = None,
    name: Name = None,
    identity: Identity = None,
    listen: Listen = None,
    advertise: Advertise = None,
    peers: Peers = None,
    join: Join = None,
    capture: Capture = None,
    domains: DomainsFile = None,
    insecure: Insecure = None,
    http: Http = None,
    drain_seconds: Drain = None,
    grace_seconds: Grace = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    others: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show every setting, its value and where that comes from. Options are those of `hopwire node`.

    Arguments count before the environment, the environment before the file, the file before defaults. The file of
    domains is named and not opened: no secret is shown.
    """
    given = dict(locals())
    given.pop("as_json")
    settings = given_settings(given)
    if as_json:
        values = {name: {"value": each.value, "from": each.origin} for name, each in settings.values.items()}
        say(json.dumps(values))
        return
    console, table = screen(), plain_table()
    titles = ("setting", "value", "from", "variable", "meaning")[: None if console.width >= WIDE else 3]
    for title in titles:
        table.add_column(title, no_wrap=title != "meaning", style="cyan" if title == "setting" else "")
    for each, (value, origin) in settings.values.items():
        text = ", ".join(value) if isinstance(value, tuple) else json.dumps(value) if value != "" else ""
        row = (each, text.strip('"'), origin, f"{PREFIX}{each.upper()}", OPTIONS[each].meaning)
        table.add_row(*row[: len(titles)])
    console.print(table)
    if console.width < WIDE:
        say(f"Variables are {PREFIX} and the name; a wider terminal shows what each means.")


COMMANDS = (show,)
