"""The counts of a node for Prometheus. With `pip install "hopwire[metrics]"`:

    prometheus_client.REGISTRY.register(NodeCollector(node))

The node counts whether anybody looks or not; this module only gives the counts their names.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hopwire.node.node import Node

__all__ = ["NodeCollector"]

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


class NodeCollector(Collector):
    """Shows the counts of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """Give every metric with its present value."""
        labels = ["node"]
        name = [self._node.name or self._node.identity.decode(errors="replace")]
        statistics = self._node.statistics()
        for kinds, family in ((COUNTERS, CounterMetricFamily), (GAUGES, GaugeMetricFamily)):
            for field, meaning in kinds.items():
                metric = family(f"hopwire_{field}", meaning, labels=labels)
                metric.add_metric(name, getattr(statistics, field))
                yield metric
        dead = CounterMetricFamily("hopwire_dead_letters", "Messages that went no further.", labels=["node", "reason"])
        for reason, count in statistics.dead_letters.items():
            dead.add_metric([*name, reason], count)
        yield dead
