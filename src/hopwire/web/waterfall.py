"""One flow as a waterfall: a line for each step, a bar from leaving to arriving, against one scale of time.

- A bar on the critical path is strong. A step that was lost ends in a cross, where it was last seen.
- An end that nobody saw is drawn hollow: it is inferred.
- With a band of error, a light stretch on both sides of an arrival shows how wrong the clocks may be.
- Raw times are by the clock of each node, and a bar may then point backwards. Both can be drawn: raw times as a thin
  line below the bar.
- What happens at one node, such as a word to an asker, is a dot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from markupsafe import Markup

from hopwire.model.units import NS_PER_US
from hopwire.report.flow_tree import took
from hopwire.report.words import cut
from hopwire.web.flow_steps import FlowStep
from hopwire.web.svg import drawing, group, link, tag, titled

__all__ = ["MAX_STEPS", "StepTimes", "minimap", "waterfall"]

MAX_STEPS = 500  # in one drawing: some thousand marks, which a browser draws at once
WIDTH, ROW, TOP, LABEL, TAIL = 1_000, 22, 26, 330, 70
WAY, LETTER = 130, 7  # the room for the way of a step, and for a letter of its contract
NARROW_LETTER = 6.5  # the room for a letter of the word beside a bar
INDENT, MAX_INDENT = 10, 6
MINIMAP_HEIGHT, MINIMAP_COLUMNS = 28, 250


class StepTimes(NamedTuple):
    """The times that a step is drawn with."""

    begin_ns: int
    end_ns: int
    band_ns: int = 0  # how wrong the end may be against the begin, at most
    raw_ns: tuple[int, int] | None = None  # begin and end by the clocks of the nodes, if they are drawn too


def waterfall(steps: Sequence[FlowStep], times: Mapping[int, StepTimes], address: str) -> Markup:
    """Draw the steps in the order in which they are given; `address` is that of the flow."""
    shown = list(steps)
    least = min(step.depth for step in shown)
    ends = [end for step in shown for end in _ends(times[step.number])]
    first, last = min(ends), max(ends)
    span = max(last - first, 1)
    room = WIDTH - LABEL - TAIL
    parts = [_grid(span, len(shown), room)]
    for row, step in enumerate(shown):
        parts.append(_line(step, times[step.number], row, step.depth - least, first, room / span, address))
    height = TOP + ROW * len(shown) + 6
    return drawing(WIDTH, height, parts, "the steps of the flow over time", class_="waterfall")


def _ends(times: StepTimes) -> tuple[int, ...]:
    return (times.begin_ns, times.end_ns, *(times.raw_ns or ()))


def _grid(span: int, rows: int, room: float) -> Markup:
    parts = []
    apart = _round_step(span)
    for at in range(0, span + 1, apart):
        x = LABEL + room * at / span
        parts.append(tag("line", x1=x, x2=x, y1=TOP - 4, y2=TOP + ROW * rows, class_="grid"))
        anchor = "middle" if at else "start"
        parts.append(tag("text", took(at // NS_PER_US), x=x, y=TOP - 10, class_="tick", text_anchor=anchor))
    return group(parts)


def _round_step(span_ns: int) -> int:
    """How far apart lines are: 1, 2 or 5 of a unit, so that there are at most seven of them."""
    steps = (int(digit * 10**power) for power in count(3) for digit in (1, 2, 5))  # from a microsecond on
    return next(step for step in steps if span_ns / step <= 6)


def _line(step: FlowStep, times: StepTimes, row: int, depth: int, first: int, scale: float, address: str) -> Markup:
    y = TOP + ROW * row
    middle = y + ROW / 2
    begin = LABEL + (times.begin_ns - first) * scale
    end = LABEL + (times.end_ns - first) * scale
    left, width = min(begin, end), max(abs(end - begin), 2.0)
    indent = INDENT * min(depth, MAX_INDENT)
    label = cut(step.contract, (LABEL - WAY - indent) // LETTER)
    parts = [
        titled(
            f"{step.number}: {step.contract}, {step.way}, {step.took or 'no latency'}; {step.remark or step.evidence}"
        ),
        tag("rect", x=0, y=y, width=WIDTH, height=ROW, class_="row"),
        tag("text", label, x=6 + indent, y=middle + 4, class_="label"),
        tag("text", cut(step.way, 24), x=LABEL - 8, y=middle + 4, class_="way end"),
    ]
    right = left + width
    if step.is_dead:
        parts.append(_cross(begin, middle))
    elif step.is_moment:
        parts.append(tag("circle", cx=begin, cy=middle, r=4, class_="moment"))
    else:
        if times.band_ns:
            low, right = max(end - times.band_ns * scale, LABEL), max(right, end + times.band_ns * scale)
            right = min(right, WIDTH)
            parts.append(tag("rect", x=low, y=y + 3, width=right - low, height=ROW - 6, rx=2, class_="band"))
        parts.append(tag("rect", x=left, y=y + 6, width=width, height=ROW - 12, rx=2, class_="bar"))
        if step.fate == "lost":
            parts.append(_cross(begin + 6, middle))
    if times.raw_ns is not None:
        x1, x2 = (LABEL + (each - first) * scale for each in times.raw_ns)
        parts.append(
            tag("line", x1=x1, x2=x2 if abs(x2 - x1) > 1 else x1 + 1, y1=y + ROW - 3, y2=y + ROW - 3, class_="raw")
        )
    parts.append(_beside(_word(step), left, max(right, begin + 10), middle + 4))
    return link(f"{address}/hop/{step.number}", group(parts), class_=f"step {step.classes}", id=f"step-{step.number}")


def _beside(word: str, left: float, right: float, y: float) -> Markup:
    """Write a word behind a bar; before it where there is no room behind, and else as far right as it fits."""
    width = NARROW_LETTER * len(word)
    if right + 5 + width <= WIDTH:
        return tag("text", word, x=right + 5, y=y, class_="took")
    return tag("text", word, x=left - 8 if left - 8 - width >= LABEL else WIDTH - 2, y=y, class_="took end")


def _word(step: FlowStep) -> str:
    if step.is_suspicious:
        return f"signature: {step.verdict}"
    words = {"lost": "LOST", "dead": "DEAD", "told": step.remark or "told", "local": "local"}
    return cut(words.get(step.fate, step.took), 40)


def _cross(x: float, y: float) -> Markup:
    return tag("path", d=f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8", class_="cross")


def minimap(begins_ns: Sequence[int], bad: Collection[int], address: str, shown: range) -> Markup:
    """Draw a flow of any length in few marks: how many steps begin when; the part that is shown below is marked.

    Steps are given by the times at which they begin, and by the numbers of those that went wrong.
    """
    first = min(begins_ns)
    span = max(max(begins_ns) - first, 1)
    columns: list[list[int]] = [[] for _ in range(MINIMAP_COLUMNS)]
    for number, begin in enumerate(begins_ns):
        columns[min((begin - first) * MINIMAP_COLUMNS // span, MINIMAP_COLUMNS - 1)].append(number)
    most = max(map(len, columns))
    wrong = frozenset(bad)
    width = WIDTH / MINIMAP_COLUMNS
    parts = []
    for index, column in enumerate(columns):
        if not column:
            continue
        height = max(MINIMAP_HEIGHT * len(column) / most, 1.0)
        is_bad = not wrong.isdisjoint(column)
        is_shown = any(number in shown for number in column)
        classes = f"mini{' bad' * is_bad}{' shown' * is_shown}"
        bar = tag("rect", x=index * width, y=MINIMAP_HEIGHT - height, width=width, height=height, class_=classes)
        title = titled(f"{len(column):,} steps, from number {column[0]}")
        parts.append(link(f"{address}&first={column[0]}", group([title, bar])))
    return drawing(WIDTH, MINIMAP_HEIGHT, parts, "all steps of the flow over time", class_="minimap")
