"""How a lake that is followed stands, as metrics for Prometheus: `hopwire lake follow --metrics PORT`.

The server has a thread of its own, and looks at the lake when it is asked.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hopwire.errors import LakeError
from hopwire.lake.lake_standing import LakeStatus, lake_status
from hopwire.node.metric_families import MetricFamily, Series, text_from_families
from hopwire.places import Place
from hopwire.runner.health import PROMETHEUS
from hopwire.runner.http_server import HttpAnswer, HttpServer, json_answer

__all__ = ["lake_families", "serving_metrics"]

FRESH_SECONDS = 1.0  # a look at the lake is good for so long
# fmt: off
GAUGES = {
    # name                    meaning
    "version":                "Number of the newest version.",
    "lag_seconds":            "From the newest sighting of the lake to now.",
    "unread_bytes":           "Bytes of captures that were begun and are not in the lake.",
    "bad_source_count":       "Sources that could not be read, or not in full.",
    "quarantined":            "Sightings that are no messages.",
    "rules":                  "The version of the rules by which all tables were last judged; 0: not known.",
    "open_flows":             "Flows that may still change.",
    "open_sightings":         "Sightings that the next step judges again.",
    "files":                  "Files of all tables.",
    "size_bytes":             "Bytes of all tables.",
    "rows":                   "Rows of all tables.",
}
OF_FOLLOWER = {
    # name                    kind        meaning
    "step_count":             ("counter", "Steps of this follower."),
    "sighting_count":         ("counter", "Sightings that this follower has taken in."),
    "busy_seconds":           ("counter", "Seconds that all steps of this follower took."),
    "last_step_seconds":      ("gauge",   "Seconds that the last step took."),
    "last_step_rows":         ("gauge",   "Sightings of the last step."),
    "longest_step_seconds":   ("gauge",   "Seconds that the longest step took."),
}
# fmt: on


def lake_families(status: LakeStatus) -> Iterator[MetricFamily]:
    """Give every metric of a lake with its present value."""
    for name, meaning in GAUGES.items():
        value = status.manifest.number if name == "version" else getattr(status, name)
        yield MetricFamily(f"hopwire_lake_{name}", "gauge", meaning, (Series({}, value or 0),))
    nodes = tuple(Series({"node": each.node}, each.lag_seconds) for each in status.nodes)
    yield MetricFamily("hopwire_lake_node_lag_seconds", "gauge", "From the last sighting of a node to now.", nodes)
    tables = status.manifest.tables.items()
    files = tuple(Series({"table": name}, stored.file_count) for name, stored in sorted(tables))
    yield MetricFamily("hopwire_lake_table_files", "gauge", "Files of a table.", files)
    rows = tuple(Series({"table": name}, stored.row_count) for name, stored in sorted(tables))
    yield MetricFamily("hopwire_lake_table_rows", "gauge", "Rows of a table.", rows)
    if status.follower is None:
        return
    for name, (kind, meaning) in OF_FOLLOWER.items():
        yield MetricFamily(f"hopwire_lake_{name}", kind, meaning, (Series({}, getattr(status.follower, name)),))
    is_troubled = float(bool(status.follower.trouble))
    yield MetricFamily("hopwire_lake_is_troubled", "gauge", "1 if something is wrong.", (Series({}, is_troubled),))


class _LakePages:
    """The pages of a lake that is followed."""

    def __init__(self, lake: Place) -> None:
        self._lake = lake
        self._looked_at, self._text = 0.0, ""

    def metrics(self) -> HttpAnswer:
        """The metrics, not older than a second."""
        if time.monotonic() - self._looked_at > FRESH_SECONDS or not self._text:
            try:
                self._text = text_from_families(lake_families(lake_status(self._lake, time.time_ns())))
            except (LakeError, OSError):
                return HttpAnswer(503, "there is no lake yet\n")
            self._looked_at = time.monotonic()
        return HttpAnswer(200, self._text, PROMETHEUS)

    def health(self) -> HttpAnswer:
        """That the process lives."""
        return json_answer(200, {"healthy": True})


@contextmanager
def serving_metrics(address: str, lake: Place) -> Iterator[str]:
    """Answer `/metrics` and `/health` in a thread as long as the context lasts; give the address of the server."""
    pages = _LakePages(lake)
    server = HttpServer(address, {"/metrics": pages.metrics, "/health": pages.health}, "--metrics")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(server.start())
    thread = threading.Thread(target=loop.run_forever, name="hopwire-lake-metrics", daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
