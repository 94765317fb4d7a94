"""One flow as a sequence diagram: a line down for each node, an arrow for each step, in the order of time."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from hopwire.report.flow_tree import took
from hopwire.report.words import cut
from hopwire.web.flow_steps import FlowStep
from hopwire.web.svg import drawing, group, link, tag, titled

__all__ = ["sequence_diagram"]

TOP, ROW, SIDE, MIN_LANE, WIDTH = 40, 34, 90, 130, 1_000
HEAD = 7  # of an arrow


def sequence_diagram(steps: Sequence[FlowStep], address: str) -> Markup:
    """Draw the steps; `address` is that of the flow."""
    lanes = list(dict.fromkeys(name for step in steps for name in _names(step)))
    lane = max(MIN_LANE, (WIDTH - 2 * SIDE) / max(len(lanes) - 1, 1))
    places = {name: SIDE + index * lane for index, name in enumerate(lanes)}
    height = TOP + ROW * len(steps) + 24
    width = max(WIDTH, SIDE * 2 + lane * (len(lanes) - 1))
    first = steps[0].begin_ns
    parts = [_lane(name, x, height) for name, x in places.items()]
    parts += [_arrow(step, row, places, first, address) for row, step in enumerate(steps)]
    return drawing(width, height, parts, "the steps of the flow from node to node", class_="sequence")


def _names(step: FlowStep) -> tuple[str, ...]:
    return (step.from_name,) if step.is_moment else (step.from_name, step.to_name)


def _lane(name: str, x: float, height: float) -> Markup:
    return group(
        [
            tag("line", x1=x, x2=x, y1=TOP - 12, y2=height, class_="lane"),
            tag("text", cut(name, 18), x=x, y=TOP - 20, class_="lane-name", text_anchor="middle"),
        ]
    )


def _arrow(step: FlowStep, row: int, places: dict[str, float], first: int, address: str) -> Markup:
    y = TOP + ROW * row + 20
    begin = places[step.from_name]
    end = begin if step.is_moment else places[step.to_name]
    at = took((step.begin_ns - first) // 1_000) or "0"
    parts = [
        titled(f"{step.number}: {step.contract}, {step.way}; {step.remark or step.evidence}"),
        tag("text", at, x=4, y=y + 4, class_="tick"),
        tag("rect", x=0, y=y - ROW / 2, width=WIDTH, height=ROW, class_="row"),
    ]
    if begin == end:
        parts.append(_point(step, begin, y))
    else:
        parts += _shaft(step, begin, end, y)
    return link(f"{address}/hop/{step.number}", group(parts), class_=f"arrow {step.classes}")


def _point(step: FlowStep, x: float, y: float) -> Markup:
    words = f"{step.contract}: {step.remark or step.fate}"
    if step.is_dead:
        mark = tag("path", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10", class_="cross")
    else:
        mark = tag("circle", cx=x, cy=y, r=4.5, class_="moment")
    return group([mark, tag("text", cut(words, 60), x=x + 12, y=y + 4, class_="label")])


def _shaft(step: FlowStep, begin: float, end: float, y: float) -> list[Markup]:
    side = 1 if end > begin else -1
    reached = (begin + end) / 2 if step.fate == "lost" else end - side * 2
    parts = [tag("line", x1=begin, x2=reached, y1=y, y2=y, class_="shaft")]
    if step.fate == "lost":
        parts.append(tag("path", d=f"M{reached - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10", class_="cross"))
    else:
        tip = f"M{reached:.1f} {y:.1f}l{-side * HEAD} {-HEAD / 2}v{HEAD}z"
        parts.append(tag("path", d=tip, class_="head"))
    words = cut(step.contract, 34) + (f"  {step.took}" if step.took else "")
    words += "  signature: " + step.verdict if step.is_suspicious else ""
    middle = (begin + reached) / 2 if step.fate == "lost" else (begin + end) / 2
    parts.append(tag("text", words, x=middle, y=y - 5, class_="label", text_anchor="middle"))
    if step.fate == "lost":
        parts.append(tag("text", "LOST", x=reached + side * 14, y=y + 4, class_="label lost",
                         text_anchor="start" if side > 0 else "end"))  # fmt: skip
    return parts
