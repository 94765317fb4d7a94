"""What a node counts, as metrics with names, and as the text that Prometheus reads.

`/metrics` of the runner and the collector for `prometheus_client` show the same families, made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from hopwire.node.latencies import BOUNDS_SECONDS, Histogram
from hopwire.node.node import Node

__all__ = ["MetricFamily", "Series", "families_of", "text_from_families"]

# fmt: off
COUNTERS = {
    # field of the statistics   meaning
    "messages_in":              "Messages that came from other nodes.",
    "messages_out":             "Messages that were sent to other nodes.",
    "bytes_in":                 "Bytes of the messages that came from other nodes.",
    "bytes_out":                "Bytes of the messages that were sent to other nodes.",
}
GAUGES = {
    "peers":                    "Nodes that can be talked to.",
    "actors":                   "Actors that take messages here.",
    "open_promises":            "Questions that wait for an answer.",
    "inbox_messages":           "Messages that wait for an actor.",
    "inbox_bytes":              "Bytes that wait for an actor.",
    "outbox_messages":          "Messages that wait for a peer.",
    "outbox_bytes":             "Bytes that wait for a peer.",
}
# fmt: on
DEAD = "Messages that went no further."
ASKED = "How long questions took, by contract and how they ended; of each hub at most 100 in a second."
HANDLED = "How long handlers took, by contract; of each actor at most 100 messages in a second."
ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Series(NamedTuple):
    """One value, or one histogram, with its labels."""

    labels: Mapping[str, str]
    value: float | Histogram


class MetricFamily(NamedTuple):
    """Values of one name: `counter`, `gauge` or `histogram`."""

    name: str
    kind: str
    meaning: str
    series: tuple[Series, ...]


def families_of(node: Node) -> Iterator[MetricFamily]:
    """Give every metric of a node with its present value."""
    own = {"node": node.name or node.identity.decode(errors="replace")}
    statistics = node.statistics()
    for kind, fields in (("counter", COUNTERS), ("gauge", GAUGES)):
        for field, meaning in fields.items():
            yield MetricFamily(f"hopwire_{field}", kind, meaning, (Series(own, getattr(statistics, field)),))
    dead = tuple(Series({**own, "reason": reason}, count) for reason, count in statistics.dead_letters.items())
    yield MetricFamily("hopwire_dead_letters", "counter", DEAD, dead)
    latencies = node.latencies
    if latencies is None:
        return
    asked = [Series({**own, "contract": name, "ended": ended}, each) for (name, ended), each in latencies.asked.items()]
    yield MetricFamily("hopwire_ask_seconds", "histogram", ASKED, tuple(asked))
    handled = [Series({**own, "contract": name}, each) for name, each in latencies.handled.items()]
    yield MetricFamily("hopwire_handle_seconds", "histogram", HANDLED, tuple(handled))


def text_from_families(families: Iterable[MetricFamily]) -> str:
    """Write families in the text format of Prometheus, version 0.0.4."""
    lines: list[str] = []
    for family in families:
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        lines += [f"# HELP {name} {family.meaning}", f"# TYPE {name} {family.kind}"]
        for labels, value in family.series:
            if isinstance(value, Histogram):
                lines += _histogram_lines(name, labels, value)
            else:
                lines.append(_line(name, labels, value))
    return "\n".join(lines) + "\n"


def _histogram_lines(name: str, labels: Mapping[str, str], histogram: Histogram) -> Iterator[str]:
    totals = list(accumulate(histogram.counts))
    for bound, total in zip((*map(repr, BOUNDS_SECONDS), "+Inf"), totals, strict=True):
        yield _line(f"{name}_bucket", {**labels, "le": bound}, total)
    yield _line(f"{name}_sum", labels, histogram.sum_seconds)
    yield _line(f"{name}_count", labels, totals[-1])


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inner = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
    return f"{name}{{{inner}}} {float(value)!r}"
