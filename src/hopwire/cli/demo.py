"""`hopwire demo`: one message in four formats, the same one broken, then a million of them.

Everything but the speed follows from the seed.
"""

from __future__ import annotations

import random
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from hopwire.cli.exits import ExitCode
from hopwire.cli.mass import Tally, decode_many
from hopwire.cli.terminal import plain_table, screen
from hopwire.cli.view import show_error
from hopwire.model import Message
from hopwire.report import Row, rows_from_dissection
from hopwire.wire import FORMATS, REASONS, V6, encode
from hopwire.wire.dissect import Dissection, dissect
from hopwire.wire.samples import sample_message

__all__ = ["demo"]

MEGABYTE = 1_000_000
PREVIEW = 48  # characters of a value
WIDE = 96  # a screen with room for the values


def demo(
    messages: Annotated[int, typer.Option("--messages", min=1, help="How many messages to decode.")] = 1_000_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same messages.")] = 7,
) -> None:
    """Take messages of all four formats apart, one by one and then a million at once."""
    console = screen()
    samples = _samples(seed)
    console.print(Text("1. One message in four wire formats: where each value stands, and what it says\n", "bold"))
    _show_places(console, samples)
    console.print(Text("\n2. The same message in V6, with one byte that is wrong\n", "bold"))
    _show_broken(console, samples[V6.name])
    console.print(Text(f"\n3. {messages:,} messages in all formats, some of them damaged, in Arrow batches\n", "bold"))
    tally = _decode(console, messages, _chance(seed))
    _show_tally(console, tally)
    if not tally.adds_up:
        raise typer.Exit(ExitCode.BAD)


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def _samples(seed: int) -> dict[str, Dissection]:
    """The same message in each format, as far as the format can carry it."""
    return {fmt.name: dissect(encode(sample_message(fmt, _chance(seed)), fmt)) for fmt in FORMATS}


def _show_places(console: Console, samples: dict[str, Dissection]) -> None:
    found = {name: {_field(row): row for row in rows_from_dissection(each, PREVIEW)} for name, each in samples.items()}
    table = plain_table()
    table.add_column("field", no_wrap=True, style="cyan")
    for name in found:
        table.add_column(name, no_wrap=True, style="dim")
    if console.width >= WIDE:
        table.add_column("meaning")
    for field, row in found[V6.name].items():
        if field in Message.__struct_fields__ or field.endswith("].identity"):
            places = [_place(rows[field], samples[name]) if field in rows else "" for name, rows in found.items()]
            meaning = [Text(row.meaning, no_wrap=True, overflow="ellipsis")] if console.width >= WIDE else []
            table.add_row(field, *places, *meaning)
    console.print(table)
    console.print(Text("\nn-6 is the sixth frame from the end, 8:26 are bytes within it.", "dim"))


def _field(row: Row) -> str:
    return "body_frames" if row.name == "body_frames[0]" else row.name


def _place(row: Row, dissection: Dissection) -> str:
    is_whole = row.stop - row.start == len(dissection.frames[row.frame])
    return row.position if is_whole else f"{row.position} {row.start}:{row.stop}"


def _show_broken(console: Console, sample: Dissection) -> None:
    length = next(item for item in sample.items if item.name == "correlation_id")
    meta = bytearray(sample.frames[-1])
    meta[length.start + 1] = 0x40
    broken = dissect([*sample.frames[:-1], bytes(meta)])
    assert broken.error is not None
    show_error(console, broken, broken.error)


def _decode(console: Console, count: int, chance: random.Random) -> Tally:
    tally = Tally()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("decoding", total=count)
        for tally in decode_many(count, chance):
            progress.update(task, completed=tally.rows)
    return tally


def _show_tally(console: Console, tally: Tally) -> None:
    table = plain_table()
    table.add_column("read as, or refused for", style="cyan")
    table.add_column("messages", justify="right")
    table.add_column("meaning", style="dim")
    for fmt in FORMATS:
        table.add_row(fmt.name, f"{tally.formats[fmt.number]:,}", "")
    for reason, count in tally.reasons.most_common():
        table.add_row(Text(reason, "red"), f"{count:,}", REASONS[reason])
    console.print(table)
    verdict = ("adds up", "bold green") if tally.adds_up else ("DOES NOT ADD UP", "bold red")
    sums = f"{tally.rows:,} in = {tally.decoded:,} decoded + {tally.quarantined:,} quarantined: "
    console.print(Text.assemble("\nbalance  ", sums, verdict))
    rate, volume = tally.rows / tally.seconds, tally.size_bytes / MEGABYTE / tally.seconds
    console.print(Text(f"speed    {rate:,.0f} messages/s, {volume:,.0f} MB/s, every field read: {tally.seconds:.1f} s"))
