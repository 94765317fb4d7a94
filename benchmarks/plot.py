"""Bars as SVG, by hand: a plotting library would be the largest dependency of the project.

Panels stand two in a row; each has its own scale, which begins at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Bar", "Panel", "svg_from_panels"]

COLUMNS, PANEL_WIDTH, GAP = 2, 520, 24
BAR_HEIGHT, LINE_HEIGHT, TITLE_HEIGHT = 14, 22, 30
LABEL_WIDTH, NOTE_WIDTH = 120, 110
OURS, OTHERS, INK = "#2563a8", "#b4b9c0", "#30343a"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, and what is said behind it."""

    label: str
    value: float
    note: str
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars with one scale."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def height(self) -> int:
        """How high it is drawn."""
        return TITLE_HEIGHT + LINE_HEIGHT * len(self.bars) + GAP


def svg_from_panels(title: str, panels: Sequence[Panel]) -> str:
    """Draw the panels, two in a row, from left to right and from top to bottom."""
    parts, top = [], GAP
    for first in range(0, len(panels), COLUMNS):
        row = panels[first : first + COLUMNS]
        for column, panel in enumerate(row):
            parts += _panel(panel, GAP + column * (PANEL_WIDTH + GAP), top)
        top += max(panel.height for panel in row)
    width = GAP + COLUMNS * (PANEL_WIDTH + GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
    style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f"{head} {style}>", f"<title>{escape(title)}</title>", background, *parts, "</svg>", ""])


def _panel(panel: Panel, left: int, top: int) -> list[str]:
    longest = max((bar.value for bar in panel.bars), default=0) or 1
    scale = (PANEL_WIDTH - LABEL_WIDTH - NOTE_WIDTH) / longest
    parts = [f'<text x="{left}" y="{top + 14}" font-weight="600">{escape(panel.title)}</text>']
    for number, bar in enumerate(panel.bars):
        parts += _bar(bar, left + LABEL_WIDTH, top + TITLE_HEIGHT + number * LINE_HEIGHT, bar.value * scale)
    return parts


def _bar(bar: Bar, zero: int, top: int, length: float) -> list[str]:
    base, colour = top + BAR_HEIGHT - 3, OURS if bar.is_ours else OTHERS
    return [
        f'<text x="{zero - 8}" y="{base}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect x="{zero}" y="{top}" width="{length:.1f}" height="{BAR_HEIGHT}" fill="{colour}"/>',
        f'<text x="{zero + length + 6:.1f}" y="{base}">{escape(bar.note)}</text>',
    ]
