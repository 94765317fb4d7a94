"""How wrong the clocks of nodes are: a dot for each node, and a band within which the truth lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from hopwire.model.units import NS_PER_US
from hopwire.report.flow_tree import took
from hopwire.report.words import cut
from hopwire.web.svg import drawing, group, tag, titled

__all__ = ["ClockOffset", "clock_chart", "offset_words"]

WIDTH, ROW, TOP, LABEL, TAIL = 1_000, 24, 22, 160, 150
MAX_NODES = 200


class ClockOffset(NamedTuple):
    """The clock of a node against the reference."""

    name: str
    offset_ns: int
    error_ns: int


def offset_words(offset_ns: int) -> str:
    """Give an offset in words: `1.2 ms ahead`."""
    us = abs(offset_ns) // NS_PER_US
    return "as the reference" if not us else f"{took(us)} {'ahead' if offset_ns > 0 else 'behind'}"


def clock_chart(offsets: Sequence[ClockOffset]) -> Markup:
    """Draw the clocks of nodes against the reference, which is the line in the middle."""
    shown = sorted(offsets, key=lambda each: (-abs(each.offset_ns), each.name))[:MAX_NODES]
    reach = max(abs(each.offset_ns) + each.error_ns for each in shown) or 1
    room = WIDTH - LABEL - TAIL
    middle, scale = LABEL + room / 2, room / 2 / reach
    height = TOP + ROW * len(shown) + 4
    parts = [
        tag("line", x1=middle, x2=middle, y1=TOP - 4, y2=height, class_="axis"),
        tag("text", "reference", x=middle, y=TOP - 9, class_="tick", text_anchor="middle"),
        tag("text", f"{took(reach // NS_PER_US)} behind", x=LABEL, y=TOP - 9, class_="tick"),
        tag("text", f"{took(reach // NS_PER_US)} ahead", x=WIDTH - TAIL, y=TOP - 9, class_="tick end"),
    ]
    parts += [_line(each, TOP + ROW * row + ROW / 2, middle, scale) for row, each in enumerate(shown)]
    return drawing(WIDTH, height, parts, "clocks against the reference", class_="clocks")


def _line(each: ClockOffset, y: float, middle: float, scale: float) -> Markup:
    x, reach = middle + each.offset_ns * scale, max(each.error_ns * scale, 1.0)
    words = f"{offset_words(each.offset_ns)}, within {took(each.error_ns // NS_PER_US)}"
    return group(
        [
            titled(f"{each.name}: {words}"),
            tag("text", cut(each.name, 22), x=6, y=y + 4, class_="label"),
            tag("rect", x=x - reach, y=y - 5, width=2 * reach, height=10, rx=2, class_="band"),
            tag("circle", cx=x, cy=y, r=3.5, class_="node"),
            tag("text", offset_words(each.offset_ns), x=WIDTH - TAIL + 10, y=y + 4, class_="tick"),
        ]
    )
