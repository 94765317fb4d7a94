"""Nodes and the links between them: on a circle, and as a matrix. The largest links come first, and none is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin, sqrt
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from hopwire.report.flow_tree import took
from hopwire.report.words import cut
from hopwire.web.svg import drawing, group, link, tag, titled

__all__ = ["MAX_DRAWN", "LinkTotal", "link_graph", "link_matrix"]

MAX_DRAWN = 300  # links in the drawing; the matrix and the table have all of them
SIZE, RADIUS, CENTRE_X, CENTRE_Y, WIDTH = 520, 190, 370, 260, 740  # room for a name of 22 characters at each side
CELL, EDGE = 34, 130
WIDEST, NODE = 7.0, 9
LOSSES = ((0.05, "much"), (0.01, "some"), (0.0, "little"))  # the least share that is lost, and its class


class LinkTotal(NamedTuple):
    """What went from one node to another, over all contracts and times that are looked at."""

    source: str
    target: str
    hop_count: int
    lost_count: int
    p95_us: int | None
    address: str

    @property
    def classes(self) -> str:
        """How a drawing shows the link: the more of it is lost, the stronger."""
        share = self.lost_count / max(self.hop_count, 1)
        return next((f" bad {word}" for least, word in LOSSES if share >= least and self.lost_count), "")

    @property
    def words(self) -> str:
        """The link for a reader."""
        lost = f", {self.lost_count:,} lost" if self.lost_count else ""
        slow = f", p95 {took(self.p95_us)}" if self.p95_us is not None else ""
        return f"{self.source} -> {self.target}: {self.hop_count:,} hops{lost}{slow}"


def link_graph(links: Sequence[LinkTotal]) -> Markup:
    """Draw nodes on a circle, and the largest links between them."""
    nodes = _nodes(links)
    places = {
        name: (
            CENTRE_X + RADIUS * cos(2 * pi * index / len(nodes) - pi / 2),
            CENTRE_Y + RADIUS * sin(2 * pi * index / len(nodes) - pi / 2),
        )
        for index, name in enumerate(nodes)
    }
    most = max((each.hop_count for each in links), default=1)
    parts = [_curve(each, places, most) for each in links[:MAX_DRAWN] if each.source != each.target]
    parts += [_node(name, *places[name]) for name in nodes]
    return drawing(WIDTH, SIZE, parts, "nodes and the links between them", class_="graph")


def link_matrix(links: Sequence[LinkTotal]) -> Markup:
    """Draw the links as a matrix: from the rows to the columns, the darker the more, the redder the more is lost."""
    nodes = _nodes(links)
    most = max((each.hop_count for each in links), default=1)
    number = {name: index for index, name in enumerate(nodes)}
    side = EDGE + CELL * len(nodes)
    parts = []
    for name, index in number.items():
        at = EDGE + CELL * index + CELL / 2
        parts.append(tag("text", cut(name, 16), x=EDGE - 8, y=at + 4, class_="label end"))
        turned = f"rotate(-50 {at:.1f} {EDGE - 8})"
        parts.append(tag("text", cut(name, 16), x=at, y=EDGE - 8, class_="label", transform=turned))
    for each in links:
        x, y = EDGE + CELL * number[each.target], EDGE + CELL * number[each.source]
        shade = 0.15 + 0.85 * sqrt(each.hop_count / most)
        classes = f"cell{each.classes}"
        cell = tag("rect", x=x, y=y, width=CELL - 2, height=CELL - 2, class_=classes, fill_opacity=shade)
        parts.append(link(each.address, group([titled(each.words), cell])))
    return drawing(side + 60, side + 8, parts, "links as a matrix", class_="matrix")


def _nodes(links: Sequence[LinkTotal]) -> list[str]:
    return sorted({name for each in links for name in (each.source, each.target)})


def _curve(each: LinkTotal, places: dict[str, tuple[float, float]], most: int) -> Markup:
    (x1, y1), (x2, y2) = places[each.source], places[each.target]
    bend_x, bend_y = (x1 + x2) / 2 + (y2 - y1) * 0.12, (y1 + y2) / 2 - (x2 - x1) * 0.12  # each direction has its side
    away = NODE + 5
    length = max(sqrt((x2 - bend_x) ** 2 + (y2 - bend_y) ** 2), 1.0)
    unit_x, unit_y = (x2 - bend_x) / length, (y2 - bend_y) / length
    tip_x, tip_y = x2 - unit_x * away, y2 - unit_y * away
    path = f"M{x1:.1f} {y1:.1f}Q{bend_x:.1f} {bend_y:.1f} {tip_x:.1f} {tip_y:.1f}"
    wing_x, wing_y = -unit_y * 4, unit_x * 4
    back_x, back_y = tip_x - unit_x * 9, tip_y - unit_y * 9
    head = (
        f"M{tip_x:.1f} {tip_y:.1f}L{back_x + wing_x:.1f} {back_y + wing_y:.1f}"
        f"L{back_x - wing_x:.1f} {back_y - wing_y:.1f}z"
    )
    width = 1 + (WIDEST - 1) * sqrt(each.hop_count / most)
    parts = [
        titled(each.words),
        tag("path", d=path, class_="edge", stroke_width=width),
        tag("path", d=head, class_="head"),
    ]
    return link(each.address, group(parts), class_=f"link{each.classes}")


def _node(name: str, x: float, y: float) -> Markup:
    anchor = "start" if x > CENTRE_X + 1 else "end" if x < CENTRE_X - 1 else "middle"
    shift = 16 if anchor == "start" else -16 if anchor == "end" else 0
    lift = 4 if anchor != "middle" else (-16 if y < CENTRE_Y else 26)
    words = tag("text", cut(name, 22), x=x + shift, y=y + lift, class_="label", text_anchor=anchor)
    dot = tag("circle", cx=x, cy=y, r=NODE, class_="node")
    return link(f"/flows?{urlencode({'node': name})}", group([titled(name), dot, words]))
