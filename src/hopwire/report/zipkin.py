"""Spans in the JSON of Zipkin (v2), for Zipkin, its Lens, Jaeger and Grafana.

The trap: times are microseconds, and a duration of 0 is refused. So the shortest span has one microsecond, and the
exact times stand in the tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hopwire.model.units import NS_PER_US
from hopwire.report.flow_spans import Attribute, Row, Span, service_attributes, service_name

__all__ = ["zipkin_span"]


def zipkin_span(span: Span, names: Mapping[bytes, str], clocks: Mapping[bytes, Row]) -> dict[str, Any]:
    """Give one span; INTERNAL spans have no kind there."""
    tags: dict[str, Attribute] = {
        **span.attributes,
        **service_attributes(span.node, clocks.get(span.node)),
        "hopwire.start_ns": span.start_ns,
        "hopwire.end_ns": span.end_ns,
    }
    if span.error:
        tags["error"] = span.error
    if span.links:
        tags["hopwire.attempt_of"] = ", ".join(each.hex() for each in span.links)
    return {
        "traceId": span.trace_id.hex(),
        "id": span.span_id.hex(),
        **({"parentId": span.parent_id.hex()} if span.parent_id else {}),
        "name": span.name,
        **({"kind": span.kind} if span.kind != "INTERNAL" else {}),
        "timestamp": span.start_ns // NS_PER_US,
        "duration": max(1, (span.end_ns - span.start_ns) // NS_PER_US),
        "localEndpoint": {"serviceName": service_name(span.node, names)},
        **({"remoteEndpoint": {"serviceName": service_name(span.peer, names)}} if span.peer else {}),
        "annotations": [{"timestamp": each.at_ns // NS_PER_US, "value": _words(each)} for each in span.events],
        "tags": {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in tags.items()},
    }


def _words(event: Any) -> str:
    return ": ".join([event.name, *map(str, event.attributes.values())])
