"""How a command line is made of commands, and run as a process.

`start` is what `hopwire` calls. Commands that only talk to a network are run without loading the others, which bring
numpy, pyarrow and pandas: a node that is run has 44 MB and not 134.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import cast

try:
    import rich  # noqa: F401
    import typer
except ModuleNotFoundError:
    import_module("hopwire.cli.main")  # which says what to install, and ends
    raise

from hopwire.cli.absent_pandas import start_without_pandas
from hopwire.cli.exits import ExitCode, complain, guarded
from hopwire.cli.held_memory import hold_memory
from hopwire.cli.usage_examples import example_of

__all__ = ["LIGHT", "app_of", "launch", "start"]

LIGHT = (
    *("rendezvous", "node", "ask", "send", "tell", "listen"),
    *("members", "routes", "trace", "doctor", "top", "config"),
)
USAGE_ERROR = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])  # typer gives no name to its parent
Commands = Iterable[Callable[..., None]]


def app_of(commands: Commands, groups: Mapping[str, tuple[str, Commands]], epilog: str = "") -> typer.Typer:
    """Make a command line of commands, and of groups that share their first word."""
    app = typer.Typer(name="hopwire", rich_markup_mode=None, epilog=epilog)
    for command in commands:
        app.command(epilog=example_of(command.__name__))(guarded(command))
    for name, (meaning, members) in groups.items():
        group = typer.Typer(name=name, help=meaning, rich_markup_mode=None, epilog=example_of(name))
        for member in members:
            group.command(epilog=example_of(f"{name} {member.__name__}"))(guarded(member))
        app.add_typer(group)
    return app


def start() -> int:
    """Run the command line of this process and give its exit code."""
    if sys.argv[1:2] and sys.argv[1] in LIGHT:
        network = import_module("hopwire.cli.network")
        return launch(app_of(network.COMMANDS, network.GROUPS), None)
    hold_memory(sys.argv[1:])
    start_without_pandas()
    return launch(import_module("hopwire.cli.main").app, None)


def launch(app: typer.Typer, arguments: list[str] | None) -> int:
    """Run a command line and give its exit code; without arguments those of the process are taken."""
    if arguments is None:  # the whole process is this command: SIGTERM tidies up like Ctrl+C
        signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that knows no Unicode still gets its line
    try:
        return int(app(arguments, prog_name="hopwire", standalone_mode=False) or ExitCode.FINE)
    except USAGE_ERROR as error:
        said = " ".join(error.format_message().split())
        complain(said if said.endswith("?") else f"{said.removesuffix('.')}; {_help_of(error)}")
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return ExitCode.INTERRUPTED


def _help_of(error: Exception) -> str:
    """Say which help shows how the command is called, with an example."""
    context = getattr(error, "ctx", None)
    return f"{context.command_path if context else 'hopwire'} --help shows how"


def _interrupt(*_: object) -> None:
    """Do what Ctrl+C does, also in a process that a shell told to ignore Ctrl+C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)
