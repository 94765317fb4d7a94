"""The screen: colours and the width of the terminal; no colours and a fixed width where the output is no terminal.

Names and reasons come from the wire and from files, and could hold commands for a terminal. So everything that a
command writes passes one gate: `say` for lines and `screen` for tables escape all control characters except the ends of
lines and the colours of rich. No command prints in another way (`tests/cli/test_terminal.py`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import IO

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from hopwire.report.words import printable, printable_lines

__all__ = ["error_screen", "plain_table", "print_whole", "redraw", "say", "screen", "size"]

HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"  # what every terminal obeys
WHOLE = 10_000  # wider than any line
PIPED_WIDTH = 120  # wide enough for every column of a dissection


class _GuardedConsole(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable_lines(text), style, control)


def say(text: str, *, flush: bool = False) -> None:
    """Write lines to stdout."""
    print(printable_lines(text), flush=flush)


def size() -> tuple[int, int]:
    """Give the columns and lines of the terminal."""
    found = shutil.get_terminal_size()
    return found.columns, found.lines


def redraw(lines: Iterable[str]) -> None:
    """Write lines over the screen of a terminal, from its top."""
    shown = "".join(f"{printable(line)}{CLEAR_LINE}\n" for line in lines)
    print(f"{HOME}{shown}{CLEAR_BELOW}", end="", flush=True)


def screen(file: IO[str] | None = None) -> Console:
    """Give the console of stdout or of a file; text is shown as it is, without markup."""
    console = _GuardedConsole(markup=False, emoji=False, highlight=False, file=file)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def error_screen() -> Console:
    """Give the console of stderr, for progress."""
    return _GuardedConsole(stderr=True, markup=False, emoji=False, highlight=False)


def print_whole(console: Console, table: Table) -> None:
    """Print a table with lines as long as they are: what somebody selects and copies, such as a name, stays whole."""
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=WHOLE)).maximum)
    console.print(table, soft_wrap=True)


def plain_table() -> Table:
    """Give an empty table: a line below its head, two spaces between columns."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
