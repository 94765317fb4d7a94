"""The command `hopwire`: the list of its commands.

A command is a function in a file of the same name, and one line in COMMANDS. Commands that share their first word, such
as `lake build` and `lake tables`, are one line in GROUPS. The codes that a command ends with are a table in `exits.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError as missing:
    print(f'hopwire: {missing.name} is not installed: pip install "hopwire[cli]"', file=sys.stderr)
    raise SystemExit(2) from None

from hopwire.cli import capture, flows, keys, lake, network
from hopwire.cli.decode import decode
from hopwire.cli.demo import demo
from hopwire.cli.encode import encode
from hopwire.cli.exits import EXIT_CODES
from hopwire.cli.flows_export import export
from hopwire.cli.flows_latencies import latencies
from hopwire.cli.launch import app_of, launch
from hopwire.cli.reasons import reasons
from hopwire.cli.simulate import simulate
from hopwire.cli.terminal import say
from hopwire.cli.ui import ui
from hopwire.cli.usage_examples import first_steps
from hopwire.cli.wireshark import wireshark

__all__ = ["app", "run"]

COMMANDS: tuple[Callable[..., None], ...] = (
    decode,
    encode,
    wireshark,
    reasons,
    demo,
    simulate,
    ui,
    *network.COMMANDS,
)
GROUPS: dict[str, tuple[str, tuple[Callable[..., None], ...]]] = {
    "capture": ("Look into what nodes have recorded.", capture.COMMANDS),
    "lake": ("Build tables from captures.", lake.COMMANDS),
    "keys": ("Make, sign and revoke the keys of a network.", keys.COMMANDS),
    "flows": ("See what became of questions and messages.", (*flows.COMMANDS, latencies, export)),
    **network.GROUPS,
}
EPILOG = "Exit codes: " + "; ".join(f"{code:d} {meaning}" for code, meaning in EXIT_CODES.items()) + "."

app = app_of(COMMANDS, GROUPS, EPILOG)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """A message network for Python actors, and the tools to look into what it says."""
    if version:
        say(f"hopwire {_version()}")
    elif context.invoked_subcommand is None:
        say(first_steps())


def _version() -> str:
    try:
        return metadata.version("hopwire")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    return launch(app, arguments)
