"""The counts of a node for Prometheus. With `pip install "hopwire[metrics]"`:

    prometheus_client.REGISTRY.register(NodeCollector(node))

The node counts whether anybody looks or not; `metric_families.py` gives the counts their names. How long questions and
handlers take is among them with `NodeSettings(latencies=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hopwire.node.latencies import BOUNDS_SECONDS, Histogram
from hopwire.node.metric_families import MetricFamily, families_of
from hopwire.node.node import Node

__all__ = ["NodeCollector"]

LEAST_LABELS = {
    "hopwire_dead_letters": ("node", "reason"),
    "hopwire_ask_seconds": ("node", "contract", "ended"),
    "hopwire_handle_seconds": ("node", "contract"),
}


class NodeCollector(Collector):
    """Shows the counts of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Give every metric with its present value."""
        return map(_metric, families_of(self._node))


def _metric(family: MetricFamily) -> Metric:
    names = LEAST_LABELS.get(family.name, (*family.series[0].labels,) if family.series else ("node",))
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.meaning, labels=names)
        for labels, value in family.series:
            assert isinstance(value, Histogram)
            totals = zip((*map(repr, BOUNDS_SECONDS), "+Inf"), accumulate(value.counts), strict=True)
            histogram.add_metric([labels[name] for name in names], list(totals), value.sum_seconds)
        return histogram
    made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    plain: CounterMetricFamily | GaugeMetricFamily = made(family.name, family.meaning, labels=names)
    for labels, value in family.series:
        assert not isinstance(value, Histogram)
        plain.add_metric([labels[name] for name in names], value)
    return plain
