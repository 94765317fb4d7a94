"""The command `hopwire`: the list of its commands.

A command is a function in a file of the same name, and one line in COMMANDS. Commands that share their first word, such
as `lake build` and `lake tables`, are one line in GROUPS. The codes that a command ends with are a table in `exits.py`.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, cast

try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError as missing:
    print(f'hopwire: {missing.name} is not installed: pip install "hopwire[cli]"', file=sys.stderr)
    raise SystemExit(2) from None

from hopwire.cli import capture, flows, lake
from hopwire.cli.decode import decode
from hopwire.cli.demo import demo
from hopwire.cli.encode import encode
from hopwire.cli.exits import EXIT_CODES, ExitCode, complain, guarded
from hopwire.cli.reasons import reasons
from hopwire.cli.rendezvous import rendezvous
from hopwire.cli.simulate import simulate
from hopwire.cli.terminal import say

__all__ = ["app", "run"]

COMMANDS = (
    decode,
    encode,
    reasons,
    demo,
    simulate,
    rendezvous,
)
GROUPS: dict[str, tuple[str, tuple[Callable[..., None], ...]]] = {
    "capture": ("Look into what nodes have recorded.", capture.COMMANDS),
    "lake": ("Build tables from captures.", lake.COMMANDS),
    "flows": ("See what became of questions and messages.", flows.COMMANDS),
}
EPILOG = "Exit codes: " + "; ".join(f"{code:d} {meaning}" for code, meaning in EXIT_CODES.items()) + "."
USAGE_ERROR = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])  # typer gives no name to its parent

app = typer.Typer(name="hopwire", rich_markup_mode=None, epilog=EPILOG, add_completion=False)
for command in COMMANDS:
    app.command()(guarded(command))
for name, (meaning, commands) in GROUPS.items():
    group = typer.Typer(name=name, help=meaning, rich_markup_mode=None)
    for member in commands:
        group.command()(guarded(member))
    app.add_typer(group)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """A message network for Python actors, and the tools to look into what it says."""
    if version:
        say(f"hopwire {_version()}")
    elif context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(ExitCode.USAGE)


def _version() -> str:
    try:
        return metadata.version("hopwire")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _interrupt(*_: object) -> None:
    """Do what Ctrl+C does, also in a process that a shell told to ignore Ctrl+C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    if arguments is None:  # the whole process is this command: SIGTERM tidies up like Ctrl+C
        signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no Unicode still gets its line
    try:
        return int(app(arguments, prog_name="hopwire", standalone_mode=False) or ExitCode.FINE)
    except USAGE_ERROR as error:
        complain(error.format_message())
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return ExitCode.INTERRUPTED
