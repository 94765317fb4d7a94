"""`hopwire node`: a node as a process, with actors from modules."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from hopwire.cli.exits import ExitCode
from hopwire.runner.log_lines import set_up_logs
from hopwire.runner.service import serve_until_signal
from hopwire.runner.settings import RunSettings, read_settings, text_arguments

__all__ = ["given_settings", "node"]

log = logging.getLogger("hopwire.runner")


def _option(*names: str, metavar: str, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


Places: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODULE:NAME",
        help="Actors: a class, an instance, or a callable that gives some.",
        show_default=False,
    ),
]
Config: TypeAlias = Annotated[Path | None, _option("--config", "-c", metavar="FILE", help="Settings in TOML.")]
Name: TypeAlias = Annotated[str | None, _option("--name", metavar="NAME", help="What people call the node.")]
Identity: TypeAlias = Annotated[
    str | None, _option("--identity", metavar="TEXT", help="What other nodes know it by, over restarts.")
]
Listen: TypeAlias = Annotated[
    str | None, _option("--listen", metavar="URI", help="Where others reach the node: tcp://127.0.0.1:7400.")
]
Advertise: TypeAlias = Annotated[
    str | None, _option("--advertise", metavar="URI", help="What others are told, where that differs.")
]
Peers: TypeAlias = Annotated[
    list[str] | None, _option("--peer", metavar="URI", help="A node that is greeted first; may be repeated.")
]
Join: TypeAlias = Annotated[
    list[str] | None, _option("--join", metavar="URI", help="A member of the network to join by; may be repeated.")
]
Capture: TypeAlias = Annotated[
    Path | None, _option("--capture", metavar="DIR", help="Write down everything that is said.")
]
DomainsFile: TypeAlias = Annotated[
    Path | None, _option("--domains", metavar="FILE", help="Domains, and where their keys are.")
]
Insecure: TypeAlias = Annotated[
    bool | None, typer.Option("--insecure", help="Listen to other machines without keys.", show_default=False)
]
Http: TypeAlias = Annotated[
    str | None,
    _option(
        "--http", metavar="[HOST:]PORT", help="Serve /ready, /health and /metrics; on 127.0.0.1 if no host is given."
    ),
]
Drain: TypeAlias = Annotated[
    float | None,
    _option("--drain-seconds", metavar="SECONDS", help="For work that is left when the node is told to end."),
]
Grace: TypeAlias = Annotated[
    float | None,
    _option("--grace-seconds", metavar="SECONDS", help="Until the node is ready though peers are missing."),
]
LogLevel: TypeAlias = Annotated[
    str | None, _option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
]
LogFormat: TypeAlias = Annotated[
    str | None, _option("--log-format", metavar="FORMAT", help="text, or json for a line of JSON each.")
]
Set: TypeAlias = Annotated[
    list[str] | None, _option("--set", metavar="NAME=VALUE", help="Any other setting; `hopwire config show` lists all.")
]


def node(
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
    as_json: Annotated[bool, typer.Option("--json", help="Logs as lines of JSON: --log-format json.")] = False,
) -> None:
    """Run a node with actors from modules, until SIGTERM or Ctrl+C.

    Then the node takes no new work, finishes what it has, and ends with 0. A second signal ends it at once, with 130.
    An option that is not given here comes from HOPWIRE_..., then from the file, then it has its default.
    """
    given = dict(locals())
    if given.pop("as_json"):
        given["log_format"] = "json"
    settings = given_settings(given)
    set_up_logs(settings["log_level"], settings["log_format"])
    serve_until_signal(settings)
    _leave_threads_behind()


def given_settings(given: dict[str, Any]) -> RunSettings:
    """Read the settings of the arguments that were given, the environment and the file."""
    config, others = given.pop("config"), given.pop("others") or ()
    arguments = {name: value for name, value in given.items() if value is not None and value != []}
    origins = {name: f"--{OPTION_NAMES.get(name, name).replace('_', '-')}" for name in arguments}
    origins |= {"actors": "argument"}
    texts = text_arguments(others)
    return read_settings(arguments | texts, os.environ, config, origins | dict.fromkeys(texts, "--set"))


OPTION_NAMES = {"peers": "peer"}  # options that are repeated are named for one of their values


def _leave_threads_behind() -> None:
    """End the process though handlers that block still work: they had their time."""
    others = [each for each in threading.enumerate() if each is not threading.current_thread() and not each.daemon]
    if any(each.name.startswith("hopwire-") for each in others):
        log.warning("a handler still blocks its thread, and is left behind", extra={"hopwire_event": "left_behind"})
        logging.shutdown()
        sys.stdout.flush()
        os._exit(ExitCode.FINE)
