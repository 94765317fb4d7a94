"""The formats of other tools that flows can be written in: their names, their files, and what opens them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EXPORT_FORMATS", "ExportFormat"]


class ExportFormat(NamedTuple):
    """One format of other tools."""

    ending: str  # of the name of a file
    media_type: str
    is_text: bool
    opens_in: str


# fmt: off
EXPORT_FORMATS = {
    # name                    ending            media type                      is text
    "otlp":     ExportFormat("otlp.jsonl",      "application/jsonl",            True,
                             "Jaeger, Tempo and every OpenTelemetry collector"),
    "zipkin":   ExportFormat("zipkin.json",     "application/json",             True,
                             "Zipkin and Grafana"),
    "perfetto": ExportFormat("perfetto-trace",  "application/octet-stream",     False,
                             "ui.perfetto.dev"),
    "pcapng":   ExportFormat("pcapng",          "application/vnd.tcpdump.pcap", False,
                             "Wireshark with the dissector of hopwire wireshark"),
}
# fmt: on
