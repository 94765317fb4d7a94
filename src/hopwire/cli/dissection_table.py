"""A dissection on the screen: a table with a row for each item, and of a bad message a dump that marks the wrong byte.

| width of the screen | columns |
|---|---|
| 110 or wider | frame, n-k, bytes, name, type, raw, meaning |
| narrower | the same without type and raw; numbers have their bytes behind them |
| narrower than 60 | without n-k too |
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hopwire.cli.terminal import plain_table
from hopwire.errors import WireError
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report import Row, hexdump, rows_from_dissection
from hopwire.report.dissection import position
from hopwire.report.meaning import OWN_EXTENSION
from hopwire.report.words import plural, printable
from hopwire.wire.dissect import UNREAD, Dissection
from hopwire.wire.schema import Type

__all__ = ["show_dissection", "show_error"]

WIDE, NARROW = 110, 60
DUMP_WIDTH = 16 * 4 + 12  # of a hex dump with 16 bytes a line
RAW_BYTES = 8  # in the column `raw`; a longer value ends in dots
PREVIEW = 120  # characters of a long value
FIRST_ROWS, LAST_ROWS = 20, 4  # that are shown of a long block
NUMBERS = tuple(kind.word for kind in Type if kind.is_number)
ONE_LINE = ("body_frames", "extensions", "(")  # names of long values, which are cut at the end of the line
QUIET = ("", "none", "not set", "empty", "zero", "unsigned")


def show_dissection(
    console: Console, dissection: Dissection, name: str = "", full: bool = False, fault: str = ""
) -> None:
    """Show a message, whole or as far as it could be read; `full` adds a dump of every frame.

    A fault of a message that could be read, such as a bad signature, stands in the first line.
    """
    console.print(_headline(dissection, name, fault), soft_wrap=True)
    if dissection.items:
        console.print(_table(dissection, console.width, full))
    if full:
        _show_frames(console, dissection)
    if dissection.error:
        console.print()
        show_error(console, dissection, dissection.error)


def _headline(dissection: Dissection, name: str, fault: str) -> Text:
    fmt = dissection.fmt.name if dissection.fmt else "no format"
    size = f"{plural(len(dissection.frames), 'frame')}, {plural(dissection.size_bytes, 'byte')}"
    fault = dissection.error.reason if dissection.error else fault
    verdict = Text(f"bad: {fault}", "bold red") if fault else Text("fine", "green")
    named = [Text(printable(name), "bold")] if name else []
    return Text("  ").join([*named, Text(fmt, "bold cyan"), Text(size), verdict])


def _table(dissection: Dissection, width: int, full: bool) -> Table:
    table = plain_table()
    table.add_column("frame", justify="right", no_wrap=True, style="bold")
    if width >= NARROW:
        table.add_column("n-k", no_wrap=True, style="dim")
    table.add_column("bytes", no_wrap=width >= NARROW, style="dim")
    table.add_column("name", no_wrap=width >= NARROW, overflow="fold", style="cyan")
    if width >= WIDE:
        table.add_column("type", no_wrap=True, style="dim")
        table.add_column("raw", no_wrap=True, style="green")
    table.add_column("meaning", overflow="fold")
    frame = -1
    for row in _shown(dissection, full):
        if isinstance(row, int):
            table.add_row(*[""] * (len(table.columns) - 1), Text(f"... {row} more (--full)", "dim"))
            continue
        table.add_row(*_cells(row, width, row.frame != frame, full, dissection), style=_style(row, dissection))
        frame = row.frame
    return table


def _shown(dissection: Dissection, full: bool) -> Iterator[Row | int]:
    """The rows; of a long block only its first and last rows, and between them how many are left out."""
    rows = rows_from_dissection(dissection, None if full else PREVIEW)
    for _, block in groupby(rows, lambda row: row.name.partition("[")[0]):
        alike = list(block)
        middle = range(0) if full else range(FIRST_ROWS, len(alike) - LAST_ROWS)
        left_out = 0
        for index, row in enumerate(alike):
            if index in middle and not _is_culprit(row, dissection):
                left_out += 1
                continue
            if left_out:
                yield left_out
                left_out = 0
            yield row


def _cells(row: Row, width: int, is_first: bool, full: bool, dissection: Dissection) -> list[Text]:
    cells = [Text(str(row.frame) if is_first else "")]
    if width >= NARROW:
        cells.append(Text(row.position if is_first else ""))
    cells += [Text(f"{row.start}:{row.stop}"), Text(row.name, "dim" if row.name.startswith("(") else "")]
    if width >= WIDE:
        cells += [Text(row.type), Text(_raw(row))]
    meaning = Text(row.meaning, "dim" if row.meaning in QUIET else "")
    is_culprit = _is_culprit(row, dissection)
    is_long = row.type == "raw" and row.name.startswith(ONE_LINE) and not row.meaning.startswith(OWN_EXTENSION)
    if is_long and not full and not is_culprit:
        meaning.no_wrap, meaning.overflow = True, "ellipsis"
    if width < WIDE and row.type in NUMBERS and row.hex:
        meaning.append(f"  {row.hex}", "dim")
    if dissection.error and is_culprit:
        meaning.append(f" <-- {dissection.error.reason}")
    return [*cells, meaning]


def _style(row: Row, dissection: Dissection) -> str:
    return "bold red" if _is_culprit(row, dissection) else "dim" if UNREAD in row.name else ""


def _raw(row: Row) -> str:
    digits = 2 * RAW_BYTES
    return row.hex if len(row.hex) <= digits else row.hex[: digits - 2] + ".."


def _is_culprit(row: Row, dissection: Dissection) -> bool:
    """Whether the wrong byte stands in this row, or is missing behind it at the end of the frame."""
    error = dissection.error
    if error is None or error.byte is None or row.frame != error.frame:
        return False
    is_behind = error.byte == row.stop == len(dissection.frames[row.frame])
    return row.start <= error.byte < row.stop or is_behind


def _show_frames(console: Console, dissection: Dissection) -> None:
    for index, frame in enumerate(dissection.frames):
        if frame:
            size = plural(len(frame), "byte")
            console.print(Text(f"\nframe {index} ({position(dissection, index)}), {size}", "bold"))
            for line in hexdump(frame, width=_bytes_per_line(console)):
                console.print(Text(line), soft_wrap=True)


def _bytes_per_line(console: Console) -> int:
    return 16 if console.width >= DUMP_WIDTH else 8 if console.width >= DUMP_WIDTH // 2 else 4


def show_error(console: Console, dissection: Dissection, error: WireError) -> None:
    """Show why a message is bad, and mark the byte."""
    console.print(Text.assemble((error.reason, "bold red"), f": {WIRE_REASONS[error.reason]}"))
    if error.frame is None:
        console.print(Text(error.detail))
        return
    where = [f"frame {error.frame} ({position(dissection, error.frame)})", f"byte {error.byte}", error.field]
    console.print(Text(f"{', '.join(part for part in where if part)}: {error.detail}"))
    console.print()
    for line in hexdump(dissection.frames[error.frame], error.byte, _bytes_per_line(console)):
        console.print(Text(line, "bold red" if line.endswith("^^") else ""), soft_wrap=True)
