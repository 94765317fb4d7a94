"""`hopwire demo`: a small network of processes has a bad day; then the lake tells what happened, and the hubs agree.

The traffic follows from the seed; what the machine makes of it does not, so times differ from run to run.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Annotated

import typer

from hopwire.cli.day import show_day, summary_to_json
from hopwire.cli.exits import ExitCode
from hopwire.cli.terminal import error_screen, say, screen
from hopwire.demo.day_summary import summarise
from hopwire.demo.pipeline import build_lake, what_is_missing
from hopwire.demo.supervisor import live
from hopwire.disk import local_path, make_directory
from hopwire.errors import SettingsError

__all__ = ["demo"]

LAKE = "lake"


def demo(
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Keep captures and lake in this new directory.", show_default=False),
    ] = None,
    orders: Annotated[int, typer.Option("--orders", min=1, help="How many orders go well.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same traffic.")] = 7,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Run a network of processes in which everything goes wrong, and look at it through the lake.

    Five nodes talk over ZeroMQ in all four wire formats, while messages are dropped, doubled, forged and a node is
    killed. Their captures become tables on Spark, and what these say is compared with what the nodes saw. Takes about a
    minute. Ends with 1 if the two do not agree. Without Spark only the network runs.
    """
    began = monotonic()
    with _directory(keep) as directory, _steps() as on_step:
        day = asyncio.run(live(directory, seed, orders, on_step))
        missing = what_is_missing()
        lake = None if missing else directory / LAKE
        if lake:
            build_lake(day, lake, on_step)
        on_step("")
        summary = summarise(day, lake)
        if as_json:
            say(json.dumps({**summary_to_json(summary), "missing": missing}))
        else:
            show_day(screen(), summary, lake, keep, monotonic() - began)
            if missing:
                say(f"\nThe lake was not built: {missing}")
    if not summary.is_fine:
        raise typer.Exit(ExitCode.BAD)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Give a directory that is gone afterwards, or the one to keep."""
    if keep is None:
        with TemporaryDirectory(prefix="hopwire-demo-", ignore_cleanup_errors=True) as directory:
            yield Path(directory)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise SettingsError(f"--keep: found {str(keep)!r} with something in it, expected a new directory")
    make_directory(local_path(keep))
    yield keep


@contextmanager
def _steps() -> Iterator[Callable[[str], None]]:
    """Give a function that shows what is being done, on a terminal."""
    console = error_screen()
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    with console.status("") as status:
        yield lambda step: status.update(step) if step else status.stop()
