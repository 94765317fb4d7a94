"""`hopwire simulate`: captures of a network that never ran, and beside them what is true of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.progress import Progress
from rich.text import Text

from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import SettingsError
from hopwire.simulate.faults import FAULTS, rates_from_text
from hopwire.simulate.settings import SimulateSettings, formats_from_text

if TYPE_CHECKING:
    from hopwire.lake.simulation import Simulated

__all__ = ["simulate"]

MEGABYTE = 1_000_000
MAX_MESSAGES = 10_000_000_000  # more than any disk holds
FAULTS_HELP = f"all, none, or some, such as loss,replay=0.01. There are: {', '.join(FAULTS)}."


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="An empty or a new directory.")],
    messages: Annotated[
        int, typer.Option("--messages", min=1, max=MAX_MESSAGES, help="About how many sightings.")
    ] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same bytes.")] = 7,
    nodes: Annotated[int, typer.Option("--nodes", min=4, help="How many nodes capture.")] = 6,
    formats: Annotated[str, typer.Option("--formats", help="Which wire formats.")] = "V3,V4,V5,V6",
    faults: Annotated[str, typer.Option("--faults", help=FAULTS_HELP)] = "all",
    spark: Annotated[bool, typer.Option("--spark", help="Let the workers of Spark write, for many messages.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object in place of a table.")] = False,
) -> None:
    """Write captures of a simulated network, and its truth.

    Each fault has flows of its own. The number behind the name of a fault is its rate. For most faults the rate is a
    share of all flows, for some a share of nodes, minutes or sightings. The number of giant_body is a size in MiB.
    """
    settings = SimulateSettings(messages, seed, nodes, formats_from_text(formats), _rates(faults))
    console = screen()
    with Progress(console=console, transient=True, disable=as_json or not console.is_terminal) as progress:
        task = progress.add_task("simulating", total=settings.closing + 1)
        done = _run(settings, out, spark, lambda count: progress.update(task, completed=count))
    if as_json:
        say(msgspec.json.encode(done).decode())
    else:
        _show(done, out)


def _rates(text: str) -> dict[str, float]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and {"all", "none"} & set(parts):
        raise SettingsError(
            f"--faults: found {text!r:.40}, expected all, none, or names of faults; all and none stand alone"
        )
    return rates_from_text(text)


def _run(settings: SimulateSettings, out: Path, spark: bool, on_chunk: Callable[[int], None]) -> Simulated:
    from hopwire.lake.simulation import simulate_here, simulate_on_spark  # other commands do not load it

    if not spark:
        return simulate_here(settings, out, on_chunk)
    try:
        from hopwire.lake.session import session
    except ModuleNotFoundError as missing:
        raise SettingsError(f'{missing.name} is not installed: pip install "hopwire[spark]"') from None
    started = session("hopwire simulate")
    try:
        return simulate_on_spark(started, settings, out, on_chunk)
    finally:
        started.stop()


def _show(done: Simulated, out: Path) -> None:
    console = screen()
    table = plain_table()
    table.add_column("fault", style="cyan", no_wrap=True)
    table.add_column("flows", justify="right")
    table.add_column("meaning", style="dim")
    for name, count in done.injected.items():
        table.add_row(name, f"{count:,}", FAULTS[name].meaning)
    if done.injected:
        console.print(table)
    size = f"{done.size_bytes / MEGABYTE:,.0f} MB"
    console.print(Text(f"{done.sightings:,} sightings of {done.nodes} nodes in {done.segments} segments, {size}"))
    captures, domains, truth = (shlex.quote(str(out / name)) for name in ("captures", "domains.toml", "truth"))
    console.print(Text(f"\nnext  hopwire lake build {captures} LAKE --domains {domains}", "dim"), soft_wrap=True)
    console.print(Text(f"then  hopwire lake check LAKE {truth}", "dim"), soft_wrap=True)
