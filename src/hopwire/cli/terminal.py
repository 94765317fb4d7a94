"""The screen: colours only on a terminal, as wide as it is, and a fixed width where there is none."""

from __future__ import annotations

import os

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["plain_table", "screen"]

PIPED_WIDTH = 120  # wide enough for every column of a dissection


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def screen() -> Console:
    """Give the terminal that stdout is; text is shown as it is, without markup."""
    console = _Screen(markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def plain_table() -> Table:
    """Give an empty table: a line below its head, two spaces between columns."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
