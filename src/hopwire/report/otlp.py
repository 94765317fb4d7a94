"""Spans in the JSON of OpenTelemetry (OTLP/JSON), for Jaeger, Tempo, and every collector.

One text is one `ExportTraceServiceRequest`, which is also a line of a file that the collector reads. The traps of this
JSON: ids are in hex, kinds are numbers, and numbers of 64 bits are texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hopwire.report.flow_spans import Attribute, Row, Span, service_attributes, service_name

__all__ = ["otlp_request"]

KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
OK, ERROR = 1, 2
NAMESPACE = "hopwire"


def otlp_request(spans: Iterable[Span], names: Mapping[bytes, str], clocks: Mapping[bytes, Row]) -> str:
    """Give spans as one request: one resource for each node, with what is known of its clock."""
    by_node: dict[bytes, list[dict[str, Any]]] = {}
    for span in spans:
        by_node.setdefault(span.node, []).append(_span(span))
    resources = [
        {
            "resource": {"attributes": _attributes(_resource(node, names, clocks))},
            "scopeSpans": [{"scope": {"name": NAMESPACE}, "spans": found}],
        }
        for node, found in by_node.items()
    ]
    return json.dumps({"resourceSpans": resources})


def _resource(node: bytes, names: Mapping[bytes, str], clocks: Mapping[bytes, Row]) -> dict[str, Attribute]:
    named = {"service.name": service_name(node, names), "service.namespace": NAMESPACE}
    return {**named, **service_attributes(node, clocks.get(node))}


def _span(span: Span) -> dict[str, Any]:
    trace_id = span.trace_id.hex()
    return {
        "traceId": trace_id,
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_id.hex(),
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "events": [
            {"timeUnixNano": str(each.at_ns), "name": each.name, "attributes": _attributes(each.attributes)}
            for each in span.events
        ],
        "links": [{"traceId": trace_id, "spanId": each.hex()} for each in span.links],
        "status": {"code": ERROR, "message": span.error} if span.error else {"code": OK},
    }


def _attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
