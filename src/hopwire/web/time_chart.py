"""How many flows began when, what became of them, and how long they took: bars over time, and a line above them.

Each column of bars leads to the flows that began in its time, also without a script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from hopwire.capture.times import time_text
from hopwire.model.units import NS_PER_SECOND
from hopwire.report.flow_tree import took
from hopwire.web.svg import drawing, group, link, tag, titled

__all__ = ["SHOWN_OUTCOMES", "Bucket", "bucket_width", "time_chart"]

WIDTH, HEIGHT, TOP, BOTTOM, LEFT = 1_000, 190, 16, 22, 60
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800)  # seconds
FINE = (1_000_000, 10_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000)  # ns, for very short captures
MAX_BUCKETS, MAX_TICKS = 100, 7
MILLISECONDS = "2026-01-31T12:00:00.000"
ENDS = (
    (19, NS_PER_SECOND),
    (21, NS_PER_SECOND // 10),
    (22, NS_PER_SECOND // 100),
)  # of the text of a time that tells all
SHOWN_OUTCOMES = ("lost", "expired", "late", "failed", "open", "answered", "delivered")  # from the ground up


class Bucket(NamedTuple):
    """The flows that began in one stretch of time."""

    at_ns: int
    counts: Mapping[str, int]
    p95_us: int | None


def bucket_width(first_ns: int, last_ns: int) -> int:
    """Give the length of a stretch, so that there are at most a hundred of them."""
    span = max(last_ns - first_ns, 1)
    widths = (*FINE, *(seconds * NS_PER_SECOND for seconds in STEPS))
    return next((width for width in widths if span / width <= MAX_BUCKETS), span // MAX_BUCKETS + 1)


def time_chart(buckets: Sequence[Bucket], width_ns: int, address: Callable[[int, int], str]) -> Markup:
    """Draw the buckets; `address` gives where the flows between two times are listed."""
    if not buckets:
        return Markup("")
    first = buckets[0].at_ns
    number = (buckets[-1].at_ns - first) // width_ns + 1
    most = max(sum(bucket.counts.values()) for bucket in buckets)
    slowest = max((bucket.p95_us or 0 for bucket in buckets), default=0)
    step = (WIDTH - LEFT) / number
    ground = HEIGHT - BOTTOM
    room = ground - TOP
    parts = [_scale(most, ground, room)]
    for bucket in buckets:
        x = LEFT + (bucket.at_ns - first) // width_ns * step
        parts.append(_column(bucket, width_ns, x, step, ground, room / most, address))
    if slowest:
        places = {
            (bucket.at_ns - first) // width_ns: ground - room * bucket.p95_us / slowest
            for bucket in buckets
            if bucket.p95_us is not None
        }
        parts += [_p95(run, step) for run in _runs(places)]
        parts.append(tag("text", f"line: p95, up to {_rough(slowest)}", x=WIDTH - 4, y=TOP - 3, class_="p95-label"))
    parts.append(_axis(first, width_ns, number, step, ground))
    return drawing(
        WIDTH,
        HEIGHT,
        parts,
        "flows over time by outcome",
        class_="chart",
        data_first=str(first),
        data_width=str(width_ns),
        data_left=LEFT,
        data_step=step,
        data_count=number,
    )


def _runs(places: Mapping[int, float]) -> list[list[tuple[int, float]]]:
    """Stretches of columns without a gap: where nothing began, no line says how long it took."""
    found: list[list[tuple[int, float]]] = []
    for index, y in sorted(places.items()):
        if found and found[-1][-1][0] == index - 1:
            found[-1].append((index, y))
        else:
            found.append([(index, y)])
    return found


def _p95(run: Sequence[tuple[int, float]], step: float) -> Markup:
    places = [(LEFT + (index + 0.5) * step, y) for index, y in run]
    if len(places) == 1:
        return tag("circle", cx=places[0][0], cy=places[0][1], r=2, class_="p95-dot")
    return tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in places), class_="p95")


def _rough(duration_us: int) -> str:
    return took(int(float(f"{duration_us:.3g}")))


def _column(
    bucket: Bucket,
    width_ns: int,
    x: float,
    step: float,
    ground: float,
    scale: float,
    address: Callable[[int, int], str],
) -> Markup:
    y = ground
    bars = []
    for outcome in SHOWN_OUTCOMES:
        if count := bucket.counts.get(outcome, 0):
            height = count * scale
            y -= height
            bars.append(
                tag("rect", x=x, y=y, width=max(step - 1, 0.5), height=max(height, 0.6), class_=f"outcome-{outcome}")
            )
    words = ", ".join(f"{count:,} {outcome}" for outcome in SHOWN_OUTCOMES if (count := bucket.counts.get(outcome, 0)))
    slow = f"; p95 {took(bucket.p95_us)}" if bucket.p95_us is not None else ""
    whole = tag("rect", x=x, y=TOP, width=step, height=ground - TOP, class_="hit")
    title = titled(f"{time_text(bucket.at_ns)}: {words}{slow}")
    return link(address(bucket.at_ns, bucket.at_ns + width_ns), group([title, *bars, whole]), class_="bucket")


def _scale(most: int, ground: float, room: float) -> Markup:
    lines = []
    for share in (0.5, 1.0) if most > 1 else (1.0,):
        y = ground - room * share
        lines.append(tag("line", x1=LEFT, x2=WIDTH, y1=y, y2=y, class_="grid"))
        lines.append(tag("text", f"{most * share:,.0f}", x=LEFT - 6, y=y + 4, class_="tick end"))
    return group(lines)


def _axis(first: int, width_ns: int, number: int, step: float, ground: float) -> Markup:
    every = -(-number // MAX_TICKS)
    end = next((end for end, unit in ENDS if not (first % unit or every * width_ns % unit)), len(MILLISECONDS))
    ticks = []
    for index in range(0, number, every):
        text = time_text(first + index * width_ns)
        shown = text[5:16].replace("T", " ") if width_ns * number > 86_400 * NS_PER_SECOND else text[11:end]
        x = LEFT + index * step
        anchor = "start" if index == 0 else "end" if x > WIDTH - 40 else "middle"
        classes = "tick minor" if index // every % 2 else "tick"
        ticks.append(tag("text", shown, x=min(x, WIDTH - 2), y=ground + 15, class_=classes, text_anchor=anchor))
    return group([tag("line", x1=LEFT, x2=WIDTH, y1=ground, y2=ground, class_="axis"), *ticks])
