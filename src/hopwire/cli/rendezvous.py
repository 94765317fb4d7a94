"""`hopwire rendezvous`: an ordinary member of a cluster, with a stable address and no actors but that of its status."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from hopwire.cli.terminal import say
from hopwire.errors import SettingsError
from hopwire.node import Node, Tls
from hopwire.node.status import StatusActor
from hopwire.runner.log_lines import set_up_logs
from hopwire.runner.service import heeding_signals
from hopwire.security import OPEN

__all__ = ["rendezvous"]


def rendezvous(
    listen: Annotated[
        str, typer.Option("--listen", metavar="URI", help="Where members reach it.")
    ] = "tcp://127.0.0.1:7400",
    advertise: Annotated[
        str, typer.Option("--advertise", metavar="URI", help="What members are told, where that differs.")
    ] = "",
    join: Annotated[
        list[str] | None,
        typer.Option("--join", metavar="URI", help="Another door, or dns://name:port; may be repeated."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="A name, for captures.")] = "rendezvous",
    capture: Annotated[Path | None, typer.Option("--capture", metavar="DIR", help="Record its traffic.")] = None,
    domains: Annotated[Path | None, typer.Option("--domains", metavar="FILE", help="Domains with keys, TOML.")] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", metavar="FILE", help="Its own, PEM.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key of the certificate.")] = None,
    authority: Annotated[Path | None, typer.Option("--authority", metavar="FILE", help="Who signed them all.")] = None,
    allowed: Annotated[Path | None, typer.Option("--allowed", metavar="FILE", help="Who alone gets in.")] = None,
    revoked: Annotated[Path | None, typer.Option("--revoked", metavar="FILE", help="Who is refused.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to other machines without any key.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The address and the logs as lines of JSON.")] = False,
) -> None:
    """Be a door of a cluster, through which members find each other. A door is a member with a stable address.

    A rendezvous knows what every member knows, and decides nothing. Run several, and name them all to each other and to
    every node. While all of them are down, the cluster goes on as it is; nodes that start meanwhile wait. It runs until
    SIGTERM or Ctrl+C, says goodbye, and ends with 0.
    """
    files = (certificate, key, authority)
    if any((*files, allowed, revoked)) and not all(files):
        raise SettingsError("--certificate, --key and --authority belong together")
    tls = None
    if certificate is not None and key is not None and authority is not None:
        tls = Tls(certificate, key, authority, allowed, revoked)
    set_up_logs("info", "json" if as_json else "text")
    node = Node(
        listen,
        advertise=advertise,
        join=join or [],
        name=name,
        capture=capture,
        domains=domains or OPEN,  # by its path, so that it is read again when it changes
        tls=tls,
        insecure=insecure,
    )
    asyncio.run(_serve(node, as_json))


async def _serve(node: Node, as_json: bool) -> None:
    node.host(StatusActor(node), local_only=True)
    is_told = asyncio.Event()
    with heeding_signals(is_told.set):
        async with node:
            say(json.dumps({"uri": node.uri}) if as_json else node.uri, flush=True)
            await is_told.wait()
