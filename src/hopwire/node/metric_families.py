"""What a node counts, as metrics with names, and as the text that Prometheus reads.

`/metrics` of the runner and the collector for `prometheus_client` show the same families, made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from hopwire.node.gateway import PartnerStatus
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
PARTNERS = {
    # name                      kind        meaning
    "gateways":                 ("gauge",   "Gateways of a partner network that can be talked to."),
    "imports":                  ("gauge",   "Contracts of a partner network that are offered here."),
    "exports":                  ("gauge",   "Contracts that are offered to a partner network."),
    "open_questions":           ("gauge",   "Questions that have crossed a border and wait for their answer."),
    "asked":                    ("counter", "Messages that have crossed to a partner network."),
    "taken":                    ("counter", "Messages of a partner network that have crossed."),
    "refused_routes":           ("counter", "Announcements of a partner network that are not on the list."),
}
SHIPPING = {
    # field of the status       kind        meaning
    "shipped":                  ("counter", "Segments of the capture that were shipped to another place."),
    "size_bytes":               ("counter", "Bytes of the segments that were shipped."),
    "waiting":                  ("gauge",   "Sealed segments that wait to be shipped."),
    "failed":                   ("counter", "Attempts to ship a segment that failed."),
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
    yield from _partner_families(node, own)
    if shipping := node.ship_status:
        for field, (kind, meaning) in SHIPPING.items():
            name = f"hopwire_ship_{field.removeprefix('size_')}"
            yield MetricFamily(name, kind, meaning, (Series(own, getattr(shipping, field)),))
    latencies = node.latencies
    if latencies is None:
        return
    asked = [Series({**own, "contract": name, "ended": ended}, each) for (name, ended), each in latencies.asked.items()]
    yield MetricFamily("hopwire_ask_seconds", "histogram", ASKED, tuple(asked))
    handled = [Series({**own, "contract": name}, each) for name, each in latencies.handled.items()]
    yield MetricFamily("hopwire_handle_seconds", "histogram", HANDLED, tuple(handled))


def _partner_families(node: Node, own: Mapping[str, str]) -> Iterator[MetricFamily]:
    """Give what a gateway counts for each partner network; nothing where there is none."""
    partners = node.partners()
    if not partners:
        return
    for name, (kind, meaning) in PARTNERS.items():
        series = [Series({**own, "partner": each.name}, _partner_value(each, name)) for each in partners]
        yield MetricFamily(f"hopwire_partner_{name}", kind, meaning, tuple(series))
    dead = [
        Series({**own, "partner": each.name, "reason": reason}, count)
        for each in partners
        for reason, count in node.border(each.name).dead_letters.counts.items()
    ]
    yield MetricFamily(
        "hopwire_partner_dead_letters", "counter", "Messages that went no further at a border.", tuple(dead)
    )


def _partner_value(status: PartnerStatus, name: str) -> float:
    value = getattr(status, "peers" if name == "gateways" else name)
    return len(value) if isinstance(value, tuple) else value


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
