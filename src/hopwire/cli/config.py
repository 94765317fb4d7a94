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


def show(
    actors: Places = None,
    config: Config = None,
    name: Name = None,
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
    table = plain_table()
    for title in ("setting", "value", "from", "variable", "meaning"):
        table.add_column(title, no_wrap=title != "meaning", style="cyan" if title == "setting" else "")
    for each, (value, origin) in settings.values.items():
        text = ", ".join(value) if isinstance(value, tuple) else json.dumps(value) if value != "" else ""
        table.add_row(each, text.strip('"'), origin, f"{PREFIX}{each.upper()}", OPTIONS[each].meaning)
    screen().print(table)


COMMANDS = (show,)
