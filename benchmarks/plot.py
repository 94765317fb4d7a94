"""Bars and lines as SVG, by hand: a plotting library would be the largest dependency of the project.

Panels stand two in a row; each has its own scale, which begins at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Bar", "LinePanel", "Panel", "svg_from_panels"]

COLUMNS, PANEL_WIDTH, GAP = 2, 520, 24
BAR_HEIGHT, LINE_HEIGHT, TITLE_HEIGHT = 14, 22, 30
LABEL_WIDTH, NOTE_WIDTH = 120, 110
LINE_PANEL_HEIGHT = 140
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


@dataclass(frozen=True, slots=True)
class LinePanel:
    """A value over time; the scale begins at 0."""

    title: str
    points: tuple[tuple[float, float], ...]  # seconds, and the value
    unit: str = ""

    @property
    def height(self) -> int:
        """How high it is drawn."""
        return TITLE_HEIGHT + LINE_PANEL_HEIGHT + LINE_HEIGHT + GAP


def svg_from_panels(title: str, panels: Sequence[Panel | LinePanel]) -> str:
    """Draw the panels, two in a row, from left to right and from top to bottom."""
    parts, top = [], GAP
    for first in range(0, len(panels), COLUMNS):
        row = panels[first : first + COLUMNS]
        for column, panel in enumerate(row):
            draw = _lines if isinstance(panel, LinePanel) else _panel
            parts += draw(panel, GAP + column * (PANEL_WIDTH + GAP), top)  # type: ignore[arg-type]
        top += max(panel.height for panel in row)
    width = GAP + COLUMNS * (PANEL_WIDTH + GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
    style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}"'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([f"{head} {style}>", f"<title>{escape(title)}</title>", background, *parts, "</svg>", ""])


def _lines(panel: LinePanel, left: int, top: int) -> list[str]:
    """Draw a line, with its largest value and its last time at the axes."""
    last = max((at for at, _ in panel.points), default=0) or 1
    most = max((value for _, value in panel.points), default=0) or 1
    zero, floor = left + LABEL_WIDTH / 2, top + TITLE_HEIGHT + LINE_PANEL_HEIGHT
    width = PANEL_WIDTH - LABEL_WIDTH / 2
    places = [
        f"{zero + at / last * width:.1f},{floor - value / most * LINE_PANEL_HEIGHT:.1f}" for at, value in panel.points
    ]
    return [
        f'<text x="{left}" y="{top + 14}" font-weight="600">{escape(panel.title)}</text>',
        f'<path d="M{zero} {top + TITLE_HEIGHT}V{floor}H{zero + width}" fill="none" stroke="{OTHERS}"/>',
        f'<polyline points="{" ".join(places)}" fill="none" stroke="{OURS}" stroke-width="1.5"/>',
        f'<text x="{zero - 6}" y="{top + TITLE_HEIGHT + 8}" text-anchor="end">{most:,.4g}{escape(panel.unit)}</text>',
        f'<text x="{zero + width}" y="{floor + 16}" text-anchor="end">{last:,.0f} s</text>',
    ]


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
