"""`hopwire rendezvous`: an ordinary member of a cluster, with a stable address and no actors but that of its status."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hopwire.cli.terminal import say
from hopwire.errors import SettingsError
from hopwire.node import Node
from hopwire.runner.log_lines import set_up_logs
from hopwire.runner.service import EndWish, heeding_signals, serve
from hopwire.runner.settings import RunSettings, SettingValue, read_settings

__all__ = ["door_settings", "rendezvous"]

TLS_OPTIONS = ("certificate", "key", "authority", "allowed", "revoked")
DOOR = {  # where nobody says otherwise
    name: SettingValue(value, "rendezvous")
    for name, value in {"listen": "tcp://127.0.0.1:7400", "name": "rendezvous", "join": ()}.items()
}


def rendezvous(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings in TOML, as of a node.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="URI", help="Where members reach it, tcp://127.0.0.1:7400 if none is given."),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", metavar="URI", help="What members are told, where that differs.")
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option("--join", metavar="URI", help="Another door, or dns://name:port; may be repeated."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What people call it; rendezvous if none is given.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--identity", metavar="TEXT", help="What members know it by, over restarts.")
    ] = None,
    capture: Annotated[Path | None, typer.Option("--capture", metavar="DIR", help="Record its traffic.")] = None,
    domains: Annotated[Path | None, typer.Option("--domains", metavar="FILE", help="Domains with keys, TOML.")] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="Its own, PEM.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key of the certificate.")] = None,
    authority: Annotated[Path | None, typer.Option("--authority", metavar="FILE", help="Who signed them all.")] = None,
    allowed: Annotated[Path | None, typer.Option("--allowed", metavar="FILE", help="Who alone gets in.")] = None,
    revoked: Annotated[Path | None, typer.Option("--revoked", metavar="FILE", help="Who is refused.")] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="[HOST:]PORT", help="Serve /ready, /health and /metrics.")
    ] = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure", help="Listen to other machines without any key.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The address and the logs as lines of JSON.")] = False,
) -> None:
    """Be a door of a cluster, through which members find each other. A door is a member with a stable address.

    A rendezvous knows what every member knows, and decides nothing. Run several, and name them all to each other and to
    every node. While all of them are down, the cluster goes on as it is; nodes that start meanwhile wait. It runs until
    SIGTERM or Ctrl+C, says goodbye, and ends with 0. What is not given here comes from HOPWIRE_..., then from the file.
    """
    given = dict(locals())
    if given.pop("as_json"):
        given["log_format"] = "json"
    settings = door_settings(given)
    set_up_logs(settings["log_level"], settings["log_format"])
    asyncio.run(_serve(settings, as_json))


def door_settings(given: dict[str, Any]) -> RunSettings:
    """Read the settings of a door: those of a node, without actors, and with an address and a name of its own."""
    config = given.pop("config")
    files = [given[option] for option in TLS_OPTIONS]
    if any(files) and not all(files[:3]):
        raise SettingsError("--certificate, --key and --authority belong together")
    arguments = {
        f"tls_{option}" if option in TLS_OPTIONS else option: value
        for option, value in given.items()
        if value is not None and value != []
    }
    origins = {option: f"--{option.removeprefix('tls_').replace('_', '-')}" for option in arguments}
    return read_settings({**arguments, "actors": ()}, os.environ, config, origins, DOOR)


async def _serve(settings: RunSettings, as_json: bool) -> None:
    def show(node: Node, _url: str) -> None:
        say(json.dumps({"uri": node.uri}) if as_json else node.uri, flush=True)

    ending = EndWish()
    with heeding_signals(ending.wish):
        await serve(settings, ending=ending, on_start=show)
