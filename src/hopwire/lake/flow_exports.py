"""Flows of a lake in the formats of other tools (`report/export_formats.py`), as bytes, part by part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from hopwire.lake.exported_rows import read_clocks, read_exported_flows, read_exported_hops
from hopwire.lake.manifest import Manifest
from hopwire.lake.store import read_manifest
from hopwire.places import Place
from hopwire.report.flow_spans import ExportedFlow, Row, Span, spans_of_flow
from hopwire.report.otlp import otlp_request
from hopwire.report.pcapng import pcapng_from_hops
from hopwire.report.perfetto import perfetto_trace
from hopwire.report.zipkin import zipkin_span

__all__ = ["FlowExport"]

SPANS_AT_ONCE = 2000  # in one request, or one line


class FlowExport:
    """Some flows of one version of a lake, and what is known of their nodes."""

    def __init__(self, lake: Place | str, flow_ids: Sequence[bytes], manifest: Manifest | None = None) -> None:
        self.lake, self.flow_ids = lake, flow_ids
        self.manifest = manifest or read_manifest(lake)
        self.clocks: Mapping[bytes, Row] = read_clocks(lake, self.manifest)
        self.names = {node: clock["node_name"] or "" for node, clock in self.clocks.items()}

    def written(self, form: str) -> Iterator[bytes]:
        """Give the flows in a format of `EXPORT_FORMATS`."""
        return WRITERS[form](self)

    def requests(self) -> Iterator[str]:
        """Give OTLP requests of whole flows, with about as many spans as a collector takes at once."""
        waiting: list[Span] = []
        for flow in self._flows():
            waiting += spans_of_flow(flow, self.names)
            if len(waiting) >= SPANS_AT_ONCE:
                yield otlp_request(waiting, self.names, self.clocks)
                waiting = []
        if waiting:
            yield otlp_request(waiting, self.names, self.clocks)

    def _flows(self) -> Iterator[ExportedFlow]:
        return read_exported_flows(self.lake, self.flow_ids, self.manifest)

    def _spans(self) -> Iterator[Span]:
        return (span for flow in self._flows() for span in spans_of_flow(flow, self.names))

    def _otlp(self) -> Iterator[bytes]:
        return (f"{request}\n".encode() for request in self.requests())

    def _zipkin(self) -> Iterator[bytes]:
        between = "["
        for span in self._spans():
            yield f"{between}{json.dumps(zipkin_span(span, self.names, self.clocks))}".encode()
            between = ",\n"
        yield b"[]\n" if between == "[" else b"]\n"

    def _perfetto(self) -> Iterator[bytes]:
        return perfetto_trace(list(self._spans()), self.names, self.clocks)

    def _pcapng(self) -> Iterator[bytes]:
        return pcapng_from_hops(read_exported_hops(self.lake, self.flow_ids, self.names, self.manifest), self.names)


WRITERS: dict[str, Callable[[FlowExport], Iterator[bytes]]] = {
    "otlp": FlowExport._otlp,
    "zipkin": FlowExport._zipkin,
    "perfetto": FlowExport._perfetto,
    "pcapng": FlowExport._pcapng,
}
